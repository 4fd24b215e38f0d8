import base64
import zlib
from dataclasses import replace

import pytest

from context_assembler.tokens.documents import count_pages, page_tokens
from context_assembler.values.parts import Base64Source, Document, UrlSource


def pdf(content: bytes) -> Document:
    data = base64.b64encode(content).decode()
    return Document(source=Base64Source(media_type="application/pdf", data=data))


def packed(*objects: bytes) -> bytes:
    """Return a PDF as since version 1.5: its objects lie in compressed streams."""
    streams = (zlib.compress(content) for content in objects)
    packs = (
        b"7 0 obj << /Type /ObjStm /N 2 /Filter /FlateDecode >>\nstream\r\n%b\nendstream\n" % stream
        for stream in streams
    )
    return b"%PDF-1.7\n" + b"".join(packs)


ELSEWHERE = UrlSource(url="https://example.org/a.pdf")
PAGES = {
    "page objects are counted": (pdf(b"%PDF /Type /Page >> /Type/Page\n>> /Type /Pages"), 2),
    "a stated count is taken": (pdf(b"%PDF << /Type /Pages /Count 12 >>"), 12),
    "the count of an outline is not one of pages": (
        pdf(b"%PDF << /Type /Page >> /Type /Outlines" + b" " * 500 + b"/Count 99"),
        1,
    ),
    "packed objects are unpacked": (pdf(packed(b"<< /Type /Pages /Count 30 >>")), 30),
    "all packs are read": (pdf(packed(b"/Type /Page >>", b"/Type /Page >>")), 2),
    "a broken pack is passed over": (
        pdf(packed(b"/Type /Page >>") + b"/Type /ObjStm stream\nnot deflate endstream"),
        1,
    ),
    "a pack that unpacks without end is left": (
        pdf(packed(b" " * 9_000_000, b"/Type /Page >>")),
        1,
    ),
    "what cannot be read is guessed by size": (pdf(b"%PDF" + b"\0" * 120_000), 4),
    "what is no PDF is guessed by size": (pdf(b"<html>/Type /Page" + b"\0" * 120_000), 4),
    "one page at least": (pdf(b""), 1),
    "no base64 is guessed too": (
        Document(source=Base64Source(media_type="application/pdf", data="é" * 4)),
        1,
    ),
    "a document elsewhere is assumed to be longer": (Document(source=ELSEWHERE), 10),
    "stated pages are believed": (Document(source=ELSEWHERE, page_count=7), 7),
    "a PDF wins over what is stated of it": (
        replace(pdf(b"%PDF << /Type /Pages /Count 12 >>"), page_count=1),
        12,
    ),
}


@pytest.mark.parametrize(("document", "pages"), PAGES.values(), ids=PAGES.keys())
def test_pages_are_counted(document: Document, pages: int) -> None:
    assert count_pages(document) == pages


def test_a_page_costs_by_provider() -> None:
    assert page_tokens("anthropic") > page_tokens("openai") > page_tokens("google")


def test_a_page_of_an_earlier_gemini_costs_as_its_images_do() -> None:
    assert page_tokens("google", image_rule="gemini-258") == 258
    assert page_tokens("google", image_rule="gemini-1120") == 560
