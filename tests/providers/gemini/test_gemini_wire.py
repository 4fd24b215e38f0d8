"""What the SDK makes of a payload: it takes every argument and sends it, in its own spelling."""

import json
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai.types import HttpOptions

from context_assembler.providers.gemini import GEMINI
from context_assembler.values.draft import Draft
from context_assembler.values.native.gemini_fields import snake_block, snake_fields
from tests.golden.cases import CASES
from tests.providers.drafts import (
    GEMINI_4,
    READ_FILE,
    assistant,
    call,
    draft,
    result,
    results,
    user,
)


def send(payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the path and the body that a server sees."""
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={"candidates": []})

    http_client = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = genai.Client(api_key="test", http_options=HttpOptions(httpx_client=http_client))
    models: Any = client.models  # what it takes is not fully typed without Pillow
    models.generate_content(**payload)
    return seen[0].url.path, json.loads(seen[0].content)


def spelled(value: Any) -> str:
    """Return JSON text with base64 in the alphabet that the SDK writes."""
    return json.dumps(value, sort_keys=True).translate({ord("+"): "-", ord("/"): "_"})


def spelled_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool in the SDK's spelling; the schemas in it are the user's."""
    fields = snake_fields(tool)
    declared = fields["function_declarations"]
    return {**fields, "function_declarations": [snake_fields(one) for one in declared]}


@pytest.mark.parametrize("drafts", CASES.values(), ids=CASES.keys())
def test_the_body_on_the_wire_says_what_the_payload_says(drafts: dict[str, Draft]) -> None:
    payload = GEMINI.render(drafts["gemini"])

    path, body = send(payload)

    config = payload["config"]
    sent = {snake: held for snake, held in snake_fields(body).items() if snake != "tools"}
    settings = snake_fields(sent.get("generation_config"))
    assert path == f"/v1/models/{payload['model']}:generateContent"
    assert spelled(snake_block(sent["contents"])) == spelled(payload["contents"])
    assert sent["system_instruction"]["parts"] == [{"text": config["system_instruction"]}]
    assert settings["max_output_tokens"] == config["max_output_tokens"]
    assert snake_fields(settings.get("thinking_config")) == config.get("thinking_config", {})
    assert list(map(spelled_tool, body.get("tools", []))) == config.get("tools", [])


@pytest.mark.parametrize("drafts", CASES.values(), ids=CASES.keys())
def test_the_rules_read_the_body_on_the_wire_as_well(drafts: dict[str, Draft]) -> None:
    made = drafts["gemini"]

    _, body = send(GEMINI.render(made))

    found = GEMINI.check_payload(body, limits=made.limits)
    assert [violation.rule for violation in found] == ["G0"]  # the model stands in the URL


def test_arguments_and_responses_keep_their_own_spelling() -> None:
    talk = [
        user("go"),
        assistant(call("c1", aB=1, c_d={"eF": None})),
        results(result("c1", '{"gH":{"i_j":1}}')),
    ]

    _, body = send(GEMINI.render(draft(talk, limits=GEMINI_4, tools=(READ_FILE,))))

    assert body["contents"][1]["parts"][0]["functionCall"]["args"] == {"aB": 1, "c_d": {"eF": None}}
    assert body["contents"][2]["parts"][0]["functionResponse"]["response"] == {"gH": {"i_j": 1}}
