"""Payloads held against the parameter types of the official SDKs, strictly."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import JsonObject
from context_assembler.values.reading import as_array, as_object

_PARAMETERS: Final[Mapping[str, tuple[str, str]]] = {
    "anthropic": ("anthropic.types.message_create_params", "MessageCreateParamsNonStreaming"),
    "anthropic beta": (
        "anthropic.types.beta.message_create_params",
        "MessageCreateParamsNonStreaming",
    ),
    "openai_chat": (
        "openai.types.chat.completion_create_params",
        "CompletionCreateParamsNonStreaming",
    ),
    "openai_responses": (
        "openai.types.responses.response_create_params",
        "ResponseCreateParamsNonStreaming",
    ),
}
_BETA_HEADER: Final = "anthropic-beta"
# Arguments of the SDKs' methods that are no part of the request's body.
_BESIDE_THE_BODY: Final = ("extra_headers", "extra_body", "betas")
_BRANCH_KEYS: Final = ("type", "role")
_MOST_ERRORS: Final = 5


def _name_sealed_reasoning(body: JsonObject) -> JsonObject:
    """Give reasoning an id: Responses takes it without one where its encrypted content is there.

    Source:
        https://github.com/vercel/ai/issues/12869 (read 2026-11-27)
    """
    entries = body.get("input")
    if not is_array(entries):
        return body
    named = [
        {"id": "", **entry}
        if is_object(entry) and entry.get("type") == "reasoning" and entry.get("encrypted_content")
        else entry
        for entry in entries
    ]
    return {**body, "input": named}


EXCEPTIONS: Final[Mapping[str, Callable[[JsonObject], JsonObject]]] = {
    "openai_responses": _name_sealed_reasoning,
}
"""What an API takes although its SDK's types say otherwise: each makes the body one they describe.

Beta features of Anthropic are the other exception: they are held against types of their own.
"""


OTHER_VENDORS: Final = ("document_url", "file_url", "openrouter:")
"""Content parts and tools of Chat Completions that only servers of other vendors know, by type."""


def find_type_errors(
    provider: str, payload: JsonObject, *, allows_vendors: bool = False
) -> list[str]:
    """Return where the SDK's types do not describe a payload; unknown keys count.

    A request that names beta features is held against the beta types, which alone know them, with
    what travels in `extra_body`. Needs the provider's SDK, and pydantic from 2.12 on.

    Args:
        provider: A key of `PROVIDERS`.
        payload: What `to_request` returns.
        allows_vendors: Whether the server is another vendor's that speaks Chat Completions: what
            only such servers know is passed over.
    """
    if provider == "gemini":
        return _find_gemini_errors(payload)
    headers = as_object(payload.get("extra_headers"))
    asks_for_beta = bool(payload.get("betas") or headers.get(_BETA_HEADER))
    body = {key: value for key, value in payload.items() if key not in _BESIDE_THE_BODY}
    if asks_for_beta:
        body |= as_object(payload.get("extra_body"))
    if provider in EXCEPTIONS:
        body = dict(EXCEPTIONS[provider](body))
    if provider == "openai_chat" and allows_vendors:
        body = _without_vendors(body)
    adapter = _adapter("anthropic beta" if asks_for_beta else provider)
    return _errors_of(lambda: _exhaust(adapter.validate_python(body, extra="forbid")))


def _without_vendors(value: Any) -> Any:
    """Return a value without the objects in its lists that only other vendors' servers know."""
    if is_object(value):
        return {key: _without_vendors(inner) for key, inner in value.items()}
    if not is_array(value):
        return value
    return [_without_vendors(inner) for inner in value if not _is_vendors(inner)]


def _is_vendors(value: Any) -> bool:
    return is_object(value) and str(value.get("type")).startswith(OTHER_VENDORS)


def _find_gemini_errors(payload: JsonObject) -> list[str]:
    """Return the errors of each argument of `generate_content`, whose types are strict as they are."""
    types = import_module("google.genai.types")
    errors = [
        f"contents[{index}].{error}"
        for index, content in enumerate(as_array(payload.get("contents")))
        for error in _errors_of(partial(types.Content.model_validate, content))
    ]
    config = as_object(payload.get("config"))
    errors += [
        f"config.{error}"
        for error in _errors_of(lambda: types.GenerateContentConfig.model_validate(config))
    ]
    strange = payload.keys() - {"model", "contents", "config"}
    return [*errors, *(f"{key}: unexpected argument" for key in sorted(strange))]


@cache  # it must outlive what it validates: the SDKs' iterables are checked while they are read
def _adapter(name: str) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 - slow to import

    module, parameters = _PARAMETERS[name]
    return TypeAdapter(getattr(import_module(module), parameters))


def _exhaust(value: Any) -> None:
    """Read a validated value to its ends: only then are the iterables in it validated."""
    from pydantic import BaseModel  # noqa: PLC0415 - slow to import

    if is_object(value):
        for inner in value.values():
            _exhaust(inner)
    elif not isinstance(value, str | bytes | bytearray | BaseModel) and hasattr(value, "__iter__"):
        for inner in value:
            _exhaust(inner)


def _errors_of(validate: Callable[[], object]) -> list[str]:
    from pydantic import ValidationError  # noqa: PLC0415 - slow to import

    try:
        validate()
    except ValidationError as error:
        return list(_nearest(error.errors(include_url=False, include_context=False)))
    return []


def _nearest(errors: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the errors of the branches that were meant, out of a union's many.

    A branch of another type or role was not meant, unless there is no other.
    """
    listed = list(errors)
    others = [tuple(error["loc"][:-1]) for error in listed if _names_another_branch(error)]
    meant = [
        error
        for error in listed
        if not any(tuple(error["loc"][: len(other)]) == other for other in others)
    ]
    return [_spell(error) for error in (meant or listed)[:_MOST_ERRORS]]


def _names_another_branch(error: Mapping[str, Any]) -> bool:
    return error["type"] == "literal_error" and error["loc"][-1] in _BRANCH_KEYS


def _spell(error: Mapping[str, Any]) -> str:
    steps = [str(step) for step in error["loc"] if "union[" not in str(step)]
    return f"{'.'.join(steps)}: {error['msg']} (given {str(error['input'])[:80]!r})"
