"""The parts that the parts of a message become."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, assert_never

from context_assembler.values.media.attachments import is_attachment
from context_assembler.values.media.document_texts import tell_about, tell_text
from context_assembler.values.media.media_types import media_type_of
from context_assembler.values.native.gemini_fields import own_extras, snake_block
from context_assembler.values.native.gemini_parts import PROVIDER, standard_base64
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Json,
    MediaSource,
    Opaque,
    Part,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)
from context_assembler.values.reading import as_object
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.wire import plain_json

# https://ai.google.dev/gemini-api/docs/image-understanding (read 2026-11-27)
IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")

# Docstrings of `google.genai.types.FunctionResponsePart`, google-genai 3.6, and
# https://ai.google.dev/gemini-api/docs/function-calling (read 2026-11-27)
RESPONSE_TYPES: Final = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")

_TYPES_BY_ENDING: Final[Mapping[str, str]] = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "pdf": "application/pdf",
}
_ENDING: Final = re.compile(r"\.(\w+)(?:[?#].*)?$")


def text_part(text: str) -> dict[str, Json]:
    """Return the text as a part."""
    return {"text": clean_text(text)}


def content_parts(part: Part) -> Iterator[dict[str, Json]]:
    """Yield what a part becomes among the parts of a content; blank text vanishes."""
    match part:
        case Text(text):
            if clean_text(text).strip():
                yield text_part(text) | beside(part)
        case Image(source=source):
            yield _media_part(source)
        case Document(text=None, source=source):
            if told := tell_about(part):
                yield text_part(told)
            yield _media_part(source)
        case Document():
            yield text_part(tell_text(part))
        case Opaque(provider=provider, block=block, text=text):
            if provider == PROVIDER:
                yield plain_json(snake_block(block))
            elif clean_text(text).strip():
                yield text_part(text)
        case ToolCall() | ToolResult() | Thinking():
            return
        case _:
            assert_never(part)


def beside(part: Text | ToolCall | ToolResult, nested: str = "") -> dict[str, Json]:
    """Return what a part has beside what we know of it; without that of its object."""
    extras = snake_block(own_extras(part.extras, provider=PROVIDER))
    return {key: plain_json(held) for key, held in extras.items() if key != nested}


def inside(part: ToolCall | ToolResult, nested: str) -> dict[str, Json]:
    """Return what the call or the response of a part has beside what we know of it."""
    return as_object(
        plain_json(snake_block(own_extras(part.extras, provider=PROVIDER)).get(nested))
    )


def response_part(part: ResultPart) -> dict[str, Json] | None:
    """Return an image or a document as part of a function's response; `None` where it cannot be.

    Of ours only inline bytes: what is fetched from a URL goes into the user content behind it.

    Source:
        https://ai.google.dev/gemini-api/docs/function-calling (read 2026-11-27)
    """
    if isinstance(part, Opaque):
        return _own_response_part(part)
    if not is_attachment(part):
        return None
    for spelled in content_parts(part):
        if as_object(spelled.get("inline_data")).get("mime_type") in RESPONSE_TYPES:
            return spelled
    return None


def told_beside(part: ResultPart) -> str:
    """Return what is told of a part that goes into a response as bytes: they have no fields for it."""
    return tell_about(part) if isinstance(part, Document) else ""


def _own_response_part(part: Opaque) -> dict[str, Json] | None:
    """Return a part of an earlier response as it came: with a name, a resolution, or in storage."""
    if part.provider != PROVIDER:
        return None
    spelled = as_object(plain_json(snake_block(part.block)))
    for kind in ("inline_data", "file_data"):
        if as_object(spelled.get(kind)).get("mime_type") in RESPONSE_TYPES:
            return spelled
    return None


def fetched_type(source: UrlSource) -> str | None:
    """Return the media type of what lies at an address, as it is declared or its ending tells."""
    ending = _ENDING.search(source.url)
    guessed = _TYPES_BY_ENDING.get(ending[1].lower()) if ending else None
    return source.media_type or guessed


def _media_part(source: MediaSource) -> dict[str, Json]:
    """Return bytes inline, or where the provider finds them; it knows the type of its own files.

    Source:
        docstring of `google.genai.types.Part.from_uri`, google-genai 3.6 (read 2026-11-27)
    """
    match source:
        case Base64Source(data=encoded):
            media_type = media_type_of(source)
            return {"inline_data": {"mime_type": media_type, "data": standard_base64(encoded)}}
        case UrlSource(url=url):
            fetched: dict[str, Json] = {"file_uri": clean_text(url)}
            media_type = fetched_type(source) or ""
            return {"file_data": fetched | ({"mime_type": media_type} if media_type else {})}
        case FileIdSource(file_id=file_id):
            return {"file_data": {"file_uri": clean_text(file_id)}}
        case _:
            assert_never(source)
