"""What providers ask of a PDF, looked up once per file and kept within bounds."""

import threading
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cachetools import LRUCache, cached

_MAX_FILES: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfFacts:
    """`page_count` is `None` where the file does not tell."""

    page_count: int | None
    is_locked: bool


def _digest(encoded: str) -> str:
    return sha256(encoded.encode("utf-8", "surrogatepass")).hexdigest()


@cached(LRUCache[str, PdfFacts](_MAX_FILES), key=_digest, lock=threading.Lock())
def read_pdf_facts(encoded: str) -> PdfFacts:
    """Return the facts of a PDF in base64; the same file is read once."""
    from context_assembler.values.media.pdf_pages import (  # noqa: PLC0415 - only with PDFs
        count_pdf_pages,
        decode_pdf,
        is_locked_pdf,
    )

    content = decode_pdf(encoded)
    return PdfFacts(page_count=count_pdf_pages(content), is_locked=is_locked_pdf(content))
