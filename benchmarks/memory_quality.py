"""How much of the evidence that questions need is recalled within a budget.

    python -m benchmarks.memory_quality [FOLDER] [--embed] [--store URL …]

The corpus is read where it lies: conversations, and questions with the sentence that answers each.
Every turn (then, every sentence) is one record; the conversations of a scenario are the sessions of
one namespace. A question counts if all of its evidence lies within the budget, in o200k tokens.
"""

import argparse
import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from benchmarks.data import corpus
from context_assembler.memory import (
    Evaluation,
    MemoryAssembler,
    MemoryRecord,
    Question,
    evaluate_recall,
    open_embedder,
    open_memory,
)

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
BUDGETS: Final = (500, 1_000, 2_000)
SCENARIOS: Final = ("customer", "finance", "healthcare", "notetaker", "student")


def read_conversations(folder: Path, *, by_sentence: bool) -> list[MemoryRecord]:
    """Return every turn of every scenario; sessions lie a week apart."""
    records: list[MemoryRecord] = []
    for scenario in SCENARIOS:
        lines = (folder / f"prereq_{scenario}.jsonl").read_text().splitlines()
        for number, line in enumerate(lines):
            started = NOW - timedelta(weeks=len(lines) - number)
            texts = [m["content"] for turn in json.loads(line)["question"] for m in turn]
            pieces = [p for text in texts for p in (split(text) if by_sentence else [text])]
            records += [
                MemoryRecord(
                    id=f"{scenario}-{number}-{at}",
                    text=f"User: {piece}",
                    kind="events",
                    namespace=scenario,
                    session_id=f"{scenario}-{number}",
                    created_at=started,
                )
                for at, piece in enumerate(pieces)
            ]
    return records


def split(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [piece for piece in re.split(r"(?<=[.!?])\s+", text) if piece.strip()]


def read_asked(folder: Path, records: Sequence[MemoryRecord]) -> list[Question]:
    """Return the questions whose evidence is found in the records."""
    asked: list[Question] = []
    for line in (folder / "questions.jsonl").read_text().splitlines():
        row = json.loads(line)
        sources = row["answer"]["source"]
        wanted = [sources] if isinstance(sources, str) else sources
        pieces = [
            plain(piece)
            for source in wanted
            for part in re.split(r"\.\.\.|…", source)
            for piece in split(part)
        ]
        evidence = [
            record.id
            for record in records
            if record.namespace == row["scenario"]
            and any(len(p) > 12 and p in plain(record.text) for p in pieces)
        ]
        if evidence:
            asked.append(
                Question(
                    question=row["question"][0][0]["content"],
                    evidence=tuple(evidence),
                    id=row["id"],
                    category=row["scenario"],
                    namespace=row["scenario"],
                )
            )
    return asked


def plain(text: str) -> str:
    """Return the words of a text."""
    return " ".join(re.findall(r"\w+", text.lower()))


def show(name: str, result: Evaluation) -> None:
    """Print the shares of questions with their whole evidence, and of evidence, by budget."""
    grade = result.overall
    whole = "  ".join(f"{share:6.1%}" for share in grade.whole.values())
    part = "  ".join(f"{share:6.1%}" for share in grade.recalled.values())
    budgets = (*grade.whole,)
    print(f"{name:28} whole@{budgets}: {whole}   part: {part}  mrr {grade.mrr:.3f}", flush=True)


async def grade(
    records: Sequence[MemoryRecord], asked: Sequence[Question], embedder: str, url: str
) -> None:
    """Print how much of the evidence is found, by words or with vectors, and how long it takes."""
    embed: Any = open_embedder(embedder) if embedder else None
    kept = list(records)
    if embed is not None:
        vectors = await embed.embed([record.text for record in records])
        kept = [replace(r, vector=v) for r, v in zip(records, vectors, strict=True)]
    async with open_memory(url) as store:
        await store.remember(kept)
        started = time.perf_counter()
        async with MemoryAssembler(store, embed=embed, clock=NOW.timestamp) as recall:
            result = await evaluate_recall(
                recall, asked, budgets_tokens=BUDGETS, context_types="events"
            )
        took = (time.perf_counter() - started) * 1e3 / len(asked) / len(BUDGETS)
    name = url.partition(":")[0]
    show(f"{name}, {embedder or 'words'}, {took:.0f} ms", result)


def main() -> None:
    """Grade recall on the corpus."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    found = corpus()
    parser.add_argument("folder", type=Path, nargs="?", default=found and found / "memory")
    parser.add_argument("--embed", action="store_true", help="with the bundled vectors as well")
    parser.add_argument("--store", action="append", help="an empty store; by default memory:")
    given = parser.parse_args()
    if given.folder is None:
        print("The corpus is not there: set CONTEXT_ASSEMBLER_CORPUS.")
        return
    for by_sentence in (False, True):
        records = read_conversations(given.folder / "bfcl_memory", by_sentence=by_sentence)
        asked = read_asked(given.folder / "bfcl_memory", records)
        unit = "sentences" if by_sentence else "turns"
        print(f"{len(records):,} {unit}, {len(asked)} questions")
        for url in given.store or ["memory:"]:
            for embedder in ("", "bundled") if given.embed else ("",):
                asyncio.run(grade(records, asked, embedder, url))


if __name__ == "__main__":
    main()
