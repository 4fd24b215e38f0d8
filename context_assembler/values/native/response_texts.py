"""What other models can read of an item of OpenAI Responses."""

from collections.abc import Iterator
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text, objects_in
from context_assembler.values.wire import compact_json

_COMPACTED: Final = (
    "[The conversation before this point was compacted by OpenAI; only it can read it.]"
)
# In this order; the bytes of pictures (`result` of an image generation) are never told.
_TOLD: Final = (
    *(
        "server_label",
        "name",
        "query",
        "queries",
        "code",
        "input",
        "arguments",
        "action",
        "actions",
    ),
    *("operation", "revised_prompt", "output", "outputs", "results", "error", "reasoning", "text"),
    "reason",
)
_MAX_TOLD_DEPTH: Final = 100
_REFERENCE: Final = "item_reference"


def describe_entry(entry: JsonObject) -> str:
    """Return what of an item another model can read, in full: whatever is too long is cut later."""
    kind = as_text(entry.get("type"))
    if kind == "compaction":
        return _COMPACTED
    if kind in ("message", "") and not is_reference(entry):
        return "\n".join(filter(None, map(_readable, _contents(entry))))
    told = _facts(kind or _REFERENCE, entry)
    return f"[{': '.join([kind or _REFERENCE, *told])}]"


def kind_of(entry: JsonObject) -> str:
    """Return an item's type; that of a message or of a reference may be left out."""
    if is_reference(entry):
        return _REFERENCE
    kind = as_text(entry.get("type"))
    return kind or ("message" if as_text(entry.get("role")) else "")


def is_reference(entry: JsonObject) -> bool:
    """Whether the item stands for one that the server keeps; its type may be left out.

    Source:
        types of the openai package 3.57, ItemReference (read 2026-11-27)
    """
    is_bare = entry.keys() <= {"id", "type"} and entry.get("type") is None
    return entry.get("type") == _REFERENCE or (is_bare and bool(as_text(entry.get("id"))))


def _facts(kind: str, entry: JsonObject) -> Iterator[str]:
    for key in _TOLD:
        if entry.get(key):
            yield _spell(entry[key])
    names = [_name_of(tool) for _, tool in objects_in(entry.get("tools"))]
    if names:
        yield ", ".join(names)
    if kind == "program_output":
        yield as_text(entry.get("result"))
    if isinstance(entry.get("approve"), bool):
        yield "approved" if entry["approve"] else "not approved"
    if kind == _REFERENCE:
        yield as_text(entry.get("id"))


def _name_of(tool: JsonObject) -> str:
    keys = ("name", "server_label", "type")
    return next((name for key in keys if (name := as_text(tool.get(key)))), "unnamed")


def _spell(value: Json) -> str:
    shown = _without_bytes(value)
    return shown if isinstance(shown, str) else compact_json(shown)


def _without_bytes(value: Json, *, depth: int = 0) -> Json:
    """Return the value with a word in place of every `data:` URL, and of what lies too deep."""
    if isinstance(value, str):
        return "[data]" if value.startswith("data:") else value
    if is_object(value) or is_array(value):
        if depth == _MAX_TOLD_DEPTH:
            return "…"
        if is_object(value):
            return {key: _without_bytes(inner, depth=depth + 1) for key, inner in value.items()}
        return [_without_bytes(inner, depth=depth + 1) for inner in value]
    return value


def _contents(entry: JsonObject) -> list[Json]:
    content = entry.get("content")
    return [content] if isinstance(content, str) else as_array(content)


def _readable(piece: Json) -> str:
    if isinstance(piece, str):
        return piece
    fields = as_object(piece)
    return as_text(fields.get("text")) or as_text(fields.get("refusal"))
