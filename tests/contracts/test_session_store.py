"""What holds for every session store, over every row of `SESSION_STORES`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler.errors import (
    ConcurrentAppendError,
    DuplicateEventError,
    EventFormatError,
    InvalidParameterError,
    UnknownSessionError,
)
from context_assembler.ports import (
    BatchStore,
    BeginningStore,
    CalibrationStore,
    CountStore,
    MarkedStore,
    SessionStore,
)
from context_assembler.sessions import SESSION_STORES, InMemoryStore, SqliteStore, open_store
from context_assembler.values.calibration import UsageObservation, learn
from context_assembler.values.events import (
    AssistantBody,
    EventBatch,
    Session,
    SessionEvent,
    UserBody,
    assistant_event,
    tool_result_event,
    user_event,
)
from context_assembler.values.parts import Opaque, Text, ToolCall
from context_assembler.values.resting_counts import RestingCount
from tests.event_strategies import new_events

LOCATIONS: dict[str, Callable[[Path], str]] = {
    "memory": lambda _folder: "memory:",
    "sqlite": lambda folder: f"sqlite:{folder / 'agent.db'}",
}
AT = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)


@pytest.fixture(params=SESSION_STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionStore]:
    opened = open_store(LOCATIONS[request.param](tmp_path))
    yield opened
    await opened.close()


async def load(store: SessionStore, session_id: str, after_seq: int = 0) -> list[SessionEvent]:
    return [event async for event in store.load(session_id, after_seq=after_seq)]


def said(event: SessionEvent) -> str:
    assert isinstance(event.body, UserBody | AssistantBody)
    assert isinstance(event.body.parts[0], Text)
    return event.body.parts[0].text


async def test_events_come_back_in_order_with_ids_and_numbers(store: SessionStore) -> None:
    first = await store.append("trip", [user_event("hi", created_at=AT), assistant_event("yes")])
    second = await store.append("trip", [user_event("book it")])

    assert await load(store, "trip") == first + second
    assert [event.seq for event in first + second] == [1, 2, 3]
    assert [event.id for event in first + second] == ["evt_1", "evt_2", "evt_3"]
    assert first[0].created_at == AT
    assert first[1].created_at is None


async def test_loading_starts_behind_the_given_event(store: SessionStore) -> None:
    await store.append("trip", [user_event(str(i)) for i in range(5)])

    assert [event.seq for event in await load(store, "trip", 3)] == [4, 5]
    assert await load(store, "trip", 5) == []
    assert await load(store, "trip", 99) == []
    assert await load(store, "trip", 2**70) == []
    assert len(await load(store, "trip", -1)) == 5


async def test_more_events_than_one_batch_load_in_order(store: SessionStore) -> None:
    await store.append("trip", [user_event(str(i)) for i in range(1_001)])

    assert [event.seq for event in await load(store, "trip")] == list(range(1, 1_002))


async def test_a_batch_has_the_events_of_a_range(store: SessionStore) -> None:
    assert isinstance(store, BatchStore)
    kept = await store.append("trip", [user_event(str(i)) for i in range(300)])

    batch = await store.read_batch("trip")

    assert batch.events == tuple(kept)
    assert batch.incarnation == (await store.head("trip")).incarnation
    assert (await store.read_batch("trip", after_seq=2, until_seq=4)).events == tuple(kept[2:4])
    assert (await store.read_batch("trip", after_seq=298)).events == tuple(kept[298:])
    assert (await store.read_batch("trip", after_seq=-1, until_seq=2**70)).events == tuple(kept)


async def test_an_empty_batch_still_names_its_session(store: SessionStore) -> None:
    assert isinstance(store, BatchStore)
    await store.append("trip", [user_event("hi")])
    incarnation = (await store.head("trip")).incarnation

    assert await store.read_batch("trip", after_seq=9) == EventBatch(
        events=(), incarnation=incarnation
    )
    assert (await store.read_batch("trip", until_seq=-1)).events == ()
    with pytest.raises(UnknownSessionError):
        await store.read_batch("nobody")


async def test_sessions_do_not_see_each_other(store: SessionStore) -> None:
    await store.append("a", [user_event("of a")])
    await store.append("b", [user_event("of b"), user_event("more of b")])

    assert len(await load(store, "a")) == 1
    assert (await store.head("b")).last_seq == 2


async def test_a_session_begun_again_is_another_incarnation(store: SessionStore) -> None:
    await store.append("trip", [user_event("hi")])
    first = await store.head("trip")
    await store.delete("trip")
    await store.append("trip", [user_event("hi")])

    second = await store.head("trip")

    assert first.incarnation
    assert first.incarnation != second.incarnation
    assert (await store.head("trip")).incarnation == second.incarnation


async def test_append_compares_the_expected_number_before_it_swaps(store: SessionStore) -> None:
    await store.append("trip", [user_event("hi")], expected_seq=0)

    with pytest.raises(ConcurrentAppendError) as caught:
        await store.append("trip", [user_event("lost")], expected_seq=0)

    assert (caught.value.expected_seq, caught.value.actual_seq) == (0, 1)
    assert (await store.head("trip")).last_seq == 1


async def test_of_many_appends_with_one_expectation_one_wins(store: SessionStore) -> None:
    tries = [store.append("trip", [user_event(str(i))], expected_seq=0) for i in range(20)]

    outcomes = await asyncio.gather(*tries, return_exceptions=True)

    assert sum(isinstance(outcome, list) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ConcurrentAppendError) for outcome in outcomes) == 19
    assert (await store.head("trip")).last_seq == 1


async def test_concurrent_appends_keep_their_events_together(store: SessionStore) -> None:
    batches = [[user_event(f"{i}"), assistant_event(f"{i}")] for i in range(25)]

    await asyncio.gather(*(store.append("trip", batch) for batch in batches))

    events = await load(store, "trip")
    assert [event.seq for event in events] == list(range(1, 51))
    assert [event.body for event in events[::2]] == [user_event(said(e)).body for e in events[::2]]
    assert [said(event) for event in events[::2]] == [said(event) for event in events[1::2]]


async def test_an_empty_append_changes_nothing(store: SessionStore) -> None:
    assert await store.append("trip", []) == []
    with pytest.raises(UnknownSessionError):
        await store.head("trip")
    with pytest.raises(ConcurrentAppendError):
        await store.append("trip", [], expected_seq=3)


async def test_given_ids_are_kept_and_stay_unique(store: SessionStore) -> None:
    kept = await store.append("trip", [replace(user_event("hi"), id="mine"), user_event("x")])

    with pytest.raises(DuplicateEventError, match="'mine'"):
        await store.append("trip", [user_event("ok"), replace(user_event("hi"), id="mine")])
    with pytest.raises(DuplicateEventError, match="'twin'"):
        await store.append("trip", [replace(user_event("hi"), id="twin")] * 2)
    assert [event.id for event in kept] == ["mine", "evt_2"]
    assert (await store.head("trip")).last_seq == 2
    assert await store.append("other", [replace(user_event("hi"), id="mine")])


async def test_generated_ids_make_way_for_given_ones(store: SessionStore) -> None:
    squatters = [replace(user_event("x"), id=name) for name in ("evt_3", "evt_3'", "evt_5")]
    await store.append("trip", squatters[:2])

    kept = await store.append("trip", [user_event("three"), user_event("four"), squatters[2]])

    assert [event.id for event in kept] == ["evt_3''", "evt_4", "evt_5"]
    assert [event.id for event in await store.append("trip", [user_event("six")])] == ["evt_6"]


async def test_a_refused_append_leaves_nothing_behind(store: SessionStore) -> None:
    bad = replace(user_event("bad"), metadata={"x": {1, 2}})

    with pytest.raises(EventFormatError, match="metadata"):
        await store.append("trip", [user_event("good"), bad])

    with pytest.raises(UnknownSessionError):
        await store.head("trip")


async def test_a_session_keeps_its_record(store: SessionStore) -> None:
    session = Session(
        id="trip", agent_id="pilot", defaults={"model": "m"}, metadata={"n": [1]}, created_at=AT
    )

    await store.create(session)

    head = await store.head("trip")
    assert head.session == session
    assert head.last_seq == 0
    assert await load(store, "trip") == []


async def test_a_session_that_events_begin_was_created_when_the_first_of_them_happened(
    store: SessionStore,
) -> None:
    later = AT.replace(hour=11)
    await store.append("trip", [user_event("hi", created_at=AT), user_event("x", created_at=later)])
    await store.append("trip", [user_event("again", created_at=later)])
    await store.append("odd", [user_event("when?"), user_event("then", created_at=later)])
    await store.append("bare", [user_event("hi")])
    await store.create(Session(id="made"))
    await store.append("made", [user_event("hi", created_at=AT)])

    created = {head.session.id: head.session.created_at for head in await store.list_sessions()}

    assert created == {"trip": AT, "odd": later, "bare": None, "made": None}


async def test_creating_again_replaces_the_record_and_keeps_the_events(
    store: SessionStore,
) -> None:
    await store.append("trip", [user_event("hi")])

    await store.create(Session(id="trip", agent_id="pilot"))

    head = await store.head("trip")
    assert (head.session.agent_id, head.last_seq) == ("pilot", 1)
    assert len(await load(store, "trip")) == 1


async def test_beginning_a_session_leaves_one_that_is_there_as_it_is(store: SessionStore) -> None:
    if not isinstance(store, BeginningStore):
        pytest.skip("this store offers no begin()")
    first = Session(id="trip", agent_id="pilot", defaults={"model": "m"})

    await store.begin(first)
    await store.append("trip", [user_event("hi")])
    await store.begin(Session(id="trip", agent_id="another"))

    head = await store.head("trip")
    assert (head.session, head.last_seq) == (first, 1)
    with pytest.raises(InvalidParameterError):
        await store.begin(Session(id=""))


async def test_sessions_are_listed_most_recently_created_last(store: SessionStore) -> None:
    await store.create(Session(id="b"))
    await store.append("a", [user_event("hi")])
    await store.create(Session(id="b", agent_id="again"))

    heads = await store.list_sessions()

    assert [(head.session.id, head.last_seq) for head in heads] == [("b", 0), ("a", 1)]


async def test_a_deleted_session_is_gone_and_its_id_begins_anew(store: SessionStore) -> None:
    await store.append("trip", [user_event("hi"), user_event("there")])
    await store.append("other", [user_event("stays")])

    await store.delete("trip")

    with pytest.raises(UnknownSessionError):
        await store.head("trip")
    kept = await store.append("trip", [user_event("new")])
    assert [(event.seq, event.id) for event in kept] == [(1, "evt_1")]
    assert len(await load(store, "other")) == 1


async def test_an_unknown_session_names_the_nearest(store: SessionStore) -> None:
    await store.append("trip-42", [user_event("hi")])

    with pytest.raises(UnknownSessionError, match="Did you mean 'trip-42'"):
        await store.head("trip-43")
    with pytest.raises(UnknownSessionError):
        await load(store, "trip-43")
    with pytest.raises(UnknownSessionError):
        await store.delete("trip-43")


async def test_an_empty_store_says_so(store: SessionStore) -> None:
    with pytest.raises(UnknownSessionError, match="The store is empty"):
        await load(store, "trip")
    assert await store.list_sessions() == []


async def test_deleting_while_loading_does_not_crash(store: SessionStore) -> None:
    await store.append("trip", [user_event(str(i)) for i in range(1_000)])
    seen = 0

    async for event in store.load("trip"):
        if event.seq == 10:
            await store.delete("trip")
            await store.append("trip", [replace(event, id="", seq=0)] * 5)
        seen += 1

    assert 10 <= seen <= 1_000
    assert (await store.head("trip")).last_seq == 5


async def test_closing_while_loading_does_not_crash(store: SessionStore) -> None:
    await store.append("trip", [user_event(str(i)) for i in range(1_000)])
    seen = 0

    async for event in store.load("trip"):
        if event.seq == 10:
            await store.close()
        seen += 1

    assert seen == 1_000


async def test_a_load_can_be_left_half_way(store: SessionStore) -> None:
    await store.append("trip", [user_event(str(i)) for i in range(1_000)])

    async for event in store.load("trip"):
        if event.seq == 3:
            break

    assert (await store.append("trip", [user_event("next")]))[0].seq == 1_001


async def test_what_a_caller_does_to_its_metadata_later_changes_nothing(
    store: SessionStore,
) -> None:
    metadata = {"tags": ["a"]}
    await store.append("trip", [replace(user_event("hi"), metadata=metadata)])

    metadata["tags"].append("b")

    assert (await load(store, "trip"))[0].metadata == {"tags": ["a"]}


async def test_calls_results_and_foreign_blocks_come_back_verbatim(store: SessionStore) -> None:
    events = [
        assistant_event(
            (
                Text("\ud83d \0"),
                Opaque(provider="anthropic", block={"type": "server_tool_use", "n": 2**70}),
                ToolCall(call_id="c1", name="f", arguments={}, arguments_json='{"a": '),
            )
        ),
        tool_result_event("c1", "done", is_error=True, tool_name="f"),
    ]

    kept = await store.append("trip", events)

    assert [event.body for event in await load(store, "trip")] == [event.body for event in events]
    assert await load(store, "trip") == kept


BAD_IDS = {
    "empty": "",
    "too long": "x" * 513,
    "with NUL": "a\0b",
    "with an unpaired surrogate": "a\ud800",
    "no text": 7,
}


@pytest.mark.parametrize("session_id", BAD_IDS.values(), ids=BAD_IDS.keys())
async def test_ids_that_not_every_store_can_keep_are_refused(
    store: SessionStore, session_id: str
) -> None:
    with pytest.raises(InvalidParameterError, match="session_id must"):
        await store.append(session_id, [user_event("hi")])
    with pytest.raises(InvalidParameterError):
        await store.create(Session(id=session_id))
    with pytest.raises(InvalidParameterError):
        await load(store, session_id)
    with pytest.raises(InvalidParameterError):
        await store.head(session_id)
    with pytest.raises(InvalidParameterError):
        await store.delete(session_id)


async def test_event_ids_follow_the_same_rule(store: SessionStore) -> None:
    with pytest.raises(InvalidParameterError, match="event id must"):
        await store.append("trip", [replace(user_event("hi"), id="\0")])


@pytest.mark.parametrize("session_id", ["x" * 512, "日本語 ✈", "a/b?c=d'\"--", " ", "%_"])
async def test_any_other_text_is_a_session_id(store: SessionStore, session_id: str) -> None:
    await store.append(session_id, [user_event("hi")])

    assert [head.session.id for head in await store.list_sessions()] == [session_id]
    assert len(await load(store, session_id)) == 1


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(batches=st.lists(st.lists(new_events, max_size=4), max_size=3))
async def test_whatever_is_appended_is_loaded(
    store: SessionStore, batches: list[list[SessionEvent]]
) -> None:
    await store.create(Session(id="law"))
    expected = [event for batch in batches for event in batch]

    kept = [event for batch in batches for event in await store.append("law", batch)]

    loaded = await load(store, "law")
    await store.delete("law")
    assert loaded == kept
    assert [replace(event, id="", seq=0) for event in loaded] == expected


async def test_a_store_is_an_asynchronous_context(tmp_path: Path) -> None:
    async with InMemoryStore() as store:
        await store.append("trip", [user_event("hi")])
    async with SqliteStore(tmp_path / "agent.db") as file_store:
        await file_store.append("trip", [user_event("hi")])

    assert (await store.head("trip")).last_seq == 1
    assert (await file_store.head("trip")).last_seq == 1
    await file_store.close()


async def test_an_event_that_cannot_be_stored_is_named_and_nothing_is_kept(
    store: SessionStore,
) -> None:
    call = ToolCall(call_id="c", name="f", arguments={"n": 10**5_000})
    batch = [user_event("hi"), replace(assistant_event(call), id="mine")]

    with pytest.raises(
        EventFormatError,
        match=r"assistant event 'mine' \(number 2 of 2\) for session 'trip' cannot be stored: "
        r"body\.parts\[0\]\.arguments: an integer has more than 4300 digits",
    ):
        await store.append("trip", batch)

    with pytest.raises(UnknownSessionError):
        await store.head("trip")


async def test_a_session_with_settings_that_are_no_json_is_refused_at_its_creation(
    store: SessionStore,
) -> None:
    with pytest.raises(EventFormatError, match=r"session 'trip' cannot be stored: defaults: set"):
        await store.create(Session(id="trip", defaults={"tools": {"a"}}))

    assert await store.list_sessions() == []


def usage_seen(ratio: float = 1.2, *, model: str = "m", shape: Any = "text") -> UsageObservation:
    return UsageObservation(
        provider="p",
        model=model,
        shape=shape,
        counter="c 1",
        counted_tokens=1_000,
        reported_tokens=round(1_000 * ratio),
    )


async def test_the_mark_moves_with_all_that_is_written(store: SessionStore) -> None:
    assert isinstance(store, MarkedStore)
    assert isinstance(store, CalibrationStore)
    await store.append("trip", [user_event("hi")])
    await store.head("trip")
    marks = [store.change_mark()]
    await store.head("trip")
    await load(store, "trip")
    assert store.change_mark() == marks[0]

    for write in (
        store.append("trip", [user_event("ho")]),
        store.create(Session(id="trip", agent_id="a")),
        store.observe_usage(usage_seen()),
        store.delete("trip"),
    ):
        await write
        marks.append(store.change_mark())

    assert None not in marks
    assert len(set(marks)) == len(marks)


async def test_what_usage_teaches_is_kept_by_model_and_shape(store: SessionStore) -> None:
    assert isinstance(store, CalibrationStore)
    assert list(await store.calibrations()) == []
    learned = None
    for ratio in (1.1, 1.2, 50.0, 1.3, 1.2):
        learned = learn(learned, usage_seen(ratio))
        assert await store.observe_usage(usage_seen(ratio)) == learned
    await store.observe_usage(usage_seen(model="n"))
    await store.observe_usage(usage_seen(shape="tools"))

    known = list(await store.calibrations())

    assert [(row.model, row.shape) for row in known] == [
        ("m", "text"),
        ("m", "tools"),
        ("n", "text"),
    ]
    assert known[0] == learned
    assert (known[0].refused, known[0].observations) == (1, 4)


async def test_calls_that_teach_at_once_are_all_believed(store: SessionStore) -> None:
    assert isinstance(store, CalibrationStore)

    await asyncio.gather(*(store.observe_usage(usage_seen()) for _ in range(20)))

    [known] = await store.calibrations()
    assert known.observations == 20


# ---- counts at rest ----


async def test_counts_are_kept_by_counter_and_go_with_their_session(store: SessionStore) -> None:
    assert isinstance(store, CountStore)
    counts = {1: RestingCount(1, 7), 2: RestingCount(2, 70)}
    await store.append("trip", [user_event("hi"), assistant_event("yes")])
    incarnation = (await store.head("trip")).incarnation

    await store.keep_counts("trip", counts, counter="a", incarnation=incarnation)
    await store.keep_counts("trip", {2: RestingCount(2, 71)}, counter="a", incarnation=incarnation)
    await store.keep_counts("trip", counts, counter="b", incarnation="of another one")

    assert await store.find_counts("trip", counter="a") == {**counts, 2: RestingCount(2, 71)}
    assert await store.find_counts("trip", counter="b") == {}
    assert await store.find_counts("nobody's", counter="a") == {}
    await store.delete("trip")
    await store.append("trip", [user_event("anew")])
    assert await store.find_counts("trip", counter="a") == {}


async def test_what_is_done_to_loaded_events_changes_no_session(store: SessionStore) -> None:
    call = ToolCall(call_id="c1", name="look", arguments={"path": "a", "deep": {"list": [1]}})
    await store.append("trip", [assistant_event([call])])

    async for event in store.load("trip"):
        for loaded in event.tool_calls:
            arguments: dict[str, Any] = dict(loaded.arguments)
            arguments["deep"]["list"].append(2)
            assert isinstance(loaded.arguments, dict)
            loaded.arguments.pop("path")

    [again] = await load(store, "trip")
    assert again.tool_calls == (call,)
