"""How fast memories are kept and found in one SQLite file, and nearly equal texts among many.

    python -m benchmarks.recall [--records 10000 100000 1000000] [--queries 300]

Wall time says what a caller waits, processor time what of it is ours on a machine that others use
too. Beside it stands a plain FTS5 table over the same texts with nothing around it, the words of a
question joined by OR, from the same run. Vectors are random: no structure makes them easy to find.
"""

import argparse
import asyncio
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np

from benchmarks.recall_texts import (
    DIMENSION,
    START,
    make_near_copies,
    make_queries,
    make_records,
    read_sentences,
)
from context_assembler.memory import SqliteMemoryStore
from context_assembler.recall.similar_texts import similar_pairs
from context_assembler.values.memories.records import NO_FILTERS, MemoryFilters, MemoryRecord
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.memories.words import query_terms
from context_assembler.values.texts.likeness import alike_pairs
from context_assembler.values.texts.secret_masking import mask_secrets

BATCH: Final = 2_000
SINGLES: Final = 300
HITS: Final = 50
TEXTS: Final = 1_000  # to ask for, from all over the store
LIMIT_MS_BY_RECORDS: Final = {10_000: 2, 100_000: 6, 1_000_000: 50}
LEAST_BATCHED, LEAST_SINGLE = 10_000, 1_000  # a second
COPIES, COPY_CHARS, LIKENESS = 10_000, 500, 0.9
LIMIT_COPIES_SECONDS, LEAST_FOUND = 1.2, 0.99


class Times(NamedTuple):
    """What one question takes, in milliseconds."""

    p50: float
    p90: float
    p99: float
    processor: float

    def __str__(self) -> str:
        return (
            f"p50 {self.p50:7.2f}  p90 {self.p90:7.2f}  p99 {self.p99:7.2f} ms"
            f"   processor {self.processor:7.2f} ms"
        )


def show(name: str, told: object) -> None:
    print(f"  {name:42} {told}", flush=True)


def load() -> str:
    return "load " + ", ".join(f"{value:.1f}" for value in os.getloadavg())


async def time_each(ask: Callable[[str], Awaitable[object]], queries: Sequence[str]) -> Times:
    """Ask every question once."""
    walls: list[float] = []
    before = time.process_time()
    for query in queries:
        start = time.perf_counter()
        await ask(query)
        walls.append(1_000 * (time.perf_counter() - start))
    processor = 1_000 * (time.process_time() - before) / len(queries)
    walls.sort()
    p50, p90, p99 = (walls[int(len(walls) * share)] for share in (0.5, 0.9, 0.99))
    return Times(p50, p90, p99, processor)


class PlainTable:
    """A full-text index and a table of texts, with nothing around them."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("CREATE TABLE rows (key INTEGER PRIMARY KEY, text TEXT)")
        self.connection.execute(
            "CREATE VIRTUAL TABLE words USING fts5 "
            "(text, content = '', columnsize = 0, tokenize = 'porter unicode61')"
        )
        self.count = 0

    def add(self, texts: Sequence[str]) -> None:
        rows = list(enumerate(texts, self.count + 1))
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany("INSERT INTO rows (key, text) VALUES (?, ?)", rows)
        self.connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", rows)
        self.connection.execute("COMMIT")
        self.count += len(rows)

    def optimize(self) -> None:
        self.connection.execute("INSERT INTO words (words) VALUES ('optimize')")

    async def search(self, query: str) -> object:
        match = " OR ".join(f'"{term}"' for term in query_terms(query))
        return self.connection.execute(
            "SELECT rows.text FROM words JOIN rows ON key = words.rowid "
            f"WHERE words MATCH ? ORDER BY rank LIMIT {HITS}",
            (match,),
        ).fetchall()


class Clock:
    """How long something took, by the wall and by the processor."""

    def __init__(self) -> None:
        self.wall = self.processor = 0.0

    def __enter__(self) -> Self:
        self._start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._start[0]
        self.processor += time.process_time() - self._start[1]


async def measure_writes(
    store: SqliteMemoryStore, plain: PlainTable, records: Iterator[MemoryRecord], *, count: int
) -> list[str]:
    """Fill both, print what it took, and return some texts to ask for."""
    ours, theirs = Clock(), Clock()
    texts: list[str] = []
    while batch := list(islice(records, BATCH)):
        with ours:
            await store.remember(batch)
        with theirs:
            plain.add([record.text for record in batch])
        texts += [record.text for record in batch[:: max(1, count // TEXTS)]]
    with ours:
        await store.optimize()
    with theirs:
        plain.optimize()
    show_rate(f"batches of {BATCH:,}", count, ours, theirs, least=LEAST_BATCHED)
    singles = [MemoryRecord(text=f"{text} once more") for text in texts[:SINGLES]]
    ours, theirs = Clock(), Clock()
    for record in singles:
        with ours:
            await store.remember([record])
        with theirs:
            plain.add([record.text])
    show_rate("one by one, each durable", len(singles), ours, theirs, least=LEAST_SINGLE)
    stats = await store.stats()
    show("the file", f"{stats.bytes / 1e6:,.1f} MB for {stats.records:,} records")
    return texts


def show_rate(name: str, count: int, ours: Clock, theirs: Clock, *, least: int) -> None:
    show(
        name,
        f"{count / ours.wall:8,.0f}/s  {count / ours.processor:8,.0f}/s of processor time"
        f"  (at least {least:,}; plain FTS5 {count / theirs.wall:,.0f}/s,"
        f" {count / theirs.processor:,.0f}/s: {ours.processor / theirs.processor:.1f} times its time)",
    )


async def measure_searches(
    store: SqliteMemoryStore, plain: PlainTable, queries: Sequence[str], *, count: int
) -> None:
    """Ask in every way; the first questions find the file's pages cold."""
    limit_ms = LIMIT_MS_BY_RECORDS.get(count)
    bare = await time_each(plain.search, queries[:100])
    show(f"plain FTS5, {HITS} hits", bare)
    filters = {
        "any record": NO_FILTERS,
        "one project of twenty": MemoryFilters(namespaces=("project3",)),
        "one kind of four": MemoryFilters(kinds=("events",)),
        "the newer half": MemoryFilters(since=START + timedelta(seconds=count // 2)),
    }
    for name, chosen in filters.items():
        times = await time_each(partial(store.search, limit=HITS, filters=chosen), queries)
        show(f"words, {name}", times)
        if chosen == NO_FILTERS:
            words = times
    numbers = np.random.default_rng(2).normal(size=DIMENSION)
    vector = Vector.pack("random", [float(number) for number in numbers])
    with Clock() as loading:
        await store.search("", limit=1, vector=vector)
    show("reading the vectors, once", f"{loading.wall:.2f} s")
    both = await time_each(partial(store.search, limit=HITS, vector=vector), queries)
    show("words and vectors, any record", both)
    some = filters["one project of twenty"]
    show(
        "words and vectors, one project of twenty",
        await time_each(partial(store.search, limit=HITS, vector=vector, filters=some), queries),
    )
    for name, times, factor in (("words", words, 1), ("words and vectors", both, 2)):
        bound = "" if limit_ms is None else f" (at most {limit_ms * factor} ms)"
        show(
            f"{name}:",
            f"p50 {times.p50:.2f} ms{bound}, p99 {times.p99 / times.p50:.1f} times it (at most 6);"
            f" {times.processor / bare.processor:.2f} times the time of plain FTS5",
        )


async def measure_beside_a_writer(store: SqliteMemoryStore, queries: Sequence[str]) -> None:
    """Ask while another thread of this process writes without a pause."""
    written = 0

    async def write() -> None:
        nonlocal written
        while True:
            await store.remember(
                [MemoryRecord(text=f"{queries[written % len(queries)]} {written}")]
            )
            written += 1

    writing = asyncio.create_task(write())
    with Clock() as clock:
        times = await time_each(partial(store.search, limit=HITS), queries)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    show("words, beside a writer", times)
    show("written meanwhile", f"{written:,}, {written / clock.wall:,.0f}/s")


async def run(count: int, queries_count: int) -> None:
    """Measure one size."""
    print(f"\n{count:,} records with vectors of {DIMENSION}, {load()}")
    records = make_records(count, read_sentences(), vectors=np.random.default_rng(count))
    with tempfile.TemporaryDirectory() as folder:
        plain = PlainTable(Path(folder) / "plain.db")
        with closing(plain.connection):
            async with SqliteMemoryStore(Path(folder) / "memory.db") as store:
                texts = await measure_writes(store, plain, records, count=count)
                step = max(1, len(texts) // queries_count)
                queries = make_queries(texts[::step][:queries_count])
                await measure_searches(store, plain, queries, count=count)
                await measure_beside_a_writer(store, queries)


def measure_copies() -> None:
    """Find the nearly equal among many texts, and hold that against comparing those planted."""
    print(f"\nNearly equal among {COPIES:,} texts of {COPY_CHARS} characters, {load()}")
    texts, planted = make_near_copies(COPIES, COPY_CHARS, read_sentences())
    exact = set(alike_pairs(texts, planted, least=LIKENESS))
    with Clock() as clock:
        found = set(similar_pairs(texts, least=LIKENESS))
    false = len(found) - len(set(alike_pairs(texts, found, least=LIKENESS)))
    show(
        "found",
        f"{len(found & exact) / len(exact):.4f} of {len(exact):,} pairs (at least {LEAST_FOUND}),"
        f" {false} false, {len(found - exact)} that nobody planted",
    )
    show(
        "taken",
        f"{clock.wall:.2f} s, {clock.processor:.2f} s of processor time"
        f" (at most {LIMIT_COPIES_SECONDS})",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of every size, and what they were measured on."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=300)
    chosen = parser.parse_args(arguments)
    print(
        f"{platform.machine()}, {os.cpu_count()} processors, {load()}; "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )
    with Clock() as loading:
        mask_secrets("")
    show("loading what masks secrets, once", f"{loading.wall:.2f} s")
    measure_copies()
    for count in chosen.records:
        asyncio.run(run(count, chosen.queries))
    return 0


if __name__ == "__main__":
    sys.exit(main())
