"""What bytes and addresses in a payload say of themselves, whatever is said beside them."""

import re
from typing import Final

from context_assembler.values.media.data_urls import read_inline_url
from context_assembler.values.media.media_types import begins_as

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_\s-]*+={0,2}\s*+")
_SCHEME: Final = re.compile(r"\s*([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_PDF: Final = "application/pdf"

WEB_SCHEMES: Final = frozenset({"http", "https"})
"""What every provider fetches."""


def is_base64(encoded: str) -> bool:
    """Whether the text has only what base64 has; line breaks and the URL-safe letters count."""
    return _BASE64.fullmatch(encoded) is not None


def type_of_bytes(encoded: str) -> str:
    """Return the media type that bytes in base64 begin as; empty where they do not tell."""
    return begins_as(encoded) or ""


def object_to_type(media_type: str, encoded: str) -> str | None:
    """Return why the bytes are not of that type, half a sentence; `None` where they may be.

    Pictures are known by how they begin, and so is a PDF; of other types nothing can be told.
    """
    told = type_of_bytes(encoded)
    declared = "image/jpeg" if media_type == "image/jpg" else media_type
    if told and told != declared:
        return f"its bytes are {told}, not {media_type or 'said to be so'}"
    if declared == _PDF and not told:
        return "its bytes are no PDF"
    return None


def object_to_inlined(url: str) -> str | None:
    """Return why a `data:` URL does not hold what it says; `None` for any other address."""
    inline = read_inline_url(url)
    if inline is None:
        return None
    media_type, encoded = inline
    return object_to_type(media_type, encoded) if is_base64(encoded) else "its bytes are no base64"


def scheme_of(url: str) -> str:
    """Return the scheme of an address in lower case; empty where it has none."""
    found = _SCHEME.match(url)
    return "" if found is None else found[1].lower()
