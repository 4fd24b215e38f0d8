"""Parts as Anthropic's content blocks; shared by the formats built on them.

Text blocks hold their own fields only. Blocks of this provider go back
verbatim; of another provider's, what can be read of them.
"""

from typing import Final, TypeAlias, assert_never

from context_assembler.transcripts.media_sources import tell_file
from context_assembler.transcripts.unparsed_arguments import arguments_to_write
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Json,
    MediaSource,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)
from context_assembler.values.reading import as_object

PROVIDER: Final = "anthropic"

Block: TypeAlias = dict[str, Json]


def write_block(part: Part) -> Block | None:
    """Return a part as a block; `None` for what another provider alone understands."""
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image():
            return _media_block("image", part.source) or _label("image", part.source)
        case Document():
            return _write_document(part)
        case Thinking():
            return _write_thinking(part)
        case ToolCall():
            return {
                "type": "tool_use",
                "id": part.call_id,
                "name": part.name,
                "input": arguments_to_write(part),
                **_own_extras(part),
            }
        case ToolResult():
            return _write_result(part)
        case Opaque():
            if part.provider == PROVIDER:
                return dict(part.block)
            return {"type": "text", "text": part.text} if part.text else None
        case _:
            assert_never(part)


def write_blocks(parts: tuple[Part, ...]) -> list[Block]:
    """Return the parts as blocks, in order."""
    return [block for part in parts if (block := write_block(part)) is not None]


def _media_block(kind: str, source: MediaSource) -> Block | None:
    match source:
        case Base64Source(media_type=media_type, data=encoded):
            spelled = {"type": "base64", "media_type": media_type, "data": encoded}
        case UrlSource(url=url):
            spelled = {"type": "url", "url": url}
        case FileIdSource(provider=provider, file_id=file_id):
            if provider != PROVIDER:
                return None
            spelled = {"type": "file", "file_id": file_id}
        case _:
            assert_never(source)
    return {"type": kind, "source": spelled}


def _label(kind: str, source: MediaSource) -> Block:
    assert isinstance(source, FileIdSource), "only another provider's file has no block"
    return {"type": "text", "text": tell_file(kind, source)}


def _write_document(part: Document) -> Block:
    if part.text is not None and isinstance(part.source, Base64Source):
        spelled = {"type": "text", "media_type": part.source.media_type, "data": part.text}
        block: Block = {"type": "document", "source": spelled}
    else:
        found = _media_block("document", part.source)
        if found is None:
            return _label("document", part.source)
        block = found
    titled = {} if part.title is None else {"title": part.title}
    return {**block, **titled, **_own_extras(part)}


def _own_extras(part: ToolCall | ToolResult | Document) -> Block:
    """Return the fields of the part's block that have no place in the part itself."""
    return as_object((part.extras or {}).get(PROVIDER))


def _write_thinking(part: Thinking) -> Block:
    if part.block is not None and part.provider == PROVIDER:
        return dict(part.block)
    return {"type": "thinking", "thinking": part.text, "signature": ""}


def _write_result(part: ToolResult) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": part.call_id}
    match part.content:
        case ():
            pass
        case (Text(text),) if text:
            block["content"] = text
        case parts:
            block["content"] = write_blocks(parts)
    failed = {"is_error": True} if part.is_error else {}
    return {**block, **failed, **_own_extras(part)}
