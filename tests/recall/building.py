"""Builders for tests of recall: records, hits, candidates and sources that answer as told."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from context_assembler.values.memories.records import (
    NO_FILTERS,
    MemoryFilters,
    MemoryHit,
    MemoryOrder,
    MemoryRecord,
)
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.recall import Candidate, SourceAnswer

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


def hours_ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def record(text: str, *, id: str | None = None, **fields: Any) -> MemoryRecord:  # noqa: A002 - the field
    given: dict[str, Any] = {"created_at": hours_ago(1), **fields}
    return MemoryRecord(text=text, id=text if id is None else id, **given)


def hit(
    found: MemoryRecord, *, bm25: float | None = None, similarity: float | None = None
) -> MemoryHit:
    return MemoryHit(record=found, order=0, bm25=bm25, similarity=similarity)


def answer(*hits: MemoryHit, **fields: Any) -> SourceAnswer:
    kind = hits[0].record.kind if hits else "memories"
    given: dict[str, Any] = {"source": kind, "kind": kind, "state": "ok", "hits": hits, **fields}
    return SourceAnswer(**given)


def candidate(found: MemoryRecord, *, score: float = 0.5, **fields: Any) -> Candidate:
    source = fields.pop("source", found.kind)
    scores: Mapping[str, float] = {
        "relevance": score,
        "recency": 0.5,
        "importance": found.importance,
    }
    given: dict[str, Any] = {"order": 0, "scores": scores, "found_in": (source,), **fields}
    return Candidate(record=found, source=source, score=score, **given)


class Listing:
    """A source that finds what shares a word with the query, and can list."""

    def __init__(self, *records: MemoryRecord, name: str = "listing") -> None:
        self.name = name
        self.records = records
        self.asked: list[str] = []

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
        vector: Vector | None = None,  # noqa: ARG002 - the port
    ) -> Sequence[MemoryHit]:
        self.asked.append(query)
        words = set(query.lower().split())
        matching = [
            MemoryHit(record=r, order=at, bm25=float(len(words & set(r.text.lower().split()))))
            for at, r in enumerate(self.records)
            if r.kind in filters.kinds and words & set(r.text.lower().split())
        ]
        return sorted(matching, key=lambda found: -(found.bm25 or 0))[:limit]

    async def list_records(
        self,
        *,
        order: MemoryOrder = "newest",  # noqa: ARG002 - the port
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
    ) -> Sequence[MemoryRecord]:
        return [r for r in self.records if r.kind in filters.kinds][:limit]


class Answering:
    """A source that answers what it is told to, when it is let; it can only search."""

    def __init__(
        self,
        *answers: Sequence[MemoryHit] | Exception,
        name: str = "answering",
        waits: bool = False,
    ) -> None:
        self.name = name
        self.answers = list(answers)
        self.gate = asyncio.Event()
        self.asked: list[tuple[str, Vector | None]] = []
        if not waits:
            self.gate.set()

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,  # noqa: ARG002 - the port
        vector: Vector | None = None,
    ) -> Sequence[MemoryHit]:
        self.asked.append((query, vector))
        await self.gate.wait()
        following = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(following, Exception):
            raise following
        return following[:limit]


class Alarm:
    """A `sleep` that returns for each length of time when it is told to."""

    def __init__(self) -> None:
        self.bells: dict[float, asyncio.Event] = {}

    async def __call__(self, seconds: float) -> None:
        await self.bell(seconds).wait()

    def bell(self, seconds: float) -> asyncio.Event:
        return self.bells.setdefault(seconds, asyncio.Event())
