"""Gemini's fields by their names in the SDK: `functionCall` on the wire is `function_call` there."""

import re
from collections.abc import Mapping
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_object

# What a part holds besides marks; exactly one of these.
KINDS: Final = frozenset(
    {
        "text",
        "inline_data",
        "file_data",
        "function_call",
        "function_response",
        "executable_code",
        "code_execution_result",
        "tool_call",
        "tool_response",
    }
)
# What may stand beside it. Fields that the SDK does not know fail in it, before anything is sent.
# Docstring of `google.genai.types.Part`, google-genai 3.6 (read 2026-11-27)
MARKS: Final = frozenset(
    {
        "thought",
        "thought_signature",
        "media_resolution",
        "video_metadata",
        "part_metadata",
        "audio_transcription",
        "media_processing",
        "speech_metadata",
        "document_metadata",
        "spreadsheet_metadata",
        "audio_metadata",
    }
)
# What a reply that is not complete goes on by: a field of a candidate, never of a part.
CONTINUATION: Final = "continuation_token"

# What the SDK refuses to send to Vertex AI: `_Part_to_vertex` in google-genai 3.6.
NOT_ON_VERTEX: Final = frozenset({"tool_call", "tool_response", "part_metadata"})

# Beside id, name, response and parts. `_FunctionResponse_to_vertex` refuses the first.
RESPONSE_MARKS: Final = frozenset({"will_continue", "scheduling"})
RESPONSE_MARKS_NOT_ON_VERTEX: Final = frozenset({"will_continue"})

# Objects inside a part whose keys are somebody else's.
_FREE_FORM: Final = frozenset({"args", "response", "part_metadata"})
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])[A-Z]")


def snake_key(key: str) -> str:
    """Return a field's name as the SDK spells it."""
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", key)


def snake_fields(value: Json) -> dict[str, Json]:
    """Return an object's fields by their names in the SDK, those that hold something.

    Anything but an object has none; objects inside keep their spelling.
    """
    return {snake_key(key): held for key, held in as_object(value).items() if held is not None}


def snake_block(value: Json) -> Json:
    """Return a part, or anything inside one, with the field names of the SDK all the way down."""
    if is_array(value):
        return [snake_block(entry) for entry in value]
    if not is_object(value):
        return value
    fields = snake_fields(value)
    return {key: held if key in _FREE_FORM else snake_block(held) for key, held in fields.items()}


def split_fields(
    block: JsonObject, known: frozenset[str]
) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the fields by their names in the SDK that are known, and the rest as they came."""
    fields = snake_fields(block)
    rest = {
        key: held for key, held in block.items() if held is not None and snake_key(key) not in known
    }
    return {key: held for key, held in fields.items() if key in known}, rest


def own_extras(extras: Mapping[str, Json] | None, *, provider: str) -> dict[str, Json]:
    """Return what a part has of this provider's beside what we read."""
    return as_object((extras or {}).get(provider))
