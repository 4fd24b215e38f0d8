"""What the first bytes of a file say of its encoding."""

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from typing import Final, NamedTuple


class MarkedEncoding(NamedTuple):
    """A byte order mark, and the encoding of what stands behind it."""

    mark: bytes
    encoding: str


# UTF-32 first: its little-endian mark begins like that of UTF-16.
_MARKS: Final = (
    MarkedEncoding(BOM_UTF8, "utf-8"),
    MarkedEncoding(BOM_UTF32_LE, "utf-32-le"),
    MarkedEncoding(BOM_UTF32_BE, "utf-32-be"),
    MarkedEncoding(BOM_UTF16_LE, "utf-16-le"),
    MarkedEncoding(BOM_UTF16_BE, "utf-16-be"),
)
_NO_MARK: Final = MarkedEncoding(b"", "utf-8")


def marked_encoding(content: bytes) -> MarkedEncoding:
    """Return the mark that the content begins with; an empty one, and UTF-8, where there is none."""
    return next((marked for marked in _MARKS if content.startswith(marked.mark)), _NO_MARK)
