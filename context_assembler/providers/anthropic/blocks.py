"""The content blocks that the parts of a message become."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from context_assembler.values.compactions import is_compaction
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.media.media_types import media_type_of
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
from context_assembler.values.reading import as_object
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.wire import plain_json

PROVIDER: Final = "anthropic"
THINKING_TYPES: Final = frozenset({"thinking", "redacted_thinking"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """What the parts of a draft need to know beside themselves.

    Attributes:
        names: Tools' names → the names as sent; `offered` are such names.
        toolsets: Ids of calls as sent → the toolset that the called tool is a member of.
    """

    names: Mapping[str, str]
    offered: frozenset[str]
    toolsets: Mapping[str, Json] = field(default_factory=dict[str, Json])


def own_extras(part: ToolCall | ToolResult | Document) -> dict[str, Json]:
    """Return the fields of the part's block that have no place in the part itself."""
    return as_object(plain_json((part.extras or {}).get(PROVIDER)))


def text_blocks(text: str) -> Iterator[dict[str, Json]]:
    """Yield the text as a block, unless it is blank.

    Source:
        https://github.com/anthropics/claude-code/issues/59812 (read 2026-11-27)
    """
    text = clean_text(text)
    if text.strip():
        yield {"type": "text", "text": text}


def verbatim(block: Mapping[str, Json]) -> dict[str, Json]:
    """Return a copy of a provider's own block, without the cache markers it may have carried."""
    copied = {key: plain_json(value) for key, value in block.items() if key != "cache_control"}
    if is_array(content := copied.get("content")):
        copied["content"] = [verbatim(e) if _is_block(e) else e for e in content]
    return copied


def _is_block(value: Json) -> bool:
    return is_object(value) and isinstance(value.get("type"), str)


def place_compaction(blocks: Sequence[Mapping[str, Json]]) -> int | None:
    """Return where the latest compaction stands that did not fail; `None` where there is none."""
    for place in range(len(blocks) - 1, -1, -1):
        if is_compaction(Opaque(provider=PROVIDER, block=blocks[place])):
            return place
    return None


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
    """Yield what a part of an assistant message becomes."""
    match part:
        case ToolCall():
            yield {
                "type": "tool_use",
                "id": call_id,
                "name": spelling.names.get(part.name, part.name),
                "input": plain_json(part.arguments),
                **own_extras(part),
            }
        case Thinking():
            if part.block is not None and part.provider == PROVIDER:
                yield verbatim(part.block)
        case Text() | Image() | Document() | Opaque():
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
            yield _image_block(part)
        case Document():
            yield _document_block(part)
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
    block |= own_extras(result)
    if call_id in spelling.toolsets:
        block["toolset_name"] = spelling.toolsets[call_id]
    if result.is_error:
        block["is_error"] = True
        content = content or [{"type": "text", "text": "The tool failed without saying why."}]
    if content:
        block["content"] = content
    return block


def _image_block(image: Image) -> dict[str, Json]:
    return {"type": "image", "source": _source(image.source)}


def _document_block(document: Document) -> dict[str, Json]:
    if document.text is None:
        source = _source(document.source)
    else:
        text = clean_text(document.text)
        source = {"type": "text", "media_type": "text/plain", "data": text}
    block: dict[str, Json] = {"type": "document", "source": source}
    if document.title and document.title.strip():
        block["title"] = clean_text(document.title)
    return {**block, **own_extras(document)}


def _source(source: MediaSource) -> dict[str, Json]:
    match source:
        case Base64Source(data=encoded):
            return {"type": "base64", "media_type": media_type_of(source), "data": encoded}
        case UrlSource(url=url):
            return {"type": "url", "url": clean_text(url)}
        case FileIdSource(file_id=file_id):
            return {"type": "file", "file_id": clean_text(file_id)}
        case _:
            assert_never(source)
