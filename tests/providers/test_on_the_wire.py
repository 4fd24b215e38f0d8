"""What the SDKs make of a payload: they take every argument and send it as it is."""

import json
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic
from openai import OpenAI

from context_assembler.providers import PROVIDERS
from context_assembler.values.draft import Draft
from tests.golden.cases import CASES

ANSWER: dict[str, Any] = {
    "id": "x",
    "type": "message",
    "content": [],
    "choices": [],
    "output": [],
    "model": "m",
}


# The SDK spells this body in its own way; it has a test of its own.
RE_KEYED = {"gemini"}


class _Server:
    """A server that keeps what it was sent."""

    def __init__(self) -> None:
        self.body: Any = None
        self.headers: httpx2.Headers = httpx2.Headers()

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.body, self.headers = json.loads(request.content), request.headers
        return httpx2.Response(200, json=ANSWER)


def _send(provider: str, payload: dict[str, Any]) -> _Server:
    server = _Server()
    http_client = httpx2.Client(transport=httpx2.MockTransport(server.answer))
    if provider == "anthropic":
        Anthropic(api_key="test", http_client=http_client).messages.create(**payload)
    elif provider == "openai_responses":
        OpenAI(api_key="test", http_client=http_client).responses.create(**payload)
    else:
        OpenAI(api_key="test", http_client=http_client).chat.completions.create(**payload)
    return server


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name not in RE_KEYED])
@pytest.mark.parametrize("drafts", CASES.values(), ids=CASES.keys())
def test_the_body_on_the_wire_is_the_payload(provider: str, drafts: dict[str, Draft]) -> None:
    payload = PROVIDERS[provider].render(drafts[provider])

    server = _send(provider, payload)

    headers, extra = payload.pop("extra_headers", {}), payload.pop("extra_body", {})
    assert server.body == payload | extra
    assert all(server.headers[name] == value for name, value in headers.items())
