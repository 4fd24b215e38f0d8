from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings

from context_assembler.stages.transform_messages import MessageTransformer, Transformed
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    EventBody,
    Provenance,
    SessionEvent,
    SystemBody,
    ToolCallBody,
    ToolResultBody,
    UserBody,
    assistant_event,
    system_event,
    user_event,
)
from context_assembler.values.messages import Message
from context_assembler.values.parts import Image, Text, ToolCall, ToolResult, UrlSource
from tests.shorthand import shown
from tests.strategies import broken_event_logs, event_logs


def user(text: str) -> UserBody:
    return UserBody(parts=(Text(text),))


def reply(text: str, *call_ids: str, response_id: str | None = None) -> AssistantBody:
    calls = tuple(ToolCall(call_id=call_id, name="look") for call_id in call_ids)
    return AssistantBody(parts=(Text(text), *calls), made_by=made_by(response_id))


def made_by(response_id: str | None, *, model: str = "claude-opus-5-5") -> Provenance | None:
    if response_id is None:
        return None
    return Provenance(provider="anthropic", model=model, response_id=response_id or None)


def call(call_id: str, *, response_id: str | None = None, model: str = "") -> ToolCallBody:
    source = made_by(response_id, model=model) if model else made_by(response_id)
    return ToolCallBody(call=ToolCall(call_id=call_id, name="look"), made_by=source)


def result(call_id: str, text: str = "found") -> ToolResultBody:
    return ToolResultBody(result=ToolResult(call_id=call_id, content=(Text(text),)))


def system(text: str) -> SystemBody:
    return SystemBody(parts=(Text(text),))


def summary(text: str, first_seq: int, last_seq: int, *excluded_ids: str) -> CompactionBody:
    return CompactionBody(
        summary=text, first_seq=first_seq, last_seq=last_seq, excluded_ids=excluded_ids
    )


def stored(*bodies: EventBody) -> list[SessionEvent]:
    return [SessionEvent(body=body, id=f"e{seq}", seq=seq) for seq, body in zip(count(1), bodies)]


def transform(*bodies: EventBody) -> Transformed:
    return MessageTransformer().transform(stored(*bodies))


LOGS: dict[str, tuple[list[EventBody], list[str]]] = {
    "one event, one message": (
        [user("a"), reply("b", "c1"), result("c1"), reply("d")],
        ["U a", "A[c1] b", "T[c1] found", "A d"],
    ),
    "calls join the reply before them": (
        [user("a"), reply("b"), call("c1"), call("c2"), result("c1"), result("c2")],
        ["U a", "A[c1 c2] b", "T[c1 c2] found|found"],
    ),
    "calls without a reply make one": (
        [user("a"), call("c1"), call("c2"), result("c1")],
        ["U a", "A[c1 c2]", "T[c1] found"],
    ),
    "a call behind something else makes a reply of its own": (
        [reply("a"), user("b"), call("c1")],
        ["A a", "U b", "A[c1]"],
    ),
    "a call behind results is the model's next step": (
        [user("a"), call("c1"), result("c1"), call("c2"), result("c2")],
        ["U a", "A[c1]", "T[c1] found", "A[c2]", "T[c2] found"],
    ),
    "a call behind results joins the response it is known to come from": (
        [
            user("a"),
            reply("b", response_id="r1"),
            call("c1", response_id="r1"),
            result("c1"),
            call("c2", response_id="r1"),
            result("c2"),
        ],
        ["U a", "A[c1 c2] b", "T[c1 c2] found|found"],
    ),
    "a call of another response makes a reply of its own": (
        [user("a"), reply("b", response_id="r1"), call("c1", response_id="r2")],
        ["U a", "A b", "A[c1]"],
    ),
    "a call of another model makes a reply of its own": (
        [user("a"), reply("b", response_id=""), call("c1", response_id="", model="gpt-5.5")],
        ["U a", "A b", "A[c1]"],
    ),
    "a call behind lost results begins a reply": (
        [result("c1"), call("c2")],
        ["T[c1] found", "A[c2]"],
    ),
    "a call at the very beginning begins a reply": ([call("c1")], ["A[c1]"]),
    "instructions in the middle stay there": (
        [user("a"), system("be brief"), reply("b")],
        ["U a", "S be brief", "A b"],
    ),
    "a summary stands where the first event it covers stood": (
        [user("a"), reply("b"), user("c"), reply("d"), summary("so far", 1, 2)],
        ["M so far", "U c", "A d"],
    ),
    "excluded events stay, and the summary stands behind the first of them": (
        [user("task"), reply("b"), user("c"), reply("d"), summary("so far", 1, 4, "e1", "e3")],
        ["U task", "M so far", "U c"],
    ),
    "what follows a compaction stands": (
        [user("a"), summary("so far", 1, 1), user("b")],
        ["M so far", "U b"],
    ),
    "a compaction covers nothing behind it": (
        [user("a"), summary("so far", 1, 9), user("b")],
        ["M so far", "U b"],
    ),
    "a compaction of nothing stands at its own place": (
        [user("a"), summary("nothing", 7, 9), user("b")],
        ["U a", "M nothing", "U b"],
    ),
    "a compaction of nothing but excluded events stands at its own place": (
        [user("a"), summary("nothing", 1, 1, "e1"), user("b")],
        ["U a", "M nothing", "U b"],
    ),
    "a later compaction covers an earlier summary with its event": (
        [user("a"), summary("one", 1, 1), user("b"), summary("two", 2, 3), user("c")],
        ["M two", "U c"],
    ),
    "a later compaction covers an earlier summary with all that it covered": (
        [user("a"), user("b"), user("c"), summary("one", 1, 2), summary("two", 1, 3)],
        ["M two"],
    ),
    "a later summary stands where the earlier one stood": (
        [user("a"), user("b"), summary("one", 1, 2, "e2"), user("c"), summary("two", 3, 4)],
        ["M two", "U b"],
    ),
    "an excluded summary stays": (
        [user("a"), summary("one", 1, 1), user("b"), summary("two", 1, 3, "e2")],
        ["M one", "M two"],
    ),
    "compactions side by side both stand": (
        [user("a"), user("b"), user("c"), summary("one", 1, 1), summary("two", 2, 2)],
        ["M one", "M two", "U c"],
    ),
    "calls on both sides of a compacted turn stay apart": (
        [call("c1"), user("x"), call("c2"), summary("so far", 2, 2, "e1", "e3")],
        ["A[c1]", "M so far", "A[c2]"],
    ),
    "calls around compacted results stay apart": (
        [user("a"), reply("b"), result("x"), call("c1"), summary("s", 1, 3, "e2")],
        ["M s", "A b", "A[c1]"],
    ),
}


@pytest.mark.parametrize(("bodies", "rows"), LOGS.values(), ids=LOGS.keys())
def test_events_become_messages(bodies: list[EventBody], rows: list[str]) -> None:
    transformed = transform(*bodies)

    assert shown(transformed.messages) == rows


def test_leading_instructions_are_the_sessions_own_prompt() -> None:
    transformed = transform(system("You book\0 flights."), system(" "), system("b"), user("a"))

    assert transformed.leading_system == ("You book flights.", "b")
    assert shown(transformed.messages) == ["U a"]


def test_leading_instructions_stay_messages_where_that_is_wanted() -> None:
    events = stored(system("You book flights."), user("a"))

    transformed = MessageTransformer(takes_leading_system=False).transform(events)

    assert transformed.leading_system == ()
    assert shown(transformed.messages) == ["S You book flights.", "U a"]


def test_a_leading_note_or_a_picture_is_not_the_sessions_prompt() -> None:
    picture = SystemBody(parts=(Image(source=UrlSource(url="https://example.com/a.png")),))

    assert transform(picture).leading_system == ()
    assert transform(SystemBody(parts=(Text("9:00"),), note="clock")).leading_system == ()


def test_a_session_of_instructions_alone_has_no_messages() -> None:
    assert transform(system("You book flights.")) == Transformed(
        messages=(), leading_system=("You book flights.",)
    )


def test_the_sessions_own_prompt_is_never_compacted() -> None:
    transformed = transform(system("You book flights."), user("a"), summary("so far", 1, 2))

    assert transformed.leading_system == ("You book flights.",)
    assert shown(transformed.messages) == ["M so far"]


def test_a_message_carries_what_the_event_knows() -> None:
    at = datetime(2026, 3, 28, 22, 30, tzinfo=UTC)
    source = Provenance(provider="anthropic", model="claude-opus-5-5")
    event = replace(assistant_event("ok", made_by=source, created_at=at), id="e7", seq=7)

    (message,) = MessageTransformer().transform([replace(event, is_pinned=True)]).messages

    assert message == Message(
        role="assistant",
        parts=(Text("ok"),),
        id="e7",
        seq=7,
        created_at=at,
        made_by=source,
        origin="model",
        is_pinned=True,
    )


def test_notes_and_summaries_say_so() -> None:
    events = [
        user_event("a"),
        system_event("9:00", note="clock"),
        SessionEvent(body=UserBody(parts=(Text("Continue."),), note="continue")),
        SessionEvent(body=summary("so far", 1, 1)),
    ]

    messages = MessageTransformer().transform(events).messages

    assert [(m.role, m.kind, m.note) for m in messages] == [
        ("user", "said", None),
        ("system", "note", "clock"),
        ("user", "note", "continue"),
        ("user", "summary", None),
    ]


def test_a_set_of_results_is_pinned_if_one_is() -> None:
    events = stored(user("a"), reply("b", "c1", "c2"), result("c1"), result("c2"))
    events[3] = replace(events[3], is_pinned=True)

    messages = MessageTransformer().transform(events).messages

    assert messages[2].is_pinned
    assert messages[2].id == "e3"


def test_events_are_read_by_their_numbers_and_new_ones_last() -> None:
    events = stored(user("a"), reply("b"), user("c"))

    shuffled = [user_event("new"), events[2], events[0], events[1], user_event("newer")]

    assert shown(MessageTransformer().transform(shuffled).messages) == [
        "U a",
        "A b",
        "U c",
        "U new",
        "U newer",
    ]


def test_a_compaction_that_is_not_stored_yet_covers_what_is() -> None:
    events = [*stored(user("a"), reply("b")), SessionEvent(body=summary("so far", 1, 2))]

    assert shown(MessageTransformer().transform(events).messages) == ["M so far"]


@given(events=event_logs)
@settings(max_examples=60, deadline=None)
def test_a_longer_log_only_adds_messages(events: list[SessionEvent]) -> None:
    spoken = [event for event in events if event.type != "compaction"]
    whole = MessageTransformer().transform(spoken).messages

    for end in (len(spoken) // 3, len(spoken) // 2, len(spoken) - 1):
        part = MessageTransformer().transform(spoken[:end]).messages

        assert part[:-1] == whole[: max(len(part) - 1, 0)]


@given(events=broken_event_logs)
@settings(max_examples=150, deadline=None)
def test_no_part_is_lost_unless_a_compaction_covers_it(events: list[SessionEvent]) -> None:
    spoken = [event for event in events if event.type != "compaction"]

    transformed = MessageTransformer(takes_leading_system=False).transform(spoken)

    sizes = sum(len(getattr(event.body, "parts", "1")) for event in spoken)
    assert sum(len(message.parts) for message in transformed.messages) == sizes


@given(events=broken_event_logs)
@settings(max_examples=100, deadline=None)
def test_any_log_can_be_read_and_reads_the_same_again(events: list[SessionEvent]) -> None:
    transformer = MessageTransformer()

    assert transformer.transform(events) == transformer.transform(list(events))


# What an imported system message has beside its text, and the row that tells what stays behind.
SETTINGS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "one": ({"anthropic": {"clear_at": "next_user_message"}}, ["without its clear_at."]),
    "two": (
        {"anthropic": {"output_config": {"effort": "low"}, "clear_at": "never"}},
        ["without its clear_at and output_config."],
    ),
    "none": ({"anthropic": {"clear_at": None}}, []),
    "another's": ({"openai_chat": {"clear_at": "x"}}, []),
}


@pytest.mark.parametrize(("metadata", "told"), SETTINGS.values(), ids=SETTINGS.keys())
def test_settings_of_an_imported_system_message_stay_behind_with_a_row(
    metadata: dict[str, Any], told: list[str]
) -> None:
    event = replace(system_event("Be brief."), id="evt_2", seq=2, metadata=metadata)

    asked = replace(user_event("hi"), id="evt_1", seq=1)

    done = MessageTransformer().transform([asked, event])

    assert [row.reason.removeprefix("Its text is sent ") for row in done.entries] == told
    assert {(row.id, row.rule) for row in done.entries} <= {("evt_2", "system.fields")}
    assert done.messages[-1].text == "Be brief."
