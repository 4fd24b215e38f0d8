"""Requests of OpenAI's protocols read as events: type and stored body."""

import json
from typing import Any

import pytest

from context_assembler.ports import Turn
from context_assembler.providers import PROVIDERS
from tests.providers.builders import PICTURE, PIXEL, call, opaque, parts_of, request, result

CHAT, RESPONSES = "openai_chat", "openai_responses"
URL = f"data:image/png;base64,{PIXEL}"
WEB = {"type": "url", "url": "https://a.org/b"}
SEALED: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "Z0FB",
}
SEARCH = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "q"}}
APPROVAL = {"type": "mcp_approval_response", "approval_request_id": "m", "approve": True}
HEARD: dict[str, Any] = {"type": "text", "text": "Hello.", "extras": {CHAT: {"audio": {"id": "a"}}}}
CITED = {"type": "output_text", "text": "b", "annotations": [{"type": "url_citation"}]}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}


def event(kind: str, *parts: Any, provider: str = CHAT, **metadata: Any) -> tuple[str, Any]:
    about = {"metadata": {provider: metadata}} if metadata else {}
    return kind, {"parts": parts_of(*parts), **about}


def asked(call_id: str, name: str = "read", arguments: Any = '{"path":"a"}') -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


# What is read, the events, and the places that have a note.
READ: dict[str, tuple[str, Any, list[Any], list[str]]] = {
    "a request of Chat": (
        CHAT,
        {
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": "go", "name": "ann"},
                {"role": "assistant", "content": None, "tool_calls": [asked("c1")]},
                {"role": "tool", "tool_call_id": "c1", "content": "x"},
            ]
        },
        [
            event("system", "Be brief.", role="developer"),
            event("user", "go", name="ann"),
            event("assistant", call("c1", path="a") | {"arguments_json": '{"path":"a"}'}),
            event("tool_result", result("c1", "x")),
        ],
        [],
    ),
    "pictures, files and what nobody knows": (
        CHAT,
        [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": URL}},
                    {"type": "image_url", "image_url": {"url": WEB["url"], "detail": "odd"}},
                    {"type": "file", "file": {"file_id": "f", "filename": "a.pdf"}},
                    {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
                    {"type": "text", "text": "x", "odd": 1},
                    5,
                ],
            }
        ],
        [
            event(
                "user",
                PICTURE,
                {"type": "image", "source": WEB},
                {
                    "type": "document",
                    "source": {"type": "file", "provider": CHAT, "file_id": "f"},
                    "title": "a.pdf",
                },
                opaque(
                    CHAT,
                    {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
                    "[input_audio]",
                ),
                "x",
            )
        ],
        ["messages[0].content[1].detail", "messages[0].content[4]", "messages[0].content[5]"],
    ),
    "results as tau2 has them": (
        CHAT,
        [{"role": "tool", "id": "c1", "content": "no", "error": True}],
        [event("tool_result", result("c1", "no", is_error=True))],
        [],
    ),
    "a spoken answer": (
        CHAT,
        [{"role": "assistant", "content": None, "audio": {"id": "a", "transcript": "Hello."}}],
        [event("assistant", HEARD)],
        ["messages[0].audio"],
    ),
    "what is no message": (
        CHAT,
        ["x", {"role": "human", "content": "x"}, {"role": "tool", "content": "x"}],
        [event("tool_result", result("", "x"))],
        ["messages[0]", "messages[1]", "messages[2].tool_call_id"],
    ),
    "calls that cannot be read": (
        CHAT,
        [
            {
                "role": "assistant",
                "content": "b",
                "tool_calls": [{"id": "c1"}, asked("c2", "f", "{")],
            }
        ],
        [
            event(
                "assistant",
                "b",
                {"type": "tool_call", "call_id": "c2", "name": "f", "arguments_json": "{"},
            )
        ],
        ["messages[0].tool_calls[0]", "messages[0].tool_calls[1].arguments"],
    ),
    "a request of Responses": (
        RESPONSES,
        {
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": [{"type": "input_image", "image_url": URL}]},
                SEALED,
                {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read"}
                | {"arguments": '{"path":"a"}'},
                {"type": "function_call_output", "call_id": "c1", "output": "x"},
                SEARCH,
                {**MESSAGE, "content": [CITED]},
                {"role": "user", "content": "b"},
            ],
        },
        [
            event("system", "Be brief."),
            event("user", PICTURE),
            event(
                "assistant",
                {"type": "thinking", "provider": RESPONSES, "block": SEALED},
                call("c1", path="a")
                | {"arguments_json": '{"path":"a"}', "extras": {RESPONSES: {"id": "fc_1"}}},
            ),
            event("tool_result", result("c1", "x")),
            event(
                "assistant",
                opaque(RESPONSES, SEARCH, '[web_search_call: {"type":"search","query":"q"}]'),
                {
                    "type": "text",
                    "text": "b",
                    "extras": {
                        RESPONSES: {
                            "id": "msg_1",
                            "status": "completed",
                            "annotations": CITED["annotations"],
                        }
                    },
                },
            ),
            event("user", "b"),
        ],
        [],
    ),
    "items of clients": (
        RESPONSES,
        [
            {"id": "msg_9"},
            APPROVAL,
            {"type": "additional_tools", "role": "developer", "tools": []},
            {"type": "compaction_trigger"},
            {"role": "human", "content": "x"},
            {},
        ],
        [
            event("user", opaque(RESPONSES, {"id": "msg_9"}, "[item_reference]")),
            event("user", opaque(RESPONSES, APPROVAL, "[mcp_approval_response: approved]")),
            event(
                "system",
                opaque(
                    RESPONSES,
                    {"type": "additional_tools", "role": "developer", "tools": []},
                    "[additional_tools]",
                ),
            ),
        ],
        ["input[0].id", "input[3]", "input[4]", "input[5]"],
    ),
    "the output of a patch": (
        RESPONSES,
        [{"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"}],
        [
            event(
                "tool_result",
                result(
                    "c1",
                    opaque(
                        RESPONSES,
                        {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"},
                        "[apply_patch_call_output]",
                    ),
                ),
            )
        ],
        [],
    ),
    "input as text": (RESPONSES, {"input": "go"}, [event("user", "go")], []),
}


@pytest.mark.parametrize(("provider", "given", "events", "places"), READ.values(), ids=READ.keys())
def test_a_request_is_read_as_events(
    provider: str, given: Any, events: list[Any], places: list[str]
) -> None:
    noted: list[str] = []

    def note(where: str, _what: str) -> None:
        noted.append(where)

    read = PROVIDERS[provider].read_messages(given, note)

    assert json.loads(json.dumps(read)) == json.loads(json.dumps(events))
    assert noted == places


APPROVED: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": "ask wiki"},
    {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "wiki", "tools": []},
    SEALED,
    {"type": "mcp_approval_request", "id": "m", "server_label": "wiki", "name": "ask"}
    | {"arguments": "{}"},
    APPROVAL,
]
CITING: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": "news?"},
    *(SEALED, SEARCH, {**SEALED, "id": "rs_2"}, {**MESSAGE, "content": [CITED]}),
    {"type": "message", "role": "user", "content": "more"},
]
RAN: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": "plot"},
    SEALED,
    {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1", "code": "print(1)"}
    | {"outputs": [{"type": "logs", "logs": "1"}]},
    {**MESSAGE, "content": [CITED]},
    {"type": "message", "role": "user", "content": "again"},
]


@pytest.mark.parametrize("items", [APPROVED, CITING, RAN], ids=["approved", "citing", "ran"])
def test_what_a_server_did_goes_back_to_it_as_it_came(items: list[dict[str, Any]]) -> None:
    roles: dict[str, Any] = {"tool_result": "tool"}
    asked = request(RESPONSES, system="", tools=())
    wire = PROVIDERS[RESPONSES].Wire(asked)

    for kind, body in PROVIDERS[RESPONSES].read_messages(items):
        turn: Turn = {"role": roles.get(kind, kind), "parts": body["parts"], "origin": "user"}
        wire.add(turn)

    assert wire.write(asked)["input"] == items


def test_a_pdf_in_the_place_of_a_picture_is_a_document() -> None:
    shown = {"type": "image_url", "image_url": {"url": "data:application/pdf;base64,JVBERi0="}}

    [(_, body)] = PROVIDERS["openai_chat"].read_messages([{"role": "user", "content": [shown]}])

    [part] = body["parts"]
    assert (part["type"], part["source"]["media_type"]) == ("document", "application/pdf")
