"""Chat Completions messages as events."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest

from context_assembler.errors import TranscriptError
from context_assembler.ports import ReadTranscript
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.codec import dump_event, load_event
from context_assembler.values.events import (
    AssistantBody,
    EventBody,
    SystemBody,
    ToolResultBody,
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

OPENAI = TRANSCRIPTS["openai_chat"]


def read(*messages: dict[str, Any]) -> ReadTranscript:
    return OPENAI.read(list(messages))


def body_of(message: dict[str, Any]) -> EventBody:
    return read(message).events[0].body


def call(arguments: Any, **fields: Any) -> dict[str, Any]:
    function = {"name": "search", "arguments": arguments}
    entry = {"id": "c1", "type": "function", "function": function, **fields}
    return {"role": "assistant", "content": None, "tool_calls": [entry]}


ROLES: dict[str, tuple[dict[str, Any], EventBody]] = {
    "a user": ({"role": "user", "content": "hi"}, UserBody(parts=(Text("hi"),))),
    "an assistant": ({"role": "assistant", "content": "hi"}, AssistantBody(parts=(Text("hi"),))),
    "a system prompt": ({"role": "system", "content": "be"}, SystemBody(parts=(Text("be"),))),
    "a developer": ({"role": "developer", "content": "be"}, SystemBody(parts=(Text("be"),))),
    "nothing said": ({"role": "assistant", "content": None}, AssistantBody(parts=())),
    "empty text": ({"role": "user", "content": ""}, UserBody(parts=())),
    "a result": (
        {"role": "tool", "tool_call_id": "c1", "name": "search", "content": "found"},
        ToolResultBody(
            result=ToolResult(call_id="c1", content=(Text("found"),), tool_name="search")
        ),
    ),
    "a result in parts": (
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a"}]},
        ToolResultBody(result=ToolResult(call_id="c1", content=(Text("a"),))),
    ),
    "a failed result as tau2 has it": (
        {"role": "tool", "id": "c1", "content": "no", "error": True},
        ToolResultBody(result=ToolResult(call_id="c1", content=(Text("no"),), is_error=True)),
    ),
    "a result of the old form": (
        {"role": "function", "name": "search", "content": "found"},
        ToolResultBody(
            result=ToolResult(call_id="search", content=(Text("found"),), tool_name="search")
        ),
    ),
}


@pytest.mark.parametrize(("message", "body"), ROLES.values(), ids=ROLES.keys())
def test_each_role_becomes_its_event(message: dict[str, Any], body: EventBody) -> None:
    assert body_of(message) == body


PARTS: dict[str, tuple[Any, Part]] = {
    "text": ({"type": "text", "text": "hi"}, Text("hi")),
    "a bare string": ("hi", Text("hi")),
    "an image by URL": (
        {"type": "image_url", "image_url": {"url": "https://x.org/a.png", "detail": "low"}},
        Image(source=UrlSource(url="https://x.org/a.png"), detail="low"),
    ),
    "an image inside": (
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        Image(source=Base64Source(media_type="image/png", data="AA==")),
    ),
    "an image as a plain URL": (
        {"type": "image_url", "image_url": "data:image/png;name=a.png;base64,AA=="},
        Image(source=Base64Source(media_type="image/png", data="AA==")),
    ),
    "an uploaded file": (
        {"type": "file", "file": {"file_id": "file-1"}},
        Document(source=FileIdSource(provider="openai_chat", file_id="file-1")),
    ),
    "a file inside": (
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JV", "filename": "a"}},
        Document(source=Base64Source(media_type="application/pdf", data="JV"), title="a"),
    ),
    "sound": (
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}},
        Opaque(
            provider="openai_chat",
            block={"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}},
            text="[input_audio]",
        ),
    ),
    "a refusal": (
        {"type": "refusal", "refusal": "I will not."},
        Opaque(
            provider="openai_chat",
            block={"type": "refusal", "refusal": "I will not."},
            text="I will not.",
        ),
    ),
    "reasoning among the content": (
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        Thinking(
            text="Hm.",
            provider="openai_chat",
            block={"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        ),
    ),
    "reasoning as plain text": (
        {"type": "thinking", "thinking": "Hm."},
        Thinking(text="Hm.", provider="openai_chat", block={"type": "thinking", "thinking": "Hm."}),
    ),
    "a data URL that is not base64": (
        {"type": "image_url", "image_url": {"url": "data:text/plain,hi"}},
        Opaque(
            provider="openai_chat",
            block={"type": "image_url", "image_url": {"url": "data:text/plain,hi"}},
            text="[image_url]",
        ),
    ),
    "text without text": (
        {"type": "text"},
        Opaque(provider="openai_chat", block={"type": "text"}, text="[text]"),
    ),
    "an image without a URL": (
        {"type": "image_url"},
        Opaque(provider="openai_chat", block={"type": "image_url"}, text="[image_url]"),
    ),
    "a file without a file": (
        {"type": "file"},
        Opaque(provider="openai_chat", block={"type": "file"}, text="[file]"),
    ),
}


@pytest.mark.parametrize(("entry", "part"), PARTS.values(), ids=PARTS.keys())
def test_each_content_part_becomes_a_part_and_comes_back(entry: Any, part: Part) -> None:
    transcript = read({"role": "user", "content": [entry]})

    body = transcript.events[0].body
    assert isinstance(body, UserBody)
    assert body.parts == (part,)
    assert OPENAI.read(OPENAI.write(transcript.events)).events == transcript.events


ARGUMENTS: dict[str, tuple[Any, dict[str, Any], str | None, bool]] = {
    "a spelling of its own": ('{ "to":"Graz" }', {"to": "Graz"}, '{ "to":"Graz" }', False),
    "an object": ({"to": "Graz"}, {"to": "Graz"}, None, False),
    "nothing": (None, {}, None, False),
    "a cut-off stream": ('{"to": "Gr', {}, '{"to": "Gr', True),
    "a JSON list": ("[1]", {}, "[1]", True),
    "an empty text": ("", {}, "", True),
    "a list": ([1], {}, "[1]", True),
}


@pytest.mark.parametrize(
    ("given", "arguments", "spelled", "reported"), ARGUMENTS.values(), ids=ARGUMENTS.keys()
)
def test_arguments_keep_their_spelling(
    given: Any, arguments: dict[str, Any], spelled: str | None, reported: bool
) -> None:
    transcript = read(call(given))

    assert transcript.events[0].body == AssistantBody(
        parts=(ToolCall(call_id="c1", name="search", arguments=arguments, arguments_json=spelled),)
    )
    assert bool(transcript.issues) is reported


def test_calls_of_other_shapes_are_read_too() -> None:
    flat = {"id": "c2", "name": "search", "arguments": {"to": "Graz"}, "requestor": "assistant"}
    custom = {"id": "c3", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    transcript = read({"role": "assistant", "tool_calls": [flat, custom, {"id": "c4"}, 5]})

    body = transcript.events[0].body

    assert isinstance(body, AssistantBody)
    assert body.parts == (
        ToolCall(call_id="c2", name="search", arguments={"to": "Graz"}),
        ToolCall(
            call_id="c3",
            name="sql",
            arguments={"input": "SELECT 1"},
            extras={"openai_chat": {"type": "custom"}},
        ),
    )
    assert json.loads(OPENAI.write(transcript.events))[0]["tool_calls"][1] == custom
    assert [issue.what for issue in transcript.issues] == [
        "tool_calls.requestor (1×)",
        "messages[0].tool_calls[2]",
        "messages[0].tool_calls[3]",
    ]


def test_the_old_function_call_is_paired_with_its_result() -> None:
    transcript = read(
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "done"},
    )

    asked, answered = (event.body for event in transcript.events)
    assert isinstance(asked, AssistantBody)
    assert isinstance(asked.parts[0], ToolCall)
    assert isinstance(answered, ToolResultBody)
    assert asked.parts[0].call_id == answered.result.call_id
    assert transcript.issues[0].what == "function_call (1×)"


def test_a_call_without_id_and_a_result_without_call_are_reported() -> None:
    transcript = read(call("{}", id=None), {"role": "tool", "content": "x"})

    assert [issue.what for issue in transcript.issues] == [
        "messages[0].tool_calls[0].id",
        "messages[1].tool_call_id",
    ]


REASONING: dict[str, tuple[dict[str, Any], Thinking]] = {
    "as DeepSeek has it": (
        {"reasoning_content": "Hm."},
        Thinking(text="Hm.", provider="openai_chat"),
    ),
    "as OpenRouter has it": ({"reasoning": "Hm."}, Thinking(text="Hm.", provider="openai_chat")),
    "with signatures": (
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "signature": "S"}]},
        Thinking(
            text="Hm.",
            provider="openai_chat",
            block={
                "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "signature": "S"}]
            },
        ),
    ),
}


@pytest.mark.parametrize(("fields", "part"), REASONING.values(), ids=REASONING.keys())
def test_reasoning_comes_first_and_comes_back(fields: dict[str, Any], part: Thinking) -> None:
    transcript = read({"role": "assistant", "content": "Yes.", **fields})

    body = transcript.events[0].body
    assert isinstance(body, AssistantBody)
    assert body.parts == (part, Text("Yes."))
    assert OPENAI.read(OPENAI.write(transcript.events)).events == transcript.events


def test_fields_without_a_place_are_kept_as_metadata_and_come_back() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "ada", "content": "hi"},
        {"role": "assistant", "content": "yes", "annotations": [], "prefix": False},
    ]

    transcript = read(*messages)

    assert transcript.issues == ()
    assert transcript.events[1].metadata == {"openai_chat": {"name": "ada"}}
    assert json.loads(OPENAI.write(transcript.events)) == messages


def test_fields_of_parts_without_a_place_are_counted() -> None:
    text = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}, "extra": 1}
    image = {"type": "image_url", "image_url": {"url": "https://x.org/a", "detail": "huge"}}

    transcript = read({"role": "user", "content": [text, text, image]})

    assert [(issue.what, issue.reason) for issue in transcript.issues] == [
        ("cache_control (2×)", "is set anew when a request is rendered"),
        ("text.extra (2×)", "has no place in a session"),
        ("messages[0].content[2].detail", "'huge' is unknown; left out"),
    ]


def test_calls_of_a_user_are_reported_and_kept_as_metadata() -> None:
    transcript = read({**call("{}"), "role": "user", "content": "hi"})

    assert transcript.issues[0].what == "messages[0].tool_calls"
    assert "tool_calls" in transcript.events[0].metadata["openai_chat"]


def test_results_of_a_user_s_own_calls_are_reported() -> None:
    transcript = read(
        {"role": "user", "content": "hi"},
        {"role": "tool", "id": "c1", "content": "5 bars", "requestor": "user"},
    )

    assert [event.type for event in transcript.events] == ["user"]
    assert transcript.issues[0].what == "results of the user's own calls (1×)"


def test_messages_that_cannot_be_read_are_reported_and_the_others_read() -> None:
    transcript = OPENAI.read([{"role": "moon", "content": "?"}, 5, {"role": "user", "content": 7}])

    assert [(issue.what, issue.reason.split(";")[0]) for issue in transcript.issues] == [
        ("messages[0].role", "'moon' is unknown"),
        ("messages[1]", "is no message: it has no role"),
        ("messages[2].content", "is neither text nor a list of parts (7)"),
    ]
    assert len(transcript.events) == 1


TIMES = {
    "with a zone": ("2026-05-04T09:30:00+02:00", datetime(2026, 5, 4, 7, 30, tzinfo=UTC)),
    "without a zone": ("2026-05-04T09:30:00", None),
    "no time at all": ("yesterday", None),
    "a number": (5, None),
}


@pytest.mark.parametrize(("given", "moment"), TIMES.values(), ids=TIMES.keys())
def test_a_time_is_known_where_its_zone_is(given: Any, moment: datetime | None) -> None:
    event = read({"role": "user", "content": "hi", "timestamp": given}).events[0]

    assert event.created_at == moment
    assert event.metadata == {"openai_chat": {"timestamp": given}}


def test_a_request_brings_its_tools_and_settings() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    function: dict[str, Any] = {
        "name": "f",
        "description": "d",
        "parameters": schema,
        "strict": True,
    }
    search = {"type": "openrouter:web_search"}
    request: dict[str, Any] = {
        "model": "gpt-5.5",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [
            {"type": "function", "function": function, "cache_control": {}},
            {"type": "function", "name": "g", "parameters": schema},
            {"type": "custom", "custom": {"name": "sql"}},
            search,
            {"type": "function", "function": {"description": "nameless"}},
            {"no": "type"},
            7,
        ],
    }

    transcript = OPENAI.read(json.dumps(request))

    assert [tool.name for tool in transcript.tools] == ["f", "g", "sql", "openrouter:web_search"]
    assert (transcript.tools[0].input_schema, transcript.tools[0].is_strict) == (schema, True)
    assert transcript.tools[3].native_specs == {"openai_chat": search}
    assert transcript.metadata == {"model": "gpt-5.5"}
    assert [issue.what for issue in transcript.issues] == [
        "tools.cache_control (1×)",
        "tools[4]",
        "tools[5]",
        "tools[6]",
    ]


def test_old_functions_are_tools() -> None:
    request: dict[str, Any] = {
        "messages": [{"role": "user", "content": "hi"}],
        "functions": [{"name": "f", "parameters": {}}],
    }

    assert [tool.name for tool in OPENAI.read(request).tools] == ["f"]


LINES = {
    "one message per line": '{"role":"user","content":"a"}\n{"role":"assistant","content":"b"}\n',
    "one message": '{"role":"user","content":"a"}',
    "a request on one line, an empty one behind": '{"messages":[{"role":"user","content":"a"}]}\n',
    "a request and a broken line": '{"messages":[{"role":"user","content":"a"}]}\n{"mess',
    "a list and a broken line": '[{"role":"user","content":"a"}]\n{"mess',
}


@pytest.mark.parametrize("text", LINES.values(), ids=LINES.keys())
def test_json_lines_are_read(text: str) -> None:
    assert OPENAI.read(text).events[0].body == UserBody(parts=(Text("a"),))


def test_a_broken_line_is_reported_with_its_number() -> None:
    text = '{"role":"user","content":"a"}\n\n{"role":"us\n{"role":"user","content":"\\u2028 b"}'

    transcript = OPENAI.read(text)

    assert len(transcript.events) == 2
    assert [(issue.line, issue.what) for issue in transcript.issues] == [(3, "line")]


def test_places_in_json_lines_have_their_line() -> None:
    transcript = OPENAI.read('{"role":"user","content":"a"}\n{"role":"moon"}')

    assert (transcript.issues[0].line, transcript.issues[0].what) == (2, "message.role")


def test_numbers_that_json_does_not_have_are_read_as_null_and_reported() -> None:
    transcript = OPENAI.read('[{"role": "user", "content": "a", "score": NaN, "x": Infinity}]')

    assert [issue.what for issue in transcript.issues] == ["NaN (1×)", "Infinity (1×)"]
    assert transcript.events[0].metadata == {}


REFUSED: dict[str, tuple[Any, str]] = {
    "several requests": (
        [{"messages": [{"role": "user"}]}, {"messages": []}],
        "holds 2 sessions",
    ),
    "several requests in lines": (
        '{"messages":[{"role":"user"}]}\n{"messages":[{"role":"user"}]}',
        "holds 2 sessions",
    ),
    "a list of something else": ([1, 2], "its list holds no messages"),
    "lines of something else": ("1\n2", "no line holds a message"),
    "an object without messages": ({"a": 1}, "holds no list of messages"),
    "only unknown roles": ([{"role": "moon"}], "none of its messages can be read"),
}


@pytest.mark.parametrize(("source", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_holds_no_session_is_refused(source: Any, reason: str) -> None:
    with pytest.raises(TranscriptError, match=reason):
        OPENAI.read(source)


FOREIGN: dict[str, tuple[Part, Any]] = {
    "another provider's block with text": (
        Opaque(provider="anthropic", block={"type": "x"}, text="found 3"),
        "found 3",
    ),
    "another provider's block without": (Opaque(provider="anthropic", block={"type": "x"}), ""),
    "another provider's image": (
        Image(source=FileIdSource(provider="anthropic", file_id="f1")),
        "[image: anthropic file f1]",
    ),
    "another provider's document": (
        Document(source=FileIdSource(provider="anthropic", file_id="f1")),
        "[document: anthropic file f1]",
    ),
    "a document by URL": (
        Document(source=UrlSource(url="https://x.org/a.pdf")),
        "[document: https://x.org/a.pdf]",
    ),
}


@pytest.mark.parametrize(("part", "content"), FOREIGN.values(), ids=FOREIGN.keys())
def test_what_this_format_cannot_say_is_written_as_text(part: Part, content: Any) -> None:
    event = read({"role": "user", "content": "x"}).events[0]
    event = type(event)(body=UserBody(parts=(part,)))

    assert json.loads(OPENAI.write([event])) == [{"role": "user", "content": content}]


def test_a_result_inside_a_user_s_event_is_a_message_of_its_own() -> None:
    event = read({"role": "user", "content": "x"}).events[0]
    result = ToolResult(call_id="c1", content=(Text("found"),))
    event = type(event)(body=UserBody(parts=(result, Text("and?"))))

    assert json.loads(OPENAI.write([event])) == [
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "user", "content": "and?"},
    ]


def test_arguments_in_any_kind_of_mapping_are_spelled() -> None:
    arguments = MappingProxyType({"to": MappingProxyType({"city": "Graz"})})
    event = read({"role": "assistant", "content": "x"}).events[0]
    event = replace(
        event, body=AssistantBody(parts=(ToolCall(call_id="c", name="f", arguments=arguments),))
    )

    (message,) = json.loads(OPENAI.write([event]))

    assert message["tool_calls"][0]["function"]["arguments"] == '{"to": {"city": "Graz"}}'


def test_what_is_no_json_cannot_be_written() -> None:
    event = read({"role": "assistant", "content": "x"}).events[0]
    event = replace(event, metadata={"openai_chat": {"x": {1}}})

    with pytest.raises(TypeError, match="not JSON serializable"):
        OPENAI.write([event])


def test_another_provider_s_reasoning_is_written_as_text() -> None:
    thinking = Thinking(text="Hm.", provider="anthropic", block={"type": "thinking"})
    event = read({"role": "assistant", "content": "x"}).events[0]
    event = type(event)(body=AssistantBody(parts=(thinking, Text("Yes."))))

    assert json.loads(OPENAI.write([event])) == [
        {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}
    ]


DEEP = json.loads("[" * 900 + "]" * 900)
BEYOND_JSON: dict[str, tuple[Any, str, str]] = {
    "the text of NaN": ('{"x": NaN}', "messages[1].tool_calls[0].arguments", "kept as spelled"),
    "the text of infinity": (
        '{"x": 1e999}',
        "messages[1].tool_calls[0].arguments",
        "kept as spelled",
    ),
    "text nested too deeply": (
        '{"x": ' + "[" * 900 + "]" * 900 + "}",
        "messages[1].tool_calls[0].arguments",
        "kept as spelled",
    ),
    "the text of an overlong integer": (
        '{"x": ' + "9" * 5_000 + "}",
        "messages[1].tool_calls[0].arguments",
        "kept as spelled",
    ),
    "NaN": ({"x": float("nan")}, "[1].tool_calls[0].function.arguments.x", "read as null"),
    "an overlong integer": (
        {"x": 10**5_000},
        "[1].tool_calls[0].function.arguments.x",
        "kept as text",
    ),
    "an object nested too deeply": (
        {"x": DEEP},
        "[1].tool_calls[0].function.arguments.x[0][0]",
        "deeper than 200 levels is kept as text",
    ),
}


@pytest.mark.parametrize(
    ("arguments", "place", "reason"), BEYOND_JSON.values(), ids=BEYOND_JSON.keys()
)
def test_what_json_cannot_say_is_reported_where_it_stands_and_the_rest_is_read(
    arguments: Any, place: str, reason: str
) -> None:
    calling = call(arguments)

    found = read({"role": "user", "content": "a"}, calling, {"role": "user", "content": "b"})

    assert [event.type for event in found.events] == ["user", "assistant", "user"]
    assert all(load_event(dump_event(event), where="it") == event for event in found.events)
    [issue] = found.issues
    assert issue.what == place
    assert reason in issue.reason


def test_an_overlong_integer_in_a_line_costs_itself_alone() -> None:
    lines = [
        '{"role": "user", "content": "a", "n": ' + "9" * 5_000 + "}",
        '{"role": "user", "content": "b"}',
    ]

    found = OPENAI.read("\n".join(lines))

    assert len(found.events) == 2
    assert [(issue.line, issue.what) for issue in found.issues] == [(1, "numbers (1×)")]


def test_a_source_that_holds_itself_is_cut_off() -> None:
    message: dict[str, Any] = {"role": "user", "content": "a"}
    message["itself"] = message

    found = read(message)

    assert len(found.events) == 1
    assert "deeper than 200 levels" in found.issues[0].reason


WITHOUT_CONTENT: dict[str, tuple[dict[str, Any], str]] = {
    "another key": (
        {"role": "user", "text": "hi"},
        "is a message without content; unknown key 'text'",
    ),
    "several keys": (
        {"role": "assistant", "text": "hi", "body": 1},
        "is a message without content; unknown key 'text', 'body'",
    ),
    "no key at all": ({"role": "system"}, "is a message without content"),
    "a result": (
        {"role": "tool", "tool_call_id": "c", "output": "x"},
        "is a message without content; unknown key 'output'",
    ),
}


@pytest.mark.parametrize(
    ("message", "reason"), WITHOUT_CONTENT.values(), ids=WITHOUT_CONTENT.keys()
)
def test_a_message_without_content_is_reported(message: dict[str, Any], reason: str) -> None:
    assert [issue.reason for issue in read(message).issues] == [reason]


def test_calls_and_empty_text_are_content_enough() -> None:
    found = read(
        {"role": "user", "content": ""},
        {"role": "user", "content": None},
        {"role": "assistant", "tool_calls": call("{}")["tool_calls"]},
    )

    assert found.issues == ()
