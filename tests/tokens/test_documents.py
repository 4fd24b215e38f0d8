import base64

import pytest

from context_assembler.tokens.documents import count_pages, page_tokens
from context_assembler.values.parts import Base64Source, Document, UrlSource


def pdf(content: bytes) -> Document:
    data = base64.b64encode(content).decode()
    return Document(source=Base64Source(media_type="application/pdf", data=data))


PAGES = {
    "page objects are counted": (pdf(b"%PDF /Type /Page >> /Type/Page\n>> /Type /Pages"), 2),
    "a stated count is taken": (pdf(b"%PDF << /Type /Pages /Count 12 >>"), 12),
    "compressed objects are guessed by size": (pdf(b"%PDF" + b"\0" * 120_000), 4),
    "one page at least": (pdf(b""), 1),
    "no base64 is guessed too": (
        Document(source=Base64Source(media_type="application/pdf", data="é" * 4)),
        1,
    ),
    "a document elsewhere is one page": (Document(source=UrlSource(url="https://x/a.pdf")), 1),
    "stated pages are believed": (
        Document(source=UrlSource(url="https://x/a.pdf"), page_count=7),
        7,
    ),
}


@pytest.mark.parametrize(("document", "pages"), PAGES.values(), ids=PAGES.keys())
def test_pages_are_counted(document: Document, pages: int) -> None:
    assert count_pages(document) == pages


def test_a_page_costs_by_provider() -> None:
    assert page_tokens("anthropic") > page_tokens("openai") > page_tokens("google")
