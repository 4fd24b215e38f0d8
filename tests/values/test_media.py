"""What is said of media that is left out, and what the sources of media become."""

import base64

import pytest

from context_assembler.values.data_urls import decode_base64, decode_text, read_inline_url
from context_assembler.values.media import image_type, left_out
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    MediaSource,
    UrlSource,
)

NAMES: dict[str, tuple[MediaSource, str]] = {
    "bytes": (Base64Source(media_type="image/bmp", data="Qk0=" * 90_000), "image/bmp"),
    "a URL": (UrlSource(url="https://example.com/a.png"), "https://example.com/a.png"),
    "a long URL": (UrlSource(url="https://x/" + "y" * 90_000), "https://x/" + "y" * 69 + "…"),
    "a URL on two lines": (UrlSource(url="https://x/\n y"), "https://x/ y"),
    "a file": (FileIdSource(provider="openai", file_id="file-1"), "openai file file-1"),
    "nothing": (UrlSource(url=" "), "unnamed"),
}

INLINE: dict[str, tuple[MediaSource, tuple[str, str]]] = {
    "a data URL": (UrlSource(url="data:image/png;base64,iVBO"), ("image/png", "iVBO")),
    "one in capitals": (UrlSource(url=" DATA:IMAGE/PNG;BASE64,iVBO"), ("image/png", "iVBO")),
    "one with a charset": (
        UrlSource(url="data:text/plain;charset=utf-8;base64,aGk="),
        ("text/plain", "aGk="),
    ),
    "one without base64": (UrlSource(url="data:,a%20b"), ("text/plain", "YSBi")),
    "a data URL for bytes": (
        Base64Source(media_type="image/gif", data="data:image/png;base64,iVBO"),
        ("image/gif", "iVBO"),
    ),
    "the same without a type": (
        Base64Source(media_type="", data="data:image/png;base64,iVBO"),
        ("image/png", "iVBO"),
    ),
    "base64 in lines": (
        Base64Source(media_type="image/png", data="iV\r\nBO\n"),
        ("image/png", "iVBO"),
    ),
}


@pytest.mark.parametrize(("source", "name"), NAMES.values(), ids=NAMES.keys())
def test_the_line_names_what_is_left_out_in_few_characters(source: MediaSource, name: str) -> None:
    line = left_out("image", source, reason="the model takes no images")

    assert line == f"[image left out: {name}; the model takes no images]"


@pytest.mark.parametrize(("source", "inline"), INLINE.values(), ids=INLINE.keys())
def test_bytes_in_the_source_are_plain_base64(source: MediaSource, inline: tuple[str, str]) -> None:
    media_type, data = inline

    assert Image(source=source).source == Base64Source(media_type=media_type, data=data)
    assert Document(source=source).source == Base64Source(media_type=media_type, data=data)


@pytest.mark.parametrize("url", ["https://example.com/a", "data:", "data:image/png;base64", ""])
def test_any_other_url_stays_one(url: str) -> None:
    assert read_inline_url(url) is None
    assert Image(source=UrlSource(url=url)).source == UrlSource(url=url)


TEXTS = {
    "text": ("text/plain", "héllo".encode(), "héllo"),
    "text with a mark": ("text/markdown", b"\xef\xbb\xbf# hi", "# hi"),
    "no UTF-8": ("text/plain", b"\xff\xfe\xfa", None),
    "no text": ("application/pdf", b"%PDF-1.4", None),
}


@pytest.mark.parametrize(("media_type", "content", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_a_document_of_text_knows_its_text(
    media_type: str, content: bytes, text: str | None
) -> None:
    data = base64.b64encode(content).decode()

    document = Document(source=Base64Source(media_type=media_type, data=data))

    assert document.text == text
    assert Document(source=document.source, text="own").text == "own"


@pytest.mark.parametrize("encoded", ["é", "a", "=aaa"])
def test_what_is_no_base64_is_no_text(encoded: str) -> None:
    assert decode_text(encoded) is None
    assert decode_base64(encoded) == b""


def test_the_bytes_of_a_picture_decide_its_type() -> None:
    assert image_type(Base64Source(media_type="image/png", data="/9j/4AAQ")) == "image/jpeg"
    assert image_type(Base64Source(media_type="image/JPG", data="AAAA")) == "image/jpeg"
    assert image_type(Base64Source(media_type="image/bmp", data="Qk0=")) == "image/bmp"
