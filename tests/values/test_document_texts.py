"""What is said of a document travels with it, to every provider and wherever it stands."""

import base64
import json

import pytest

from context_assembler.providers import PROVIDERS
from context_assembler.values.limits import ModelLimits
from context_assembler.values.media.document_texts import tell_about, tell_text
from context_assembler.values.messages import Message
from context_assembler.values.parts import Base64Source, Document, MediaSource, UrlSource
from tests.providers.drafts import (
    GEMINI_4,
    GEMINI_25,
    GPT_4O,
    GPT_62,
    OPUS,
    assistant,
    call,
    draft,
    result,
    results,
    user,
)

CONTEXT = {"anthropic": {"context": "CTX", "citations": {"enabled": True}}}
PDF = Base64Source(
    media_type="application/pdf", data=base64.b64encode(b"%PDF-1.4\n%%EOF\n").decode()
)
SOURCES: dict[str, MediaSource] = {
    "text": Base64Source(media_type="text/plain", data="UExBSU4="),
    "bytes": PDF,
    "at an address": UrlSource(url="https://x/a.pdf", media_type="application/pdf"),
}
MODELS: dict[str, tuple[str, ModelLimits]] = {
    "anthropic": ("anthropic", OPUS),
    "openai_chat": ("openai_chat", GPT_4O),
    "openai_responses": ("openai_responses", GPT_62),
    "gemini": ("gemini", GEMINI_4),
    "older gemini": ("gemini", GEMINI_25),
}


def paper(source: MediaSource) -> Document:
    return Document(source=source, title="name.txt", extras=CONTEXT)


def places(document: Document) -> dict[str, list[Message]]:
    returned = [user("go"), assistant(call("c")), results(result("c", document))]
    return {"of the user": [user(document, "look")], "of a tool": returned}


@pytest.mark.parametrize(("provider", "limits"), MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
@pytest.mark.parametrize("place", places(paper(PDF)))
def test_title_and_context_are_sent_or_the_loss_is_told(
    provider: str, limits: ModelLimits, source: MediaSource, place: str
) -> None:
    adapted, rows = PROVIDERS[provider].adapt(draft(places(paper(source))[place], limits=limits))

    sent = json.dumps(PROVIDERS[provider].render(adapted))

    is_told = [row.rule for row in rows] == ["media.source"]
    assert is_told or ("name.txt" in sent and "CTX" in sent)
    assert is_told == (provider == "openai_chat" and isinstance(source, UrlSource))


def test_what_has_a_field_of_its_own_is_not_said_twice() -> None:
    document = paper(PDF)

    assert tell_about(document) == "name.txt:\nCTX"
    assert tell_about(document, has_title=True) == "CTX"
    assert tell_about(Document(source=PDF, title=" ")) == ""


def test_a_text_without_a_title_is_its_text() -> None:
    assert tell_text(Document(source=PDF, text="said")) == "said"
    assert tell_text(Document(source=PDF, text="said", title="T")) == "T:\nsaid"
