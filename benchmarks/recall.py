"""How fast memories are kept and found, in one SQLite file.

    python -m benchmarks.recall [--records 10000 100000] [--queries 300]

The memories are paragraphs of the documentation of whatever packages are installed, cut and laid
together anew from a fixed seed until there are enough; the questions are words of single memories.
Wall time says what a caller waits, processor time what of it is ours on a machine that others use
too. The last column of the writes is a plain FTS5 table with nothing around it, from the same run.
"""

import argparse
import asyncio
import os
import platform
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from context_assembler.memory import SqliteMemoryStore
from context_assembler.values.memories.kinds import MemoryKind
from context_assembler.values.memories.records import NO_FILTERS, MemoryFilters, MemoryRecord
from context_assembler.values.memories.vectors import Vector

BATCH: Final = 2_000
SINGLES: Final = 300
PROJECTS: Final = 20
DIMENSION: Final = 128
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
KINDS: Final[tuple[MemoryKind, ...]] = ("memories", "events", "learnings", "code")


def read_sentences() -> list[str]:
    """Return the sentences of all packages' descriptions, each once, in a fixed order."""
    found: set[str] = set()
    for package in distributions():
        text = package.read_text("METADATA") or ""
        found.update(line.strip() for line in text.splitlines() if 30 < len(line.strip()) < 400)
    return sorted(found)


def make_records(
    count: int, sentences: Sequence[str], *, kind: MemoryKind | None = None, vectors: bool = False
) -> list[MemoryRecord]:
    """Return memories of two to four sentences each, the same at every call."""
    chance = random.Random(count)
    return [
        MemoryRecord(
            text=" ".join(chance.sample(sentences, chance.randint(2, 4))) + f" (note {number})",
            kind=kind or KINDS[number % len(KINDS)],
            namespace=f"project{number % PROJECTS}",
            session_id=f"session{number // 50}",
            created_at=START + timedelta(seconds=number),
            importance=chance.random(),
            vector=_vector(chance) if vectors else None,
        )
        for number in range(count)
    ]


def make_queries(records: Sequence[MemoryRecord], count: int) -> list[str]:
    """Return questions of four to ten words that stand in one memory."""
    chance = random.Random(1)
    words = [chance.choice(records).text.split() for _ in range(count)]
    return [" ".join(chance.sample(w, min(len(w), chance.randint(4, 10)))) for w in words]


async def measure(
    name: str, ask: Callable[[str], Awaitable[object]], queries: Sequence[str]
) -> None:
    """Ask every question once, and print what it took."""
    walls: list[float] = []
    before = time.process_time()
    for query in queries:
        start = time.perf_counter()
        await ask(query)
        walls.append(1_000 * (time.perf_counter() - start))
    processor = 1_000 * (time.process_time() - before) / len(queries)
    walls.sort()
    p50, p90, p99 = (walls[int(len(walls) * share)] for share in (0.5, 0.9, 0.99))
    print(
        f"  {name:44} wall p50 {p50:6.2f}  p90 {p90:6.2f}  p99 {p99:6.2f} ms"
        f"   processor {processor:6.2f} ms"
    )


async def measure_writes(
    path: Path, records: Sequence[MemoryRecord], sentences: Sequence[str]
) -> None:
    """Fill the store, then add some one by one, each with a transaction that survives a power cut."""
    async with SqliteMemoryStore(path) as store:
        wall, processor = time.perf_counter(), time.process_time()
        for start in range(0, len(records), BATCH):
            await store.remember(records[start : start + BATCH])
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        plain = plain_table_rate(records)
        print(
            f"  {'batches of ' + str(BATCH):44} {len(records) / wall:8,.0f}/s wall"
            f"  {len(records) / processor:8,.0f}/s processor  plain FTS5 {plain:8,.0f}/s processor"
        )
        singles = make_records(SINGLES + 1, sentences)
        wall, processor = time.perf_counter(), time.process_time()
        for record in singles:
            await store.remember([record])
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        print(
            f"  {'one by one':44} {len(singles) / wall:8,.0f}/s wall"
            f"  {len(singles) / processor:8,.0f}/s processor"
        )
        stats = await store.stats()
        print(f"  {'the file':44} {stats.bytes / 1e6:8.1f} MB for {stats.records:,} records")


def plain_table_rate(records: Sequence[MemoryRecord]) -> float:
    """Return how many texts a second a bare full-text table takes, by processor time."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(sqlite3.connect(Path(folder) / "plain.db", isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE rows (key INTEGER PRIMARY KEY, text TEXT)")
        connection.execute(
            "CREATE VIRTUAL TABLE words USING fts5 "
            "(text, content = '', columnsize = 0, tokenize = 'porter unicode61')"
        )
        before = time.process_time()
        for start in range(0, len(records), BATCH):
            batch = records[start : start + BATCH]
            texts = [(number, record.text) for number, record in enumerate(batch, start)]
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO rows (key, text) VALUES (?, ?)", texts)
            connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)
            connection.execute("COMMIT")
        return len(records) / (time.process_time() - before)


async def measure_searches(path: Path, queries: Sequence[str], *, has_vectors: bool) -> None:
    """Ask in every way; the first questions find the file's pages cold."""
    filters = {
        "any record": NO_FILTERS,
        "one project of twenty": MemoryFilters(namespaces=("project3",)),
        "one kind of four": MemoryFilters(kinds=("events",)),
        "the newer half": MemoryFilters(since=START + timedelta(seconds=len(queries))),
    }
    async with SqliteMemoryStore(path) as store:
        for name, chosen in filters.items():
            for limit in (20, 50) if chosen == NO_FILTERS else (50,):

                async def ask(
                    query: str, limit: int = limit, chosen: MemoryFilters = chosen
                ) -> object:
                    return await store.search(query, limit=limit, filters=chosen)

                await measure(f"{name}, {limit} hits", ask, queries)
        if has_vectors:
            vector = _vector(random.Random(2))

            async def ask_both(query: str) -> object:
                return await store.search(query, limit=50, vector=vector)

            await ask_both(queries[0])  # loads the vectors
            await measure("words and vectors, 50 hits", ask_both, queries)


async def measure_beside_a_writer(
    path: Path, records: Sequence[MemoryRecord], queries: Sequence[str]
) -> None:
    """Ask while another thread of this process writes without a pause."""
    async with SqliteMemoryStore(path) as store:
        written = 0

        async def write() -> None:
            nonlocal written
            for number in range(10**9):
                await store.remember([MemoryRecord(text=f"{records[written].text} again {number}")])
                written += 1

        writing = asyncio.create_task(write())
        await measure("beside a writer, 50 hits", lambda q: store.search(q, limit=50), queries)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        print(f"  {'written meanwhile':44} {written:8,}")


async def run(count: int, queries_count: int, *, vectors: bool) -> None:
    """Measure one size."""
    sentences = read_sentences()
    records = make_records(count, sentences, vectors=vectors)
    queries = make_queries(records, queries_count)
    chars = sum(len(record.text) for record in records) / count
    print(f"\n{count:,} records of {chars:.0f} characters" + (", with vectors" if vectors else ""))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        await measure_writes(path, records, sentences)
        await measure_searches(path, queries, has_vectors=vectors)
        await measure_beside_a_writer(path, records, queries)


def _vector(chance: random.Random) -> Vector:
    return Vector.pack("random", [chance.gauss(0, 1) for _ in range(DIMENSION)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of every size, and what they were measured on."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument(
        "--vectors", action="store_true", help=f"{DIMENSION} numbers in each record"
    )
    chosen = parser.parse_args(arguments)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"{platform.machine()}, {os.cpu_count()} processors, load {load}; "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )
    for count in chosen.records:
        asyncio.run(run(count, chosen.queries, vectors=chosen.vectors))
    return 0


if __name__ == "__main__":
    sys.exit(main())
