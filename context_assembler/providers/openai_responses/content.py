"""The content pieces that the parts of a message, or of a result, become."""

from collections.abc import Iterator
from typing import TypeAlias, assert_never

from context_assembler.values.media.data_urls import write_inline_url
from context_assembler.values.media.document_texts import tell_about, tell_text
from context_assembler.values.media.media_types import media_type_of
from context_assembler.values.native.response_items import PROVIDER, without_nulls
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

Piece: TypeAlias = dict[str, Json]


def text_piece(text: str) -> Piece:
    """Return the text as a piece of content."""
    return {"type": "input_text", "text": clean_text(text)}


def is_content(part: Part) -> bool:
    """Whether an opaque part is a piece of content, not an item of its own."""
    return isinstance(part, Opaque) and str(part.block.get("type")).startswith("input_")


def pieces_of(part: Part) -> Iterator[Piece]:
    """Yield what a part of an adapted draft becomes; blank text vanishes."""
    match part:
        case Text(text):
            if text.strip():
                yield text_piece(text)
        case Image():
            yield _image(part)
        case Document():
            yield from _documents(part)
        case Opaque():
            if part.provider == PROVIDER and is_content(part):
                yield without_nulls(plain_json(part.block))
            elif part.text.strip():
                yield text_piece(part.text)
        case ToolCall() | ToolResult() | Thinking():
            return
        case _:
            assert_never(part)


def plain_text(pieces: list[Piece]) -> str | None:
    """Return the texts joined by line breaks; `None` where anything else is among the pieces."""
    if any(piece.keys() != {"type", "text"} for piece in pieces):
        return None
    return "\n".join(piece["text"] for piece in pieces)


def _image(image: Image) -> Piece:
    """Return a picture with its level of detail, which the API wants to be told.

    Source:
        https://developers.openai.com/api/docs/guides/images-vision (read 2026-11-27)
    """
    piece: Piece = {"type": "input_image", "detail": image.detail or "auto"}
    match image.source:
        case Base64Source(data=encoded):
            url = write_inline_url(media_type_of(image.source), encoded)
            return {**piece, "image_url": url}
        case UrlSource(url=url):
            return {**piece, "image_url": clean_text(url)}
        case FileIdSource(file_id=file_id):
            return {**piece, "file_id": clean_text(file_id)}
        case _:
            assert_never(image.source)


def _documents(document: Document) -> Iterator[Piece]:
    """Yield a document as a file, or as its text; what no field tells of it in front.

    Source:
        https://developers.openai.com/api/docs/guides/file-inputs (read 2026-11-27)
    """
    if document.text is not None:
        yield text_piece(tell_text(document))
        return
    source = document.source
    if told := tell_about(document, has_title=isinstance(source, Base64Source)):
        yield text_piece(told)
    match source:
        case Base64Source(data=encoded):
            media_type = media_type_of(source)
            name = clean_text(document.title or _usual_name(media_type))
            url = write_inline_url(clean_text(media_type), encoded)
            yield {"type": "input_file", "filename": name, "file_data": url}
        case UrlSource(url=url):
            yield {"type": "input_file", "file_url": clean_text(url)}
        case FileIdSource(file_id=file_id):
            yield {"type": "input_file", "file_id": clean_text(file_id)}
        case _:
            assert_never(source)


def _usual_name(media_type: str) -> str:
    return "document.pdf" if media_type == "application/pdf" else "document.txt"
