"""How much evidence recall finds within a budget, beside plain full-text search.

    python -m benchmarks.memory_quality [--corpus ../shared/data/memory] [--embed]

The corpus is read where it lies: conversations, and questions with the sentence that answers each.
Every sentence of a conversation is one turn, "User: …"; the conversations of a scenario are the
sessions of one namespace. A question counts when every turn of its evidence lies within the budget,
by exact o200k tokens. The other side is FTS5 with porter stems, the words of the question joined by
OR without stop words and Chinese as pairs of characters on both sides, packed best first under the
same headers, without our rule that no long record takes more than a quarter of the budget.
MemoryBank's probing questions name no evidence; it was noted by hand in `memorybank_evidence`.
"""

import argparse
import asyncio
import json
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from benchmarks.memorybank_evidence import EVIDENCE
from context_assembler.embeddings import BundledEmbedder
from context_assembler.memory import SqliteMemoryStore
from context_assembler.memory_assembler import MemoryAssembler
from context_assembler.memory_assembler.evaluation import evaluate_recall
from context_assembler.recall.evaluate import Evaluation, Question, evaluate
from context_assembler.recall.explain import explain_recall
from context_assembler.recall.fit_budget import BudgetRules, fit_budget
from context_assembler.recall.format_items import make_layout
from context_assembler.tokens.bpe import count_bpe
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.memories.words import index_text, query_terms
from context_assembler.values.recall import Candidate, FormattedContext

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
BUDGETS: Final = (500, 1_000, 2_000)
SMALL_BUDGETS: Final = (125, 250, 500)  # a MemoryBank user has said two or three thousand tokens
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
    return " ".join(re.findall(r"\w+", text.lower()))


def read_memorybank(folder: Path, language: str) -> tuple[list[MemoryRecord], list[Question]]:
    """Return every turn of every user, each a namespace, and the questions that have evidence."""
    bank = json.loads((folder / f"memory_bank_{language}.json").read_text())
    probes = json.loads((folder / f"probing_questions_{language}.json").read_text())
    records: list[MemoryRecord] = []
    asked: list[Question] = []
    for key, user in bank.items():
        name = key.strip()
        days = [(day, exchange) for day, said in user["history"].items() for exchange in said]
        for number, (day, exchange) in enumerate(days):
            records += [
                MemoryRecord(
                    id=f"{name}/{number}{who}",
                    text=f"{speaker}: {exchange[field]}",
                    kind="events",
                    namespace=name,
                    session_id=f"{name}/{day}",
                    created_at=datetime.fromisoformat(day).replace(tzinfo=UTC),
                )
                for who, speaker, field in (("u", name, "query"), ("a", "AI", "response"))
            ]
        questions = zip(probes[key] or (), EVIDENCE[language].get(name, ()), strict=False)
        asked += [
            Question(
                question=question,
                evidence=tuple(f"{name}/{turn}" for turn in evidence.split()),
                category=name,
                namespace=name,
            )
            for question, evidence in questions
            if evidence
        ]
    return records, asked


class PlainSearch:
    """FTS5 and nothing else."""

    def __init__(self, records: Sequence[MemoryRecord]) -> None:
        self.records: list[MemoryRecord] = list(records)
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize='porter unicode61')")
        self.db.executemany(
            "INSERT INTO t(rowid, text) VALUES (?, ?)",
            ((at, index_text(record.text)) for at, record in enumerate(self.records)),
        )

    async def __call__(
        self, question: Question, budgets_tokens: Sequence[int]
    ) -> list[FormattedContext]:
        ranked = self.rank(question)
        return [self.fit(ranked, budget) for budget in budgets_tokens]

    def rank(self, question: Question) -> list[Candidate]:
        match = " OR ".join(f'"{term}"' for term in query_terms(question.question))
        found: list[tuple[int, float]] = self.db.execute(
            "SELECT rowid, rank FROM t WHERE t MATCH ? ORDER BY rank", (match,)
        ).fetchall()
        return [
            Candidate(
                record=self.records[row],
                source="events",
                order=row,
                score=-rank,
                scores={},
                found_in=("events",),
            )
            for row, rank in found
            if self.records[row].namespace == question.namespace
        ]

    def fit(self, ranked: Sequence[Candidate], budget_tokens: int) -> FormattedContext:
        fitted = fit_budget(
            ranked,
            rules=BudgetRules(max_tokens=budget_tokens, limit=10_000, shares={}, largest_share=1.0),
            layout=make_layout(now=NOW, order="best_first", states={}),
            count_text=count_o200k,
        )
        explanations = explain_recall(ranked, fitted.items, fitted.left_out)
        return FormattedContext(
            markdown=fitted.markdown, items=fitted.items, explanations=explanations
        )


def count_o200k(text: str) -> int:
    return count_bpe(text, encoding="o200k_base")


def show(name: str, result: Evaluation) -> None:
    grade = result.overall
    whole = "  ".join(f"{share:6.1%}" for share in grade.whole.values())
    part = "  ".join(f"{share:6.1%}" for share in grade.recalled.values())
    print(
        f"{name:28} n={grade.questions:<4} whole@{(*grade.whole,)}: {whole}   part: {part}  mrr {grade.mrr:.3f}"
    )


async def grade(
    records: Sequence[MemoryRecord],
    asked: Sequence[Question],
    *,
    budgets: Sequence[int],
    with_vectors: bool,
) -> None:
    """Print how much of the evidence each side finds."""
    tokens = sum(count_o200k(record.text) for record in records)
    print(f"{len(records)} turns, {tokens} tokens, {len(asked)} questions")
    plain_search = PlainSearch(records)
    with closing(plain_search.db):
        show("plain FTS5", await evaluate(asked, plain_search, budgets_tokens=budgets))
    for embed in (None, BundledEmbedder()) if with_vectors else (None,):
        kept = list(records)
        if embed is not None:
            vectors = await embed.embed([record.text for record in records])
            kept = [replace(r, vector=v) for r, v in zip(records, vectors, strict=True)]
        async with SqliteMemoryStore(None) as store:
            await store.remember(kept)
            async with MemoryAssembler(store, embed=embed, clock=NOW.timestamp) as recall:
                result = await evaluate_recall(
                    recall, asked, budgets_tokens=budgets, context_types="events"
                )
        show("recall" if embed is None else "recall with vectors", result)


async def run(corpus: Path, *, with_vectors: bool) -> None:
    folder = corpus / "bfcl_memory"
    for by_sentence in (False, True):
        records = read_conversations(folder, by_sentence=by_sentence)
        asked = read_asked(folder, records)
        await grade(records, asked, budgets=BUDGETS, with_vectors=with_vectors)
    for language in EVIDENCE:
        print(f"MemoryBank, {language}")
        bank, probed = read_memorybank(corpus / "memorybank", language)
        await grade(bank, probed, budgets=SMALL_BUDGETS, with_vectors=with_vectors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path("../shared/data/memory"))
    parser.add_argument("--embed", action="store_true", help="with the bundled vectors as well")
    given = parser.parse_args()
    asyncio.run(run(given.corpus, with_vectors=given.embed))


if __name__ == "__main__":
    main()
