"""Items and pieces of Responses that lack what their type promises."""

from collections.abc import Mapping
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.malformed import Suits, is_filled, is_flag, is_text
from context_assembler.values.messages import Role
from context_assembler.values.native.response_texts import kind_of
from context_assembler.values.openai.flaws import schema_flaws, strict_flaws
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text

_Fields = Mapping[str, Suits]

# Of each type the fields that it must have. Of others nothing is known.
# Types of the openai package 3.57, ResponseInputItemParam (read 2026-11-28)
_REQUIRED: Final[Mapping[str, _Fields]] = {
    "input_text": {"text": is_text},
    "item_reference": {"id": is_filled},
    "mcp_approval_response": {"approval_request_id": is_filled, "approve": is_flag},
    "additional_tools": {"tools": is_array},
}
# Pieces say where their bytes are in one of these.
_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "input_image": ("image_url", "file_id"),
    "input_file": ("file_data", "file_url", "file_id"),
}
_DETAILS: Final = (None, "auto", "low", "high", "original")
# Pieces that are no items, and that nobody but the model says.
_SAID: Final = frozenset({"output_text", "refusal", "text", "summary_text", "reasoning_text"})


def find_flaw(block: JsonObject, role: Role) -> str | None:
    """Return why an item or a piece would be refused, half a sentence; `None`: nothing is known.

    Source:
        types of the openai package 3.57, ResponseInputItemParam and
        ResponseInputMessageContentListParam (read 2026-11-28)
    """
    kind = kind_of(block)
    if not kind:
        return "it has neither a type nor a role"
    if role != "assistant" and kind in _SAID:
        return "only the model says that"
    for name, suits in _REQUIRED.get(kind, {}).items():
        if not suits(block.get(name)):
            return f"its {name} is amiss"
    places = _PLACES.get(kind)
    if places is not None and not any(is_filled(block.get(place)) for place in places):
        return f"it has none of {', '.join(places)}"
    if kind == "input_image" and not any(block.get("detail") == one for one in _DETAILS):
        return "its detail is amiss"
    return _object_to_tools(block.get("tools")) if kind == "additional_tools" else None


def _object_to_tools(tools: Json) -> str | None:
    for tool in as_array(tools):
        flaw = _object_to_tool(tool)
        if flaw is not None:
            return f"one of its tools is amiss: {flaw}"
    return None


def _object_to_tool(tool: Json) -> str | None:
    fields = as_object(tool)
    kind = as_text(fields.get("type"))
    if not kind:
        return "it has no type"
    if kind != "function":
        return None
    if not as_text(fields.get("name")):
        return "it has no name"
    schema = fields.get("parameters")
    if schema is not None and not is_object(schema):
        return "its parameters are no schema"
    is_strict = fields.get("strict") is True
    flaws = (
        *schema_flaws(schema, where="parameters", is_openai=True),
        *strict_flaws(schema, where="parameters", is_strict=is_strict, is_openai=True),
    )
    return next((f"{f.where} {f.message}" for f in flaws if f.level == "refused"), None)
