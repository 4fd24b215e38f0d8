"""What a format wrote it reads, and writes again as it was."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given

from context_assembler.errors import TranscriptError
from context_assembler.transcripts import TRANSCRIPTS, read_transcript
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    EventBody,
    SessionEvent,
    SystemBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.parts import Text, ToolCall, ToolResult
from tests.strategies import event_logs

ASKED = UserBody(parts=(Text("Where is it?"),))
RULES = SystemBody(parts=(Text("Be brief."),))
CALL = ToolCall(call_id="", name="find", arguments={})
FOUND = ToolResult(call_id="", content=(Text("here"),))
SESSIONS: dict[str, list[EventBody]] = {
    "nothing": [],
    "its own system prompt": [RULES],
    "a system prompt and a question": [RULES, ASKED],
    "instructions on the way": [ASKED, RULES, ASKED],
    "a compaction": [ASKED, CompactionBody(summary="asked", first_seq=1, last_seq=1), ASKED],
    "a reply of nobody behind a compaction": [
        ASKED,
        CompactionBody(summary="asked", first_seq=1, last_seq=1),
        AssistantBody(parts=(Text("There."),)),
    ],
    "calls without ids": [
        ASKED,
        AssistantBody(parts=(CALL, replace(CALL, name="look"))),
        ToolResultBody(result=FOUND),
    ],
    "a result and words in one message": [
        ASKED,
        AssistantBody(parts=(replace(CALL, call_id="c1"),)),
        UserBody(parts=(replace(FOUND, call_id="c1"), Text("and more"))),
        AssistantBody(parts=(Text("Thanks."),)),
    ],
}


def again(name: str, text: str, *, is_told: bool = True) -> str:
    if not text:  # a file of lines that holds none: nothing tells what it would be
        return text
    read = read_transcript(text, format=name if is_told else None)
    return TRANSCRIPTS[name].write(read.events)


def events_of(bodies: Sequence[EventBody]) -> list[SessionEvent]:
    return [SessionEvent(body=body) for body in bodies]


@pytest.mark.parametrize("name", TRANSCRIPTS)
@pytest.mark.parametrize("session", SESSIONS)
def test_a_session_is_written_again_as_it_was(name: str, session: str) -> None:
    written = TRANSCRIPTS[name].write(events_of(SESSIONS[session]))

    assert again(name, written) == written


@pytest.mark.parametrize("name", TRANSCRIPTS)
@given(events=event_logs)
def test_any_session_is_written_again_as_it_was(name: str, events: list[SessionEvent]) -> None:
    written = TRANSCRIPTS[name].write(events)

    assert again(name, written) == written


@pytest.mark.parametrize("name", [name for name in TRANSCRIPTS if name != "claude_code"])
def test_a_session_without_events_is_known_for_one(name: str) -> None:
    written = TRANSCRIPTS[name].write([])

    assert read_transcript(written).events == ()


@pytest.mark.parametrize("name", ["gemini", "anthropic"])
def test_a_system_prompt_alone_is_known_for_a_session(name: str) -> None:
    written = TRANSCRIPTS[name].write(events_of([RULES]))

    assert again(name, written, is_told=False) == written


CODEX = [
    {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": "s"}},
    {
        "timestamp": "2026-01-01T00:00:00Z",
        "type": "response_item",
        "payload": {"type": "message", "role": "user", "content": "Hello."},
    },
]


def test_a_session_file_of_codex_is_refused_by_its_name() -> None:
    lines = "\n".join(map(json.dumps, CODEX))

    with pytest.raises(TranscriptError, match=r"Codex CLI.*response_item.*Known formats: "):
        read_transcript(lines)


def test_the_items_of_a_session_file_of_codex_are_read() -> None:
    items = [row["payload"] for row in CODEX if row["type"] == "response_item"]

    [event] = read_transcript("\n".join(map(json.dumps, items))).events

    assert event.parts == (Text("Hello."),)


@pytest.mark.parametrize(
    ("text", "told"),
    [("null", "null"), ("true", "true or false"), ("3", "a number"), ('"a"', "a text")],
)
def test_a_lone_value_is_refused_in_plain_words(text: str, told: str) -> None:
    with pytest.raises(TranscriptError, match=f"it holds {told} alone"):
        read_transcript(text)
