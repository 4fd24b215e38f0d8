"""Walking from entities over relations."""

from context_assembler.memory import SqliteMemoryStore
from context_assembler.recall.ask_relations import ask_relations
from context_assembler.recall.walk_relations import Reached, relate, walk_relations
from context_assembler.values.memories.metadata import RelationMetadata
from context_assembler.values.memories.records import MemoryFilters, MemoryRecord
from tests.recall.building import Listing, candidate, record


def relation(
    source: str | None, target: str | None, *, weight: float | None = None
) -> MemoryRecord:
    return record(
        f"{source} knows {target}",
        id=f"{source}-{target}",
        kind="relations",
        metadata=RelationMetadata(source_id=source, target_id=target, weight=weight),
    )


CHAIN = [relation("a", "b"), relation("c", "b"), relation("c", "d"), relation("d", "a")]


def test_each_place_is_reached_once_by_the_shortest_way() -> None:
    reached = walk_relations(["a"], CHAIN, depth=3)

    assert [(step.memory_id, step.distance, step.via_id) for step in reached] == [
        ("b", 1, "a-b"),
        ("d", 1, "d-a"),
        ("c", 2, "c-b"),
    ]


def test_the_depth_bounds_the_walk() -> None:
    assert walk_relations(["a"], CHAIN, depth=0) == []
    assert len(walk_relations(["a"], CHAIN, depth=1)) == 2


def test_the_heavier_relation_is_walked_first() -> None:
    relations = [relation("a", "light", weight=0.1), relation("a", "heavy", weight=2.0)]

    assert [step.memory_id for step in walk_relations(["a"], relations, depth=1)] == [
        "heavy",
        "light",
    ]


def test_of_two_starts_the_better_one_is_named() -> None:
    reached = walk_relations(["b", "d"], CHAIN, depth=1)

    assert {step.memory_id: step.start_id for step in reached} == {"a": "b", "c": "b"}


def test_what_leads_nowhere_is_passed_over() -> None:
    bare = record("bare", kind="relations")

    assert walk_relations(["a"], [relation("a", None), relation(None, "b"), bare], depth=1) == []


async def test_a_store_is_asked_round_by_round() -> None:
    async with SqliteMemoryStore(None) as store:
        await store.remember(
            [*CHAIN[:2], *(record(f"entity {name}", id=name, kind="entities") for name in "abc")]
        )

        reached, records = await ask_relations(
            store, ["a"], depth=2, filters=MemoryFilters(kinds=("relations",))
        )

    assert [step.memory_id for step in reached] == ["b", "c"]
    assert set(records) == {"b", "c", "a-b", "c-b"}


async def test_ends_that_are_not_kept_any_more_are_left_out() -> None:
    async with SqliteMemoryStore(None) as store:
        await store.remember([relation("a", "gone")])

        reached, records = await ask_relations(
            store, ["a"], depth=1, filters=MemoryFilters(kinds=("relations",))
        )

    assert (reached, records) == ([], {})


async def test_a_source_that_looks_nothing_up_reaches_nothing() -> None:
    assert await ask_relations(Listing(), ["a"], depth=1, filters=MemoryFilters()) == ([], {})


def test_what_is_connected_has_half_the_score_of_its_start() -> None:
    start = candidate(record("Ann", kind="entities"), score=0.8)
    reached = [
        Reached(memory_id="Bob", distance=1, start_id="Ann", via_id="knows"),
        Reached(memory_id="Eve", distance=2, start_id="Ann", via_id="knows"),
        Reached(memory_id="Ann", distance=2, start_id="Ann", via_id="knows"),
    ]
    records = {name: record(name) for name in ("Bob", "Eve", "knows")}

    related = relate(reached, records, [start])

    assert [(c.record.id, c.score) for c in related] == [("knows", 0.4), ("Bob", 0.4), ("Eve", 0.2)]
