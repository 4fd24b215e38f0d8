"""Responses items as events."""

import json
from typing import Any

import pytest

from context_assembler.errors import TranscriptError
from context_assembler.ports import ReadTranscript
from context_assembler.transcripts import TRANSCRIPTS, detect_transcript
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
    tool_result_event,
    user_event,
)
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Opaque,
    Part,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)
from context_assembler.values.tools import ToolSpec

US = "openai_responses"
RESPONSES = TRANSCRIPTS[US]
CALL: dict[str, Any] = {
    "type": "function_call",
    "call_id": "c1",
    "name": "search",
    "arguments": '{"to": "Graz"}',
}
OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "c1", "output": "found"}
REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gAAAA",
}
SHELL: dict[str, Any] = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}}


def read(*items: Any) -> ReadTranscript:
    return RESPONSES.read(list(items))


def bodies(*items: Any) -> list[EventBody]:
    return [event.body for event in read(*items).events]


def written(*events: SessionEvent) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(RESPONSES.write(events))
    return items


def says(content: Any, role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **fields}


def opaque(item: dict[str, Any], text: str) -> Opaque:
    return Opaque(provider=US, block=item, text=text)


MESSAGES: dict[str, tuple[dict[str, Any], EventBody]] = {
    "a user": (says("hi"), UserBody(parts=(Text("hi"),))),
    "a user without a type": ({"role": "user", "content": "hi"}, UserBody(parts=(Text("hi"),))),
    "a developer": (says("be", "developer"), SystemBody(parts=(Text("be"),))),
    "a system prompt": (says("be", "system"), SystemBody(parts=(Text("be"),))),
    "an assistant": (says("hi", "assistant"), AssistantBody(parts=(Text("hi"),))),
    "empty text": (says(""), UserBody(parts=())),
    "no content": (says(None), UserBody(parts=())),
    "text for a piece": (says(["hi"]), UserBody(parts=(Text("hi"),))),
}


@pytest.mark.parametrize(("item", "body"), MESSAGES.values(), ids=MESSAGES.keys())
def test_messages(item: dict[str, Any], body: EventBody) -> None:
    assert bodies(item) == [body]


def image(**fields: Any) -> dict[str, Any]:
    return {"type": "input_image", **fields}


def file(**fields: Any) -> dict[str, Any]:
    return {"type": "input_file", **fields}


PIECES: dict[str, tuple[dict[str, Any], ResultPart]] = {
    "a picture": (
        image(detail="low", image_url="data:image/png;base64,QQ=="),
        Image(source=Base64Source(media_type="image/png", data="QQ=="), detail="low"),
    ),
    "a picture by URL": (
        image(image_url="https://example.com/a.png"),
        Image(source=UrlSource(url="https://example.com/a.png")),
    ),
    "an uploaded picture": (
        image(file_id="file-1"),
        Image(source=FileIdSource(provider=US, file_id="file-1")),
    ),
    "a picture of unknown detail": (
        image(detail="huge", file_id="file-1"),
        opaque(image(detail="huge", file_id="file-1"), "[input_image]"),
    ),
    "a picture without bytes": (image(), opaque(image(), "[input_image]")),
    "a document": (
        file(filename="a.pdf", file_data="data:application/pdf;base64,QQ=="),
        Document(source=Base64Source(media_type="application/pdf", data="QQ=="), title="a.pdf"),
    ),
    "a document by URL": (
        file(file_url="https://example.com/a.pdf"),
        Document(source=UrlSource(url="https://example.com/a.pdf")),
    ),
    "an uploaded document": (
        file(file_id="file-1"),
        Document(source=FileIdSource(provider=US, file_id="file-1")),
    ),
    "a document without bytes": (file(filename="a"), opaque(file(filename="a"), "[input_file]")),
    "text that is none": (
        {"type": "input_text", "text": 3},
        opaque({"type": "input_text", "text": 3}, "[input_text]"),
    ),
    "a piece of another kind": (
        {"type": "input_audio", "data": "x"},
        opaque({"type": "input_audio", "data": "x"}, "[input_audio]"),
    ),
}


@pytest.mark.parametrize(("piece", "part"), PIECES.values(), ids=PIECES.keys())
def test_pieces_come_back_as_they_were(piece: dict[str, Any], part: ResultPart) -> None:
    transcript = read(says([piece]))

    assert [event.body for event in transcript.events] == [UserBody(parts=(part,))]
    assert written(*transcript.events) == [says([piece])]


def test_what_a_model_made_in_a_row_is_one_reply() -> None:
    search = {"type": "web_search_call", "id": "ws_1"}

    reply, result, after = bodies(
        REASONING, search, says("Found.", "assistant", phase="commentary"), CALL, OUTPUT, REASONING
    )

    assert isinstance(reply, AssistantBody)
    assert reply.parts == (
        Thinking(provider=US, block=REASONING),
        opaque(search, "[web_search_call]"),
        Text("Found.", extras={US: {"phase": "commentary"}}),
        ToolCall(
            call_id="c1",
            name="search",
            arguments={"to": "Graz"},
            arguments_json='{"to": "Graz"}',
        ),
    )
    assert isinstance(result, ToolResultBody)
    assert isinstance(after, AssistantBody)


RESULTS: dict[str, tuple[list[dict[str, Any]], ToolResult]] = {
    "text": ([CALL, OUTPUT], ToolResult(call_id="c1", content=(Text("found"),))),
    "nothing": ([CALL, {**OUTPUT, "output": ""}], ToolResult(call_id="c1")),
    "a custom tool's": (
        [
            {"type": "custom_tool_call", "call_id": "c1", "name": "grep", "input": "x"},
            {**OUTPUT, "type": "custom_tool_call_output"},
        ],
        ToolResult(call_id="c1", content=(Text("found"),)),
    ),
    "the shell's": (
        [SHELL, {"type": "shell_call_output", "call_id": "c1", "output": []}],
        ToolResult(
            call_id="c1",
            content=(
                opaque(
                    {"type": "shell_call_output", "call_id": "c1", "output": []},
                    "[shell_call_output]",
                ),
            ),
        ),
    ),
}


@pytest.mark.parametrize(("items", "result"), RESULTS.values(), ids=RESULTS.keys())
def test_results_answer_calls_and_come_back(
    items: list[dict[str, Any]], result: ToolResult
) -> None:
    transcript = read(says("go"), *items)

    assert transcript.events[-1].body == ToolResultBody(result=result)
    assert written(*transcript.events) == [says("go"), *items]


def test_what_the_provider_ran_itself_is_part_of_the_reply() -> None:
    hosted = {**SHELL, "environment": {"type": "container_reference", "container_id": "x"}}
    output: dict[str, Any] = {"type": "shell_call_output", "call_id": "c1", "output": []}
    search: dict[str, Any] = {
        "type": "tool_search_output",
        "call_id": None,
        "execution": "server",
        "tools": [],
    }

    [reply] = bodies(hosted, output, search)

    assert isinstance(reply, AssistantBody)
    assert [type(part) for part in reply.parts] == [Opaque] * 3


def test_what_a_client_adds_is_kept_whole() -> None:
    added: dict[str, Any] = {"type": "additional_tools", "role": "developer", "tools": []}
    approval = {"type": "mcp_approval_response", "approval_request_id": "m1", "approve": True}

    transcript = read(says("go"), added, approval)

    assert [event.type for event in transcript.events] == ["user", "system", "user"]
    assert written(*transcript.events) == [says("go"), added, approval]


def test_fields_without_a_place_are_kept_and_come_back() -> None:
    items = [
        says("go", status="completed"),
        says("be", "system"),
        {**CALL, "id": "fc_1", "namespace": "travel"},
        {**OUTPUT, "status": "completed"},
        says(
            [{"type": "output_text", "text": "So.", "annotations": [{"type": "x"}]}],
            "assistant",
            id="msg_1",
            status="completed",
        ),
    ]

    assert written(*read(*items).events) == items


def test_pieces_of_one_message_come_back_together() -> None:
    pieces: list[dict[str, Any]] = [
        {"type": "output_text", "text": text, "annotations": []} for text in ("a", "b")
    ]
    with_id = says(pieces, "assistant", id="msg_1")

    assert written(*read(with_id).events) == [with_id]
    assert written(*read(says(pieces, "assistant")).events) == [
        says("a", "assistant"),
        says("b", "assistant"),
    ]


def test_a_request_brings_instructions_tools_and_settings() -> None:
    web = {"type": "web_search"}
    tools: list[dict[str, Any]] = [
        {"type": "function", "name": "f", "description": "d", "parameters": {}, "strict": True},
        {"type": "function", "name": "g", "defer_loading": True},
        web,
        {"type": "mcp", "server_label": "docs"},
        {"type": "function"},
        {"name": "x"},
    ]

    transcript = RESPONSES.read(
        {"model": "gpt-5.5", "instructions": "Be brief.", "input": "hi", "tools": tools}
    )

    assert [event.type for event in transcript.events] == ["system", "user"]
    assert transcript.metadata == {"model": "gpt-5.5"}
    assert transcript.tools == (
        ToolSpec(name="f", description="d", is_strict=True, source="transcript"),
        ToolSpec(name="g", source="transcript"),
        ToolSpec(name="web_search", source="transcript", native_specs={US: web}),
        ToolSpec(name="docs", source="transcript", native_specs={US: tools[3]}),
    )
    assert [issue.what for issue in transcript.issues] == [
        "tools.defer_loading (1×)",
        "tools[4]",
        "tools[5]",
    ]


def test_instructions_may_be_items() -> None:
    transcript = RESPONSES.read({"instructions": [says("Be.", "developer")], "input": []})

    assert [event.body for event in transcript.events] == [SystemBody(parts=(Text("Be."),))]


def test_a_response_tells_who_made_it() -> None:
    response = {"object": "response", "id": "resp_1", "model": "gpt-5.5", "output": [REASONING]}

    [event] = RESPONSES.read(response).events
    [nobody] = RESPONSES.read({**response, "model": None}).events

    assert isinstance(event.body, AssistantBody)
    assert event.body.made_by == Provenance(provider=US, model="gpt-5.5", response_id="resp_1")
    assert isinstance(nobody.body, AssistantBody)
    assert nobody.body.made_by is None
    assert RESPONSES.matches(response)


def test_lines_and_single_items() -> None:
    lines = "\n".join(json.dumps(item) for item in (says("go"), CALL, OUTPUT))

    assert len(RESPONSES.read(lines).events) == 3
    assert len(RESPONSES.read(CALL).events) == 1


REPORTED: dict[str, tuple[list[Any], str]] = {
    "what is no item": ([says("go"), 3], "items[1]"),
    "an unknown role": ([says("go"), says("x", "bot")], "items[1].role"),
    "a trigger": ([says("go"), {"type": "compaction_trigger"}], "items[1]"),
    "content of another type": ([says({})], "items[0].content"),
    "a piece that is none": ([says([3])], "items[0].content[0]"),
    "an unknown field of a piece": (
        [says([{"type": "input_text", "text": "x", "mood": "y"}])],
        "input_text.mood (1×)",
    ),
    "a cache mark": (
        [says([{"type": "input_text", "text": "x", "prompt_cache_breakpoint": {}}])],
        "prompt_cache_breakpoint (1×)",
    ),
    "an output for nobody": ([{**OUTPUT, "call_id": None}], "items[0].call_id"),
    "arguments that are no object": ([{**CALL, "arguments": '{"to'}], "items[0].arguments"),
}


@pytest.mark.parametrize(("items", "what"), REPORTED.values(), ids=REPORTED.keys())
def test_what_has_no_place_is_reported(items: list[Any], what: str) -> None:
    assert [issue.what for issue in read(*items).issues] == [what]


UNREADABLE: dict[str, Any] = {
    "a list of anything": [1, 2],
    "nothing but triggers": [{"type": "compaction_trigger"}],
    "an object of another kind": {"a": 1},
}


@pytest.mark.parametrize("source", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_holds_no_items_is_refused(source: Any) -> None:
    with pytest.raises(TranscriptError, match="items"):
        RESPONSES.read(source)


PARTS: dict[str, tuple[Part, list[dict[str, Any]]]] = {
    "readable thinking": (
        Thinking(text="hm"),
        [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}],
    ),
    "another provider's thinking": (
        Thinking(provider="anthropic", block={"type": "thinking"}),
        [{"type": "reasoning", "summary": []}],
    ),
    "thinking of ours that is empty": (
        Thinking(provider=US),
        [{"type": "reasoning", "summary": []}],
    ),
    "another provider's block": (
        Opaque(provider="gemini", block={}, text="found 3"),
        [says("found 3", "assistant")],
    ),
    "another provider's block without text": (Opaque(provider="gemini", block={}), []),
    "a picture": (
        Image(source=FileIdSource(provider="anthropic", file_id="f1")),
        [says("[image: anthropic file f1]", "assistant")],
    ),
    "a document": (
        Document(source=FileIdSource(provider="anthropic", file_id="f1")),
        [says("[document: anthropic file f1]", "assistant")],
    ),
    "a result": (ToolResult(call_id="c1", content=(Text("found"),)), [OUTPUT]),
    "arguments never spelled": (
        ToolCall(call_id="c1", name="search", arguments={"to": "Graz"}),
        [{**CALL, "arguments": '{"to":"Graz"}'}],
    ),
    "arguments that are no JSON": (
        ToolCall(call_id="c1", name="search", arguments_json='{"to'),
        [{**CALL, "arguments": '{"to'}],
    ),
}


@pytest.mark.parametrize(("part", "items"), PARTS.values(), ids=PARTS.keys())
def test_parts_of_a_reply_are_written(part: Part, items: list[dict[str, Any]]) -> None:
    assert written(assistant_event(part)) == items


def test_events_of_every_type_are_written() -> None:
    call = ToolCall(call_id="c1", name="search", arguments={"to": "Graz"})
    foreign = Thinking(text="hm")
    events = [
        system_event("Be."),
        user_event((Text("go"), ToolResult(call_id="c0", content=(Text("old"),)), foreign)),
        SessionEvent(body=ToolCallBody(call=call)),
        tool_result_event("c1", "found"),
        user_event(Opaque(provider="gemini", block={}, text="x")),
    ]
    summary = CompactionBody(summary="They flew.", first_seq=3, last_seq=4)

    items = written(*events)

    assert items == [
        says("Be.", "developer"),
        {"type": "function_call_output", "call_id": "c0", "output": "old"},
        says("go"),
        {**CALL, "arguments": '{"to":"Graz"}'},
        OUTPUT,
        says("x"),
    ]
    assert written(*events, SessionEvent(body=summary))[3] == says("They flew.")


SHAPES: dict[str, tuple[Any, str]] = {
    "a request": ({"model": "gpt-5.5", "input": "hi"}, US),
    "calls": ([{"role": "user", "content": "go"}, CALL, OUTPUT], US),
    "own pieces": ([{"role": "user", "content": [{"type": "input_text", "text": "x"}]}], US),
    "named messages": ([says("hi")], US),
    "reasoning": ([REASONING, {"role": "assistant", "content": "x"}], US),
    "plain text could be anybody's": ([{"role": "user", "content": "hi"}], "openai_chat"),
    "calls as Chat has them": (
        [says("x", "assistant", tool_calls=[])],
        "openai_chat",
    ),
    "Anthropic's message": (
        [says([{"type": "text", "text": "x"}], "assistant", id="msg_1", model="claude-opus-5-5")],
        "anthropic",
    ),
}


@pytest.mark.parametrize(("source", "name"), SHAPES.values(), ids=SHAPES.keys())
def test_the_format_is_told_by_its_shape(source: Any, name: str) -> None:
    assert detect_transcript(source).name == name
