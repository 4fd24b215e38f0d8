"""Requests read as events, type and stored body; `--update-golden` writes the cases anew."""

from typing import Any

import pytest

from context_assembler.ports import Turn
from context_assembler.providers import PROVIDERS
from tests.providers.builders import SEALED, request

RESPONSES = "openai_responses"
SEARCH = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "q"}}
APPROVAL = {"type": "mcp_approval_response", "approval_request_id": "m", "approve": True}
CITED = {"type": "output_text", "text": "b", "annotations": [{"type": "url_citation"}]}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}


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
