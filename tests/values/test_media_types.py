"""What bytes are, whatever is said of them."""

import base64

import pytest

from context_assembler.values.media.media_types import (
    begins_as,
    declared_type,
    media_type_of,
    retype,
)
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    UrlSource,
)
from tests.providers.drafts import PIXEL

PDF = base64.b64encode(b"%PDF-1.4\n%%EOF\n").decode()
BEGINNINGS: dict[str, tuple[bytes, str | None]] = {
    "a JPEG": (b"\xff\xd8\xff\xe0", "image/jpeg"),
    "a PNG": (b"\x89PNG\r\n\x1a\n", "image/png"),
    "a GIF": (b"GIF89a", "image/gif"),
    "a WebP": (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    "a recording, which is a RIFF file too": (b"RIFF\x10\0\0\0WAVEfmt ", None),
    "a bitmap": (b"BM....", "image/bmp"),
    "a TIFF": (b"II*\0", "image/tiff"),
    "the other TIFF": (b"MM\0*", "image/tiff"),
    "a PDF": (b"%PDF-1.7", "application/pdf"),
    "a PDF behind a preamble": (b"\n" * 900 + b"%PDF-1.7", "application/pdf"),
    "a mark too late for a PDF": (b"\n" * 1_100 + b"%PDF-1.7", None),
    "an archive": (b"PK\3\4", None),
    "nothing": (b"", None),
}


@pytest.mark.parametrize(("content", "media_type"), BEGINNINGS.values(), ids=BEGINNINGS.keys())
def test_bytes_are_what_they_begin_as(content: bytes, media_type: str | None) -> None:
    assert begins_as(base64.b64encode(content).decode()) == media_type


def test_what_is_said_counts_where_the_bytes_do_not_tell() -> None:
    assert (
        media_type_of(Base64Source(media_type="Audio/WAV; rate=8000", data="QQ==")) == "audio/wav"
    )
    assert media_type_of(Base64Source(media_type="image/png", data=PDF)) == "application/pdf"
    assert declared_type(" image/JPG ") == "image/jpeg"


PNG_BYTES = Base64Source(media_type="image/png", data=PIXEL)
PDF_BYTES = Base64Source(media_type="application/pdf", data=PDF)
RETYPED: dict[str, tuple[Image | Document, Image | Document | None]] = {
    "a PDF that is a picture": (
        Document(source=Base64Source(media_type="application/pdf", data=PIXEL), title="scan"),
        Image(source=PNG_BYTES),
    ),
    "a file of no known type that is a picture": (
        Document(source=Base64Source(media_type="application/octet-stream", data=PIXEL)),
        Image(source=PNG_BYTES),
    ),
    "a document said to be a picture": (
        Document(source=UrlSource(url="https://x/a", media_type="image/webp")),
        Image(source=UrlSource(url="https://x/a", media_type="image/webp")),
    ),
    "a picture that is a PDF": (
        Image(source=Base64Source(media_type="image/png", data=PDF)),
        Document(source=PDF_BYTES),
    ),
    "a picture": (Image(source=PNG_BYTES), None),
    "a PDF": (Document(source=PDF_BYTES), None),
    "a document with a text": (Document(source=PNG_BYTES, text="said"), None),
    "an address that tells nothing": (Document(source=UrlSource(url="https://x/a.png")), None),
    "a file": (Document(source=FileIdSource(provider="openai", file_id="f")), None),
    "a file of pictures": (Image(source=FileIdSource(provider="openai", file_id="f")), None),
}


@pytest.mark.parametrize(("part", "other"), RETYPED.values(), ids=RETYPED.keys())
def test_a_part_becomes_what_its_bytes_are(
    part: Image | Document, other: Image | Document | None
) -> None:
    assert retype(part) == other
    assert other is None or retype(other) is None
