"""Signatures that providers put on parts which are more than reasoning: who bears one, and without."""

from dataclasses import replace
from typing import Final

from context_assembler.values.native.gemini_fields import snake_key
from context_assembler.values.parts import Json, JsonObject, Opaque, Part, Text, ToolCall

_SIGNATURE: Final = "thought_signature"


def bears_signature(part: Part) -> bool:
    """Whether a part that says something by itself is signed as well, as Gemini's are.

    A block that is kept verbatim bears its signature inside: pictures, code that ran, calls of the
    provider's own tools.

    Source:
        https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-27)
    """
    match part:
        case Text(signature=signature) | ToolCall(signature=signature):
            return signature is not None
        case Opaque(provider="gemini", block=block):
            return any(map(_is_signature, block.items()))
        case _:
            return False


def without_signature(part: Part) -> Part:
    """Return the part without the signature that it bears; the same object where it bears none."""
    match part:
        case Text() | ToolCall() if bears_signature(part):
            return replace(part, signature=None)
        case Opaque(block=block) if bears_signature(part):
            return replace(part, block=unsigned_block(block))
        case _:
            return part


def unsigned_block(block: JsonObject) -> dict[str, Json]:
    """Return a verbatim block without Gemini's signature, however that is spelled."""
    return {key: held for key, held in block.items() if snake_key(key) != _SIGNATURE}


def _is_signature(field: tuple[str, Json]) -> bool:
    return snake_key(field[0]) == _SIGNATURE and bool(field[1])
