"""The content parts that the parts of a message become."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final, assert_never

from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Json,
    MediaSource,
    Opaque,
    Part,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)
from context_assembler.values.wire import clean_text

PROVIDER: Final = "openai_chat"
IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")

# A picture is refused when its bytes are of another type than it says, so the bytes decide.
_IMAGE_STARTS: Final = {
    "/9j/": "image/jpeg",
    "iVBORw0KGgo": "image/png",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}


def text_part(text: str) -> dict[str, Json]:
    """Return the text as a content part."""
    return {"type": "text", "text": clean_text(text)}


def fence(tag: str, text: str) -> str:
    """Return the text between tags that nothing inside it can close."""
    safe = re.sub(rf"<(?=\s*/?\s*{re.escape(tag)}\b)", "&lt;", text, flags=re.IGNORECASE)
    return f"<{tag}>\n{safe}\n</{tag}>"


def user_content(part: Part, limits: ModelLimits) -> Iterator[dict[str, Json]]:
    """Yield what a part becomes in a user message; blank text vanishes."""
    match part:
        case Text(text):
            if text.strip():
                yield text_part(text)
        case Image():
            yield _image_part(part, limits)
        case Document():
            yield _document_part(part, limits)
        case Opaque():
            if part.provider == PROVIDER and part.block.get("type") != "refusal":
                yield dict(part.block)
            elif part.text.strip():
                yield text_part(part.text)
        case ToolCall() | ToolResult() | Thinking():
            return
        case _:
            assert_never(part)


def plain_content(part: ResultPart) -> str:
    """Return what a part becomes where only text is taken; media is named."""
    match part:
        case Text(text):
            return clean_text(text)
        case Image():
            return "[image attached in the next user message]"
        case Document():
            readable = _plain_text(part)
            return readable or "[document attached in the next user message]"
        case Opaque():
            return clean_text(part.text)
        case _:
            assert_never(part)


def is_attachment(part: ResultPart) -> bool:
    """Whether the part cannot go into a message that takes text only."""
    return isinstance(part, Image) or (isinstance(part, Document) and _plain_text(part) is None)


def name_of(source: MediaSource) -> str:
    """Return a short name of what is left out."""
    match source:
        case Base64Source(media_type=media_type):
            return media_type
        case UrlSource(url=url):
            return clean_text(url)
        case FileIdSource(provider=provider, file_id=file_id):
            return f"{provider} file {file_id}"
        case _:
            assert_never(source)


def _image_part(image: Image, limits: ModelLimits) -> dict[str, Json]:
    if limits.features.get("vision") is False:
        return _line("image", image.source, "the model takes no images")
    match image.source:
        case Base64Source(media_type=declared, data=encoded):
            media_type = _image_type(declared, encoded)
            if media_type not in IMAGE_TYPES:
                return _line("image", image.source, "only JPEG, PNG, GIF and WebP are taken")
            target = f"data:{media_type};base64,{encoded}"
        case UrlSource(url=url):
            target = clean_text(url)
        case FileIdSource():
            return _line("image", image.source, "Chat Completions takes no image by file id")
        case _:
            assert_never(image.source)
    image_url: dict[str, Json] = {"url": target}
    if image.detail is not None:
        image_url["detail"] = image.detail
    return {"type": "image_url", "image_url": image_url}


def _document_part(document: Document, limits: ModelLimits) -> dict[str, Json]:
    """Return a PDF as a file, a text document as text.

    Source:
        https://developers.openai.com/api/docs/guides/pdf-files (read 2026-11-27)
    """
    text = _plain_text(document)
    if text is not None:
        title = f"{clean_text(document.title)}:\n" if document.title else ""
        return text_part(f"{title}{text}" if text.strip() else "[empty document]")
    if limits.features.get("pdf") is False:
        return _line("document", document.source, "the model takes no documents")
    match document.source:
        case Base64Source(media_type="application/pdf", data=encoded):
            url = f"data:application/pdf;base64,{encoded}"
            name = clean_text(document.title or "document.pdf")
            return {"type": "file", "file": {"filename": name, "file_data": url}}
        case Base64Source():
            return _line("document", document.source, "only PDF and plain text are taken")
        case UrlSource():
            return _line("document", document.source, "Chat Completions fetches no documents")
        case FileIdSource(provider=provider, file_id=file_id):
            if not provider.startswith("openai"):
                return _line("document", document.source, "the file lies with another provider")
            return {"type": "file", "file": {"file_id": file_id}}
        case _:
            assert_never(document.source)


def _plain_text(document: Document) -> str | None:
    if document.text is not None:
        return clean_text(document.text)
    source = document.source
    if not isinstance(source, Base64Source) or not source.media_type.startswith("text/"):
        return None
    try:
        return base64.b64decode(source.data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _image_type(declared: str, encoded: str) -> str:
    for start, media_type in _IMAGE_STARTS.items():
        if encoded.startswith(start):
            return media_type
    return "image/jpeg" if declared == "image/jpg" else declared


def _line(kind: str, source: MediaSource, reason: str) -> dict[str, Json]:
    return {"type": "text", "text": f"[{kind} left out: {name_of(source)}; {reason}]"}
