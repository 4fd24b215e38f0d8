"""How fast memories are kept and found in LanceDB and Qdrant, beside SQLite in the same run.

    python -m benchmarks.recall_engines [--records 10000 100000] [--queries 100] [--qdrant URL]

The memories are sentences of the documentation of whatever packages are installed, laid together
anew from a fixed seed, with random vectors; the questions are words of single memories. Without the URL of a server, whose
collection `benchmark` is filled and emptied, Qdrant runs in its client's local mode, which reads
every record for every search: it is left out above 10,000 records.
"""

import argparse
import asyncio
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import distributions, version
from typing import Final

import numpy as np

from context_assembler.memory import MemoryFilters, MemoryRecord, Vector, open_memory
from context_assembler.ports import MemoryStore
from context_assembler.values.memories.kinds import MemoryKind

BATCH: Final = 2_000
SINGLES: Final = 50
DIMENSION: Final = 128
KINDS: Final[tuple[MemoryKind, ...]] = ("memories", "events", "learnings", "code")
PROJECTS: Final = 20
MOST_LOCAL: Final = 10_000
HITS: Final = 50


def make_records(count: int) -> list[MemoryRecord]:
    """Return memories of two to four sentences each, the same at every call."""
    lines = {
        line.strip()
        for package in distributions()
        for line in (package.read_text("METADATA") or "").splitlines()
    }
    sentences = sorted(line for line in lines if 30 < len(line) < 400)
    chance = random.Random(count)
    numbers = np.random.default_rng(count).standard_normal((count, DIMENSION))
    return [
        MemoryRecord(
            text=" ".join(chance.sample(sentences, chance.randint(2, 4))) + f" (note {at})",
            kind=KINDS[at % len(KINDS)],
            namespace=f"project{at % PROJECTS}",
            session_id=f"session{at // 50}",
            vector=Vector.pack("random", numbers[at].tolist()),
        )
        for at in range(count)
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
    p50, p90 = (walls[int(len(walls) * share)] for share in (0.5, 0.9))
    print(
        f"  {name:44} wall p50 {p50:7.1f}  p90 {p90:7.1f} ms  processor {processor:7.1f} ms",
        flush=True,
    )


async def measure_writes(store: MemoryStore, records: Sequence[MemoryRecord]) -> None:
    """Fill the store in batches, then add some one by one."""
    singles = [MemoryRecord(text=f"{record.text} once more") for record in records[:SINGLES]]
    batches = [records[at : at + BATCH] for at in range(0, len(records), BATCH)]
    for name, parts in (
        (f"batches of {BATCH:,}", batches),
        ("one by one", [[single] for single in singles]),
    ):
        wall, processor = time.perf_counter(), time.process_time()
        for part in parts:
            await store.remember(part)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        count = sum(map(len, parts))
        print(f"  {name:44} {count / wall:8,.0f}/s wall  {count / processor:8,.0f}/s processor")


async def measure_searches(store: MemoryStore, queries: Sequence[str]) -> None:
    """Ask in every way, after a few questions that are not counted."""
    numbers = np.random.default_rng(2).standard_normal(DIMENSION)
    vector = Vector.pack("random", numbers.tolist())
    project = MemoryFilters(namespaces=("project3",))
    for query in queries[:5]:
        await store.search(query, limit=HITS, vector=vector)
    found = await store.search(queries[0], limit=HITS, filters=MemoryFilters(kinds=("events",)))
    ids = [hit.record.id for hit in found]
    await measure(f"words, {HITS} hits", lambda q: store.search(q, limit=HITS), queries)
    await measure(
        "words, one project of twenty",
        lambda q: store.search(q, limit=HITS, filters=project),
        queries,
    )
    await measure("vectors", lambda _: store.search("", limit=HITS, vector=vector), queries)
    await measure(
        "words and vectors", lambda q: store.search(q, limit=HITS, vector=vector), queries
    )
    await measure(
        f"what stands around {len(ids)} events", lambda _: store.neighbours(ids), queries[:20]
    )


async def run(count: int, queries_count: int, *, qdrant: str | None) -> None:
    """Measure one size on every engine."""
    records = make_records(count)
    queries = make_queries(records, queries_count)
    with tempfile.TemporaryDirectory() as folder:
        places = {"SQLite": f"sqlite:{folder}/memory.db", "LanceDB": f"lancedb:{folder}/lance"}
        if qdrant is not None:
            places["Qdrant, a server"] = f"qdrant:{qdrant}#benchmark"
        elif count <= MOST_LOCAL:
            places["Qdrant, local mode"] = f"qdrant:{folder}/qdrant"
        for name, place in places.items():
            load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
            print(f"\n{name}, {count:,} records with vectors, load {load}", flush=True)
            async with open_memory(place) as store:
                await measure_writes(store, records)
                await measure_searches(store, queries)
                if qdrant is not None:
                    await store.forget([record.id async for record in store.export()])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of every size, and what they were measured on."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--qdrant", help="the URL of a server that may be written to")
    chosen = parser.parse_args(arguments)
    packages = ", ".join(f"{name} {version(name)}" for name in ("lancedb", "qdrant-client"))
    print(f"{platform.machine()}, {os.cpu_count()} processors; {packages}")
    for count in chosen.records:
        asyncio.run(run(count, chosen.queries, qdrant=chosen.qdrant))
    return 0


if __name__ == "__main__":
    sys.exit(main())
