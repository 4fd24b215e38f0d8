"""Turns and requests for the tests of providers, in few words."""

from copy import deepcopy
from typing import Any, Final

from context_assembler.context import Request
from context_assembler.events import JsonObject
from context_assembler.models import ModelRegistry
from context_assembler.options import Parameters
from context_assembler.ports import ResponseFormat, ToolChoice, ToolSpec, Turn
from context_assembler.providers import PROVIDERS, check_payload

REGISTRY: Final = ModelRegistry()
MODELS: Final = {
    "anthropic": "claude-opus-5-5",
    "openai_chat": "gpt-4.1",
    "openai_responses": "gpt-6.2-sol",
    "gemini": "gemini-4-argon",
}
PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
SCHEMA: Final = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
READ: Final = ToolSpec(name="read", description="Read one file.", input_schema=SCHEMA)
PICTURE: Final = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
}
SEALED: Final[dict[str, Any]] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "Z0FB",
}
GONE: Final = object()  # the field is left out


def parts_of(*given: Any) -> list[JsonObject]:
    """Return parts; text stands for a text part."""
    return [{"type": "text", "text": one} if isinstance(one, str) else one for one in given]


def user(*given: Any, **fields: Any) -> Any:
    return {"role": "user", "parts": parts_of(*given), "origin": "user", **fields}


def reply(*given: Any, **fields: Any) -> Any:
    return {"role": "assistant", "parts": parts_of(*given), "origin": "model", **fields}


def note(*given: Any, origin: Any = "assembler", **fields: Any) -> Any:
    parts = parts_of(*given)
    return {"role": "system", "kind": "note", "parts": parts, "origin": origin, **fields}


def summary(*given: Any) -> Turn:
    return {"role": "user", "kind": "summary", "parts": parts_of(*given), "origin": "assembler"}


def results(*given: dict[str, Any]) -> Turn:
    return {"role": "tool", "parts": list(given), "origin": "tool"}


def call(call_id: str, name: str = "read", **arguments: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "tool_call", "call_id": call_id, "name": name}
    return {**part, "arguments": arguments} if arguments else part


def result(call_id: str, *content: Any, **fields: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "tool_result", "call_id": call_id, **fields}
    return {**part, "content": parts_of(*content)} if content else part


def opaque(provider: str, block: dict[str, Any], text: str = "") -> dict[str, Any]:
    return {"type": "opaque", "provider": provider, "block": block, "text": text}


def thought(block: dict[str, Any], provider: str = "anthropic") -> dict[str, Any]:
    return {"type": "thinking", "provider": provider, "block": block}


def request(
    provider: str,
    *,
    model: str = "",
    tools: tuple[ToolSpec, ...] = (READ,),
    system: str = "Be brief.",
    plan: Any = None,
    cache: Any = "off",
    newest_at: float | None = None,
    **parameters: Any,
) -> Request:
    """Return a request for a provider's model; other keywords are parameters."""
    if isinstance(choice := parameters.get("tool_choice"), dict):
        parameters["tool_choice"] = ToolChoice(**choice)
    if isinstance(form := parameters.get("response_format"), dict):
        parameters["response_format"] = ResponseFormat(**form)
    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()}
    return Request(
        limits=REGISTRY.get(model or MODELS[provider]),
        parameters=Parameters(**{"max_tokens": 4000, **parameters}),
        system=system,
        tools=tools,
        tool_plan=plan,
        session_id="trip-42",
        cache=cache,
        newest_at=newest_at,
    )


def render(provider: str, *turns: Turn, **options: Any) -> dict[str, Any]:
    """Return the payload of turns, which has to be valid."""
    payload, _ = render_with_entries(provider, *turns, **options)
    return payload


def render_with_entries(
    provider: str, *turns: Turn, is_valid: bool = True, **options: Any
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the payload, and of each report entry decision and rule."""
    asked = request(provider, **options)
    wire = PROVIDERS[provider].Wire(asked)
    for turn in turns:
        wire.add(turn)
    payload = wire.write(asked)
    found = check_payload(provider, payload, limits=asked.limits)
    assert not is_valid or [str(one) for one in found if one.level == "refused"] == []
    return payload, [(entry.decision, entry.rule) for entry in wire.entries]


def changed(payload: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a payload with other values at these paths (`messages.0.content`)."""
    made = deepcopy(payload)
    for path, value in changes.items():
        *steps, last = (int(step) if step.isdecimal() else step for step in path.split("."))
        held: Any = made
        for step in steps:
            held = held[step]
        if value is GONE:
            del held[last]
        elif isinstance(held, list) and last == len(held):
            held.append(value)
        else:
            held[last] = value
    return made
