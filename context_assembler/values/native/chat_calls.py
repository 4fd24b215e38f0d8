"""Calls of Chat Completions: of functions, and of custom tools, whose input is text."""

from typing import Final

from context_assembler.values.parts import Json, JsonObject, ToolCall
from context_assembler.values.reading import as_object, as_text
from context_assembler.values.wire import compact_json, plain_json

PROVIDER: Final = "openai_chat"
_CUSTOM: Final = "custom"
_INPUT: Final = "input"


def is_custom(entry: JsonObject) -> bool:
    """Whether a call as the API spells it is of a custom tool."""
    return entry.get("type") == _CUSTOM and isinstance(
        as_object(entry.get(_CUSTOM)).get(_INPUT), str
    )


def read_custom(entry: JsonObject, *, name: str) -> ToolCall:
    """Return the call of a custom tool: its text is the argument `input`.

    Source:
        types of the openai package 3.57, ChatCompletionMessageCustomToolCall (read 2026-11-27)
    """
    return ToolCall(
        call_id=as_text(entry.get("id")),
        name=name,
        arguments={_INPUT: as_object(entry.get(_CUSTOM))[_INPUT]},
        extras={PROVIDER: {"type": _CUSTOM}},
    )


def write_custom(call: ToolCall, *, call_id: str, name: str) -> dict[str, Json] | None:
    """Return the call as one of a custom tool; `None` where it did not come as one."""
    own = as_object((call.extras or {}).get(PROVIDER))
    if own.get("type") != _CUSTOM:
        return None
    arguments = plain_json(call.arguments)
    given = arguments.get(_INPUT)
    text = given if isinstance(given, str) else compact_json(arguments)
    return {"id": call_id, "type": _CUSTOM, _CUSTOM: {"name": name, _INPUT: text}}
