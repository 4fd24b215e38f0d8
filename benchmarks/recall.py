"""Recall as a whole, beside plain full-text search of the same texts; a process of its own.

    python benchmarks/recall.py recall '{"folder": …, "length": …, "vectors": false}'

Plain is FTS5 with `porter`: any word of the question, the best 50 by `bm25`, no list of stop words.
Times are CPU milliseconds; those of many recalls at once are what their callers wait.
"""

import asyncio
import json
import random
import re
import sqlite3
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final

from context_assembler.memory import (
    MemoryAssembler,
    MemoryRecord,
    RecallSettings,
    open_embedder,
    open_memory,
)

_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_AT_ONCE: Final = 64
_PAGE: Final = 5_000


def _said(corpus: str | None) -> tuple[list[str], list[str]]:
    """Return sentences and questions: recorded ones, or generated."""
    found = Path(corpus or "", "memory", "bfcl_memory")
    if not corpus or not found.is_dir():
        draw = random.Random(19)
        words = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "st")]
        sentences = [" ".join(draw.choices(words, k=18)) for _ in range(1_500)]
        return sentences, [" ".join(draw.choices(words, k=8)) for _ in range(60)]
    sentences = list[str]()
    for path in sorted(found.glob("prereq*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            said = [one["content"] for turn in json.loads(line)["question"] for one in turn]
            sentences += [s for text in said for s in re.split(r"(?<=[.!?])\s+", text)]
    asked = found.joinpath("questions.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line)["question"][0][0]["content"] for line in asked]
    return [one for one in sentences if 5 < len(one) < 300], questions[:60]


def _records(sentences: list[str], count: int) -> Iterator[MemoryRecord]:
    """Yield turns of sessions of twenty, each made of pieces of recorded sentences."""
    draw, words = random.Random(0), [word for one in sentences for word in one.split()]
    for at in range(count):
        first, second = draw.choice(sentences).split(), draw.choice(sentences).split()
        said = first[: draw.randint(1, len(first))] + second[len(second) // 2 :]
        text = " ".join([*said, *draw.choices(words, k=draw.randint(2, 8))])
        author, made = (
            draw.choice(["Ana", "Ben", "Caro", "Dan"]),
            timedelta(minutes=3 * (count - at)),
        )
        session = f"s{at // 20}"
        yield MemoryRecord(
            kind="events", text=text, author=author, session_id=session, created_at=_NOW - made
        )


def _cpu() -> float:
    return time.process_time() * 1e3


def recall(
    folder: str, length: int, corpus: str | None = None, vectors: bool = False, **_: Any
) -> Any:
    """Measure one store: filling it, its file, recalls one by one and at once."""
    sentences, questions = _said(corpus)
    path, other = (Path(folder, f"recall-{length}{v}.db") for v in ("v" * vectors, "-plain"))
    for old in (path, other):
        old.unlink(missing_ok=True)
    embed = open_embedder("bundled") if vectors else None
    plain = sqlite3.connect(other)
    plain.execute("CREATE VIRTUAL TABLE t USING fts5 (text, tokenize = 'porter unicode61')")

    def search(query: str) -> None:
        match = " OR ".join(
            f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", query.lower()))
        )
        sql = "SELECT rowid, text FROM t WHERE t MATCH ? ORDER BY bm25(t) LIMIT 50"
        plain.execute(sql, (match,)).fetchall()

    async def run() -> Any:
        store, ingest = open_memory(path), 0.0
        records = _records(sentences, length)
        while page := [*islice(records, _PAGE)]:
            plain.executemany("INSERT INTO t VALUES (?)", [(one.text,) for one in page])
            if embed is not None:
                found = await embed.embed([one.text for one in page])
                page = [replace(r, vector=v) for r, v in zip(page, found, strict=True)]
            started = _cpu()
            await store.remember(page)
            ingest += _cpu() - started
        plain.execute("INSERT INTO t (t) VALUES ('optimize')")
        plain.commit()
        plain.execute("VACUUM")
        await store.optimize()
        await store.close()
        size = path.stat().st_size / other.stat().st_size
        settings = RecallSettings(cache_seconds=0)
        async with MemoryAssembler(store, settings=settings, embed=embed) as assembler:
            times: dict[str, list[float]] = {"ours": [], "plain": [], "waits": [], "once": []}
            for query in (*questions[:3], *questions):
                started = _cpu()
                search(query)
                middle, waited = _cpu(), time.perf_counter()
                await assembler.assemble_context(query, max_tokens=1_000)
                times["waits"].append((time.perf_counter() - waited) * 1e3)
                times["ours"].append(_cpu() - middle)
                times["plain"].append(middle - started)
            warm = {name: values[3:] for name, values in times.items()}
            late = 0

            async def one(query: str) -> None:
                nonlocal late
                waited = time.perf_counter()
                context = await assembler.assemble_context(query, max_tokens=1_000)
                warm["once"].append((time.perf_counter() - waited) * 1e3)
                late += "timed_out" in context.source_status.values()

            await asyncio.gather(*(one(questions[n % len(questions)]) for n in range(_AT_ONCE)))
        return {**warm, "late": late, "second": length / ingest * 1e3, "size": size}

    found = asyncio.run(run())
    plain.close()
    return found


def listing(folder: str, length: int, corpus: str | None = None, **_: Any) -> Any:
    """Time contexts without a question, by each strategy."""
    sentences, _questions = _said(corpus)
    times: dict[str, list[float]] = {}

    async def run() -> None:
        async with open_memory("memory:") as store:
            await store.remember([*_records(sentences, length)])
            for strategy in ("recent", "important", "balanced"):
                settings = RecallSettings(strategy=strategy, cache_seconds=0)
                async with MemoryAssembler(store, settings=settings) as assembler:
                    for _round in range(12):
                        started = _cpu()
                        await assembler.assemble_context()
                        times.setdefault(strategy, []).append(_cpu() - started)

    asyncio.run(run())
    return {name: values[2:] for name, values in times.items()} | {"folder": folder}


def main() -> None:
    """Run one measure and print what it found."""
    measure, given = sys.argv[1:]
    print(json.dumps({"recall": recall, "listing": listing}[measure](**json.loads(given))))


if __name__ == "__main__":
    main()
