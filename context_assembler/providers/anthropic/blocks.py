"""The content blocks that the parts of a message become."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from context_assembler.values.wire import clean_text, plain_json

PROVIDER: Final = "anthropic"
IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
THINKING_TYPES: Final = frozenset({"thinking", "redacted_thinking"})

# A picture is refused when its bytes are of another type than it says, so the bytes decide.
_IMAGE_STARTS: Final = {
    "/9j/": "image/jpeg",
    "iVBORw0KGgo": "image/png",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """What the parts of a draft need to know beside themselves; `offered` are names as sent."""

    limits: ModelLimits
    names: Mapping[str, str]
    offered: frozenset[str]


def text_blocks(text: str) -> Iterator[dict[str, Json]]:
    """Yield the text as a block, unless it is blank.

    Source:
        https://github.com/anthropics/claude-code/issues/59812 (read 2026-11-27)
    """
    if text.strip():
        yield {"type": "text", "text": clean_text(text)}


def fence(tag: str, text: str) -> str:
    """Return the text between tags that nothing inside it can close."""
    safe = re.sub(rf"<(?=\s*/?\s*{re.escape(tag)}\b)", "&lt;", text, flags=re.IGNORECASE)
    return f"<{tag}>\n{safe}\n</{tag}>"


def verbatim(block: Mapping[str, Json]) -> dict[str, Json]:
    """Return a provider's own block, without the cache marker it may have carried."""
    return {key: value for key, value in block.items() if key != "cache_control"}


def user_blocks(part: Part, call_id: str, spelling: Spelling) -> Iterator[dict[str, Json]]:
    """Yield what a part of a user or tool message becomes."""
    match part:
        case ToolResult():
            yield _result_block(part, call_id, spelling)
        case Text() | Image() | Document() | Opaque():
            yield from _content_blocks(part, spelling)
        case Thinking():
            return
        case ToolCall():
            yield from text_blocks(f"[call of {part.name}]")
        case _:
            assert_never(part)


def assistant_blocks(part: Part, call_id: str, spelling: Spelling) -> Iterator[dict[str, Json]]:
    """Yield what a part of an assistant message becomes.

    An assistant message takes neither images nor documents: a line names what is left out.

    Source:
        https://platform.claude.com/docs/en/api/versioning (2026-10-21; read 2026-11-27)
    """
    match part:
        case ToolCall():
            yield {
                "type": "tool_use",
                "id": call_id,
                "name": spelling.names.get(part.name, part.name),
                "input": plain_json(part.arguments),
            }
        case Thinking():
            if part.block is not None and part.provider == PROVIDER:
                yield verbatim(part.block)
        case Image():
            yield from text_blocks(_omitted("image", part.source, "not taken from an assistant"))
        case Document():
            yield from text_blocks(_omitted("document", part.source, "not taken from an assistant"))
        case Text() | Opaque():
            yield from _content_blocks(part, spelling)
        case ToolResult():
            yield _result_block(part, call_id, spelling)
        case _:
            assert_never(part)


def _content_blocks(part: ResultPart, spelling: Spelling) -> Iterator[dict[str, Json]]:
    match part:
        case Text(text):
            yield from text_blocks(text)
        case Image():
            yield _image_block(part, spelling.limits)
        case Document():
            yield _document_block(part, spelling.limits)
        case Opaque():
            yield from _opaque_blocks(part, spelling)
        case _:
            assert_never(part)


def _opaque_blocks(part: Opaque, spelling: Spelling) -> Iterator[dict[str, Json]]:
    """Yield the block itself; as text what is another provider's, or names a tool not offered.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
        (read 2026-11-27): a reference to a tool that is not declared is refused.
    """
    if part.provider != PROVIDER:
        yield from text_blocks(part.text)
    elif part.block.get("type") != "tool_reference":
        yield verbatim(part.block)
    else:
        name = str(part.block.get("tool_name"))
        sent = spelling.names.get(name, name)
        if sent in spelling.offered:
            yield {**verbatim(part.block), "tool_name": sent}
        else:
            yield from text_blocks(part.text or f"[tool {name}]")


def _result_block(result: ToolResult, call_id: str, spelling: Spelling) -> dict[str, Json]:
    """Return a tool result; an empty one has no content, a failed one always has some.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
        (read 2026-11-27)
    """
    content = [block for part in result.content for block in _content_blocks(part, spelling)]
    block: dict[str, Json] = {"type": "tool_result", "tool_use_id": call_id}
    if result.is_error:
        block["is_error"] = True
        content = content or [{"type": "text", "text": "The tool failed without saying why."}]
    if content:
        block["content"] = content
    return block


def _image_block(image: Image, limits: ModelLimits) -> dict[str, Json]:
    if limits.features.get("vision") is False:
        return _line("image", image.source, "the model takes no images")
    match image.source:
        case Base64Source(media_type=declared, data=encoded):
            media_type = _image_type(declared, encoded)
            if media_type not in IMAGE_TYPES:
                return _line("image", image.source, "only JPEG, PNG, GIF and WebP are taken")
            source = {"type": "base64", "media_type": media_type, "data": encoded}
        case UrlSource(url=url):
            source = {"type": "url", "url": clean_text(url)}
        case FileIdSource(provider=provider, file_id=file_id):
            if provider != PROVIDER:
                return _line("image", image.source, "the file lies with another provider")
            source = {"type": "file", "file_id": file_id}
        case _:
            assert_never(image.source)
    return {"type": "image", "source": source}


def _document_block(document: Document, limits: ModelLimits) -> dict[str, Json]:
    source = _document_source(document, limits)
    if isinstance(source, str):
        return _line("document", document.source, source)
    block: dict[str, Json] = {"type": "document", "source": source}
    if document.title and document.title.strip():
        block["title"] = clean_text(document.title)
    return block


def _document_source(document: Document, limits: ModelLimits) -> dict[str, Json] | str:
    """Return the source to send, or the reason why there is none."""
    text = _plain_text(document)
    if text is not None:
        blank = "it is empty"
        return {"type": "text", "media_type": "text/plain", "data": text} if text.strip() else blank
    if limits.features.get("pdf") is False:
        return "the model takes no documents"
    match document.source:
        case Base64Source(media_type="application/pdf", data=encoded):
            return {"type": "base64", "media_type": "application/pdf", "data": encoded}
        case Base64Source():
            return "only PDF and plain text are taken"
        case UrlSource(url=url):
            return {"type": "url", "url": clean_text(url)}
        case FileIdSource(provider=provider, file_id=file_id):
            if provider != PROVIDER:
                return "the file lies with another provider"
            return {"type": "file", "file_id": file_id}
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
    return {"type": "text", "text": _omitted(kind, source, reason)}


def _omitted(kind: str, source: MediaSource, reason: str) -> str:
    match source:
        case Base64Source(media_type=media_type):
            name = media_type
        case UrlSource(url=url):
            name = clean_text(url)
        case FileIdSource(provider=provider, file_id=file_id):
            name = f"{provider} file {file_id}"
        case _:
            assert_never(source)
    return f"[{kind} left out: {name}; {reason}]"
