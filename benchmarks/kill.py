"""Kill -9: what was acknowledged is there, and whole, whatever moment a process dies at.

    python -m benchmarks.kill [--store sqlite|postgres|URL] [--kills 200] [--pairs 40]

Two processes work on one session, one appends and records, one compacts; each writes what it was told
to be stored to a pipe. Both are killed, and another process reads the session. Then pairs of processes
compact one session at once: their summarizers wait for each other.
"""

import argparse
import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from multiprocessing import get_context
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.soak import TURN, options_of, read, reply_to, some_text, store_at
from context_assembler import ContextAssembler, SessionEvent, assistant_event, user_event
from context_assembler.compaction import SummaryRequest, extract_summary
from context_assembler.errors import CompactionError, UnknownSessionError

BATCH: Final = 3  # events that are appended together
SESSIONS: Final = 10
MOST_WRITES: Final = 25  # before a process is killed
PROVIDERS: Final = ("anthropic", "openai_chat", "openai_responses", "gemini")
FORK: Final = get_context("fork")  # a new process has its modules at once


def acknowledge(pipe: int, stored: Iterable[SessionEvent]) -> None:
    """Write down one write that was acknowledged."""
    os.write(pipe, (" ".join(event.id for event in stored) + "\n").encode())


async def append(url: str, session: str, pipe: int, draw: Random) -> None:
    """Append batches, replies and results until killed."""
    assembler = ContextAssembler(url, tools=[read])
    for step in count():
        batch = f"{os.getpid()}-{step}"
        events = [user_event(f"batch {batch} {some_text(draw, 20)}") for _ in range(BATCH)]
        acknowledge(pipe, await assembler.sessions.append(session, events))
        context = await assembler.assemble(session, **options_of(1, step))
        reply = reply_to(context, f"{session}-{batch}", step, draw)
        stored = await assembler.record(session, reply, context)
        acknowledge(pipe, stored)
        for call in stored[-1].tool_calls:
            text = some_text(draw, 60)
            acknowledge(pipe, [await assembler.add_tool_result(session, call.call_id, text)])


async def compact(url: str, session: str, pipe: int, draw: Random) -> None:
    """Compact, again and again, until killed."""
    assembler = ContextAssembler(url, tools=[read])
    while True:
        try:
            done = await assembler.compact(session, keep=draw.randrange(6), **options_of(1, 0))
        except (CompactionError, UnknownSessionError):
            await asyncio.sleep(0.002)  # there is nothing to cover yet
            continue
        acknowledge(pipe, [done.event])


def killed(url: str, session: str, draw: Random) -> list[list[list[str]]]:
    """Start both on a session, kill them in the middle, and return what they acknowledged."""
    started = list[tuple[Any, int]]()
    for work in (append, compact):
        out, into = os.pipe()
        process = FORK.Process(target=_run, args=(work, url, session, into, draw.random()))
        process.start()
        os.close(into)
        started.append((process, out))
    heard, most = b"", draw.randrange(1, MOST_WRITES)
    while heard.count(b"\n") < most:
        heard += os.read(started[0][1], 1)
    time.sleep(draw.random() * 0.02)
    for process, _ in draw.sample(started, 2):
        os.kill(process.pid, signal.SIGKILL)
    said = list[list[list[str]]]()
    for process, out in started:
        with os.fdopen(out, "rb") as pipe:
            lines = (heard + pipe.read()).decode().split("\n")[:-1]
        heard = b""
        process.join()
        said.append([line.split(" ") for line in lines])
    return said


def _run(work: Callable[..., Any], url: str, session: str, pipe: int, seed: float) -> None:
    asyncio.run(work(url, session, pipe, Random(seed)))


async def look(url: str, session: str, told: list[list[str]]) -> Counter[str]:
    """Compare a session with all writes that were acknowledged, and assemble it."""
    found = Counter[str]()
    async with ContextAssembler(url, tools=[read]) as assembler:
        stored = [event async for event in assembler.sessions.load(session)]
        seqs = {event.id: event.seq for event in stored}
        found["lost"] += sum(name not in seqs for names in told for name in names)
        found["doubled"] += len(stored) - len(seqs)
        found["out of order"] += [event.seq for event in stored] != [*range(1, len(stored) + 1)]
        batches = Counter(one.text.split(" ")[1] for one in stored if one.text[:6] == "batch ")
        found["half written"] += sum(number != BATCH for number in batches.values())
        for names in told:
            place = [seqs.get(name, 0) for name in names]
            found["half written"] += place != [*range(place[0], place[0] + len(place))]
        context = await assembler.assemble(session, **options_of(1, 0))
        found["payloads refused"] += sum(bool(context.check(one).refused) for one in PROVIDERS)
    return found


# ---- two at once ----


def pair(url: str, session: str) -> tuple[int, int]:
    """Let two processes compact at once; return the compactions there are, and who made one."""
    begun = asyncio.run(_fill(url, session))
    both, answers = FORK.Barrier(2), FORK.SimpleQueue()
    processes = [
        FORK.Process(target=_compact_one, args=(url, session, both, answers)) for _ in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    done = [answers.get() for _ in processes]
    assert len({name for name, _ in done}) == 1, done
    return asyncio.run(_compactions(url, session)) - begun, sum(is_own for _, is_own in done)


def _compact_one(url: str, session: str, both: Any, answers: Any) -> None:
    def summarize(request: SummaryRequest) -> str:
        both.wait(60)
        return extract_summary(request)

    async def work() -> None:
        async with ContextAssembler(url, tools=[read]) as assembler:
            done = await assembler.compact(session, summarize, keep=2, **options_of(1, 0))
            answers.put((done.event.id, done.is_own))

    asyncio.run(work())


async def _fill(url: str, session: str) -> int:
    async with ContextAssembler(url) as assembler:
        draw = Random(session)
        kinds = (user_event, assistant_event) * 6
        said = [make(some_text(draw, 90)) for make in kinds]
        await assembler.sessions.append(session, said)
    return await _compactions(url, session)


async def _warm_up(url: str) -> None:
    """Load what every process needs, so that those that are forked have it."""
    for step in range(0, 200, 40):
        await _fill(url, "warm-up")
        async with ContextAssembler(url, tools=[read]) as assembler:
            context = await assembler.assemble("warm-up", **options_of(1, step))
            await assembler.record(
                "warm-up", reply_to(context, f"warm-{step}", TURN - 1, Random(1)), context
            )
            await assembler.compact("warm-up", keep=1, **options_of(1, step))


async def _compactions(url: str, session: str) -> int:
    async with ContextAssembler(url) as assembler:
        return len([e async for e in assembler.sessions.load(session) if e.type == "compaction"])


def run(store: str, *, kills: int, pairs: int) -> Counter[str]:
    """Kill, look, and let pairs compact; return what was counted."""
    found, draw = Counter[str](), Random(7)
    told: dict[str, list[list[str]]] = {f"killed-{n}": [] for n in range(SESSIONS)}
    with TemporaryDirectory(prefix="kill-") as folder, store_at(store, folder) as url:
        asyncio.run(_warm_up(url))
        for number in range(kills // 2):
            session = f"killed-{number % SESSIONS}"
            appended, compacted = killed(url, session, draw)
            told[session] += appended + compacted
            found["processes killed"] += 2
            found["writes acknowledged"] += len(appended) + len(compacted)
            found["compactions acknowledged"] += len(compacted)
            found.update(asyncio.run(look(url, session, told[session])))
        for number in range(pairs):
            made, own = pair(url, f"pair-{number % SESSIONS}")
            found["pairs of compactors"] += 1
            found["compactions of pairs"] += made
            found["pairs that did not make one"] += (made, own) != (1, 1)
    return found


def main() -> None:
    """Print what was counted; exit code 1 if anything was lost, doubled or half written."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--store", default="sqlite", help="sqlite, postgres, or a URL")
    asked.add_argument("--kills", type=int, default=200)
    asked.add_argument("--pairs", type=int, default=40)
    found = run(**vars(asked.parse_args()))
    for name, value in found.items():
        print(f"{name:28} {value:,}")
    faults = ("lost", "doubled", "out of order", "half written", "payloads refused")
    raise SystemExit(any(found[name] for name in (*faults, "pairs that did not make one")))


if __name__ == "__main__":
    main()
