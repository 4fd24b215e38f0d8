"""Gemini contents as events, and events as Gemini contents."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from context_assembler.errors import TranscriptError
from context_assembler.ports import ReadTranscript
from context_assembler.transcripts import TRANSCRIPTS, detect_transcript, read_sessions
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    Provenance,
    SessionEvent,
    SystemBody,
    ToolCallBody,
    ToolResultBody,
    Usage,
    UserBody,
    assistant_event,
    system_event,
    tool_result_event,
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
from context_assembler.values.tools import ToolSpec

GEMINI = TRANSCRIPTS["gemini"]


def read(*contents: Any, **request: Any) -> ReadTranscript:
    return GEMINI.read({"contents": list(contents), **request})


def written(*events: SessionEvent) -> list[dict[str, Any]]:
    held: list[dict[str, Any]] = json.loads(GEMINI.write(events))["contents"]
    return held


def bodies(found: ReadTranscript) -> list[Any]:
    return [event.body for event in found.events]


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def call(name: str = "f", **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **fields}}


def response(name: str = "f", output: Any = "x", **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": output}, **fields}}


GO = user({"text": "go"})


def test_a_talk_is_read() -> None:
    found = read(
        GO,
        model({"text": "Hm.", "thought": True}, {"text": "Reading."}, call(id="c1")),
        user(response(id="c1"), {"text": "And?"}),
        systemInstruction={"parts": [{"text": "Be brief."}]},
    )

    assert bodies(found) == [
        SystemBody(parts=(Text("Be brief."),)),
        UserBody(parts=(Text("go"),)),
        AssistantBody(
            parts=(
                Thinking(text="Hm.", provider="gemini"),
                Text("Reading."),
                ToolCall(call_id="c1", name="f"),
            )
        ),
        ToolResultBody(result=ToolResult(call_id="c1", content=(Text("x"),))),
        UserBody(parts=(Text("And?"),)),
    ]
    assert [event.origin for event in found.events] == [
        "developer",
        "user",
        "model",
        "tool",
        "user",
    ]
    assert found.issues == ()


SPELLINGS: dict[str, Any] = {
    "a list of contents": [GO],
    "one content": GO,
    "a body": {"contents": [GO]},
    "keyword arguments of the SDK": {"model": "gemini-4-argon", "contents": [GO], "config": {}},
    "text for a content": {"contents": [GO, "again"]},
    "a lone part": {"contents": [{"role": "user", "parts": {"text": "go"}}]},
    "parts of text": {"contents": [{"parts": ["go"]}]},
    "one content per line": json.dumps(GO) + "\n" + json.dumps(GO),
    "a request on a line": json.dumps({"contents": [GO]}) + "\n",
}


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_contents_are_found_in(source: Any) -> None:
    found = GEMINI.read(source)

    assert bodies(found)[0] == UserBody(parts=(Text("go"),))
    assert found.issues == ()
    assert GEMINI.matches(source)


def test_what_stands_around_the_contents_is_kept_or_read() -> None:
    instruction: dict[str, Any] = {
        "system_instruction": "Be brief.",
        "temperature": 0.5,
        "tools": [{"f": {}}],
    }

    sdk = GEMINI.read({"model": "gemini-4-argon", "contents": [GO], "config": instruction})
    body = read(GO, generationConfig={"temperature": 0.5})

    assert bodies(sdk)[0] == SystemBody(parts=(Text("Be brief."),))
    assert sdk.metadata == {"model": "gemini-4-argon", "config": {"temperature": 0.5}}
    assert len(sdk.tools) == 1
    assert body.metadata == {"generation_config": {"temperature": 0.5}}


NO_TRANSCRIPTS: dict[str, tuple[Any, str]] = {
    "a list of something else": ([1, 2], "its list holds no contents"),
    "an object without contents": ({"messages": []}, "it holds no list of contents"),
    "lines of something else": ('{"a":1}\n{"b":2}', "its lines hold no contents"),
    "several requests": ([{"contents": [GO]}, {"contents": [GO]}], "it holds 2 sessions"),
    "several requests on lines": (
        json.dumps({"contents": [GO]}) + "\n" + json.dumps({"contents": [GO]}),
        "it holds 2 sessions",
    ),
}


@pytest.mark.parametrize(("source", "reason"), NO_TRANSCRIPTS.values(), ids=NO_TRANSCRIPTS.keys())
def test_what_holds_no_contents_is_refused(source: Any, reason: str) -> None:
    with pytest.raises(TranscriptError, match=reason):
        GEMINI.read(source)

    assert not GEMINI.matches(source)


def test_several_requests_are_several_sessions() -> None:
    source = "\n".join(json.dumps({"request": {"contents": [GO]}, "id": name}) for name in "ab")

    assert [name for name, _ in read_sessions(source)] == ["a", "b"]


UNREADABLE: dict[str, tuple[Any, str]] = {
    "an unknown role": ({"role": "moon", "parts": []}, "contents[1].role"),
    "a content that is none": (5, "contents[1]"),
    "parts that are none": ({"role": "user", "parts": 5}, "contents[1].parts"),
    "a part that is none": ({"role": "user", "parts": [5]}, "contents[1].parts[0]"),
}


@pytest.mark.parametrize(("content", "where"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_reported(content: Any, where: str) -> None:
    found = read(GO, content)

    assert [issue.what for issue in found.issues] == [where]


# ---- parts ----

PNG = Base64Source(media_type="image/png", data="+/8=")
PARTS: dict[str, tuple[dict[str, Any], Part]] = {
    "signed text": ({"text": "x", "thoughtSignature": "s"}, Text("x", signature="s")),
    "a signature on nothing": (
        {"text": "", "thoughtSignature": "s"},
        Thinking(provider="gemini", block={"text": "", "thoughtSignature": "s"}),
    ),
    "a signed thought": (
        {"text": "x", "thought": True, "thoughtSignature": "s"},
        Thinking(
            text="x",
            provider="gemini",
            block={"text": "x", "thought": True, "thoughtSignature": "s"},
        ),
    ),
    "a signed call": (
        {"functionCall": {"id": "c1", "name": "f", "args": {"aB": 1}}, "thoughtSignature": "s"},
        ToolCall(call_id="c1", name="f", arguments={"aB": 1}, signature="s"),
    ),
    "a picture": ({"inlineData": {"mimeType": "image/png", "data": "+/8="}}, Image(source=PNG)),
    "a picture at an address": (
        {"fileData": {"fileUri": "https://example.com/a", "mimeType": "image/png"}},
        Image(source=UrlSource(url="https://example.com/a", media_type="image/png")),
    ),
    "a PDF": (
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}},
        Document(source=Base64Source(media_type="application/pdf", data="JVBERi0=")),
    ),
    "text in a file": (
        {"inlineData": {"mimeType": "text/plain", "data": "aGk="}},
        Document(source=Base64Source(media_type="text/plain", data="aGk="), text="hi"),
    ),
    "text that is no text": (
        {"inlineData": {"mimeType": "text/plain", "data": "/w=="}},
        Document(source=Base64Source(media_type="text/plain", data="/w==")),
    ),
    "text at an address": (
        {"fileData": {"fileUri": "https://example.com/a", "mimeType": "text/csv"}},
        Document(source=UrlSource(url="https://example.com/a", media_type="text/csv")),
    ),
    "a film": (
        {"fileData": {"fileUri": "https://youtu.be/x", "mimeType": "video/mp4"}},
        Opaque(
            provider="gemini",
            block={"fileData": {"fileUri": "https://youtu.be/x", "mimeType": "video/mp4"}},
            text="[video/mp4 https://youtu.be/x]",
        ),
    ),
    "a file in Google's storage": (
        {"fileData": {"fileUri": "gs://a/b.png", "mimeType": "image/png"}},
        Opaque(
            provider="gemini",
            block={"fileData": {"fileUri": "gs://a/b.png", "mimeType": "image/png"}},
            text="[image/png gs://a/b.png]",
        ),
    ),
    "a picture with a name": (
        {"inlineData": {"mimeType": "image/png", "data": "QQ==", "displayName": "a.png"}},
        Opaque(
            provider="gemini",
            block={"inlineData": {"mimeType": "image/png", "data": "QQ==", "displayName": "a.png"}},
            text="[image/png a.png]",
        ),
    ),
    "a result of a server tool": (
        {"toolResponse": {"toolType": "URL_CONTEXT", "response": {"a": 1}}},
        Opaque(
            provider="gemini",
            block={"toolResponse": {"toolType": "URL_CONTEXT", "response": {"a": 1}}},
            text='[tool_response URL_CONTEXT {"a":1}]',
        ),
    ),
    "text with more to it": (
        {"text": "x", "partMetadata": {"a": 1}},
        Text("x", extras={"gemini": {"partMetadata": {"a": 1}}}),
    ),
    "a thought with more to it": (
        {"text": "x", "thought": True, "partMetadata": {"a": 1}},
        Thinking(text="x", provider="gemini", extras={"gemini": {"partMetadata": {"a": 1}}}),
    ),
    "a call with more to it": (
        {"functionCall": {"id": "c1", "name": "f", "args": {}, "new": 1}, "partMetadata": {"a": 1}},
        ToolCall(
            call_id="c1",
            name="f",
            extras={"gemini": {"partMetadata": {"a": 1}, "function_call": {"new": 1}}},
        ),
    ),
}


@pytest.mark.parametrize(("spelled", "part"), PARTS.values(), ids=PARTS.keys())
def test_a_part_is_read_and_written(spelled: dict[str, Any], part: Part) -> None:
    found = read(model(spelled))

    assert found.events[0].parts == (part,)
    assert written(*found.events) == [model(spelled)]


def test_the_sdk_s_spelling_and_alphabet_are_read() -> None:
    part = {"inline_data": {"mime_type": "image/png", "data": "-_8"}}

    assert read(user(part)).events[0].parts == (Image(source=PNG),)


WRITTEN: dict[str, tuple[Part, list[dict[str, Any]]]] = {
    "another provider's thought": (
        Thinking(text="Hm.", provider="anthropic", block={"type": "thinking"}),
        [{"text": "Hm.", "thought": True}],
    ),
    "another provider's hidden thought": (
        Thinking(provider="anthropic", block={"type": "redacted_thinking", "data": "x"}),
        [],
    ),
    "another provider's block": (
        Opaque(provider="anthropic", block={"type": "x"}, text="found"),
        [{"text": "found"}],
    ),
    "another provider's silent block": (Opaque(provider="anthropic", block={"type": "x"}), []),
    "sources, which are no part": (
        Opaque(provider="gemini", block={"groundingMetadata": {}}, text="x"),
        [],
    ),
    "an own file": (
        Image(source=FileIdSource(provider="gemini", file_id="files/1")),
        [{"fileData": {"fileUri": "files/1"}}],
    ),
    "another provider's file": (
        Document(source=FileIdSource(provider="openai", file_id="file-1")),
        [{"text": "[document: openai file file-1]"}],
    ),
    "an address without a type": (
        Image(source=UrlSource(url="https://example.com/a")),
        [{"fileData": {"fileUri": "https://example.com/a"}}],
    ),
    "arguments that were cut off": (
        ToolCall(call_id="c1", name="f", arguments_json='{"a'),
        [{"functionCall": {"id": "c1", "name": "f", "args": {"unparsed_arguments": '{"a'}}}],
    ),
}


@pytest.mark.parametrize(("part", "spelled"), WRITTEN.values(), ids=WRITTEN.keys())
def test_a_part_is_written_as(part: Part, spelled: list[dict[str, Any]]) -> None:
    assert written(assistant_event(part)) == [model(*spelled)]


# ---- calls and responses ----


def test_calls_without_ids_are_told_by_their_places_and_written_without() -> None:
    contents = [
        GO,
        model(call("f"), call("g"), call("f")),
        user(response("f", "1"), response("g", "2"), response("f", "3")),
        model(call("f")),
        user(response("f", "4")),
    ]

    found = read(*contents)

    results = [body.result for body in bodies(found) if isinstance(body, ToolResultBody)]
    assert [(result.call_id, result.text) for result in results] == [
        ("gemini_call_1", "1"),
        ("gemini_call_2", "2"),
        ("gemini_call_3", "3"),
        ("gemini_call_4", "4"),
    ]
    assert all(result.tool_name is None for result in results)
    assert written(*found.events) == contents


def test_a_response_of_another_name_answers_the_oldest_call_and_keeps_its_name() -> None:
    contents = [GO, model(call("f")), user(response("5d31", "x"))]

    found = read(*contents)

    assert bodies(found)[2].result == ToolResult(
        call_id="gemini_call_1", content=(Text("x"),), tool_name="5d31"
    )
    assert written(*found.events) == contents


def test_a_response_that_answers_nothing_is_read() -> None:
    found = read(user(response("f"), response("g", id="c7")))

    ids = [body.result.call_id for body in bodies(found)]
    assert ids == ["gemini_call_1", "c7"]
    assert [body.result.tool_name for body in bodies(found)] == ["f", "g"]


def test_responses_in_contents_of_their_own_are_put_together() -> None:
    contents = [
        GO,
        model(call("f"), call("g")),
        {"role": "function", "parts": [response("f")]},
        user(response("g")),
    ]

    assert written(*read(*contents).events)[2:] == [user(response("f"), response("g"))]


RESPONSES: dict[str, tuple[Any, tuple[Text, ...], bool, Any]] = {
    "output": ({"output": "x"}, (Text("x"),), False, {"output": "x"}),
    "an error": ({"error": "x"}, (Text("x"),), True, {"error": "x"}),
    "an error that is an object": ({"error": {"a": 1}}, (Text('{"a":1}'),), True, None),
    "nothing": ({}, (), False, {"output": ""}),
    "no output": ({"output": None}, (), False, {"output": ""}),
    "several texts": ({"output": ["a", "b"]}, (Text("a"), Text("b")), False, None),
    "another object": ({"result": 5}, (Text('{"result":5}'),), False, None),
    "output and more": ({"output": "a", "b": 1}, (Text('{"output":"a","b":1}'),), False, None),
    "an object as output": ({"output": {"a": 1}}, (Text('{"a":1}'),), False, {"a": 1}),
    "a number as output": ({"output": 5}, (Text("5"),), False, {"output": "5"}),
    "text for an object": ("x", (Text("x"),), False, {"output": "x"}),
    "the text of an error": (
        {"output": '{"error":"x"}'},
        (Text('{"error":"x"}'),),
        False,
        None,
    ),
}


@pytest.mark.parametrize(
    ("given", "content", "is_error", "normal"), RESPONSES.values(), ids=RESPONSES.keys()
)
def test_a_response_is_text_and_comes_back_in_normal_form(
    given: Any, content: tuple[Text, ...], is_error: bool, normal: Any
) -> None:
    part = {"functionResponse": {"id": "c1", "name": "f", "response": given}}

    found = read(model(call(id="c1")), user(part))
    again = written(*found.events)

    expected = ToolResult(call_id="c1", content=content, is_error=is_error)
    assert bodies(found)[1].result == expected
    assert again[1]["parts"][0]["functionResponse"]["response"] == (normal or given)
    assert bodies(read(*again)) == bodies(found)


def test_media_in_a_response_come_back() -> None:
    inner = [
        {"inlineData": {"mimeType": "image/png", "data": "QQ=="}},
        {"inlineData": {"mimeType": "audio/wav", "data": "QQ=="}},
    ]
    contents = [model(call(id="c1")), user(response(id="c1", parts=inner))]

    found = read(*contents)

    kinds = [type(part).__name__ for part in bodies(found)[1].result.content]
    assert kinds == ["Text", "Image", "Opaque"]
    assert written(*found.events) == contents


def test_another_provider_s_block_in_a_result_is_its_text() -> None:
    blocks = (
        Opaque(provider="anthropic", block={"type": "x"}, text="found"),
        Opaque(provider="anthropic", block={"type": "y"}),
    )

    made = written(tool_result_event("c1", blocks))

    assert made == [user(response("unknown", "found", id="c1"))]


def test_what_else_a_response_says_comes_back() -> None:
    said = response(id="c1", scheduling="SILENT", willContinue=False)
    contents = [model(call(id="c1")), user({**said, "partMetadata": {"a": 1}})]

    found = read(*contents)

    assert bodies(found)[1].result.extras == {
        "gemini": {
            "partMetadata": {"a": 1},
            "function_response": {"scheduling": "SILENT", "willContinue": False},
        }
    }
    assert (written(*found.events), found.issues) == (contents, ())


def test_a_call_that_came_in_pieces_is_read_as_one() -> None:
    pieces = [
        {"functionCall": {"name": "f", "id": "c1", "willContinue": True}},
        {"text": "Wait."},
        {
            "functionCall": {
                "partialArgs": [{"jsonPath": "$.a", "stringValue": "x", "willContinue": True}],
                "willContinue": True,
            }
        },
        {"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "y"}]}},
        5,
    ]

    found = read(model(*pieces))

    assert found.events[0].parts == (
        ToolCall(call_id="c1", name="f", arguments={"a": "xy"}),
        Text("Wait."),
    )
    assert [issue.what for issue in found.issues] == ["contents[0].parts[4]"]


# ---- events ----


def test_fields_of_a_content_without_a_place_come_back() -> None:
    contents = [{**GO, "note": "x"}, {**model({"text": "y"}), "index": 0}]

    assert written(*read(*contents).events) == contents


def test_a_content_without_parts_comes_back_without_any() -> None:
    found = read({"role": "user"}, model(None))

    assert written(*found.events) == [user(), model()]
    assert len(found.issues) == 1


def test_a_user_who_says_nothing_beside_results_says_nothing() -> None:
    event = SessionEvent(body=UserBody(parts=(ToolResult(call_id="c1", content=(Text("x"),)),)))

    assert written(event) == [user(response("unknown", id="c1"))]


def test_every_kind_of_event_is_written() -> None:
    lone_call = ToolCall(call_id="c2", name="g")
    mixed = UserBody(parts=(Text("and"), ToolResult(call_id="c9", content=(Text("y"),))))

    text = GEMINI.write(
        [
            system_event("Be brief."),
            SessionEvent(body=CompactionBody(summary="Earlier.", first_seq=90, last_seq=91)),
            system_event("Now."),
            SessionEvent(body=ToolCallBody(call=ToolCall(call_id="c1", name="f"))),
            SessionEvent(body=ToolCallBody(call=lone_call)),
            tool_result_event("c1", "x"),
            tool_result_event("c2", "y"),
            SessionEvent(body=mixed),
            SessionEvent(body=UserBody(parts=())),
        ]
    )

    request = json.loads(text)
    assert request["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert request["contents"] == [
        user({"text": "Earlier."}),
        user({"text": "Now."}),
        model(call("f", id="c1"), call("g", id="c2")),
        user(
            response("f", id="c1"), response("g", "y", id="c2"), response("unknown", "y", id="c9")
        ),
        user({"text": "and"}),
        user(),
    ]


# ---- tools ----


def test_functions_and_server_tools_are_read() -> None:
    parameters = {
        "type": "OBJECT",
        "properties": {
            "type": {"type": "STRING", "nullable": True, "description": "d"},
            "rows": {"type": "ARRAY", "min_items": 1, "items": {"type": "INTEGER"}},
            "choice": {"any_of": [{"type": "STRING"}, {"type": "NUMBER"}], "nullable": True},
            "odd": 5,
        },
    }
    found = read(
        GO,
        tools=[
            {"functionDeclarations": [{"name": "f", "description": "d", "parameters": parameters}]},
            {"function_declarations": {"name": "g", "parameters_json_schema": {"type": "object"}}},
            {"googleSearch": {"x": 1}},
        ],
    )

    assert found.tools == (
        ToolSpec(
            name="f",
            description="d",
            source="transcript",
            input_schema={
                "type": "object",
                "properties": {
                    "type": {"type": ["string", "null"], "description": "d"},
                    "rows": {"type": "array", "minItems": 1, "items": {"type": "integer"}},
                    "choice": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                    "odd": 5,
                },
            },
        ),
        ToolSpec(name="g", source="transcript", input_schema={"type": "object"}),
        ToolSpec(
            name="google_search",
            source="transcript",
            native_specs={"gemini": {"google_search": {"x": 1}}},
        ),
    )


def test_tools_that_cannot_be_read_are_reported() -> None:
    found = read(
        GO, tools=[5, {"functionDeclarations": [{"x": 1}, {"name": "f", "behavior": "B"}]}]
    )

    assert [issue.what for issue in found.issues] == [
        "tools[0]",
        "tools[1].function_declarations[0]",
        "function_declarations.behavior (1×)",
    ]


def test_one_tool_may_stand_for_a_list() -> None:
    found = read(GO, tools={"functionDeclarations": [{"name": "f"}]})

    assert [tool.name for tool in found.tools] == ["f"]


# ---- sessions of Gemini CLI ----

SESSION: dict[str, Any] = {
    "sessionId": "s1",
    "startTime": "2026-01-10T02:08:26.108Z",
    "messages": [
        {"id": "1", "timestamp": "2026-01-10T02:08:26Z", "type": "user", "content": "read it"},
        {"id": "2", "timestamp": "yesterday", "type": "info", "content": "Update available."},
        {
            "id": "3",
            "timestamp": "2026-01-10T02:08:30Z",
            "type": "gemini",
            "content": "",
            "thoughts": [{"subject": "Plan", "description": "I read it."}],
            "model": "gemini-2.5-flash",
            "tokens": {"input": 100, "output": 5, "cached": 90, "thoughts": 7, "total": 112},
            "toolCalls": [
                {
                    "id": "read-1",
                    "name": "read_file",
                    "args": {"path": "a"},
                    "status": "success",
                    "timestamp": "2026-01-10T02:08:31Z",
                    "result": [
                        response("read_file", "hello", id="read-1"),
                        {"text": "beside it"},
                        call("odd"),
                    ],
                },
                {"id": "read-2", "name": "read_file", "status": "cancelled"},
                {
                    "id": "read-3",
                    "name": "read_file",
                    "args": {},
                    "status": "error",
                    "result": [
                        {"functionResponse": {"name": "read_file", "response": {"error": "no"}}}
                    ],
                },
            ],
        },
        {"id": "4", "timestamp": "2026-01-10", "type": "gemini", "content": "Done."},
    ],
}


def test_a_session_of_gemini_cli_is_read() -> None:
    found = GEMINI.read(json.dumps(SESSION))

    assert detect_transcript(SESSION).name == "gemini"
    assert [event.type for event in found.events] == [
        "user",
        "assistant",
        "tool_result",
        "tool_result",
        "assistant",
    ]
    assert found.events[0].created_at == datetime(2026, 1, 10, 2, 8, 26, tzinfo=UTC)
    assert found.events[1].body == AssistantBody(
        parts=(
            Thinking(text="Plan\nI read it.", provider="gemini"),
            ToolCall(call_id="read-1", name="read_file", arguments={"path": "a"}),
            ToolCall(call_id="read-2", name="read_file"),
            ToolCall(call_id="read-3", name="read_file"),
        ),
        made_by=Provenance(
            provider="gemini",
            model="gemini-2.5-flash",
            usage=Usage(
                input_tokens=100, output_tokens=12, cache_read_tokens=90, reasoning_tokens=7
            ),
        ),
    )
    assert found.events[2].body == ToolResultBody(
        result=ToolResult(call_id="read-1", content=(Text("hello"), Text("beside it")))
    )
    assert found.events[3].body == ToolResultBody(
        result=ToolResult(call_id="read-3", content=(Text("no"),), is_error=True)
    )
    assert found.events[4].created_at is None
    assert found.metadata == {"sessionId": "s1", "startTime": "2026-01-10T02:08:26.108Z"}
    assert [issue.what for issue in found.issues] == ["messages of type info (1×)"]


def test_a_session_of_gemini_cli_without_usage_has_none() -> None:
    said = {"id": "1", "type": "gemini", "content": [{"text": "x"}], "model": "gemini-4-argon"}

    found = GEMINI.read({"sessionId": "s1", "messages": [said]})

    assert bodies(found)[0].made_by == Provenance(provider="gemini", model="gemini-4-argon")
