"""What is said of media that is left out, and what the sources of media become."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from context_assembler.providers import PROVIDERS
from context_assembler.values.limits import ModelLimits
from context_assembler.values.media.data_urls import decode_base64, decode_text, read_inline_url
from context_assembler.values.media.media_rules import (
    MediaRules,
    left_out,
    object_to_document,
    object_to_image,
)
from context_assembler.values.media.media_types import media_type_of
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    MediaSource,
    Text,
    UrlSource,
)
from tests.providers.drafts import GEMINI_4, HAIKU_45, OPUS, draft, user

NAMES: dict[str, tuple[MediaSource, str]] = {
    "bytes": (Base64Source(media_type="image/bmp", data="Qk0=" * 90_000), "image/bmp"),
    "a URL": (UrlSource(url="https://example.com/a.png"), "https://example.com/a.png"),
    "a long URL": (UrlSource(url="https://x/" + "y" * 90_000), "https://x/" + "y" * 69 + "…"),
    "a URL on two lines": (UrlSource(url="https://x/\n y"), "https://x/ y"),
    "a file": (FileIdSource(provider="openai", file_id="file-1"), "openai file file-1"),
    "nothing": (UrlSource(url=" "), "unnamed"),
    "an address with a password": (
        UrlSource(url="https://me:pw@12@example.com/@a.png"),
        "https://example.com/@a.png",
    ),
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


PLAIN: dict[str, tuple[str, str]] = {
    "plain": ("+/8=", "+/8="),
    "the URL-safe alphabet": ("-_8=", "+/8="),
    "without its end": ("-_8", "+/8="),
    "in lines": ("+/\r\n8=\n", "+/8="),
    "of no length that base64 has": ("abcde", "abcde"),
}


@pytest.mark.parametrize(("given", "plain"), PLAIN.values(), ids=PLAIN.keys())
def test_base64_is_spelled_as_every_provider_reads_it(given: str, plain: str) -> None:
    source = Base64Source(media_type="image/png", data=given)

    assert Image(source=source).source == Base64Source(media_type="image/png", data=plain)


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
    assert media_type_of(Base64Source(media_type="image/png", data="/9j/4AAQ")) == "image/jpeg"
    assert media_type_of(Base64Source(media_type="image/JPG", data="AAAA")) == "image/jpeg"
    assert media_type_of(Base64Source(media_type="image/png", data="Qk0=")) == "image/bmp"
    assert media_type_of(Base64Source(media_type="image/heic", data="AAAA")) == "image/heic"


def pdf(pages: int, *, is_locked: bool = False) -> str:
    """Return a PDF with a page tree of that many pages, and no page, as base64."""
    lock = b" /Encrypt 3 0 R" if is_locked else b""
    content = (
        b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"
        b"2 0 obj\n<< /Type /Pages /Kids [] /Count " + str(pages).encode() + b" >>\nendobj\n"
        b"trailer << /Root 1 0 R" + lock + b" >>\n%%EOF\n"
    )
    return base64.b64encode(content).decode()


def paper(data: str, **fields: Any) -> Document:
    return Document(source=Base64Source(media_type="application/pdf", data=data), **fields)


RULES = MediaRules(
    api="it",
    file_owner="it",
    image_types=("image/png",),
    image_words="PNG",
    max_pdf_pages=10,
    takes_locked_pdfs=False,
    max_document_chars=1_000,
)
PAPERS: dict[str, tuple[Document, str | None]] = {
    "as many pages as are taken": (paper(pdf(10)), None),
    "a page more": (paper(pdf(11)), "its 11 pages are more than 10"),
    "the file is believed, not who sent it": (paper(pdf(10), page_count=99), None),
    "who sent it is, where the file does not tell": (
        paper("JVBERi0=", page_count=1_200),
        "its 1,200 pages are more than 10",
    ),
    "nobody tells": (paper("JVBERi0="), None),
    "a lock": (paper(pdf(1, is_locked=True)), "it takes no encrypted PDF"),
    "too many bytes": (paper("A" * 1_004), "its 1,004 characters of base64 are more than 1,000"),
    "a type that is not taken": (
        Document(source=Base64Source(media_type="application/zip", data="UEs=")),
        "only PDF and plain text are taken",
    ),
}


@pytest.mark.parametrize(("document", "reason"), PAPERS.values(), ids=PAPERS.keys())
def test_a_document_is_taken_or_the_reason_is_told(document: Document, reason: str | None) -> None:
    objection = object_to_document(document, rules=RULES, limits=OPUS)

    assert (None if objection is None else objection.reason) == reason


def test_without_a_limit_a_pdf_is_not_read() -> None:
    rules = replace(RULES, max_pdf_pages=None, takes_locked_pdfs=True)

    assert object_to_document(paper(pdf(9_999)), rules=rules, limits=OPUS) is None


def test_a_limit_on_locks_alone_counts_no_pages() -> None:
    rules = replace(RULES, max_pdf_pages=None)

    assert object_to_document(paper(pdf(9_999)), rules=rules, limits=OPUS) is None


PAGES: dict[str, tuple[str, ModelLimits, int]] = {
    "a large window of Claude": ("anthropic", OPUS, 600),
    "a small window of Claude": ("anthropic", HAIKU_45, 100),
    "Gemini": ("gemini", GEMINI_4, 1_000),
}


@pytest.mark.parametrize(("provider", "limits", "pages"), PAGES.values(), ids=PAGES.keys())
def test_a_pdf_over_the_limit_of_pages_is_left_out(
    provider: str, limits: ModelLimits, pages: int
) -> None:
    made = draft([user(paper(pdf(pages)), paper(pdf(pages + 1)), id="m")], limits=limits)

    adapted, [row] = PROVIDERS[provider].adapt(made)

    kept, line = adapted.messages[0].parts
    reason = f"its {pages + 1:,} pages are more than {pages:,}"
    assert kept == paper(pdf(pages))
    assert line == Text(f"[document left out: application/pdf; {reason}]")
    assert (row.id, row.decision, row.rule) == ("m", "shortened", "media.pages")


def test_an_encrypted_pdf_is_left_out_for_anthropic() -> None:
    made = draft([user(paper(pdf(1, is_locked=True)))], limits=OPUS)

    _, [row] = PROVIDERS["anthropic"].adapt(made)

    assert row.rule == "media.locked"
    assert PROVIDERS["gemini"].adapt(replace(made, limits=GEMINI_4))[1] == ()


PICTURES: dict[str, tuple[str, str | None]] = {
    "a picture": ("iVBORw0KGgo=", None),
    "something else": ("aGVsbG8=", "its bytes are no image/png"),
    "another type": ("/9j/", "only PNG are taken"),
    "nothing": ("", "it is empty"),
}


@pytest.mark.parametrize(("data", "reason"), PICTURES.values(), ids=PICTURES.keys())
def test_bytes_that_are_no_picture_are_not_taken_for_one(data: str, reason: str | None) -> None:
    image = Image(source=Base64Source(media_type="image/png", data=data))

    objection = object_to_image(image, rules=RULES, limits=OPUS)

    assert (None if objection is None else objection.reason) == reason
