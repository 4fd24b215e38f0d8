"""Recall over a store that has few of the kinds: the same answer, for what asking those few takes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from context_assembler import FormattedContext, MemoryAssembler, RecallSettings
from context_assembler.memory import SqliteMemoryStore
from context_assembler.values.memories.kinds import KINDS, MemoryKind
from context_assembler.values.memories.records import (
    NO_FILTERS,
    MemoryFilters,
    MemoryHit,
    MemoryOrder,
    MemoryRecord,
)
from context_assembler.values.memories.vectors import Vector
from tests.memory.embedders import Compass
from tests.recall.building import NOW, Alarm, record

EAST = Vector.pack("compass", [1.0, 0.1])


class Asked:
    """A store as it is, each question noted; it tells its kinds only if it may."""

    def __init__(self, store: SqliteMemoryStore) -> None:
        self.name = "memory"
        self.store = store
        self.kinds: list[str] = []

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
        vector: Vector | None = None,
    ) -> Sequence[MemoryHit]:
        self.kinds += filters.kinds
        return await self.store.search(query, limit=limit, filters=filters, vector=vector)

    async def list_records(
        self,
        *,
        order: MemoryOrder = "newest",
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
    ) -> Sequence[MemoryRecord]:
        self.kinds += filters.kinds
        return await self.store.list_records(order=order, limit=limit, filters=filters)

    async def neighbours(
        self, memory_ids: Sequence[str], *, before: int = 2, after: int = 2
    ) -> Mapping[str, tuple[MemoryRecord, ...]]:
        return await self.store.neighbours(memory_ids, before=before, after=after)


class Telling(Asked):
    """Tells which kinds there are, or what it is told to."""

    told: Any = None

    async def present_kinds(self, *, filters: MemoryFilters = NO_FILTERS) -> Any:
        if isinstance(self.told, Exception):
            raise self.told
        if self.told is not None:
            return self.told
        return await self.store.present_kinds(filters=filters)


class Odd(Compass):
    """A model whose vectors the store does not keep."""

    model = "odd"


FEW = [
    record("the tea is green", namespace="shop"),
    record("tea was served", kind="events", session_id="s", namespace="shop", vector=EAST),
    record("then coffee", kind="events", session_id="s", vector=EAST),
]
EVERY = [record(f"tea of {kind}", kind=kind) for kind in KINDS]
STORED: dict[str, Sequence[MemoryRecord]] = {"none": [], "few": FEW, "all": EVERY}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "words": ("green tea", {}),
    "what nobody said": ("submarines", {}),
    "no question": ("", {}),
    "no word": ("?!", {}),
    "a namespace": ("tea", {"filters": MemoryFilters(namespaces=("shop",))}),
    "a namespace of nobody": ("tea", {"filters": MemoryFilters(namespaces=("x",))}),
    "some kinds": ("tea", {"context_types": ["code", "events", "commits", "values"]}),
}


async def ask(source: Asked, query: str, embed: Compass | None, **given: Any) -> FormattedContext:
    recall = MemoryAssembler(source, embed=embed, clock=NOW.timestamp, sleep=Alarm())
    return await recall.assemble_context(query, **given)


@pytest.mark.parametrize(
    "embed", [None, Compass(), Odd()], ids=["words alone", "a vector", "another model's"]
)
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS.keys())
@pytest.mark.parametrize("records", STORED.values(), ids=STORED.keys())
async def test_a_recall_is_the_same_where_the_store_tells_its_kinds(
    records: Sequence[MemoryRecord], question: tuple[str, dict[str, Any]], embed: Compass | None
) -> None:
    query, given = question
    async with SqliteMemoryStore(None) as store:
        await store.remember(records)

        told = await ask(Telling(store), query, embed, **given)
        searched = await ask(Asked(store), query, embed, **given)

    assert told == searched


@pytest.mark.parametrize("embed", [None, Compass()], ids=["words alone", "a vector"])
async def test_kinds_without_records_are_not_searched_one_by_one(embed: Compass | None) -> None:
    async with SqliteMemoryStore(None) as store:
        await store.remember(FEW)
        source = Telling(store)

        context = await ask(source, "green tea", embed)

    absent = set(source.kinds) - {"memories", "events"}
    assert len(absent) == (0 if embed is None else 1)
    assert list(context.source_status) == list(KINDS)


@pytest.mark.parametrize("told", [RuntimeError("no"), 3])
async def test_a_source_that_cannot_tell_its_kinds_is_searched_for_each(told: Any) -> None:
    async with SqliteMemoryStore(None) as store:
        await store.remember(FEW)
        source = Telling(store)
        source.told = told

        context = await ask(source, "green tea", None)

    assert set(source.kinds) == set(KINDS)
    assert not context.is_empty


async def test_a_source_that_does_not_come_to_tell_its_kinds_has_no_longer_than_its_time() -> None:
    class Never(Telling):
        async def present_kinds(self, *, filters: MemoryFilters = NO_FILTERS) -> Any:  # noqa: ARG002 - the port
            alarm.bell(2.0).set()
            await Alarm()(1.0)

    alarm, limits = Alarm(), RecallSettings(seconds_per_source=2.0, seconds_in_all=5.0)
    async with SqliteMemoryStore(None) as store:
        recall = MemoryAssembler(Never(store), sleep=alarm, settings=limits)

        context = await recall.assemble_context("tea")

    assert set(context.source_status.values()) == {"timed_out"}


async def test_what_a_store_says_of_its_kinds_follows_whoever_writes(tmp_path: Path) -> None:
    here, there = (SqliteMemoryStore(tmp_path / "memory.db") for _ in range(2))
    seen: list[frozenset[MemoryKind]] = [await here.present_kinds()]

    await there.remember([record("a", kind="code"), record("b", namespace="shop")])
    seen.append(await here.present_kinds())
    await here.forget(["a"])
    seen.append(await here.present_kinds())
    await there.forget(["b"])
    seen.append(await here.present_kinds())

    assert seen == [frozenset(), {"code", "memories"}, {"memories"}, frozenset()]
    await here.close()
    await there.close()


async def test_a_store_tells_the_kinds_of_a_namespace() -> None:
    async with SqliteMemoryStore(None) as store:
        await store.remember([record("a", kind="code", namespace="x"), record("b", namespace="y")])

        told = [
            await store.present_kinds(filters=MemoryFilters(namespaces=names))
            for names in (("x",), ("y",), ("x", "y"), ("z",))
        ]

    assert told == [{"code"}, {"memories"}, {"code", "memories"}, frozenset()]
