"""Parts of `generate_content` that hold something other than what their fields promise."""

import re
from typing import Final

from context_assembler.values.media.media_claims import is_base64
from context_assembler.values.messages import Role
from context_assembler.values.native.gemini_fields import KINDS, snake_fields
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_object, as_text

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_=\s-]*")
# Whatever can be read of these is read, and does not stay a part of Gemini's own.
_READ: Final = ("function_call", "function_response")


def find_flaw(block: JsonObject, _role: Role) -> str | None:
    """Return why a part would be refused, half a sentence; `None` where nothing is known against it.

    What a reply says about itself holds no kind of part, and is judged elsewhere.

    Source:
        types of google-genai 3.6, `google.genai.types.Part` (read 2026-11-27)
    """
    fields = snake_fields(block)
    kinds = sorted(KINDS & fields.keys())
    if len(kinds) > 1:
        return f"it holds more than one thing: {', '.join(kinds)}"
    signature = fields.get("thought_signature", "")
    if not isinstance(signature, str) or not _BASE64.fullmatch(signature):
        return "its thought_signature is amiss"
    if not kinds:
        return None
    [kind] = kinds
    held = fields[kind]
    if kind == "text":
        return None if isinstance(held, str) else "its text is amiss"
    if kind in _READ or not as_object(held):
        return f"its {kind} is amiss"
    if kind == "inline_data":
        return _object_to_inline(held)
    if kind == "file_data" and not as_text(snake_fields(held).get("file_uri")).strip():
        return "its file_data's file_uri is amiss"
    return None


def _object_to_inline(held: Json) -> str | None:
    fields = snake_fields(held)
    if not as_text(fields.get("mime_type")).strip():
        return "its inline_data's mime_type is amiss"
    encoded = as_text(fields.get("data"))
    return None if encoded and is_base64(encoded) else "its inline_data's data is amiss"
