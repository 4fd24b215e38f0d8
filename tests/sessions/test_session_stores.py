"""One suite over every session store: order, isolation, atomic append, columns."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler import Opaque, Session, SessionEvent, Text, Thinking, ToolCall, user_event
from context_assembler.errors import (
    ConcurrentAppendError,
    ConfigurationError,
    DuplicateEventError,
    EventFormatError,
    InvalidParameterError,
    UnknownSessionError,
    UnknownStoreSchemeError,
)
from context_assembler.events import (
    KIND_MASK,
    NOTE,
    PINNED,
    REWIND,
    SIGNED,
    CallRow,
    Covers,
    Image,
    Provenance,
    UrlSource,
    Usage,
    assistant_event,
    system_event,
    tool_result_event,
)
from context_assembler.sessions import InMemoryStore, SqliteStore, SqlStore, open_store
from context_assembler.tokens import DEFAULT_FAMILIES, family_by_key

AT = datetime(2026, 5, 4, 9, 30, 0, 123457, tzinfo=UTC)


each_that_lasts = pytest.mark.parametrize("location", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
async def store(location: str) -> AsyncIterator[SqlStore]:
    opened = open_store(location)
    yield opened
    await opened.close()


async def load(store: SqlStore, session_id: str, after_seq: int = 0) -> list[SessionEvent]:
    return [event async for event in store.load(session_id, after_seq=after_seq)]


def texts(events: list[SessionEvent]) -> list[str]:
    return [event.text for event in events]


class CountsLetters:
    """A family of its own; `counted` are the kinds of the events that it has counted."""

    def __init__(self, key: str = "letters") -> None:
        self.key = key
        self.counted: list[int] = []

    def count_event(self, kind: int, body: dict[str, Any]) -> int:
        self.counted.append(kind)
        return sum(len(part.get("text", "")) for part in body["parts"] if part["type"] == "text")

    def count_reasoning(self, body: dict[str, Any]) -> int:
        return sum(len(part.get("text", "")) for part in body["parts"] if "block" in part)


# ---- events ----


async def test_events_come_back_in_order_with_ids_and_numbers(store: SqlStore) -> None:
    first = await store.append("trip", [user_event("hi", created_at=AT), assistant_event("yes")])
    second = await store.append("trip", [user_event("book it")])

    assert await load(store, "trip") == first + second
    assert [event.seq for event in first + second] == [1, 2, 3]
    assert [event.id for event in first + second] == ["evt_1", "evt_2", "evt_3"]
    assert [event.created_at for event in first] == [AT, None]


@pytest.mark.parametrize("after_seq", [-1, 0, 3, 5, 99, 2**70])
async def test_loading_starts_after_the_given_event(store: SqlStore, after_seq: int) -> None:
    await store.append("trip", [user_event(str(i)) for i in range(1, 6)])

    seqs = [event.seq for event in await load(store, "trip", after_seq)]

    assert seqs == [seq for seq in range(1, 6) if seq > after_seq]


async def test_append_compares_the_expected_number_before_it_swaps(store: SqlStore) -> None:
    await store.append("trip", [user_event("hi")], expected_seq=0)

    with pytest.raises(ConcurrentAppendError) as caught:
        await store.append("trip", [user_event("lost")], expected_seq=0)

    assert (caught.value.expected_seq, caught.value.actual_seq) == (0, 1)
    assert (await store.head("trip")).last_seq == 1


async def test_a_refused_append_that_somebody_keeps_holds_nothing_open(location: str) -> None:
    first = open_store(location)
    second = first if location == "memory:" else open_store(location)
    await first.append("trip", [user_event("hi")])
    with pytest.raises(ConcurrentAppendError) as kept:
        await first.append("trip", [user_event("lost")], expected_seq=0)

    for number, store in enumerate((second, first, second, first), 2):
        [stored] = await store.append("trip", [user_event(str(number))], expected_seq=number - 1)
        assert stored.seq == number
    assert kept.value.__traceback__ is not None
    await first.close()
    await second.close()


async def test_of_many_appends_with_one_expectation_one_wins(store: SqlStore) -> None:
    tries = [store.append("trip", [user_event(str(i))], expected_seq=0) for i in range(20)]

    outcomes = await asyncio.gather(*tries, return_exceptions=True)

    assert sum(isinstance(outcome, list) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ConcurrentAppendError) for outcome in outcomes) == 19


async def test_concurrent_appends_keep_their_events_together(store: SqlStore) -> None:
    batches = [[user_event(f"{i}"), assistant_event(f"{i}")] for i in range(25)]

    await asyncio.gather(*(store.append("trip", batch) for batch in batches))

    events = await load(store, "trip")
    assert [event.seq for event in events] == list(range(1, 51))
    assert texts(events[::2]) == texts(events[1::2])


async def test_an_empty_append_changes_nothing(store: SqlStore) -> None:
    assert await store.append("trip", []) == []
    with pytest.raises(UnknownSessionError):
        await store.head("trip")
    with pytest.raises(ConcurrentAppendError):
        await store.append("trip", [], expected_seq=3)


async def test_given_ids_are_kept_and_stay_unique(store: SqlStore) -> None:
    kept = await store.append("trip", [replace(user_event("hi"), id="mine"), user_event("x")])

    with pytest.raises(DuplicateEventError, match="'mine'"):
        await store.append("trip", [user_event("ok"), replace(user_event("hi"), id="mine")])
    with pytest.raises(DuplicateEventError, match="'twin'"):
        await store.append("trip", [replace(user_event("hi"), id="twin")] * 2)
    assert [event.id for event in kept] == ["mine", "evt_2"]
    assert (await store.head("trip")).last_seq == 2
    assert await store.append("other", [replace(user_event("hi"), id="mine")])


async def test_generated_ids_make_way_for_given_ones(store: SqlStore) -> None:
    given_ids = [replace(user_event("x"), id=name) for name in ("evt_3", "evt_3'", "evt_5")]
    await store.append("trip", given_ids[:2])

    kept = await store.append("trip", [user_event("three"), user_event("four"), given_ids[2]])

    assert [event.id for event in kept] == ["evt_3''", "evt_4", "evt_5"]


async def test_a_refused_append_names_the_event_and_leaves_nothing(store: SqlStore) -> None:
    bad = replace(user_event("bad"), id="mine", metadata={"x": float("nan")})

    with pytest.raises(
        EventFormatError, match=r"user event 'mine' \(number 2 of 2\) for .* stored"
    ):
        await store.append("trip", [user_event("good"), bad])

    with pytest.raises(UnknownSessionError):
        await store.head("trip")


BODIES: dict[str, SessionEvent] = {
    "text with halves of pairs and NULs": assistant_event("\ud83d \0"),
    "large numbers in foreign blocks": assistant_event(
        Opaque(provider="anthropic", block={"type": "server_tool_use", "n": 2**70}, text="x")
    ),
    "a call that was cut off": assistant_event(
        ToolCall(call_id="c1", name="f", arguments_json='{"a": ')
    ),
    "an error": tool_result_event("c1", "done", is_error=True, tool_name="f"),
    "a picture in a result": tool_result_event(
        "c1", [Image(source=UrlSource(url="http://x/a.png"))]
    ),
    "a note": system_event("It is noon.", note="clock"),
    "a note of the user's role": replace(user_event("go on"), note="continue"),
    "a pinned message": user_event("keep", is_pinned=True),
    "a compaction": SessionEvent(
        type="compaction",
        parts=(Text("short"), Opaque(provider="anthropic", block={"type": "compaction"})),
        origin="assembler",
        covers=Covers(first_seq=1, last_seq=4, excluded_ids=("evt_2",)),
    ),
    "a reply with all that is known of it": replace(
        assistant_event([Thinking(text="hm", provider="p", block={"signature": "s"}), Text("yes")]),
        answers_seq=7,
        metadata={"unfinished_calls": ["c"]},
        made_by=Provenance(
            provider="p", model="m", account="a", prefix="f0", usage=Usage(input_tokens=9)
        ),
    ),
}


@pytest.mark.parametrize("event", BODIES.values(), ids=BODIES.keys())
async def test_every_kind_of_event_comes_back_as_it_was(
    store: SqlStore, event: SessionEvent
) -> None:
    kept = await store.append("trip", [event])

    assert await load(store, "trip") == kept
    assert [replace(one, id="", seq=0) for one in kept] == [event]


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(batches=st.lists(st.lists(st.sampled_from(sorted(BODIES)), max_size=4), max_size=3))
async def test_whatever_is_appended_is_loaded(store: SqlStore, batches: list[list[str]]) -> None:
    await store.create(Session(id="law"))

    for batch in batches:
        await store.append("law", [BODIES[name] for name in batch])

    loaded = await load(store, "law")
    await store.delete("law")
    expected = [BODIES[name] for batch in batches for name in batch]
    assert [replace(event, id="", seq=0) for event in loaded] == expected


async def test_what_is_done_to_events_later_changes_no_session(store: SqlStore) -> None:
    metadata = {"tags": ["a"]}
    call = ToolCall(call_id="c1", name="look", arguments={"deep": {"list": [1]}})
    await store.append("trip", [replace(assistant_event(call), metadata=metadata)])

    metadata["tags"].append("b")
    [loaded] = await load(store, "trip")
    loaded.tool_calls[0].arguments["deep"]["list"].append(2)

    [again] = await load(store, "trip")
    assert again.metadata == {"tags": ["a"]}
    assert again.tool_calls[0].arguments == {"deep": {"list": [1]}}


# ---- sessions ----


async def test_a_session_keeps_its_record(store: SqlStore) -> None:
    session = Session(
        id="trip", agent_id="pilot", defaults={"model": "m"}, metadata={"n": [1]}, created_at=AT
    )

    await store.create(session)

    head = await store.head("trip")
    assert (head.session, head.last_seq) == (session, 0)
    assert await load(store, "trip") == []


async def test_a_session_that_events_begin_is_as_old_as_the_first_of_them(
    store: SqlStore,
) -> None:
    later = AT.replace(hour=11)
    await store.append("trip", [user_event("hi", created_at=AT), user_event("x", created_at=later)])
    await store.append("odd", [user_event("when?"), user_event("then", created_at=later)])
    await store.append("bare", [user_event("hi")])

    created = {head.session.id: head.session.created_at for head in await store.list_sessions()}

    assert created == {"trip": AT, "odd": later, "bare": None}


async def test_creating_again_replaces_the_record_and_keeps_the_events(store: SqlStore) -> None:
    await store.append("trip", [user_event("hi")])
    before = await store.head("trip")

    await store.create(Session(id="trip", agent_id="pilot"))

    head = await store.head("trip")
    assert (head.session.agent_id, head.last_seq) == ("pilot", 1)
    assert head.incarnation == before.incarnation
    assert head.version != before.version


async def test_sessions_are_listed_most_recently_created_last(store: SqlStore) -> None:
    await store.create(Session(id="b"))
    await store.append("a", [user_event("hi")])
    await store.create(Session(id="b", agent_id="again"))

    heads = await store.list_sessions()

    assert [(head.session.id, head.last_seq) for head in heads] == [("b", 0), ("a", 1)]


async def test_a_deleted_session_is_gone_and_its_id_begins_again(store: SqlStore) -> None:
    await store.append("trip", [user_event("hi"), user_event("there")])
    await store.append("other", [user_event("stays")])
    before = await store.head("trip")

    await store.delete("trip")

    with pytest.raises(UnknownSessionError):
        await store.head("trip")
    kept = await store.append("trip", [user_event("new")])
    assert [(event.seq, event.id) for event in kept] == [(1, "evt_1")]
    assert (await store.head("trip")).incarnation != before.incarnation
    assert len(await load(store, "other")) == 1


async def test_an_unknown_session_names_the_nearest(store: SqlStore) -> None:
    with pytest.raises(UnknownSessionError, match="The store is empty"):
        await load(store, "trip")
    await store.append("trip-42", [user_event("hi")])

    for asking in (store.head("trip-43"), load(store, "trip-43"), store.delete("trip-43")):
        with pytest.raises(UnknownSessionError, match="Did you mean 'trip-42'"):
            await asking


async def test_deleting_while_loading_ends_the_load(store: SqlStore) -> None:
    await store.append("trip", [user_event(str(i)) for i in range(1_000)])
    seen = 0

    async for event in store.load("trip"):
        if event.seq == 10:
            await store.delete("trip")
            await store.append("trip", [replace(event, id="", seq=0)] * 5)
        seen += 1

    assert 10 <= seen < 1_000
    assert (await store.head("trip")).last_seq == 5


async def test_closing_while_loading_changes_nothing(store: SqlStore) -> None:
    await store.append("trip", [user_event(str(i)) for i in range(1_000)])
    seen = 0

    async for event in store.load("trip"):
        if event.seq == 10:
            await store.close()
        seen += 1

    assert seen == 1_000


BAD_IDS = {"empty": "", "too long": "x" * 513, "NUL": "a\0b", "an unpaired surrogate": "a\ud800"}


@pytest.mark.parametrize("bad", BAD_IDS.values(), ids=BAD_IDS.keys())
async def test_ids_that_not_every_store_can_keep_are_refused(store: SqlStore, bad: str) -> None:
    with pytest.raises(InvalidParameterError, match="session_id must"):
        await store.append(bad, [user_event("hi")])
    with pytest.raises(InvalidParameterError):
        await store.create(Session(id=bad))
    if bad:
        with pytest.raises(InvalidParameterError, match="event id must"):
            await store.append("trip", [replace(user_event("hi"), id=bad)])


@pytest.mark.parametrize("session_id", ["x" * 512, "日本語 ✈", "a/b?c=d'\"--", " ", "%_"])
async def test_any_other_text_is_a_session_id(store: SqlStore, session_id: str) -> None:
    await store.append(session_id, [user_event("hi")])

    assert [head.session.id for head in await store.list_sessions()] == [session_id]


# ---- what the core reads ----


async def test_columns_hold_one_element_per_event(store: SqlStore) -> None:
    events = [*BODIES.values(), user_event("hi", created_at=AT)]
    await store.append("trip", events)

    columns = store.columns("trip", CountsLetters())

    by_name = dict(zip([*BODIES, "dated"], range(len(events)), strict=True))
    kinds = {name: columns.kinds[at] for name, at in by_name.items()}
    assert kinds["a pinned message"] & PINNED
    assert kinds["a note"] & 7 == kinds["a note of the user's role"] & 7 == NOTE
    assert kinds["a reply with all that is known of it"] & SIGNED
    assert columns.marks[by_name["a call that was cut off"]] == 1
    assert columns.answers[by_name["a reply with all that is known of it"]] == 7
    assert columns.created[-1] == AT.timestamp()
    assert columns.tokens[by_name["a pinned message"]] == len("keep")
    assert list(columns.reasoning).count(2) == 1
    assert {len(column) for column in (columns.marks, columns.tokens, columns.answers)} == {11}


@pytest.mark.parametrize("sizes", [[1], [256], [257], [255, 1, 1], [100, 300, 200], [1] * 40])
async def test_each_event_is_counted_once_however_it_came(
    store: SqlStore, sizes: list[int]
) -> None:
    family, numbers = CountsLetters(), iter(range(10_000))
    await store.append("trip", [user_event("")])
    store.columns("trip", family)
    for size in sizes:
        await store.append("trip", [user_event("x" * (next(numbers) % 9)) for _ in range(size)])

    after = [store.columns("trip", family, after_seq=seq).tokens for seq in (0, 1, 255, 256, 300)]

    expected = [0, *(number % 9 for number in range(sum(sizes)))]
    assert [list(one) for one in after] == [expected[seq:] for seq in (0, 1, 255, 256, 300)]
    assert len(family.counted) == 1 + sum(sizes)


@each_that_lasts
async def test_a_family_counts_once_in_a_file_that_another_family_counted(location: str) -> None:
    family = CountsLetters()
    async with open_store(location) as store:
        await store.append("trip", [user_event("one")])
        store.columns("trip", CountsLetters("letters of another version"))
    async with open_store(location) as store:
        store.columns("trip", family)
        await store.append("trip", [user_event("three")] * 20)

        assert list(store.columns("trip", family).tokens) == [3] + [5] * 20
        assert len(family.counted) == 21


@each_that_lasts
async def test_a_family_that_missed_events_catches_up(location: str) -> None:
    family = CountsLetters()
    async with open_store(location) as first, open_store(location) as second:
        await first.append("trip", [user_event("one")] * 300)
        first.columns("trip", family)
        await second.append("trip", [user_event("three")] * 250)
        await first.append("trip", [user_event("seven")] * 20)

        tokens = list(second.columns("trip", CountsLetters()).tokens)

        assert tokens == [3] * 300 + [5] * 270
        assert list(first.columns("trip", family, after_seq=290).tokens) == tokens[290:]


@each_that_lasts
async def test_what_was_appended_here_and_elsewhere_is_read_alike(location: str) -> None:
    family = family_by_key(DEFAULT_FAMILIES[0])
    assert family is not None
    async with open_store(location) as here, open_store(location) as there:
        for number, store in enumerate([here, here, there, here, there, here]):
            size = 70_000 if number == 3 else 7
            await store.append("trip", [user_event("word " * number), user_event("x" * size)])
            here.look("trip")
            last_seq = 2 * number + 2
            spans = [(1, 1), (last_seq - 1, last_seq)]
            for seq in range(last_seq):
                known = here.columns("trip", family, after_seq=seq, until_seq=last_seq)
                assert known == there.columns("trip", family, after_seq=seq)
            assert here.bodies("trip", spans) == there.bodies("trip", spans)

        await there.delete("trip")
        await there.append("trip", [user_event("anew")])
        here.look("trip")

        assert here.bodies("trip", [(1, 1)]) == there.bodies("trip", [(1, 1)])


@each_that_lasts
async def test_new_sessions_are_counted_for_the_common_models_at_append(location: str) -> None:
    async with open_store(location) as store:
        await store.append("trip", [user_event("Hello there")])

    async with open_store(location) as store:
        for key in DEFAULT_FAMILIES:
            family = family_by_key(key)
            assert family is not None
            silent = CountsLetters(key)
            [tokens] = store.columns("trip", silent).tokens
            assert tokens == family.count_event(
                0, {"parts": [{"type": "text", "text": "Hello there"}]}
            )
            assert silent.counted == []


async def test_bodies_and_rows_are_read_by_spans(store: SqlStore) -> None:
    await store.append("trip", [user_event(str(i), created_at=AT) for i in range(1, 8)])

    bodies = store.bodies("trip", [(6, 99), (2, 3), (9, 9)])

    assert [body["parts"][0]["text"] for body in bodies] == ["6", "7", "2", "3"]
    assert store.rows("trip", [(0, 1), (7, 7)]) == [
        (1, "evt_1", AT.timestamp()),
        (7, "evt_7", AT.timestamp()),
    ]


async def test_calls_are_kept_with_their_texts_and_what_they_learned(store: SqlStore) -> None:
    learned = {"key": "p m text c", "factor": 1.2}
    row = CallRow(provider="p", model="m", answers_seq=1, system_hash="h", created_at=AT)
    await store.append("trip", [user_event("hi")])
    store.append_now("trip", [assistant_event("yes")], call=row, texts={"h": "Be kind."})
    later = replace(row, factor=1.2, usage=Usage(input_tokens=7), details={"learned": learned})
    store.append_now("trip", [user_event("x"), assistant_event("no")], call=later)

    assert store.calls("trip") == [replace(row, reply_seq=2), replace(later, reply_seq=4)]
    assert store.calls("trip", after_seq=2) == [store.last_call("trip")]
    assert store.factors("trip", "m") == [(1, 1.0), (1, 1.2)]
    assert store.factors("trip", "another") == []
    assert store.learned("p m text c") == learned
    assert store.learned("p m tools c") is None
    assert (store.text("h"), store.text("i")) == ("Be kind.", None)


async def test_derived_forms_are_kept_by_purpose_and_go_with_their_session(
    store: SqlStore,
) -> None:
    await store.append("trip", [BODIES["a reply with all that is known of it"], user_event("hi")])
    version = (await store.head("trip")).version

    store.keep_derived("trip", "short", {1: {"a": 1}, 2: "x"})
    store.keep_derived("trip", "short", {2: "y"})
    store.keep_derived("nobody's", "short", {2: "y"})

    assert store.derived("trip", "short") == {1: {"a": 1}, 2: "y"}
    assert store.derived("trip", "short", after_seq=1) == {2: "y"}
    assert store.derived("trip", "signed") == {1: ["p", "m", "a", "f0"]}
    assert (await store.head("trip")).version == version
    await store.delete("trip")
    await store.append("trip", [user_event("again")])
    assert store.derived("trip", "short") == {}


# ---- other ways to go on ----


async def test_a_rewind_is_an_event_after_which_nothing_that_was_kept_of_the_session_holds(
    store: SqlStore,
) -> None:
    await store.append("trip", [user_event(str(number)) for number in range(3)])
    before = await store.head("trip")

    rewind = SessionEvent(type="rewind", answers_seq=1, origin="developer")
    [stored] = await store.append("trip", [rewind])
    columns, after = store.columns("trip", CountsLetters()), await store.head("trip")

    assert (columns.kinds[3] & KIND_MASK, columns.answers[3]) == (REWIND, 1)
    assert [event.text for event in await load(store, "trip")] == ["0", "1", "2", ""]
    assert (await load(store, "trip"))[-1] == stored == replace(rewind, id="evt_4", seq=4)
    assert after.incarnation != before.incarnation
    assert after.session.nonce == before.session.nonce
    await store.append("trip", [user_event("more")])
    assert (await store.head("trip")).incarnation == after.incarnation
    await store.append("trip", [rewind])
    assert (await store.head("trip")).incarnation not in (before.incarnation, after.incarnation)
    assert (await store.head("trip")).session.nonce == before.session.nonce


async def test_the_last_call_up_to_an_event_is_found(store: SqlStore) -> None:
    row = CallRow(provider="p", model="m")
    for answers in (1, 3):
        await store.append("trip", [user_event("hi")])
        call = replace(row, answers_seq=answers)
        store.append_now("trip", [assistant_event("yes")], call=call)

    found = [store.last_call("trip", until_seq=seq) for seq in (1, 2, 3, 4, 9)]

    assert [call and call.reply_seq for call in found] == [None, 2, 2, 4, 4]
    assert store.last_call("trip") == found[-1]


@pytest.mark.parametrize("at", [0, 1, 2, 100, 256, 299, 300])
async def test_a_fork_has_the_columns_calls_and_forms_up_to_its_point_and_counts_nothing(
    store: SqlStore, at: int
) -> None:
    family, learned = CountsLetters(), {"key": "p m", "factor": 2.0}
    reply = BODIES["a reply with all that is known of it"]
    call = CallRow(provider="p", model="m", answers_seq=1, details={"learned": learned})
    await store.append("trip", [user_event("hi", created_at=AT)])
    store.append_now("trip", [reply], call=call)
    newer = replace(call, answers_seq=2, details={"learned": {**learned, "factor": 3.0}})
    await store.append("trip", [replace(user_event("x" * n), id=f"n{n}") for n in range(297)])
    store.append_now("trip", [assistant_event("bye")], call=newer)
    counted = store.columns("trip", family)
    store.keep_derived("trip", "short", {0: "all", 1: "a", 2: "b", 300: "c"})
    parent, family.counted = await store.head("trip"), []

    new = Session(id="fork", agent_id="pilot", nonce=parent.session.nonce, created_at=AT)
    store.fork_now("trip", new, at=at)
    await store.delete("trip")

    head, columns = await store.head("fork"), store.columns("fork", family)
    assert (head.session, head.session.nonce, head.last_seq) == (new, parent.session.nonce, at)
    assert head.incarnation != parent.incarnation
    assert [*columns] == [column[:at] for column in counted]
    assert family.counted == []
    events = await load(store, "fork")
    ids = ["evt_1", "evt_2", *(f"n{n}" for n in range(297)), "evt_300"]
    assert [(event.seq, event.id) for event in events] == [*enumerate(ids[:at], 1)]
    made = [replace(call, reply_seq=2), replace(newer, reply_seq=300)]
    assert store.calls("fork") == [one for one in made if one.reply_seq <= at]
    assert [*store.derived("fork", "short", after_seq=-1)] == [n for n in (1, 2, 300) if n <= at]
    assert [*store.derived("fork", "signed")] == [2][: at // 2]
    assert store.learned("p m") is None  # as a session's calls taught it, it is gone with that
    await store.append("fork", [user_event("more")] * 300)
    assert list(store.columns("fork", family).tokens) == [*counted.tokens[:at], *[4] * 300]


async def test_a_fork_takes_no_id_of_another_session_and_needs_one_to_begin_with(
    store: SqlStore,
) -> None:
    await store.append("trip", [user_event("hi")])

    with pytest.raises(InvalidParameterError, match=r"no session.*another id"):
        store.fork_now("trip", Session(id="trip"), at=1)
    with pytest.raises(InvalidParameterError, match="session_id must"):
        store.fork_now("trip", Session(id=""), at=1)
    with pytest.raises(UnknownSessionError):
        store.fork_now("nobody's", Session(id="fork"), at=1)
    assert [head.session.id for head in await store.list_sessions()] == ["trip"]


# ---- retention ----


async def test_old_sessions_are_listed_first_and_deleted_if_asked(store: SqlStore) -> None:
    def at(days: int) -> datetime:
        return AT + timedelta(days=days)

    await store.create(Session(id="empty", created_at=at(1)))
    for name, begun, newest in (
        ("old", 0, 2),
        ("active", 0, 9),
        ("new", 9, None),
        ("without times of events", 1, None),
        ("without any time", None, None),
    ):
        await store.create(Session(id=name, created_at=None if begun is None else at(begun)))
        events = [user_event("hi", created_at=AT)] if newest else []
        last = user_event("bye", created_at=None if newest is None else at(newest))
        await store.append(name, [*events, last])
    await store.append("only events", [user_event("hi", created_at=at(1))])
    old = {"empty", "old", "without times of events", "only events"}

    listed = await store.prune(at(5))

    assert {head.session.id for head in listed} == old
    assert len(await store.list_sessions()) == 7
    assert await store.prune(at(5), deletes=True) == listed
    left = {head.session.id for head in await store.list_sessions()}
    assert left == {"active", "new", "without any time"}
    assert await store.prune(at(5), deletes=True) == []
    assert await load(store, "active")


# ---- opening ----

PATHS = {
    "a path relative to the current folder": ("sqlite:agent.db", Path("agent.db").absolute()),
    "an absolute path": ("sqlite:/var/lib/agent.db", Path("/var/lib/agent.db")),
    "an absolute path as a full URL": ("sqlite:///var/lib/agent.db", Path("/var/lib/agent.db")),
    "the home folder": ("sqlite:~/agent.db", Path.home() / "agent.db"),
    "signs that URLs would escape": ("sqlite:/a b%20c?d#e.db", Path("/a b%20c?d#e.db")),
    "four slashes, as SQLAlchemy's users write it": ("sqlite:////var/a.db", Path("/var/a.db")),
    "even more of them": ("sqlite://////var/a.db", Path("/var/a.db")),
    "one in the root of all": ("sqlite:////a.db", Path("/a.db")),
    "any case of the scheme": ("SQLite:agent.db", Path("agent.db").absolute()),
}


@pytest.mark.parametrize(("url", "path"), PATHS.values(), ids=PATHS.keys())
def test_a_sqlite_url_names_a_file(url: str, path: Path) -> None:
    assert open_store(url).path == path


@pytest.mark.parametrize("path", ["rel.db", "sub/rel.db", "./rel.db", "sub/../rel.db"])
def test_three_slashes_before_a_relative_path_are_refused_with_both_meanings(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigurationError, match="to SQLAlchemy") as caught:
        open_store(f"sqlite:///{path}")

    here, elsewhere = re.findall("'(sqlite:[^']+)'", caught.value.remedy)
    assert open_store(here).path == tmp_path / path
    assert open_store(elsewhere).path.is_relative_to("/")
    assert not open_store(elsewhere).path.is_relative_to(tmp_path)


@pytest.mark.parametrize("url", ["sqlite:a.db?timeout=3", "sqlite:///tmp/a.db?mode=ro&cache=x"])
def test_parameters_of_a_url_are_refused_with_the_way_to_set_them(url: str) -> None:
    with pytest.raises(ConfigurationError, match="busy_seconds"):
        open_store(url)


def test_a_path_is_a_sqlite_file_and_opening_touches_nothing(tmp_path: Path) -> None:
    assert open_store(tmp_path / "missing" / "agent.db").path == tmp_path / "missing" / "agent.db"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["memory:", "memory://", "sqlite::memory:", "sqlite:///:memory:"])
def test_a_store_in_memory_has_no_file(url: str) -> None:
    assert isinstance(open_store(url), InMemoryStore)
    assert SqliteStore(":memory:").path is None


BAD_STORES: dict[str, tuple[Any, type[Exception], str]] = {
    "an unknown scheme": ("redis:x", UnknownStoreSchemeError, "postgresql:, sqlite:"),
    "a misspelt scheme": ("sqlit:x", UnknownStoreSchemeError, "Did you mean 'sqlite'"),
    "a path without a scheme": ("./g.db", UnknownStoreSchemeError, "Did you mean 'sqlite:./g.db'"),
    "no file": ("sqlite:", ConfigurationError, "Write 'sqlite:FILE'"),
    "a host": ("sqlite://host/agent.db", ConfigurationError, "names no file"),
    "nothing": (None, ConfigurationError, "A NoneType is not a session store"),
}


@pytest.mark.parametrize(("given", "error", "words"), BAD_STORES.values(), ids=BAD_STORES.keys())
def test_what_is_no_store_is_refused_at_once(
    given: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        open_store(given)
