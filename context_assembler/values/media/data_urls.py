"""Base64 text and `data:` URLs, taken apart."""

import base64
import binascii
import re
from typing import Final
from urllib.parse import unquote_to_bytes

_HEAD: Final = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),", re.IGNORECASE)
_DEFAULT_TYPE: Final = "text/plain"  # RFC 2397


def read_inline_url(url: str) -> tuple[str, str] | None:
    """Return media type and base64 text of a `data:` URL; `None` for anything else."""
    head = _HEAD.match(url[:1_000])
    if head is None:
        return None
    media_type, rest = head[1].strip().lower() or _DEFAULT_TYPE, url[head.end() :]
    if head[2].lower().endswith(";base64"):
        return media_type, plain_base64(rest)
    return media_type, base64.b64encode(unquote_to_bytes(rest)).decode()


def write_inline_url(media_type: str, encoded: str) -> str:
    """Return the `data:` URL that carries base64 text."""
    return f"data:{media_type};base64,{encoded}"


def plain_base64(encoded: str) -> str:
    """Return base64 text as every provider reads it.

    Line breaks go, letters of the URL-safe alphabet become those of the standard one, and what some
    encoders leave away at the end is there. Text that is no base64 is left alone otherwise.
    """
    bare = "".join(encoded.split()).replace("-", "+").replace("_", "/")
    missing = -len(bare) % 4
    return bare if missing == 3 or bare.endswith("=") else bare + "=" * missing


def decode_base64(encoded: str) -> bytes:
    """Return the bytes of base64 text, or of the beginning of one; none for anything else."""
    try:
        return base64.b64decode(encoded[: len(encoded) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def decode_text(encoded: str) -> str | None:
    """Return the UTF-8 text that base64 text stands for; `None` where it stands for none."""
    try:
        return base64.b64decode(encoded, validate=True).decode("utf-8-sig")
    except (binascii.Error, ValueError):
        return None
