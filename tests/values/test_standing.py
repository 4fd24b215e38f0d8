"""Which events stand: one answer for requests and for exports."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.stages.transform_messages import MessageTransformer
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.events import (
    CompactionBody,
    SessionEvent,
    assistant_event,
    system_event,
    user_event,
)
from context_assembler.values.standing import shift_covers, with_numbers


def summary(text: str, first_seq: int, last_seq: int, *excluded_ids: str) -> SessionEvent:
    return SessionEvent(
        body=CompactionBody(
            summary=text, first_seq=first_seq, last_seq=last_seq, excluded_ids=excluded_ids
        )
    )


def stored(*events: SessionEvent) -> list[SessionEvent]:
    return [replace(event, id=f"e{seq}", seq=seq) for seq, event in enumerate(events, start=1)]


def sent(events: Sequence[SessionEvent]) -> list[str]:
    """Return the texts that a request carries, the session's own prompt first."""
    transformed = MessageTransformer().transform(events)
    return [*transformed.leading_system, *(message.text for message in transformed.messages)]


def exported(events: Sequence[SessionEvent]) -> list[str]:
    rows: list[dict[str, Any]] = json.loads(TRANSCRIPTS["openai_chat"].write(events))
    return [row["content"] for row in rows]


LOGS = {
    "nothing is compacted": ([user_event("a"), assistant_event("b")], ["a", "b"]),
    "what follows a compaction stands": (
        [user_event("a"), assistant_event("b"), summary("S", 1, 2), user_event("c")],
        ["S", "c"],
    ),
    "a compaction covers nothing behind it": (
        [user_event("a"), summary("S", 1, 9), user_event("b")],
        ["S", "b"],
    ),
    "the session's own prompt is never covered": (
        [system_event("be brief"), user_event("a"), summary("S", 1, 2), user_event("b")],
        ["be brief", "S", "b"],
    ),
    "the second of two compactions of one range replaces the first": (
        [user_event("a"), summary("S1", 1, 1), summary("S2", 1, 1), user_event("c")],
        ["S2", "c"],
    ),
    "compactions side by side both stand": (
        [user_event("a"), user_event("b"), summary("S1", 1, 1), summary("S2", 2, 2)],
        ["S1", "S2"],
    ),
    "what is excluded stands": (
        [user_event("a"), user_event("b"), summary("S", 1, 2, "e1")],
        ["a", "S"],
    ),
}


@pytest.mark.parametrize(("events", "texts"), LOGS.values(), ids=LOGS.keys())
def test_a_request_and_an_export_hold_the_same(
    events: list[SessionEvent], texts: list[str]
) -> None:
    log = stored(*events)

    assert sent(log) == texts
    assert exported(log) == texts


covers = st.tuples(st.integers(1, 12), st.integers(1, 12), st.sets(st.integers(1, 12), max_size=2))


@given(log=st.lists(st.none() | covers, max_size=12))
@settings(max_examples=150, deadline=None)
def test_a_request_and_an_export_hold_the_same_of_any_session(
    log: list[tuple[int, int, set[int]] | None],
) -> None:
    events = [
        user_event(f"U{place}")
        if cover is None
        else summary(f"S{place}", cover[0], cover[1], *(f"e{seq}" for seq in sorted(cover[2])))
        for place, cover in enumerate(log)
    ]

    assert sent(stored(*events)) == exported(stored(*events))


def test_a_reply_that_came_late_is_covered_by_its_own_number() -> None:
    asked, more, late, after = stored(
        user_event("a"), user_event("b"), assistant_event("late"), user_event("c")
    )
    log = [asked, more, replace(late, answers_seq=1), after]

    assert sent(log) == ["a", "late", "b", "c"]
    assert sent([*log, replace(summary("S", 1, 2), seq=5)]) == ["S", "late", "c"]
    assert exported([*log, replace(summary("S", 3, 3), seq=5)]) == ["a", "S", "b", "c"]


def test_events_of_a_transcript_count_from_one() -> None:
    events = [user_event("a"), summary("S", 1, 1), user_event("b")]

    assert exported(events) == ["S", "b"]
    assert sent(with_numbers(events)) == ["S", "b"]


def test_events_that_a_store_has_seen_keep_their_numbers() -> None:
    log = [*stored(user_event("a")), user_event("b")]

    assert with_numbers(log) == log


def test_a_transcript_that_goes_behind_a_session_covers_its_own_events() -> None:
    earlier = stored(user_event("old"), assistant_event("older"))
    events = [user_event("a"), summary("S", 1, 1), user_event("b")]

    moved = shift_covers(events, by=len(earlier))

    assert sent(stored(*earlier, *moved)) == ["old", "older", "S", "b"]


def test_many_compactions_of_a_long_session_are_no_burden() -> None:
    events: list[SessionEvent] = []
    while len(events) < 20_000:
        events += [user_event("a")] * 99
        events.append(summary("S", 1, len(events)))

    assert exported(stored(*events))[-1] == "S"


def test_nothing_answers_what_was_said_after_it() -> None:
    *events, asked = stored(user_event("one"), assistant_event("first"), user_event("two"))
    early = replace(events[1], answers_seq=30)

    assert sent([events[0], early, asked]) == ["one", "first", "two"]
