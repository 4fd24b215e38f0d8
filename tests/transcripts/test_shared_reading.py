"""What the formats read and write alike, and what once went wrong in one of them alone."""

from datetime import UTC, datetime
from typing import Any

import pytest

from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.transcripts.content_lists import join_entries, read_entries
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.unparsed_arguments import arguments_to_write
from context_assembler.values.events import (
    AssistantBody,
    SessionEvent,
    ToolResultBody,
    Usage,
    UserBody,
)
from context_assembler.values.native.anthropic_usage import read_usage
from context_assembler.values.parts import (
    Image,
    Json,
    JsonObject,
    Opaque,
    Part,
    Text,
    ToolCall,
    ToolResult,
    UrlSource,
)

CONTENTS: dict[str, tuple[Json, tuple[Part, ...], list[str]]] = {
    "a text": ("Hello.", (Text("Hello."),), []),
    "an empty text": ("", (), []),
    "nothing": (None, (), []),
    "texts and objects": (["a", {"type": "b"}], (Text("a"), Text("b")), []),
    "a number": (3, (), ["is neither text nor a list of entries (3); left out"]),
    "a number in the list": (["a", 3], (Text("a"),), ["is no entry (3); left out"]),
}
WRITTEN: dict[str, tuple[list[dict[str, Json] | None], Json]] = {
    "no entry": ([], ""),
    "an entry that another provider alone knows": ([None], ""),
    "one text": ([{"type": "text", "text": "a"}], "a"),
    "one text that is empty": ([{"type": "text", "text": ""}], [{"type": "text", "text": ""}]),
    "a text with a mark": (
        [{"type": "text", "text": "a", "x": 1}],
        [{"type": "text", "text": "a", "x": 1}],
    ),
    "text of another type": (
        [{"type": "output_text", "text": "a"}],
        [{"type": "output_text", "text": "a"}],
    ),
    "text that is none": ([{"type": "text", "text": 3}], [{"type": "text", "text": 3}]),
    "two texts": (
        [{"type": "text", "text": "a"}, None, {"type": "text", "text": "b"}],
        [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    ),
}
ARGUMENTS: dict[str, tuple[ToolCall, JsonObject]] = {
    "an object": (ToolCall(call_id="c", name="f", arguments={"a": 1}), {"a": 1}),
    "an empty one": (ToolCall(call_id="c", name="f", arguments_json="{}"), {}),
    "text that never was one": (
        ToolCall(call_id="c", name="f", arguments_json='{"a'),
        {"unparsed_arguments": '{"a'},
    ),
}


def named(entry: JsonObject, _spot: Spot, _log: IssueLog) -> Text:
    return Text(str(entry["type"]))


@pytest.mark.parametrize(("content", "parts", "reasons"), CONTENTS.values(), ids=CONTENTS.keys())
def test_content_is_text_or_a_list(
    content: Json, parts: tuple[Part, ...], reasons: list[str]
) -> None:
    log = IssueLog()

    read = read_entries(content, Spot(path="content"), log, read=named, one="entry", many="entries")

    assert read == parts
    assert [issue.reason for issue in log.found()] == reasons


@pytest.mark.parametrize(("entries", "content"), WRITTEN.values(), ids=WRITTEN.keys())
def test_a_lone_text_is_written_as_a_string(
    entries: list[dict[str, Json] | None], content: Json
) -> None:
    assert join_entries(entries, text_type="text") == content


@pytest.mark.parametrize(("call", "written"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_arguments_are_written_as_an_object(call: ToolCall, written: JsonObject) -> None:
    assert arguments_to_write(call) == written


def test_a_level_of_detail_that_is_no_word_is_reported() -> None:
    url = "https://example.com/a.png"
    picture: dict[str, Any] = {"type": "image_url", "image_url": {"url": url, "detail": {}}}

    read = TRANSCRIPTS["openai_chat"].read([{"role": "user", "content": [picture]}])

    assert [event.body for event in read.events] == [
        UserBody(parts=(Image(source=UrlSource(url=url)),))
    ]
    assert [issue.what for issue in read.issues] == ["messages[0].content[0].detail"]


def test_a_result_behind_a_block_without_a_type_is_a_message_of_its_own() -> None:
    nameless = Opaque(provider="anthropic", block={"text": "Hi."})
    events = [
        SessionEvent(body=UserBody(parts=(nameless,))),
        SessionEvent(body=ToolResultBody(result=ToolResult(call_id="t1"))),
    ]

    written = TRANSCRIPTS["anthropic"].write(events)

    read = TRANSCRIPTS["anthropic"].read(written)
    assert [type(event.body) for event in read.events] == [UserBody, ToolResultBody]


def test_times_of_every_format_are_read_in_utc() -> None:
    said = {"id": "1", "timestamp": "2026-11-27T12:00:00+02:00", "type": "user", "content": "Hi."}

    read = TRANSCRIPTS["gemini"].read({"sessionId": "s", "messages": [said]})

    [event] = read.events
    assert event.created_at == datetime(2026, 11, 27, 10, tzinfo=UTC)
    assert event.created_at is not None
    assert event.created_at.tzinfo is UTC


def test_a_count_that_is_none_counts_as_nothing() -> None:
    told = {"input_tokens": 3, "output_tokens": -1, "cache_read_input_tokens": "many"}

    assert read_usage(told) == Usage(input_tokens=3)


def test_thinking_tokens_of_a_reply_are_read_and_not_reported_as_left_out() -> None:
    usage = {"input_tokens": 1, "output_tokens_details": {"thinking_tokens": 5}}
    row: dict[str, Any] = {
        "type": "assistant",
        "uuid": "u1",
        "parentUuid": None,
        "message": {
            "id": "msg_1",
            "role": "assistant",
            "model": "claude-opus-5-5",
            "content": [{"type": "text", "text": "Hi."}],
            "usage": usage,
        },
    }

    read = TRANSCRIPTS["claude_code"].read([row])

    [event] = read.events
    assert isinstance(event.body, AssistantBody)
    assert event.body.made_by is not None
    assert event.body.made_by.usage == Usage(input_tokens=1, reasoning_tokens=5)
    assert read.issues == ()
