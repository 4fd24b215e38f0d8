"""SDK clients whose server answers from memory."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import httpx2
from anthropic import Anthropic
from openai import OpenAI

from context_assembler.values.events import Usage

USAGE: Final = Usage(
    input_tokens=130,
    output_tokens=30,
    cache_read_tokens=100,
    cache_write_tokens=20,
    reasoning_tokens=7,
)
"""What the replies in these tests report, in the words of each provider."""


def _transport(answer: httpx2.Response) -> httpx2.Client:
    return httpx2.Client(transport=httpx2.MockTransport(lambda _: answer))


def anthropic_client(answer: httpx2.Response) -> Anthropic:
    return Anthropic(api_key="test", http_client=_transport(answer), max_retries=0)


def openai_client(answer: httpx2.Response) -> OpenAI:
    return OpenAI(api_key="test", http_client=_transport(answer), max_retries=0)


def json_answer(body: Mapping[str, Any]) -> httpx2.Response:
    return httpx2.Response(200, json=dict(body))


def stream_answer(events: Iterable[Mapping[str, Any]], *, is_named: bool) -> httpx2.Response:
    """Return server-sent events; Anthropic's carry their type as a name."""
    lines: list[str] = []
    for event in events:
        if is_named:
            lines.append(f"event: {event['type']}")
        lines += [f"data: {json.dumps(event)}", ""]
    if not is_named:
        lines += ["data: [DONE]", ""]
    content = "\n".join([*lines, ""]).encode()
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=content)
