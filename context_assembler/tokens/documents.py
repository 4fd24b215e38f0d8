"""What documents cost, by the page."""

import base64
import binascii
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from context_assembler.values.parts import Base64Source, Document

# A page is sent as a picture and as its text.
# Source: https://platform.claude.com/docs/en/build-with-claude/pdf-support (1,500 to 3,000 per
# page), https://ai.google.dev/gemini-api/docs/document-processing (read 2026-11-27)
PAGE_TOKENS: Final[Mapping[str, int]] = {"anthropic": 3_000, "google": 560}
# Models whose images count by this rule count pages so.
RULE_PAGE_TOKENS: Final[Mapping[str, int]] = {"gemini-258": 258}
OTHER_PAGE_TOKENS: Final = 2_000

# A page's picture alone, the least that a page takes where its text is known to be short.
PICTURE_TOKENS: Final[Mapping[str, int]] = {"anthropic": 1_568}

ASSUMED_PAGES: Final = 10  # of a document elsewhere that nobody counted
_CHARS_PER_PAGE: Final = 50_000  # of base64
_BYTES_PER_TOKEN: Final = 3  # of an unpacked PDF, of which text is a part
_MAX_UNPACKED_BYTES: Final = 8_388_608

_PAGE_OBJECT: Final = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_PAGE_TREE: Final = re.compile(rb"/Type\s*/Pages(?![a-zA-Z])")
_PAGE_COUNT: Final = re.compile(rb"/Count\s+(\d{1,5})")
_PACKED_OBJECTS: Final = re.compile(rb"/Type\s*/ObjStm\b[^\0]{0,400}?\bstream\r?\n")
_NEAR_BYTES: Final = 400


def pages_tokens(document: Document, *, provider: str, image_rule: str = "") -> int:
    """Return the tokens of a document's pages; fewer where a PDF shows that it says little."""
    pages = count_pages(document)
    tokens = pages * page_tokens(provider, image_rule=image_rule)
    picture, text = PICTURE_TOKENS.get(provider), _most_text_tokens(document)
    if picture is None or text is None:
        return tokens
    return min(tokens, pages * picture + text)


def count_pages(document: Document) -> int:
    """Return the pages of a document: read from the PDF, else as stated, else guessed.

    What the PDF itself says wins where it can be read. What claims to be a PDF and is none, or
    cannot be read, is guessed by its size.
    """
    source = document.source
    if not isinstance(source, Base64Source):
        return document.page_count or ASSUMED_PAGES
    found = _read_pages(_decoded(source.data))
    return found or document.page_count or 1 + len(source.data) // _CHARS_PER_PAGE


def page_tokens(provider: str, *, image_rule: str = "") -> int:
    """Return the tokens of one page."""
    usual = PAGE_TOKENS.get(provider, OTHER_PAGE_TOKENS)
    return RULE_PAGE_TOKENS.get(image_rule, usual)


def _most_text_tokens(document: Document) -> int | None:
    """Return how many tokens the text of a PDF has at most; `None` where it may be packed."""
    source = document.source
    content = _decoded(source.data) if isinstance(source, Base64Source) else b""
    if b"%PDF" not in content[:1_024] or b"/Filter" in content:
        return None
    return len(content) // _BYTES_PER_TOKEN


def _decoded(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded[: len(encoded) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def _read_pages(content: bytes) -> int:
    """Return the pages that a PDF tells of; 0 where it tells of none."""
    if b"%PDF" not in content[:1_024]:
        return 0
    pages = 0
    for piece in (content, *_unpacked(content)):
        pages += max(len(_PAGE_OBJECT.findall(piece)), _stated(piece))
    return pages


def _stated(content: bytes) -> int:
    """Return the largest count beside a page tree; outlines have counts too."""
    counts = (
        int(count)
        for tree in _PAGE_TREE.finditer(content)
        for count in _PAGE_COUNT.findall(
            content, max(0, tree.start() - _NEAR_BYTES), tree.end() + _NEAR_BYTES
        )
    )
    return max(counts, default=0)


def _unpacked(content: bytes) -> Iterator[bytes]:
    """Yield the packed objects of a PDF, within bounds: since PDF 1.5 pages may stand there."""
    left_bytes = _MAX_UNPACKED_BYTES
    for found in _PACKED_OBJECTS.finditer(content):
        end = content.find(b"endstream", found.end())
        try:
            piece = zlib.decompressobj().decompress(content[found.end() : end], left_bytes)
        except zlib.error:
            continue
        left_bytes -= len(piece)
        yield piece
        if left_bytes <= 0:
            return
