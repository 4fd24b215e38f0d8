"""The endpoints that count tokens, as the local provider speaks them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from context_assembler.testing import gemini_wire, responses_wire
from context_assembler.testing.anthropic_wire import ANTHROPIC_WIRE
from context_assembler.testing.gemini_wire import GEMINI_WIRE
from context_assembler.testing.responses_wire import RESPONSES_WIRE
from context_assembler.testing.traffic import RefusedRequestError, Wire
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import objects_in

_GEMINI_PATH: Final = re.compile(r"/v1(?:beta)?/models/(?P<model>[^/:]+):countTokens")
_ANTHROPIC_FIELDS: Final = frozenset(
    {
        *("messages", "model", "system", "tools", "tool_choice", "thinking", "cache_control"),
        *("output_config", "speed"),
    }
)
_OPENAI_FIELDS: Final = frozenset(
    {
        *("input", "instructions", "model", "parallel_tool_calls", "previous_response_id"),
        *("conversation", "reasoning", "text", "tool_choice", "tools", "truncation"),
    }
)
_GEMINI_FIELDS: Final = frozenset({"model", "contents", "generateContentRequest"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingEndpoint:
    """One endpoint: whose it is, what it is asked for, and how it answers.

    Attributes:
        wire: How its errors are told.
        to_prompt: The prompt in a body, as messages of blocks.
        render: The answer.
    """

    wire: Wire
    to_prompt: Callable[[JsonObject], JsonObject]
    render: Callable[[int], JsonObject]


def find_counting(path: str) -> CountingEndpoint | None:
    """Return the endpoint at a path; `None`: what answers there counts nothing."""
    found = _GEMINI_PATH.fullmatch(path)
    return _gemini(found["model"]) if found else _ENDPOINTS.get(path)


def _anthropic_prompt(body: JsonObject) -> JsonObject:
    """Return the body.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/token-counting (read 2026-11-27)
    """
    _refuse_unknown(body, _ANTHROPIC_FIELDS)
    for place, tool in objects_in(body.get("tools")):
        if tool.get("type", "custom") != "custom":
            raise _refused(f"tools.{place}: Server tools are not supported by this endpoint.")
    return body


def _responses_prompt(body: JsonObject) -> JsonObject:
    _refuse_unknown(body, _OPENAI_FIELDS)
    return responses_wire.to_messages(body)


def _gemini(model: str) -> CountingEndpoint:
    def to_prompt(body: JsonObject) -> JsonObject:
        _refuse_unknown(body, _GEMINI_FIELDS)
        whole: Json = body.get("generateContentRequest")
        if whole is not None and "contents" in body:
            raise _refused("contents and generateContentRequest are mutually exclusive.")
        asked: JsonObject = whole if is_object(whole) else body
        return {**gemini_wire.to_messages(asked), "model": model}

    return CountingEndpoint(wire=GEMINI_WIRE, to_prompt=to_prompt, render=_render_gemini)


def _render_gemini(tokens: int) -> JsonObject:
    details: Any = [{"modality": "TEXT", "tokenCount": tokens}]
    return {"totalTokens": tokens, "promptTokensDetails": details}


def _render_anthropic(tokens: int) -> JsonObject:
    return {"input_tokens": tokens}


def _render_responses(tokens: int) -> JsonObject:
    return {"object": "response.input_tokens", "input_tokens": tokens}


def _refuse_unknown(body: JsonObject, known: frozenset[str]) -> None:
    for name in sorted(body.keys() - known):
        raise _refused(f"{name}: Extra inputs are not permitted")


def _refused(message: str) -> RefusedRequestError:
    return RefusedRequestError(status=400, kind="invalid_request_error", message=message)


_ENDPOINTS: Final[Mapping[str, CountingEndpoint]] = {
    "/v1/messages/count_tokens": CountingEndpoint(
        wire=ANTHROPIC_WIRE, to_prompt=_anthropic_prompt, render=_render_anthropic
    ),
    "/v1/responses/input_tokens": CountingEndpoint(
        wire=RESPONSES_WIRE, to_prompt=_responses_prompt, render=_render_responses
    ),
}
