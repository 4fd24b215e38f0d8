"""Strict validation of payloads against the parameter types of the official SDKs."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from anthropic.types.beta.message_create_params import (
    MessageCreateParamsNonStreaming as BetaMessageCreateParamsNonStreaming,
)
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from google.genai.types import Content, GenerateContentConfig
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import BaseModel, TypeAdapter

from context_assembler.values.json_shapes import is_object

# Arguments of the SDKs' methods that are no part of the request's body.
_BESIDE_THE_BODY = ("extra_headers", "extra_body")
_TYPES: dict[str, Any] = {
    "anthropic": MessageCreateParamsNonStreaming,
    "anthropic beta": BetaMessageCreateParamsNonStreaming,
    "openai_chat": CompletionCreateParamsNonStreaming,
    "openai_responses": ResponseCreateParamsNonStreaming,
}


@cache
def _adapter(provider: str) -> TypeAdapter[Any]:
    # It must outlive what it validates: the SDKs' iterables are checked while they are read.
    return TypeAdapter(_TYPES[provider])


def assert_sdk_takes(provider: str, payload: Mapping[str, Any]) -> None:
    """Raise `ValidationError` unless the SDK's types describe the payload, unknown keys included."""
    if provider == "gemini":
        _assert_genai_takes(**payload)
        return
    body = {key: value for key, value in payload.items() if key not in _BESIDE_THE_BODY}
    if "anthropic-beta" in payload.get("extra_headers", {}):
        provider = "anthropic beta"  # the header is taken by both methods, the types by one
    _exhaust(_adapter(provider).validate_python(body, extra="forbid"))


def _assert_genai_takes(*, model: str, contents: Any, config: Any) -> None:
    assert model
    for content in contents:
        Content.model_validate(content)
    GenerateContentConfig.model_validate(config)


def _exhaust(value: Any) -> None:
    if is_object(value):
        for item in value.values():
            _exhaust(item)
    elif not isinstance(value, str | bytes | BaseModel) and hasattr(value, "__iter__"):
        for item in value:
            _exhaust(item)
