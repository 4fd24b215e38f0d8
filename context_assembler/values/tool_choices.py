"""How a tool choice is spelled: by a mode, by a tool's name, or in the shape of an SDK."""

from collections.abc import Mapping
from typing import Final

from context_assembler.errors import InvalidParameterError, UnknownOptionError
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.tools import ToolChoice

_MODE_SPELLINGS: Final[Mapping[str, ToolChoice]] = {
    "auto": ToolChoice(mode="auto"),
    "none": ToolChoice(mode="none"),
    "any": ToolChoice(mode="any"),
    "required": ToolChoice(mode="any"),
}
_CHOICE_REMEDY: Final = (
    "Use 'auto', 'none', 'any', or {'name': '<tool>'} to force one tool; "
    "the shapes of the anthropic and openai SDKs are read as well."
)


def parse_tool_choice(value: Json) -> ToolChoice:
    """Read a tool choice: a mode, a tool by name, or the shape of an SDK.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools (read 2026-11-27)
        https://platform.openai.com/docs/api-reference/chat/create (read 2026-11-27)
    """
    if isinstance(value, ToolChoice):
        return value
    if isinstance(value, str):
        if value not in _MODE_SPELLINGS:
            raise UnknownOptionError(value, kind="tool_choice", known=_MODE_SPELLINGS)
        return _MODE_SPELLINGS[value]
    if is_object(value):
        return _choice_from_mapping(value)
    raise InvalidParameterError(
        "tool_choice", value, rule="must be a mode or a tool", remedy=_CHOICE_REMEDY
    )


def _choice_from_mapping(value: JsonObject) -> ToolChoice:
    given = value.get("allows_parallel")
    parallel = given if isinstance(given, bool) else None
    if isinstance(value.get("disable_parallel_tool_use"), bool):
        parallel = not value["disable_parallel_tool_use"]
    if (allowed := _allowed_names(value)) is not None:
        told = value.get("allowed_tools")
        mode = told.get("mode") if is_object(told) else value.get("mode")
        named = _MODE_SPELLINGS.get(mode if isinstance(mode, str) else "auto", ToolChoice())
        return ToolChoice(mode=named.mode, allowed=allowed, allows_parallel=parallel)
    function = value.get("function")
    name = function.get("name") if is_object(function) else value.get("name")
    mode = value.get("mode", value.get("type"))
    if isinstance(name, str) and name and mode in (None, "tool", "function", "custom"):
        return ToolChoice(mode="tool", name=name, allows_parallel=parallel)
    if isinstance(mode, str) and mode in _MODE_SPELLINGS and name is None:
        return ToolChoice(mode=_MODE_SPELLINGS[mode].mode, allows_parallel=parallel)
    raise InvalidParameterError(
        "tool_choice", dict(value), rule="names no known mode and no tool", remedy=_CHOICE_REMEDY
    )


def _allowed_names(value: JsonObject) -> tuple[str, ...] | None:
    """Return the names of the only tools that may be called; `None` where the choice names none."""
    inner = value.get("allowed_tools")
    listed = value.get("allowed")
    if value.get("type") == "allowed_tools":
        listed = inner.get("tools") if is_object(inner) else value.get("tools")
    if not is_array(listed):
        return None
    given = [entry.get("function", entry) if is_object(entry) else entry for entry in listed]
    names = [entry.get("name") if is_object(entry) else entry for entry in given]
    return tuple(sorted({name for name in names if isinstance(name, str)}))
