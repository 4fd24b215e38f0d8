"""Payloads held against the types of the official SDKs."""

from typing import Any

import pytest

from context_assembler.testing.sdk_types import find_type_errors

SAY = [{"role": "user", "content": "hi"}]
COMPACTION = [
    {"role": "assistant", "content": [{"type": "compaction", "content": "x"}]},
    *SAY,
]
CLAUDE: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 10, "messages": SAY}
GPT: dict[str, Any] = {"model": "gpt-4.1", "messages": SAY}
SEALED: dict[str, Any] = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
DOCUMENT = {"type": "document_url", "document_url": "https://example.org/a.docx"}
BETA = {"extra_headers": {"anthropic-beta": "compact-2026-01-12"}}

TAKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "plain messages": ("anthropic", CLAUDE),
    "arguments that are no part of the body": (
        "anthropic",
        CLAUDE | {"extra_headers": {"anthropic-version": "2023-06-01"}, "extra_body": {"x": 1}},
    ),
    "a beta feature that is asked for": ("anthropic", CLAUDE | BETA | {"messages": COMPACTION}),
    "a beta feature in extra_body": (
        "anthropic",
        CLAUDE | BETA | {"extra_body": {"context_management": {"edits": []}}},
    ),
    "plain chat": ("openai_chat", GPT),
    "plain input": ("openai_responses", {"model": "gpt-5.5", "input": "hi"}),
    "sealed reasoning without an id": (
        "openai_responses",
        {"model": "gpt-5.5", "input": [SEALED, {"role": "user", "content": "hi"}]},
    ),
    "plain contents": (
        "gemini",
        {"model": "gemini-4-argon", "contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    ),
}


@pytest.mark.parametrize(("provider", "payload"), TAKEN.values(), ids=TAKEN.keys())
def test_what_the_types_describe(provider: str, payload: dict[str, Any]) -> None:
    assert find_type_errors(provider, payload) == []


def block(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [fields]}]}


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a field that nobody knows, in a block": (
        "anthropic",
        CLAUDE | block(type="text", text="hi", mood="good"),
        "TextBlockParam.mood: Extra inputs",
    ),
    "a block that nobody knows": ("anthropic", CLAUDE | block(type="moon"), "given 'moon'"),
    "a beta block without asking for it": (
        "anthropic",
        CLAUDE | {"messages": COMPACTION},
        "given 'compaction'",
    ),
    "an argument that nobody knows": ("openai_chat", GPT | {"mood": 1}, "mood: Extra inputs"),
    "an image without its detail": (
        "openai_responses",
        {
            "model": "gpt-5.5",
            "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}],
        },
        "ResponseInputImageParam.detail: Field required",
    ),
    "a part that nobody knows": (
        "gemini",
        {"model": "g", "contents": [{"role": "user", "parts": [{"moon": 1}]}]},
        "contents[0].parts.0.moon: Extra inputs",
    ),
    "a setting that nobody knows": (
        "gemini",
        {"model": "g", "contents": [], "config": {"moon": 1}},
        "config.moon: Extra inputs",
    ),
    "an argument of Gemini's that nobody knows": (
        "gemini",
        {"model": "g", "contents": [], "tools": []},
        "tools: unexpected argument",
    ),
    "what only another vendor's server knows": (
        "openai_chat",
        GPT | block(**DOCUMENT),
        "given 'document_url'",
    ),
}


@pytest.mark.parametrize(("provider", "payload", "error"), REFUSED.values(), ids=REFUSED.keys())
def test_what_they_do_not(provider: str, payload: dict[str, Any], error: str) -> None:
    errors = find_type_errors(provider, payload)

    assert any(error in found for found in errors), errors
    assert len(errors) <= 5


def test_what_another_vendor_s_server_knows_can_be_passed_over() -> None:
    payload = GPT | block(**DOCUMENT)
    worse = {**payload, "mood": 1}

    assert find_type_errors("openai_chat", payload, allows_vendors=True) == []
    assert find_type_errors("openai_chat", worse, allows_vendors=True) != []
