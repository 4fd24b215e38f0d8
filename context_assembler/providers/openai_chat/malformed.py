"""Content parts of Chat Completions that lack what their type promises."""

from collections.abc import Mapping
from typing import Final

from context_assembler.values.malformed import Suits, is_filled, is_mapping, is_text
from context_assembler.values.messages import Role
from context_assembler.values.parts import JsonObject
from context_assembler.values.reading import as_object

# Of each type the field that holds what it is. Of others nothing is known.
# https://github.com/openai/openai-openapi, ChatCompletionRequestUserMessageContentPart (read
# 2026-11-27)
_REQUIRED: Final[Mapping[str, Suits]] = {
    "text": is_text,
    "refusal": is_text,
    "image_url": is_mapping,
    "input_audio": is_mapping,
    "file": is_mapping,
    "video_url": is_mapping,
}
_INSIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "image_url": ("url",),
    "input_audio": ("data", "format"),
    "video_url": ("url",),
}
_FILE_PLACES: Final = ("file_id", "file_data")


def find_flaw(block: JsonObject, _role: Role) -> str | None:
    """Return why a part would be refused, half a sentence; `None` where nothing is known against it."""
    kind = block.get("type")
    if not isinstance(kind, str) or not kind:
        return "it has no type"
    suits = _REQUIRED.get(kind)
    if suits is None:
        return None
    if not suits(block.get(kind)):
        return f"its {kind} is amiss"
    inside = as_object(block.get(kind))
    for name in _INSIDE.get(kind, ()):
        if not is_filled(inside.get(name)):
            return f"its {kind}'s {name} is amiss"
    if kind == "file" and not any(is_filled(inside.get(name)) for name in _FILE_PLACES):
        return "its file is nowhere"
    return None
