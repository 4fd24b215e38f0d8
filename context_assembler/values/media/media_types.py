"""What bytes are: the type that they begin as goes before the one that is said of them."""

from collections.abc import Mapping
from typing import Final, assert_never

from context_assembler.values.media.data_urls import decode_base64
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    MediaSource,
    UrlSource,
)

PDF: Final = "application/pdf"

# A picture is refused when its bytes are of another type than it says, so the bytes decide.
_IMAGE_STARTS: Final[Mapping[bytes, str]] = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"GIF8": "image/gif",
}
# Formats that none of the providers takes, but other software reads.
_OTHER_STARTS: Final[Mapping[bytes, str]] = {
    b"BM": "image/bmp",
    b"II*\0": "image/tiff",
    b"MM\0*": "image/tiff",
}
TELLING_TYPES: Final = frozenset({*_IMAGE_STARTS.values(), "image/webp"})
"""Types of pictures that always begin alike."""

# ISO 32000 wants the mark at the very beginning; readers look for it in the first 1,024 bytes.
_PDF_MARK: Final = b"%PDF-"
_PDF_HEAD_CHARS: Final = 1_368
_HEAD_CHARS: Final = 32


def begins_as(encoded: str) -> str | None:
    """Return the type that base64 text begins as: a picture or a PDF; `None` for anything else."""
    head = decode_base64(encoded[:_HEAD_CHARS])
    for start, media_type in (*_IMAGE_STARTS.items(), *_OTHER_STARTS.items()):
        if head.startswith(start):
            return media_type
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return PDF if _PDF_MARK in decode_base64(encoded[:_PDF_HEAD_CHARS]) else None


def declared_type(media_type: str) -> str:
    """Return a media type as providers spell it, without parameters."""
    bare = media_type.partition(";")[0].strip().lower()
    return "image/jpeg" if bare == "image/jpg" else bare


def media_type_of(source: Base64Source) -> str:
    """Return the type that the bytes have; the declared one where they do not tell."""
    return begins_as(source.data) or declared_type(source.media_type)


def retype(part: Image | Document) -> Image | Document | None:
    """Return a picture that came as a document as an image, and the reverse; `None` for others."""
    source: MediaSource = part.source
    match source:
        case Base64Source(data=encoded):
            media_type = media_type_of(source)
            source = Base64Source(media_type=media_type, data=encoded)
        case UrlSource(media_type=declared):
            media_type = declared_type(declared or "")
        case FileIdSource():
            return None
        case _:
            assert_never(source)
    if isinstance(part, Document):
        is_picture = part.text is None and media_type.startswith("image/")
        return Image(source=source) if is_picture else None
    return Document(source=source) if media_type == PDF else None
