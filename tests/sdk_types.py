"""Payloads held against the SDKs' own types."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

from context_assembler.events import JsonObject
from context_assembler.providers.wire import as_list, as_object

_PARAMETERS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic.types.message_create_params:MessageCreateParamsNonStreaming",
    "anthropic beta": "anthropic.types.beta.message_create_params:MessageCreateParamsNonStreaming",
    "openai_chat": "openai.types.chat.completion_create_params:CompletionCreateParamsNonStreaming",
    "openai_responses": "openai.types.responses.response_create_params:"
    "ResponseCreateParamsNonStreaming",
}
# Content and tools of Chat Completions that only servers of other vendors know, by type.
_OTHER_VENDORS: Final = ("document_url", "file_url", "openrouter:")


def find_type_errors(
    provider: str, payload: JsonObject, *, allows_vendors: bool = False
) -> list[str]:
    """Return where the SDK's types do not describe a payload; unknown keys count.

    A request that names beta features is checked by the beta types, with what is in `extra_body`.
    Needs the provider's SDK.

    Args:
        provider: A key of `providers.PROVIDERS`.
        payload: What `to_request` returns.
        allows_vendors: Whether the server is another vendor's that speaks Chat Completions.
    """
    if provider == "gemini":
        return _find_gemini_errors(payload)
    headers: JsonObject = payload.get("extra_headers") or {}
    is_beta = bool(payload.get("betas") or headers.get("anthropic-beta"))
    outside = ("extra_headers", "extra_body", "betas")
    body = {key: value for key, value in payload.items() if key not in outside}
    if is_beta:
        body |= payload.get("extra_body") or {}
    if provider == "openai_responses" and isinstance(body.get("input"), list):
        # Responses takes encrypted reasoning without an id, although the types ask for one.
        # https://github.com/vercel/ai/issues/12869 (2026-11-27)
        body["input"] = [
            {"id": "", **item}
            if item.get("type") == "reasoning" and item.get("encrypted_content")
            else item
            for item in body["input"]
        ]
    if provider == "openai_chat" and allows_vendors:
        body = _without_vendors(body)
    adapter = _adapter("anthropic beta" if is_beta else provider)
    return _errors_of(lambda: _exhaust(adapter.validate_python(body, extra="forbid")))


def _without_vendors(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_vendors(inner) for key, inner in as_object(value).items()}
    if not isinstance(value, list):
        return value
    return [
        _without_vendors(inner)
        for inner in as_list(value)
        if not str(as_object(inner).get("type")).startswith(_OTHER_VENDORS)
    ]


def _find_gemini_errors(payload: JsonObject) -> list[str]:
    types = import_module("google.genai.types")
    errors = [
        f"contents[{index}].{error}"
        for index, content in enumerate(payload.get("contents") or ())
        for error in _errors_of(partial(types.Content.model_validate, content))
    ]
    config: JsonObject = payload.get("config") or {}
    found = _errors_of(lambda: types.GenerateContentConfig.model_validate(config))
    errors += [f"config.{error}" for error in found]
    strange = sorted(payload.keys() - {"model", "contents", "config"})
    return [*errors, *(f"{key}: unexpected argument" for key in strange)]


@cache  # it must outlive what it validates: the SDKs' iterables are checked while they are read
def _adapter(name: str) -> Any:
    from pydantic import TypeAdapter

    module, _, parameters = _PARAMETERS[name].partition(":")
    return TypeAdapter(getattr(import_module(module), parameters))


def _exhaust(value: Any) -> None:
    """Read a validated value to its ends: only then are the iterables in it validated."""
    from pydantic import BaseModel

    if isinstance(value, Mapping):
        for inner in value.values():
            _exhaust(inner)
    elif not isinstance(value, str | bytes | bytearray | BaseModel) and hasattr(value, "__iter__"):
        inside: Iterable[Any] = value
        for inner in iter(inside):
            _exhaust(inner)


def _errors_of(validate: Callable[[], object]) -> list[str]:
    from pydantic import ValidationError

    try:
        validate()
    except ValidationError as error:
        return _nearest(error.errors(include_url=False, include_context=False))
    return []


def _nearest(errors: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the errors of the branches of unions that were meant; of all if none was."""
    listed = list(errors)
    others = [
        tuple(error["loc"][:-1])
        for error in listed
        if error["type"] == "literal_error" and error["loc"][-1] in ("type", "role")
    ]
    meant = [e for e in listed if not any(tuple(e["loc"][: len(o)]) == o for o in others)]
    return [
        f"{'.'.join(str(s) for s in e['loc'] if 'union[' not in str(s))}: {e['msg']} "
        f"(given {str(e['input'])[:80]!r})"
        for e in (meant or listed)[:5]
    ]
