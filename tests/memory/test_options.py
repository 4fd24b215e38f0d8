"""What a recall is given besides its query: strategies, importance, additions, the cache."""

import sqlite3
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from context_assembler.errors import InvalidParameterError
from context_assembler.memory import (
    EventMetadata,
    MemoryAssembler,
    MemoryFilters,
    MemoryRecord,
    RecallSettings,
    open_memory,
    read_signals,
)
from tests.conftest import new_schema

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


# ---- what helps to find ----

TALK: Final = {
    "the deployment to Lyon": "The deployment failed: the disk was full.",
    "the import from Oslo": "The import failed: a column was missing.",
    "the backup of Bern": "The backup failed: the key was revoked.",
}


@pytest.mark.parametrize(("said", "first"), TALK.items(), ids=TALK.keys())
@pytest.mark.parametrize("query", ["Why did it fail?", "And why was that?"])
async def test_what_was_said_before_shows_which_is_meant(
    query: str, said: str, first: str, open_store: Any
) -> None:
    store = open_store()
    await store.remember([MemoryRecord(text=text) for text in TALK.values()])
    recall = MemoryAssembler(store)

    found = await recall.assemble_context(query, additional_context=f"User: {said}, please.")

    assert found.items[0].text == first


async def test_what_was_said_before_makes_nothing_relevant_and_weighs_less() -> None:
    async with MemoryAssembler("memory:") as recall:
        await recall.remember(["The tram to Basel is late.", "Ada has a red bicycle."])
        talk = "tram Basel late tram " * 500

        nothing = await recall.assemble_context("Which zebra?", additional_context=talk)
        found = await recall.assemble_context("Whose bicycle?", additional_context=talk)

    assert nothing.is_empty
    assert found.items[0].text == "Ada has a red bicycle."


# ---- what nobody asked for ----


def happened(name: str, session: str, importance: float, hours: float) -> MemoryRecord:
    made: dict[str, Any] = {"importance": importance, "created_at": hours_ago(hours)}
    return MemoryRecord(id=name, text=f"{name}.", kind="events", session_id=session, **made)


UNASKED: Final = {
    "of this session and others": (
        {"session_id": "mine", "unasked": 2},
        ["tea", "late", "early", "vital", "heavy", "Zed", "Yan"],
    ),
    "of all sessions": ({"unasked": 1}, ["tea", "vital", "Zed"]),
    "none": ({"session_id": "mine"}, ["tea"]),
    "of one kind": (
        {"session_id": "mine", "unasked": 1, "context_types": ["memories", "entities"]},
        ["tea", "Zed"],
    ),
    "within the filters": (
        {"session_id": "mine", "unasked": 3, "filters": MemoryFilters(least_importance=0.75)},
        ["vital", "Zed"],
    ),
}


@pytest.mark.parametrize(("options", "shown"), UNASKED.values(), ids=UNASKED.keys())
async def test_what_nobody_asked_for_is_added_behind_what_fits(
    options: Any, shown: list[str], open_store: Any
) -> None:
    store = open_store()
    await store.remember(
        [
            MemoryRecord(id="tea", text="Ada drinks tea."),
            *(happened(*one) for one in [("first", "mine", 0.3, 9), ("early", "mine", 0.3, 5)]),
            *(happened(*one) for one in [("late", "mine", 0.1, 1), ("vital", "other", 0.9, 90)]),
            *(happened(*one) for one in [("heavy", "third", 0.7, 80), ("idle", "other", 0.1, 2)]),
            *(
                MemoryRecord(id=name, text=f"{name} is here.", kind="entities", importance=worth)
                for name, worth in [("Yan", 0.6), ("Zed", 0.8), ("Xia", 0.2)]
            ),
        ]
    )

    found = await MemoryAssembler(store).assemble_context("Which tea?", **options)

    reasons = {one.memory_id: one.reason for one in found.explanations}
    assert [one.record.id for one in found.items] == shown
    assert [one for one in shown if "nobody asked" in reasons[one]] == [
        one for one in shown if one != "tea"
    ]


async def test_a_number_of_unasked_memories_below_zero_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="unasked"):
        await MemoryAssembler("memory:").assemble_context("tea", unasked=-1)


# ---- what is known of the result, and how long it holds ----


async def test_a_context_says_how_it_came_about() -> None:
    async with open_memory("memory:", name="own") as store:
        await store.remember([MemoryRecord(text="Ada drinks tea."), happened("tea", "x", 1, 1)])
        recall = MemoryAssembler({"own": store})
        found = await recall.assemble_context("tea", settings=RecallSettings(strategy="recent"))
        chosen = RecallSettings(strategy=lambda candidate: candidate.record.importance)
        own = await recall.assemble_context("tea", settings=chosen)

    assert (found.strategy, own.strategy) == ("recent", "custom")
    assert found.counts == {"memories": 1, "events": 1}
    assert found.seconds > 0


class Counted:
    """Counts how often a text is counted: a context that is kept is not made again."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, text: str) -> int:
        self.times += 1
        return len(text) // 4


async def test_the_same_question_is_answered_once_until_something_is_written(
    open_store: Any, request: pytest.FixtureRequest
) -> None:
    is_told = "qdrant" not in request.node.name
    store, now, count = open_store(), [NOW.timestamp()], Counted()
    writers = [store] if "memory" in request.node.name or not is_told else [store, open_store()]
    recall = MemoryAssembler(store, clock=lambda: now[0])

    async def is_kept(query: str = "tea", **options: Any) -> bool:
        before = count.times
        options.setdefault("count_text", count)
        await recall.assemble_context(query, **options)
        return count.times == before

    [tea] = await recall.remember("Ada drinks tea.")
    assert [await is_kept(), await is_kept()] == [False, is_told]
    for writer in writers:
        await writer.remember([MemoryRecord(text=f"More tea for {id(writer)}.")])
        assert [await is_kept(), await is_kept()] == [False, is_told]
        await writer.touch([tea.id])
        assert [await is_kept(), await is_kept()] == [False, is_told]
    others: list[dict[str, Any]] = [{"max_tokens": 500}, {"limit": 3}, {"unasked": 1}]
    for options in others:
        assert not await is_kept(**options)
    assert not await is_kept("Tea")
    assert not await is_kept(settings=RecallSettings(half_life_hours=3))
    assert await is_kept() == is_told
    now[0] += 31
    assert not await is_kept()
    never = RecallSettings(cache_seconds=0)
    assert [await is_kept(settings=never), await is_kept(settings=never)] == [False, False]


async def test_what_is_changed_in_a_context_changes_no_later_one() -> None:
    async with MemoryAssembler("memory:") as recall:
        await recall.remember("Ada drinks tea.")
        first: Any = await recall.assemble_context("tea")
        first.source_status.clear()

        assert (await recall.assemble_context("tea")).source_status


class Elsewhere:
    """A source that says nothing of what was written to it."""

    name = "elsewhere"

    def __init__(self) -> None:
        self.times = 0

    async def search(self, query: str, **options: Any) -> list[Any]:
        self.times += bool(query and options)
        return []


async def test_answers_of_sources_that_say_nothing_of_writes_are_not_kept() -> None:
    own = Elsewhere()
    recall = MemoryAssembler(own)
    await recall.assemble_context("tea")
    before = own.times
    await recall.assemble_context("tea")

    assert own.times == 2 * before


@pytest.mark.parametrize("place", ["sqlite", "postgresql"])
async def test_damaged_details_are_of_no_type_and_stop_no_search(
    place: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url, file = f"sqlite:{tmp_path / 'memory.db'}", tmp_path / "memory.db"
    damage = "UPDATE memory_records SET details = '{' WHERE id = 'b'"
    call = EventMetadata(event_type="call")
    pears = [MemoryRecord(id=n, text="pear", kind="events", metadata=call) for n in "ab"]
    with ExitStack() as opened:
        if place == "postgresql":
            server = request.getfixturevalue("postgres_server")
            url = opened.enter_context(new_schema(server))
        async with open_memory(url) as store:
            await store.remember(pears)
            if place == "postgresql":
                import psycopg

                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute(damage)
            else:
                with closing(sqlite3.connect(file)) as db, db:
                    db.execute(damage)

            hits = await store.search("pear", filters=MemoryFilters(event_types=["call"]))

    assert [hit.record.id for hit in hits] == ["a"]
