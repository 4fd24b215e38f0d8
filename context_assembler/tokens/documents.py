"""What documents cost, by the page."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

from context_assembler.values.parts import Base64Source, Document

# A page is sent as a picture and as its text.
# Source: https://platform.claude.com/docs/en/build-with-claude/pdf-support (1,500 to 3,000 per
# page), https://ai.google.dev/gemini-api/docs/document-processing (read 2026-11-27)
PAGE_TOKENS: Final[Mapping[str, int]] = {"anthropic": 3_000, "google": 560}
OTHER_PAGE_TOKENS: Final = 2_000

_BYTES_PER_PAGE: Final = 50_000
_PAGE_OBJECT: Final = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_PAGE_COUNT: Final = re.compile(rb"/Count\s+(\d{1,5})")


def count_pages(document: Document) -> int:
    """Return the pages of a document, as stated, read from the PDF, or guessed from its size."""
    if document.page_count is not None:
        return document.page_count
    if not isinstance(document.source, Base64Source):
        return 1
    text = document.source.data
    try:
        content = base64.b64decode(text[: len(text) // 4 * 4])
    except (binascii.Error, ValueError):
        content = b""
    objects = len(_PAGE_OBJECT.findall(content))
    stated = max((int(count) for count in _PAGE_COUNT.findall(content)), default=0)
    return max(objects, stated) or 1 + len(text) // _BYTES_PER_PAGE


def page_tokens(provider: str) -> int:
    """Return the tokens of one page."""
    return PAGE_TOKENS.get(provider, OTHER_PAGE_TOKENS)
