"""Rules on contents: their shape and roles, text, media."""

import re
from collections.abc import Iterator
from typing import Final

from context_assembler.providers.gemini.adapt import (
    MAX_IMAGE_CHARS_ON_VERTEX,
    MAX_IMAGES,
    MAX_IMAGES_ON_VERTEX,
    MAX_INLINE_CHARS,
    MAX_PDF_PAGES,
)
from context_assembler.providers.gemini.content import IMAGE_TYPES
from context_assembler.providers.gemini.generations import is_on_vertex
from context_assembler.providers.gemini.rule_book import Sent, SentPart, breach
from context_assembler.values.breaches import level_if
from context_assembler.values.json_shapes import is_object
from context_assembler.values.media.media_claims import WEB_SCHEMES, object_to_type, scheme_of
from context_assembler.values.media.pdf_facts import read_pdf_facts
from context_assembler.values.native.gemini_fields import KINDS, MARKS, snake_fields
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_array, as_text
from context_assembler.values.report import Violation

_SCHEMES: Final = WEB_SCHEMES | {"gs"}
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_ADVISABLE_INLINE_CHARS: Final = 20 * 1024 * 1024


def check_shape(sent: Sent) -> Iterator[Violation]:
    """G0, G13: contents with parts, each part holding one thing."""
    if not as_text(sent.payload.get("model")):
        yield breach(
            "G0", "model", "a model id belongs here, unless the URL names it", level="avoid"
        )
    if not sent.contents:
        yield breach("G0", "contents", "at least one content is required")
    for content in sent.contents:
        if not content.parts:
            yield breach("G13", f"{content.where}.parts", "at least one part is required")
        for part in content.parts:
            yield from _check_part(part)


def _check_part(part: SentPart) -> Iterator[Violation]:
    kinds = sorted(KINDS & part.fields.keys())
    for name in sorted(part.fields.keys() - KINDS - MARKS):
        yield breach(
            "G0", f"{part.where}.{name:.40}", "unknown field: neither SDK nor API takes it"
        )
    if not kinds and not part.fields.get("thought_signature"):
        yield breach("G0", part.where, "holds none of the things that a part can hold")
    if len(kinds) > 1:
        yield breach("G0", part.where, f"holds more than one thing: {', '.join(kinds)}")
    text = part.fields.get("text", "")
    if not isinstance(text, str):
        yield breach("G0", f"{part.where}.text", "must be text")
    signature = part.fields.get("thought_signature", "")
    if not isinstance(signature, str) or not _BASE64.fullmatch(signature):
        yield breach("G5", f"{part.where}.thought_signature", "must be base64, as it came")


def check_roles(sent: Sent) -> Iterator[Violation]:
    """G1: user and model alone speak, the user first and last."""
    for content in sent.contents:
        if content.role == "function":
            message = "responses of functions belong to the user"
            yield breach("G1", f"{content.where}.role", message, level="avoid")
        elif content.role not in ("user", "model"):
            message = f"{content.role!r} is none of user and model"
            yield breach("G1", f"{content.where}.role", message)
    if sent.contents and sent.contents[0].role == "model":
        message = "the user should speak first"
        yield breach("G1", sent.contents[0].where, message, level="avoid")
    if sent.contents and sent.contents[-1].role == "model":
        message = "the model should not speak last"
        yield breach("G1", sent.contents[-1].where, message, level="avoid")


def check_text(sent: Sent) -> Iterator[Violation]:
    """G13: blank text says nothing; only a signature may hang on it."""
    for content in sent.contents:
        for part in content.parts:
            text = part.fields.get("text")
            is_bare = not part.fields.get("thought_signature")
            if isinstance(text, str) and not text.strip() and is_bare:
                yield breach("G13", f"{part.where}.text", "is blank", level="avoid")


def check_media(sent: Sent) -> Iterator[Violation]:
    """G12: bytes with a type, as base64, and not too many; files with an address."""
    inline_chars = images = 0
    for content in sent.contents:
        for part in content.parts:
            for where, fields in _media_in(part):
                inline = snake_fields(fields.get("inline_data"))
                inline_chars += len(as_text(inline.get("data")))
                images += as_text(inline.get("mime_type")).startswith("image/")
                yield from _check_media(sent, fields, where=where)
    if inline_chars > _ADVISABLE_INLINE_CHARS:
        is_over = inline_chars > MAX_INLINE_CHARS
        message = f"{inline_chars:,} characters of base64; upload the files"
        yield breach("G12", "contents", message, level=level_if(is_over))
    most_images = MAX_IMAGES_ON_VERTEX if is_on_vertex(sent.limits) else MAX_IMAGES
    if images > most_images:
        message = f"{images:,} images, at most {most_images:,} are taken"
        yield breach("G12", "contents", message, level="avoid")


def _media_in(part: SentPart) -> Iterator[tuple[str, dict[str, object]]]:
    yield part.where, part.fields
    for index, inner in enumerate(as_array(part.response.get("parts"))):
        yield f"{part.where}.function_response.parts[{index}]", snake_fields(inner)


def _check_media(sent: Sent, fields: dict[str, object], *, where: str) -> Iterator[Violation]:
    inline = fields.get("inline_data")
    if inline is not None:
        yield from _check_inline(sent, inline, where=f"{where}.inline_data")
    fetched = fields.get("file_data")
    if fetched is not None:
        yield from _check_address(fetched, where=f"{where}.file_data.file_uri")


def _check_address(fetched: Json, *, where: str) -> Iterator[Violation]:
    address = as_text(snake_fields(fetched).get("file_uri"))
    scheme = scheme_of(address)
    if not address:
        yield breach("G12", where, "an address is required")
    elif scheme not in _SCHEMES:
        message = f"cannot be fetched: {scheme or 'no'} scheme, only https and gs"
        yield breach("G12", where, message, level=level_if(bool(scheme)))


def _check_inline(sent: Sent, inline: object, *, where: str) -> Iterator[Violation]:
    fields = snake_fields(inline)
    media_type, encoded = as_text(fields.get("mime_type")), fields.get("data")
    if not media_type:
        yield breach("G12", f"{where}.mime_type", "a media type is required")
    elif media_type.startswith("image/"):
        if media_type not in IMAGE_TYPES:
            message = f"{media_type} is none of {', '.join(IMAGE_TYPES)}"
            yield breach("G12", f"{where}.mime_type", message, level="avoid")
        if sent.limits is not None and sent.limits.features.get("vision") is False:
            yield breach("G12", where, "the model takes no images")
    if not is_object(inline) or not isinstance(encoded, str) or not encoded:
        yield breach("G12", f"{where}.data", "bytes are required, as base64")
    elif not _BASE64.fullmatch(encoded):
        yield breach("G12", f"{where}.data", "must be base64 without a data: prefix")
    else:
        objection = object_to_type(media_type, encoded)
        if media_type and objection is not None:
            yield breach("G12", f"{where}.data", objection, level="avoid")
        yield from _check_size(sent, media_type, encoded, where=f"{where}.data")


def _check_size(sent: Sent, media_type: str, encoded: str, *, where: str) -> Iterator[Violation]:
    most_chars = MAX_IMAGE_CHARS_ON_VERTEX if is_on_vertex(sent.limits) else len(encoded)
    if media_type.startswith("image/") and len(encoded) > most_chars:
        message = f"{len(encoded):,} characters of base64, Vertex AI takes {most_chars:,}"
        yield breach("G12", where, message, level="avoid")
    if media_type == "application/pdf":
        pages = read_pdf_facts(encoded).page_count or 0
        if pages > MAX_PDF_PAGES:
            message = f"{pages:,} pages, at most {MAX_PDF_PAGES:,} are taken"
            yield breach("G12", where, message, level="avoid")
