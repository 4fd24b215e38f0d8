"""Anthropic messages as events."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from context_assembler.errors import TranscriptError
from context_assembler.transcripts import TRANSCRIPTS, detect_transcript
from context_assembler.values.events import (
    AssistantBody,
    Container,
    Provenance,
    SessionEvent,
    SystemBody,
    ToolCallBody,
    ToolResultBody,
    Usage,
    UserBody,
)
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)

ANTHROPIC = TRANSCRIPTS["anthropic"]
SIGNED = {"type": "thinking", "thinking": "", "signature": "EqQB"}
REDACTED = {"type": "redacted_thinking", "data": "EmwK"}
CITED = {"type": "text", "text": "It is 12.", "citations": [{"type": "char_location"}]}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "s1",
    "content": [{"type": "web_search_result", "title": "A page", "url": "https://x.org"}],
}


def opaque(block: dict[str, Any], text: str = "") -> Opaque:
    return Opaque(provider="anthropic", block=block, text=text)


def source(**fields: Any) -> dict[str, Any]:
    return {"type": "image", "source": fields}


BLOCKS: dict[str, tuple[Any, Part]] = {
    "text": ({"type": "text", "text": "hi"}, Text("hi")),
    "text without citations": ({"type": "text", "text": "hi", "citations": None}, Text("hi")),
    "text with citations": (CITED, opaque(CITED, "It is 12.")),
    "a bare string": ("hi", Text("hi")),
    "an image inside": (
        source(type="base64", media_type="image/png", data="AA=="),
        Image(source=Base64Source(media_type="image/png", data="AA==")),
    ),
    "an image by URL": (
        source(type="url", url="https://x.org/a.png"),
        Image(source=UrlSource(url="https://x.org/a.png")),
    ),
    "an uploaded image": (
        source(type="file", file_id="file_1"),
        Image(source=FileIdSource(provider="anthropic", file_id="file_1")),
    ),
    "a document": (
        {
            "type": "document",
            "title": "spec",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
        },
        Document(source=Base64Source(media_type="application/pdf", data="JVBE"), title="spec"),
    ),
    "a document of text": (
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "é"}},
        Document(
            source=Base64Source(
                media_type="text/plain", data=base64.b64encode("é".encode()).decode()
            ),
            text="é",
        ),
    ),
    "signed thinking without text": (SIGNED, Thinking(provider="anthropic", block=SIGNED)),
    "redacted thinking": (REDACTED, Thinking(provider="anthropic", block=REDACTED)),
    "thinking that nobody signed": (
        {"type": "thinking", "thinking": "Hm.", "signature": ""},
        Thinking(text="Hm.", provider="anthropic"),
    ),
    "a call": (
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}},
        ToolCall(call_id="c1", name="f", arguments={"x": 1}),
    ),
    "a call without input": (
        {"type": "tool_use", "id": "c1", "name": "f"},
        ToolCall(call_id="c1", name="f"),
    ),
    "a call of a server tool": (SEARCH, opaque(SEARCH, '[web_search: {"query":"q"}]')),
    "what a server tool found": (FOUND, opaque(FOUND, "A page\nhttps://x.org")),
    "a block nobody knows": ({"type": "hologram", "z": 1}, opaque({"type": "hologram", "z": 1})),
}


@pytest.mark.parametrize(("block", "part"), BLOCKS.values(), ids=BLOCKS.keys())
def test_each_block_becomes_a_part_and_comes_back(block: Any, part: Part) -> None:
    read = ANTHROPIC.read([{"role": "assistant", "content": [block]}])

    assert read.events[0].body == AssistantBody(parts=(part,))
    assert read.issues == ()
    assert ANTHROPIC.read(ANTHROPIC.write(read.events)).events == read.events


DAMAGED: dict[str, tuple[dict[str, Any], str]] = {
    "text without text": ({"type": "text"}, "text is no text"),
    "a call without id": ({"type": "tool_use", "name": "f", "input": {}}, "id is no text"),
    "a call with a list": (
        {"type": "tool_use", "id": "c", "name": "f", "input": [1]},
        "input is no object",
    ),
    "a picture from nowhere": ({"type": "image"}, "source is missing"),
    "a picture of an unknown kind": (source(type="moon"), "unknown type 'moon'"),
    "redacted thinking without data": ({"type": "redacted_thinking"}, "data is no text"),
    "a document from elsewhere": (
        {"type": "document", "source": {"type": "cloud", "content": []}},
        "unknown type 'cloud'",
    ),
}


@pytest.mark.parametrize(("block", "reason"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_block_that_lacks_something_is_kept_verbatim_and_reported(
    block: dict[str, Any], reason: str
) -> None:
    read = ANTHROPIC.read([{"role": "user", "content": [block]}])

    body = read.events[0].body
    assert isinstance(body, UserBody)
    assert isinstance(body.parts[0], Opaque)
    assert body.parts[0].block == block
    assert reason in read.issues[0].reason
    assert read.issues[0].what == "messages[0].content[0]"


def test_arguments_that_are_text_keep_their_spelling() -> None:
    block = {"type": "tool_use", "id": "c1", "name": "f", "input": '{"a": '}

    read = ANTHROPIC.read([{"role": "assistant", "content": [block]}])

    assert read.events[0].body == AssistantBody(
        parts=(ToolCall(call_id="c1", name="f", arguments_json='{"a": '),)
    )
    assert read.issues[0].what == "messages[0].content[0].input"
    assert '"unparsed_arguments": "{\\"a\\": "' in ANTHROPIC.write(read.events)


RESULTS: dict[str, tuple[dict[str, Any], ToolResult]] = {
    "text": ({"content": "found"}, ToolResult(call_id="c1", content=(Text("found"),))),
    "nothing": ({}, ToolResult(call_id="c1")),
    "an empty list": ({"content": []}, ToolResult(call_id="c1")),
    "a failure": (
        {"content": "no", "is_error": True},
        ToolResult(call_id="c1", content=(Text("no"),), is_error=True),
    ),
    "blocks": (
        {
            "content": [
                {"type": "text", "text": "a"},
                source(type="url", url="u"),
                {"type": "tool_reference", "tool_name": "f"},
            ]
        },
        ToolResult(
            call_id="c1",
            content=(
                Text("a"),
                Image(source=UrlSource(url="u")),
                opaque({"type": "tool_reference", "tool_name": "f"}, "f"),
            ),
        ),
    ),
    "a block that has no place in a result": (
        {"content": [SIGNED]},
        ToolResult(call_id="c1", content=(opaque(SIGNED),)),
    ),
}


@pytest.mark.parametrize(("fields", "result"), RESULTS.values(), ids=RESULTS.keys())
def test_each_result_is_an_event_of_its_own(fields: dict[str, Any], result: ToolResult) -> None:
    block = {"type": "tool_result", "tool_use_id": "c1", **fields}

    read = ANTHROPIC.read([{"role": "user", "content": [block]}])

    assert [event.body for event in read.events] == [ToolResultBody(result=result)]
    assert ANTHROPIC.read(ANTHROPIC.write(read.events)).events == read.events


def test_results_and_text_in_one_message_become_results_and_then_a_user() -> None:
    content = [
        {"type": "text", "text": "also"},
        {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "two"},
    ]

    read = ANTHROPIC.read([{"role": "user", "content": content}])

    assert [event.type for event in read.events] == ["tool_result", "tool_result", "user"]
    assert [event.origin for event in read.events] == ["tool", "tool", "user"]
    written = json.loads(ANTHROPIC.write(read.events))["messages"]
    assert [len(message["content"]) for message in written] == [2, 1]


def test_a_request_brings_its_instructions_tools_and_settings() -> None:
    server_tool = {"type": "web_search_20250305", "name": "web_search"}
    tool = {"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": True}
    request: dict[str, Any] = {
        "model": "claude-opus-5-5",
        "max_tokens": 100,
        "system": [
            {"type": "text", "text": "a", "cache_control": {}},
            {"type": "text", "text": "b"},
        ],
        "tools": [{**tool, "defer_loading": True}, server_tool, {"type": "custom"}],
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "system", "content": "From now on, briefly."},
        ],
    }

    read = ANTHROPIC.read(json.dumps(request))

    assert read.events[0].body == SystemBody(parts=(Text("a"), Text("b")))
    assert read.events[2].body == SystemBody(parts=(Text("From now on, briefly."),))
    assert [tool.name for tool in read.tools] == ["f", "web_search"]
    assert read.tools[0].is_strict
    assert read.tools[1].native_specs == {"anthropic": server_tool}
    assert read.metadata == {"model": "claude-opus-5-5", "max_tokens": 100}
    assert [issue.what for issue in read.issues] == [
        "cache_control (1×)",
        "tools.defer_loading (1×)",
        "tools[2]",
    ]
    written = json.loads(ANTHROPIC.write(read.events))
    assert written["system"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert [message["role"] for message in written["messages"]] == ["user", "system"]


def test_a_system_prompt_of_plain_text_is_one_part() -> None:
    read = ANTHROPIC.read({"system": "Be brief.", "messages": []})

    assert [event.body for event in read.events] == [SystemBody(parts=(Text("Be brief."),))]


def test_a_reply_object_tells_where_it_came_from() -> None:
    reply = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": "yes"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "container": {"id": "k", "expires_at": "2026-11-27T12:00:00Z", "skills": None},
        "usage": {
            "input_tokens": 3,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 20,
            "output_tokens": 7,
            "output_tokens_details": {"thinking_tokens": 2},
            "server_tool_use": True,
        },
    }

    read = ANTHROPIC.read([{"role": "user", "content": "hi"}, reply])

    assert read.events[1].body == AssistantBody(
        parts=(Text("yes"),),
        made_by=Provenance(
            provider="anthropic",
            model="claude-opus-5-5",
            response_id="msg_1",
            stop_reason="end_turn",
            container=Container(id="k", expires_at=datetime(2026, 11, 27, 12, tzinfo=UTC)),
            usage=Usage(
                input_tokens=123,
                output_tokens=7,
                cache_read_tokens=100,
                cache_write_tokens=20,
                reasoning_tokens=2,
            ),
        ),
    )
    assert read.events[1].metadata == {"anthropic": {"container": reply["container"]}}
    assert detect_transcript([reply]).name == "anthropic"


def test_messages_that_cannot_be_read_are_reported_and_the_others_read() -> None:
    read = ANTHROPIC.read(
        [{"role": "tool", "content": "?"}, {"role": "user", "content": [5]}, {"role": "user"}]
    )

    assert [(issue.what, issue.reason.split(";")[0]) for issue in read.issues] == [
        ("messages[0].role", "'tool' is unknown"),
        ("messages[1].content[0]", "is no content block (5)"),
        ("messages[2]", "is a message without content"),
    ]
    assert len(read.events) == 2


def test_content_of_another_type_is_reported() -> None:
    read = ANTHROPIC.read([{"role": "user", "content": 7}])

    assert read.issues[0].reason.startswith("is neither text nor a list of blocks (7)")


def test_a_file_of_another_format_is_refused() -> None:
    with pytest.raises(TranscriptError, match="none of its messages can be read"):
        ANTHROPIC.read([{"role": "tool", "content": "x"}])


FOREIGN: dict[str, tuple[Part, list[dict[str, Any]]]] = {
    "another provider's block with text": (
        Opaque(provider="openai_chat", block={"type": "x"}, text="found 3"),
        [{"type": "text", "text": "found 3"}],
    ),
    "another provider's block without": (Opaque(provider="openai_chat", block={"type": "x"}), []),
    "another provider's image": (
        Image(source=FileIdSource(provider="openai_chat", file_id="f1")),
        [{"type": "text", "text": "[image: openai_chat file f1]"}],
    ),
    "another provider's document": (
        Document(source=FileIdSource(provider="openai_chat", file_id="f1"), title="t"),
        [{"type": "text", "text": "[document: openai_chat file f1]"}],
    ),
    "another provider's reasoning": (
        Thinking(text="Hm.", provider="openai_chat", block={"reasoning_details": []}),
        [{"type": "thinking", "thinking": "Hm.", "signature": ""}],
    ),
}


@pytest.mark.parametrize(("part", "blocks"), FOREIGN.values(), ids=FOREIGN.keys())
def test_what_this_format_cannot_say_is_written_as_text(
    part: Part, blocks: list[dict[str, Any]]
) -> None:
    written = json.loads(ANTHROPIC.write([SessionEvent(body=UserBody(parts=(part,)))]))

    assert written == {"messages": [{"role": "user", "content": blocks}]}


def test_a_call_logged_first_opens_a_message() -> None:
    call = ToolCall(call_id="c1", name="f")
    events = [SessionEvent(body=ToolCallBody(call=call))] * 2

    written = json.loads(ANTHROPIC.write(events))["messages"]

    assert [(message["role"], len(message["content"])) for message in written] == [("assistant", 2)]


SHAPES: dict[str, tuple[Any, str]] = {
    "plain text could be anybody's": ([{"role": "user", "content": "hi"}], "openai_chat"),
    "a request with system": ({"system": "a", "messages": []}, "anthropic"),
    "a request with its tools": (
        {"tools": [{"name": "f", "input_schema": {}}], "messages": [{"role": "user"}]},
        "anthropic",
    ),
    "a request for Claude": (
        {"model": "claude-opus-5-5", "max_tokens": 1, "messages": [{"role": "user"}]},
        "anthropic",
    ),
    "signed thinking": ([{"role": "assistant", "content": [SIGNED]}], "anthropic"),
    "calls as OpenAI has them": ([{"role": "assistant", "tool_calls": []}], "openai_chat"),
    "lines of messages": (
        '{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}\n{"role":"user"}',
        "anthropic",
    ),
}


@pytest.mark.parametrize(("given", "name"), SHAPES.values(), ids=SHAPES.keys())
def test_the_format_is_recognised_by_what_only_it_has(given: Any, name: str) -> None:
    assert detect_transcript(given).name == name


UNTYPED: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({"text": "x"}, "x"),
    "a list": ({"type": ["text"], "text": "x"}, "x"),
    "an empty one": ({"type": "", "z": 1}, ""),
}


@pytest.mark.parametrize(("block", "text"), UNTYPED.values(), ids=UNTYPED.keys())
def test_a_block_without_a_type_is_kept_and_reported(block: dict[str, Any], text: str) -> None:
    read = ANTHROPIC.read([{"role": "user", "content": [block]}])

    assert read.events[0].body == UserBody(parts=(opaque(block, text),))
    [issue] = read.issues
    assert issue.what == "messages[0].content[0].type"


UNSEALED: dict[str, dict[str, Any]] = {
    "a signature that is none": {"type": "thinking", "thinking": "x", "signature": True},
    "empty data": {"type": "redacted_thinking", "data": ""},
}


@pytest.mark.parametrize("block", UNSEALED.values(), ids=UNSEALED.keys())
def test_thinking_that_nobody_signed_is_no_thinking(block: dict[str, Any]) -> None:
    read = ANTHROPIC.read([{"role": "assistant", "content": [block]}])

    assert isinstance(read.events[0].parts[0], Opaque)
    assert "not interpreted" in read.issues[0].reason


ODD_TOOLS: dict[str, tuple[dict[str, Any], int]] = {
    "no schema": ({"name": "look"}, 1),
    "a schema that is none": ({"name": "look", "type": "custom", "input_schema": "x"}, 1),
    "a type that is none": ({"name": "look", "type": 7, "input_schema": {}}, 0),
}


@pytest.mark.parametrize(("spec", "count"), ODD_TOOLS.values(), ids=ODD_TOOLS.keys())
def test_a_tool_that_is_amiss_is_reported(spec: dict[str, Any], count: int) -> None:
    read = ANTHROPIC.read({"messages": [{"role": "user", "content": "a"}], "tools": [spec]})

    assert [(tool.name, dict(tool.native_specs)) for tool in read.tools] == [("look", {})] * count
    assert read.issues[0].what.startswith("tools[0]")
