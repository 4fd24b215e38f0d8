"""What holds for every transcript format, over every row of `TRANSCRIPTS`."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from context_assembler.errors import TranscriptError
from context_assembler.ports import ReadTranscript, Transcript
from context_assembler.transcripts import TRANSCRIPTS, detect_transcript, read_transcript
from context_assembler.values.codec import dump_event, load_event
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    SessionEvent,
    ToolCallBody,
    ToolResultBody,
    UserBody,
    assistant_event,
    system_event,
    tool_result_event,
    user_event,
)
from context_assembler.values.parts import Text, ToolCall
from tests.event_strategies import events as any_events
from tests.event_strategies import json_values

every_format = pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS.keys())

TALK: tuple[SessionEvent, ...] = (
    user_event("Find me a flight."),
    assistant_event(
        (
            Text("Two searches."),
            ToolCall(call_id="c1", name="search", arguments={"to": "Graz"}),
            ToolCall(call_id="c2", name="search", arguments={"to": "上海"}),
        )
    ),
    tool_result_event("c1", "none"),
    tool_result_event("c2", (Text("one"), Text("two"))),
    assistant_event("One at nine. \ud83d \u2028 \0 <b>"),
    user_event("Book it."),
)

ROLES = st.sampled_from(["user", "assistant", "system", "tool", "function", "developer", "moon"])
BLOCK_TYPES = st.sampled_from(
    [
        "text",
        "image",
        "document",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "tool_result",
        "image_url",
        "file",
        "server_tool_use",
        None,
        7,
    ]
)
FIELDS = ["text", "source", "id", "name", "input", "content", "tool_use_id", "data", "signature"]
blocks = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4).flatmap(
    lambda fields: BLOCK_TYPES.map(lambda kind: {**fields, "type": kind})
)
contents = st.one_of(json_values, st.lists(st.one_of(blocks, json_values), max_size=3))
MESSAGE_FIELDS = ["tool_calls", "tool_call_id", "name", "function_call", "reasoning_details", "id"]


def _message(role: str, content: Any, fields: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


messages = st.builds(
    _message,
    ROLES,
    contents,
    st.dictionaries(st.sampled_from(MESSAGE_FIELDS), st.lists(blocks, max_size=2) | json_values),
)
ROW_TYPES = ["user", "assistant", "system", "attachment", "summary", "progress"]
IDS = st.sampled_from(["a", "b", "c", None, 3])


def _row(kind: str, message: Any, uuid: Any, parent: Any, extra: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "message": message, "uuid": uuid, "parentUuid": parent, **extra}


rows = st.builds(
    _row,
    st.sampled_from(ROW_TYPES),
    messages,
    IDS,
    IDS,
    st.dictionaries(
        st.sampled_from(
            ["subtype", "attachment", "isCompactSummary", "timestamp", "isSidechain", "content"]
        ),
        st.sampled_from(["compact_boundary", "local_command"]) | json_values,
    ),
)
sources: st.SearchStrategy[Any] = st.one_of(
    json_values,
    st.lists(messages, max_size=4),
    st.lists(messages, max_size=3).map(lambda held: {"messages": held, "tools": held}),
    st.lists(rows, max_size=5).map(lambda held: "\n".join(json.dumps(row) for row in held)),
    st.lists(messages, max_size=3).map(lambda held: "\r\n".join(json.dumps(m) for m in held)),
    st.text(max_size=40),
    st.binary(max_size=40),
)


@every_format
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(source=sources)
@example(source="[" * 100_000)
@example(source="9" * 5_000)
@example(source='{"messages": NaN}')
def test_any_source_is_read_or_refused_and_nothing_else(
    transcript: Transcript, source: Any
) -> None:
    with suppress(TranscriptError):
        events = transcript.read(source).events
        assert all(load_event(dump_event(event), where="it") == event for event in events)
        assert isinstance(transcript.write(events), str)
    assert transcript.matches(source) in {True, False}


@every_format
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events=st.lists(any_events, max_size=5))
def test_any_events_can_be_written(transcript: Transcript, events: list[SessionEvent]) -> None:
    written = transcript.write(events)

    assert written.encode() is not None


def bodies(read: ReadTranscript) -> list[Any]:
    return [event.body for event in read.events]


@every_format
def test_a_talk_survives_writing_and_reading(transcript: Transcript) -> None:
    written = transcript.write(TALK)

    read = transcript.read(written)

    assert detect_transcript(written).name == transcript.name
    assert read.issues == ()
    assert [body.result for body in bodies(read) if isinstance(body, ToolResultBody)] == [
        event.body.result for event in TALK if isinstance(event.body, ToolResultBody)
    ]
    assert [event.type for event in read.events] == [event.type for event in TALK]
    assert transcript.write(read.events) == written


@every_format
def test_a_call_logged_on_its_own_is_written_with_its_turn(transcript: Transcript) -> None:
    call = ToolCall(call_id="c1", name="f", arguments={})
    events = [
        user_event("go"),
        assistant_event("I will."),
        SessionEvent(body=ToolCallBody(call=call), origin="model"),
        tool_result_event("c1", "done", is_error=False),
    ]

    read = transcript.read(transcript.write(events))

    calls = [
        part.name
        for body in bodies(read)
        if isinstance(body, AssistantBody)
        for part in body.parts
        if isinstance(part, ToolCall)
    ]
    assert calls == ["f"]


@every_format
def test_a_compaction_is_written_as_what_stands(transcript: Transcript) -> None:
    summary = CompactionBody(summary="They looked for flights.", first_seq=1, last_seq=5)
    events = [*TALK[:5], SessionEvent(body=summary, origin="model"), TALK[5]]

    read = transcript.read(transcript.write(events))

    texts = json.dumps([json.loads(dump_event(event)) for event in read.events[-2:]])
    assert "They looked for flights." in texts
    assert "Book it." in texts
    kept_all = transcript.name == "claude_code"
    assert len(read.events) == (7 if kept_all else 2)


@every_format
@pytest.mark.parametrize(
    "source", ["", " \n ", "\ufeff", b"", "nonsense", "3", "null", 5, None, "{}"]
)
def test_what_is_no_transcript_is_refused_with_a_remedy(
    transcript: Transcript, source: Any
) -> None:
    with pytest.raises(TranscriptError) as caught:
        transcript.read(source, name="notes.txt")

    assert str(caught.value).startswith("notes.txt")
    assert caught.value.remedy
    assert not transcript.matches(source)


DISGUISES: dict[str, Callable[[str], Any]] = {
    "with a BOM": lambda text: "\ufeff" + text,
    "with CRLF": lambda text: text.replace("\n", "\r\n"),
    "as bytes": lambda text: text.encode(),
    "as bytes with a BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "as UTF-16": lambda text: text.encode("utf-16"),
    "with empty lines around it": lambda text: f"\n\n{text}\n\n",
}


@every_format
@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES.keys())
def test_the_file_s_encoding_does_not_matter(transcript: Transcript, disguise: Any) -> None:
    plain = transcript.write([user_event("héllo"), assistant_event("今天")])

    read = read_transcript(disguise(plain))

    assert read == transcript.read(plain)
    assert read.issues == ()


@every_format
def test_bytes_that_are_no_utf8_are_reported_and_the_rest_is_read(transcript: Transcript) -> None:
    written = transcript.write([user_event("caf\xe9"), assistant_event("ok")])

    read = transcript.read(written.encode("latin-1"))

    assert len(read.events) == 2
    assert read.issues[0].what == "bytes"
    assert isinstance(body := read.events[0].body, UserBody)
    assert body.parts == (Text("caf\ufffd"),)


@every_format
def test_instructions_are_written(transcript: Transcript) -> None:
    written = transcript.write([system_event("Be brief."), user_event("hi"), system_event("Now.")])

    assert "Be brief." in written
    assert "Now." in written
    assert len(transcript.read(written).events) == 3
