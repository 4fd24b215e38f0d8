"""What another model can read of Anthropic's content blocks that we do not interpret."""

from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text
from context_assembler.values.wire import compact_json, plain_json

_READABLE: Final = (
    "text",
    "stdout",
    "stderr",
    "title",
    "context",
    "url",
    "source",
    "name",
    "query",
    "file_id",
    "tool_name",
    "error_code",
    "error_message",
)
_MAX_DEPTH: Final = 100


def describe_block(block: JsonObject) -> str:
    """Return the text that stands for a block elsewhere; empty where nothing of it can be read."""
    if as_text(block.get("type")).endswith("_tool_use"):
        asked = compact_json(plain_json(block.get("input")))
        return f"[{as_text(block.get('name')) or 'tool'}: {asked}]"
    return readable_text(block)


def readable_text(value: Json, *, depth: int = 0) -> str:
    """Return the texts in blocks, one under the other; empty where there are none."""
    if depth > _MAX_DEPTH:
        return ""
    if is_array(value):
        found = (readable_text(entry, depth=depth + 1) for entry in value)
        return "\n".join(text for text in found if text)
    if not is_object(value):
        return ""
    said = [value[name] for name in _READABLE if isinstance(value.get(name), str)]
    source = as_object(value.get("source"))
    said += [line for line in as_array(value.get("lines")) if isinstance(line, str)]
    inner = (value.get("content"), source.get("content"), _text_in(source))
    said += [
        held if isinstance(held, str) else readable_text(held, depth=depth + 1) for held in inner
    ]
    return "\n".join(text for text in said if text)


def _text_in(source: JsonObject) -> str:
    return as_text(source.get("data")) if source.get("type") == "text" else ""
