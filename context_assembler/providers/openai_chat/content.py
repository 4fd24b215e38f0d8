"""The content parts that the parts of a message become."""

from collections.abc import Iterator
from typing import Final, assert_never

from context_assembler.values.media.data_urls import write_inline_url
from context_assembler.values.media.document_texts import tell_about, tell_text
from context_assembler.values.media.media_types import media_type_of
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Json,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.wire import plain_json

PROVIDER: Final = "openai_chat"

# https://github.com/openai/openai-openapi, ChatCompletionRequestUserMessageContentPart and
# ChatCompletionRequestAssistantMessageContentPart (read 2026-11-27)
PART_TYPES: Final = frozenset({"text", "image_url", "input_audio", "file", "refusal"})


def text_part(text: str) -> dict[str, Json]:
    """Return the text as a content part."""
    return {"type": "text", "text": clean_text(text)}


def text_parts(text: str) -> Iterator[dict[str, Json]]:
    """Yield the text as a content part, unless it is blank."""
    part = text_part(text)
    if part["text"].strip():
        yield part


def user_content(part: Part) -> Iterator[dict[str, Json]]:
    """Yield what a part becomes in a user message; blank text vanishes."""
    match part:
        case Text(text):
            yield from text_parts(text)
        case Image():
            yield _image_part(part)
        case Document():
            yield from _document_parts(part)
        case Opaque():
            if part.provider == PROVIDER:
                yield plain_json(part.block)
            else:
                yield from text_parts(part.text)
        case ToolCall() | ToolResult() | Thinking():
            return
        case _:
            assert_never(part)


def _image_part(image: Image) -> dict[str, Json]:
    source = image.source
    assert not isinstance(source, FileIdSource), "an adapted draft has no images by file id"
    match source:
        case Base64Source(data=encoded):
            target = write_inline_url(media_type_of(source), encoded)
        case UrlSource(url=url):
            target = clean_text(url)
        case _:
            assert_never(source)
    image_url: dict[str, Json] = {"url": target}
    if image.detail is not None:
        image_url["detail"] = image.detail
    return {"type": "image_url", "image_url": image_url}


def _document_parts(document: Document) -> Iterator[dict[str, Json]]:
    """Yield a PDF as a file, a text document as text; what no field tells of it in front.

    Source:
        https://developers.openai.com/api/docs/guides/pdf-files (read 2026-11-27)
    """
    if document.text is not None:
        yield text_part(tell_text(document))
        return
    source = document.source
    yield from text_parts(tell_about(document, has_title=isinstance(source, Base64Source)))
    assert not isinstance(source, UrlSource), "an adapted draft has no documents at a URL"
    match source:
        case Base64Source(data=encoded):
            url = write_inline_url(media_type_of(source), encoded)
            name = clean_text(document.title or "document.pdf")
            yield {"type": "file", "file": {"filename": name, "file_data": url}}
        case FileIdSource(file_id=file_id):
            yield {"type": "file", "file": {"file_id": clean_text(file_id)}}
        case _:
            assert_never(source)
