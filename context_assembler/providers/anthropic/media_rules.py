"""Rules on images, documents and the size of a request."""

from collections.abc import Iterator
from typing import Final

from context_assembler.providers.anthropic.adapt import (
    CROWD_IMAGES,
    CROWD_SIDE_PX,
    IMAGE_TYPES,
    MAX_REQUEST_CHARS,
    MAX_SIDE_PX,
    max_images,
    max_pdf_pages,
    media_rules,
)
from context_assembler.providers.anthropic.block_rules import all_blocks
from context_assembler.providers.anthropic.rule_book import Block, Sent, breach
from context_assembler.values.media.image_sizes import measure_base64
from context_assembler.values.media.media_claims import (
    WEB_SCHEMES,
    is_base64,
    object_to_type,
    scheme_of,
)
from context_assembler.values.media.pdf_facts import read_pdf_facts
from context_assembler.values.parts import JsonObject
from context_assembler.values.reading import as_object, as_text, count_text_chars
from context_assembler.values.report import Violation

_MAX_IMAGE_CHARS: Final = 10 * 1024 * 1024


def check_images(sent: Sent) -> Iterator[Violation]:
    """A21: types, numbers and sizes of images."""
    images = [block for block in all_blocks(sent) if block.kind == "image"]
    limits = sent.limits
    most = max_images(limits.window_tokens if limits is not None else None)
    most_chars = (media_rules(limits).max_image_chars if limits is not None else None) or (
        _MAX_IMAGE_CHARS
    )
    if len(images) > most:
        yield breach("A21", images[most].where, f"at most {most} images are taken")
    for block in images:
        yield from _check_image(block, is_crowd=len(images) > CROWD_IMAGES, most_chars=most_chars)
        if limits is not None and limits.features.get("vision") is False:
            yield breach("A21", block.where, "the model takes no images")


def check_documents(sent: Sent) -> Iterator[Violation]:
    """A22: types, bytes, pages and locks of documents, and the size of the request."""
    most = max_pdf_pages(sent.limits.window_tokens if sent.limits is not None else None)
    total = 0
    for block in all_blocks(sent):
        source = as_object(block.body.get("source"))
        if block.kind != "document":
            continue
        if source.get("type") == "url":
            yield from _check_url(source, where=f"{block.where}.source.url", rule="A22")
        if source.get("type") != "base64":
            continue
        if source.get("media_type") != "application/pdf":
            yield breach("A22", f"{block.where}.source.media_type", "must be application/pdf")
            continue
        objection = _object_to_bytes(source)
        if objection is not None:
            yield breach("A22", f"{block.where}.source.data", objection)
        facts = read_pdf_facts(as_text(source.get("data")))
        pages = facts.page_count or 0
        total += pages
        if facts.is_locked:
            yield breach("A22", f"{block.where}.source.data", "an encrypted PDF is not taken")
        if pages > most:
            yield breach("A22", f"{block.where}.source.data", f"a PDF has at most {most} pages")
        elif total > most:
            message = f"the PDFs of a request have at most {most} pages together"
            yield breach("A22", f"{block.where}.source.data", message, level="avoid")
    if count_text_chars(sent.payload) > MAX_REQUEST_CHARS:
        yield breach("A22", "messages", "a request has at most 32 MB")


def _check_image(block: Block, *, is_crowd: bool, most_chars: int) -> Iterator[Violation]:
    source = as_object(block.body.get("source"))
    kind, where = source.get("type"), f"{block.where}.source"
    if kind == "base64":
        if source.get("media_type") not in IMAGE_TYPES:
            yield breach("A21", f"{where}.media_type", "must be JPEG, PNG, GIF or WebP")
        encoded = as_text(source.get("data"))
        objection = _object_to_bytes(source)
        if objection is not None:
            yield breach("A21", f"{where}.data", objection)
        if len(encoded) > most_chars:
            message = f"an image has at most {most_chars >> 20} MB"
            yield breach("A21", f"{where}.data", message)
        yield from _check_side(encoded, where=f"{where}.data", is_crowd=is_crowd)
    elif kind == "url":
        yield from _check_url(source, where=f"{where}.url", rule="A21")
    elif kind != "file":
        yield breach("A21", where, "must be base64, url or file")


def _object_to_bytes(source: JsonObject) -> str | None:
    """Return why the bytes are refused: no base64, or of another type than they are said to be.

    Source:
        https://github.com/BerriAI/litellm/issues/24900: "The image was specified using the image/png
        media type, but the image appears to be a image/jpeg image";
        https://github.com/anthropics/claude-code/issues/5174: "The PDF specified was not valid."
        (read 2026-11-28)
    """
    encoded = as_text(source.get("data"))
    if not encoded or not is_base64(encoded):
        return "must be base64 without a data: prefix"
    return object_to_type(as_text(source.get("media_type")), encoded)


def _check_url(source: JsonObject, *, where: str, rule: str) -> Iterator[Violation]:
    url = as_text(source.get("url"))
    scheme = scheme_of(url)
    if not url.strip():
        yield breach(rule, where, "a URL is required")
    elif scheme == "data":
        yield breach(rule, where, "bytes are sent as base64, not as a data: URL")
    elif scheme not in WEB_SCHEMES:
        yield breach(rule, where, f"cannot be fetched: {scheme or 'no'} scheme, only https")


def _check_side(encoded: str, *, where: str, is_crowd: bool) -> Iterator[Violation]:
    most = CROWD_SIDE_PX if is_crowd else MAX_SIDE_PX
    size = measure_base64(encoded)
    if size is not None and max(size) > most:
        when = f" where there are more than {CROWD_IMAGES}" if is_crowd else ""
        yield breach("A21", where, f"an image has at most {most:,} pixels a side{when}")
