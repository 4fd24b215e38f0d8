"""What is an error for every provider: what its API cannot express, an empty talk, and no reply."""

from typing import Any

import pytest

from context_assembler.errors import ReplyError, UnsupportedRequestError
from context_assembler.providers import PROVIDERS, provider_for_reply
from tests.providers.builders import render, user

HAIKU = {"model": "claude-haiku-4-5"}
FIVE: dict[str, Any] = {"stop_sequences": [*"abcde"]}
FORCED: dict[str, Any] = {"tool_choice": {"mode": "any"}}
NO_TOOL: dict[str, Any] = {"tool_choice": {"mode": "tool", "name": "gone"}}
NOW: dict[str, Any] = {"provider_compaction": "now"}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("anthropic", {"thinking_level": "none"}),  # it is always on
    ("anthropic", {"stop_sequences": [" "]}),
    ("anthropic", FORCED),  # while it thinks
    ("anthropic", {**HAIKU, **FORCED, "tools": ()}),
    ("anthropic", {**HAIKU, **NO_TOOL}),
    ("anthropic", {**HAIKU, **FORCED, "thinking_budget": 2048}),
    ("gemini", {"thinking_level": "none"}),
    ("gemini", {"stop_sequences": [*"abcdef"]}),
    ("gemini", NOW),
    ("gemini", NO_TOOL),
    ("gemini", {**FORCED, "tools": ()}),
    ("openai_chat", {"top_k": 5}),
    ("openai_chat", {"model": "o3", "stop_sequences": ["x"]}),
    ("openai_chat", FIVE),
    ("openai_chat", {"model": "gpt-6.2-sol"}),  # tools next to reasoning
    ("openai_chat", NO_TOOL),
    ("openai_chat", NOW),
    ("openai_chat", {**FORCED, "tools": ()}),
    ("openai_responses", {"stop_sequences": ["x"]}),
    ("openai_responses", {"top_k": 5}),
    ("openai_responses", {"max_tokens": 5}),
    ("openai_responses", {"model": "gpt-oss-120b", **NOW}),
]


@pytest.mark.parametrize(("provider", "options"), REFUSED)
def test_what_the_api_cannot_express_is_an_error(provider: str, options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedRequestError, match=f"{provider} cannot take this request"):
        render(provider, user("a"), **options)


CHAT, RESPONSE = {"object": "chat.completion"}, {"object": "response"}
FAILED: dict[str, Any] = {"status": "failed", "error": {"message": "overloaded"}, "output": []}
DELTA = {"type": "response.output_text.delta", "output_index": 0, "delta": "b"}
NO_REPLIES: dict[str, list[Any]] = {
    "anthropic": [5, {"content": "text"}, [], [{"type": "ping"}], {}],
    "gemini": [5, {"candidates": "x"}, [], {}, [{"x": 1}]],
    "openai_chat": [CHAT | {"choices": []}, CHAT | {"choices": [{}]}, [], 5],
    "openai_responses": [
        *(RESPONSE | {"status": "completed"}, RESPONSE | {"status": "in_progress", "output": []}),
        *(RESPONSE | FAILED, [DELTA]),
    ],
}
EACH = [(provider, given) for provider, listed in NO_REPLIES.items() for given in listed]


@pytest.mark.parametrize(("provider", "given"), EACH)
def test_what_is_no_finished_reply_is_an_error(provider: str, given: Any) -> None:
    with pytest.raises(ReplyError):
        PROVIDERS[provider].read_reply(given)
    if provider == "anthropic":
        with pytest.raises(ReplyError):
            provider_for_reply(given)
