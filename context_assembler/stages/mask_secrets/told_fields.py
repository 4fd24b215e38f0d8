"""Texts in a provider's own fields, and in documents that are sent as bytes, told anew."""

import base64
import binascii
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.media.media_claims import is_base64
from context_assembler.values.media.media_types import declared_type
from context_assembler.values.native.gemini_fields import snake_key
from context_assembler.values.parts import Base64Source, Json, JsonObject
from context_assembler.values.reading import as_text

_Change: TypeAlias = Callable[[str], str]

# Addresses that a provider fetches from, and what it sealed, are worth nothing but whole.
_LEFT_WHOLE: Final = frozenset(
    {
        *("audio_url", "file_uri", "file_url", "image_url", "video_url"),
        *("encrypted_content", "signature", "thought_signature"),
    }
)
_PLAIN_ADDRESS: Final = frozenset({"url", "detail"})
_BYTES: Final = frozenset({"data", "file_data"})
_TYPE_KEYS: Final = ("media_type", "mime_type", "mimeType")
_TEXT_TYPES: Final = (
    *("text/", "application/json", "application/rtf", "application/xml"),
    *("application/javascript", "application/x-sh", "application/yaml", "application/toml"),
)
_TEXT_ENDINGS: Final = ("+json", "+xml", "+yaml")
_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16


def change_object(value: JsonObject, change: _Change) -> JsonObject:
    """Return the JSON object with other texts in it, however deep; the same one where they stay."""
    told = dict(value)
    is_same = True
    waiting: list[Json] = [told]
    while waiting:
        fields = waiting.pop()
        for place in _places_in(fields):
            held = fields[place]
            if is_object(held) or is_array(held):
                fields[place] = dict(held) if is_object(held) else list(held)
                waiting.append(fields[place])
            elif isinstance(held, str) and (now := _told(fields, place, change)) != held:
                fields[place] = now
                is_same = False
    return value if is_same else told


def change_bytes(source: Base64Source, change: _Change) -> Base64Source:
    """Return the source with another text, where its bytes are text; else the same object."""
    encoded = _recoded(source.data, source.media_type, change)
    return source if encoded == source.data else replace(source, data=encoded)


def encode_text(text: str) -> str:
    """Return the base64 text of a text's bytes."""
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def _places_in(fields: Json) -> Iterable[Json]:
    return list(fields) if is_object(fields) else range(len(fields))


def _told(fields: Json, place: Json, change: _Change) -> str:
    """Return what a field, or an element of an array, becomes."""
    held: str = fields[place]
    key = snake_key(place) if isinstance(place, str) else ""
    if key in _LEFT_WHOLE or (key == "url" and _is_address(fields)):
        return held
    if key not in _BYTES or as_text(fields.get("type")) == "text" or not is_base64(held):
        return change(held)
    types = (as_text(fields.get(name)) for name in _TYPE_KEYS)
    return _recoded(held, next(filter(None, types), ""), change)


def _is_address(fields: JsonObject) -> bool:
    """Whether an object with a `url` says with it where something is fetched from."""
    return fields.get("type") == "url" or fields.keys() <= _PLAIN_ADDRESS


def _recoded(encoded: str, media_type: str, change: _Change) -> str:
    """Return base64 text with the text of its bytes changed, where their type is one of text."""
    declared = declared_type(media_type)
    if not (declared.startswith(_TEXT_TYPES) or declared.endswith(_TEXT_ENDINGS)):
        return encoded
    try:
        bare = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return encoded
    codec = _codec_of(bare)
    text = bare.decode(codec, "replace")
    told = change(text)
    return encoded if told == text else base64.b64encode(told.encode(codec, "replace")).decode()


def _codec_of(bare: bytes) -> str:
    """Return how bytes of text are read: by their mark, as UTF-8, or else each as a character."""
    if bare.startswith(_BOMS):
        return "utf-16"
    try:
        bare.decode()
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
