"""What a recall is given besides its query: strategies, importance, additions, the cache."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from context_assembler.errors import InvalidParameterError
from context_assembler.memory import (
    MemoryAssembler,
    MemoryFilters,
    MemoryRecord,
    RecallSettings,
    open_memory,
    read_signals,
)

NOW: Final = datetime(2026, 5, 4, 12, tzinfo=UTC)


def hours_ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def of(name: str, importance: float, made: float, used: float | None = None) -> MemoryRecord:
    used_at = None if used is None else hours_ago(used)
    times: dict[str, Any] = {"created_at": hours_ago(made), "last_access_at": used_at}
    return MemoryRecord(id=name, text=name, importance=importance, **times)


# By strategy and half-life in hours, the records as they are shown without a query.
WITHOUT_QUERY: Final = {
    "what was used last is recent": ("recent", 24, ["touched", "new", "vital", "old"]),
    "importance alone": ("important", 24, ["vital", "old", "touched", "new"]),
    "a touch makes worth new": ("balanced", 24, ["touched", "new", "vital", "old"]),
    "a short half-life": ("balanced", 1, ["touched", "new", "vital", "old"]),
    "a long half-life": ("balanced", 10_000, ["vital", "old", "touched", "new"]),
}


@pytest.mark.parametrize(
    ("strategy", "half_life", "order"), WITHOUT_QUERY.values(), ids=WITHOUT_QUERY.keys()
)
@pytest.mark.parametrize("others", [0, 700], ids=["few", "many"])
async def test_without_a_query_the_strategy_decides(
    strategy: Any, half_life: float, order: list[str], others: int
) -> None:
    known = [of("old", 9, 500), of("touched", 0.5, 600, 1), of("new", 0.4, 2), of("vital", 1, 300)]
    rest = [of(f"filler {at}", 0.01, 100 + at / 100) for at in range(others)]
    settings = RecallSettings(strategy=strategy, half_life_hours=half_life)
    async with open_memory("memory:") as store:
        await store.remember([*known, *rest])
        recall = MemoryAssembler(store, settings=settings, clock=NOW.timestamp)

        found = await recall.assemble_context(limit=4)

    if others and strategy == "recent":  # what was made 100 hours ago is newer than these
        order = [*order[:2], "filler 0", "filler 1"]
    assert [one.record.id for one in found.items] == order


@pytest.mark.parametrize(
    ("given", "kept"), [(0, 0), (0.4, 0.4), (1, 1), (2, 0.2), (10, 1), (7.5, 0.75)]
)
def test_importance_is_a_share_or_on_a_scale_of_ten(given: float, kept: float) -> None:
    assert MemoryRecord(text="pear", importance=given).importance == kept
    assert MemoryFilters(least_importance=given).least_importance == kept


@pytest.mark.parametrize("given", [-0.1, 1.5, 11, float("nan")])
def test_an_importance_on_no_scale_or_on_two_is_refused(given: float) -> None:
    with pytest.raises(InvalidParameterError, match="1 is the most"):
        MemoryRecord(text="pear", importance=given)


ENTITIES: Final = {
    "Fix the login of Ada. Add tests for `cart`": ("Ada", "cart"),
    "Explain Kubernetes to Bob": ("Kubernetes", "Bob"),
    "Done!\n- Fix Project Apollo": ("Project Apollo",),
    "Ask about Quick Fix": ("Quick Fix",),
}


@pytest.mark.parametrize(("query", "entities"), ENTITIES.items())
def test_a_verb_that_begins_a_sentence_is_no_entity(query: str, entities: tuple[str, ...]) -> None:
    assert read_signals(query).entities == entities
