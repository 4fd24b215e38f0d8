"""Parts of messages with text that any provider can take; what is signed verbatim, or unsigned."""

from dataclasses import replace
from operator import is_
from typing import assert_never

from context_assembler.values.native.part_signatures import unsigned_block
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
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
from context_assembler.values.texts.cleaning import clean_object, clean_text, is_clean


def clean_part(part: Part) -> Part:
    """Return the part with every string in it cleaned; the same object where there was nothing to do.

    A provider takes what it signed back verbatim or not at all: what had to be cleaned has no
    signature any more, and signed thinking with it becomes readable text.
    """
    match part:
        case Text() | Image() | Document() | Opaque():
            return _clean_content(part)
        case Thinking():
            return _clean_thinking(part)
        case ToolCall():
            return _clean_call(part)
        case ToolResult():
            return _clean_result(part)
        case _:
            assert_never(part)


def _clean_thinking(part: Thinking) -> Thinking:
    if is_clean(part.text, part.block):
        return part
    block = part.block if is_clean(part.block) else None
    return replace(part, text=clean_text(part.text), block=block)


def _clean_content(part: ResultPart) -> ResultPart:
    match part:
        case Text(text):
            cleaned = clean_text(text)
            return part if cleaned is text else replace(part, text=cleaned, signature=None)
        case Image(source=source):
            clean_source = _clean_source(source)
            return part if clean_source is source else replace(part, source=clean_source)
        case Document(source=source, title=title, text=text):
            clean_source = _clean_source(source)
            if clean_source is source and is_clean(title, text):
                return part
            return replace(
                part,
                source=clean_source,
                title=_clean_optional(title),
                text=_clean_optional(text),
            )
        case Opaque(block=block, text=text):
            return part if is_clean(block, text) else _clean_opaque(part)
        case _:
            assert_never(part)


def _clean_opaque(part: Opaque) -> Opaque:
    block = part.block if is_clean(part.block) else clean_object(unsigned_block(part.block))
    return replace(part, block=block, text=clean_text(part.text))


def _clean_source(source: MediaSource) -> MediaSource:
    match source:
        case Base64Source(media_type=media_type, data=data):
            if is_clean(media_type, data):
                return source
            return Base64Source(media_type=clean_text(media_type), data=clean_text(data))
        case UrlSource(url=url, media_type=media_type):
            if is_clean(url, media_type):
                return source
            return UrlSource(url=clean_text(url), media_type=_clean_optional(media_type))
        case FileIdSource(file_id=file_id):
            return source if is_clean(file_id) else replace(source, file_id=clean_text(file_id))
        case _:
            assert_never(source)


def _clean_call(call: ToolCall) -> ToolCall:
    if is_clean(call.call_id, call.name, call.arguments, call.arguments_json):
        return call
    return replace(
        call,
        call_id=clean_text(call.call_id),
        name=clean_text(call.name),
        arguments=clean_object(call.arguments),
        arguments_json=_clean_optional(call.arguments_json),
        signature=None,
    )


def _clean_result(result: ToolResult) -> ToolResult:
    content = tuple(map(_clean_content, result.content))
    if is_clean(result.call_id, result.tool_name) and all(map(is_, content, result.content)):
        return result
    return ToolResult(
        call_id=clean_text(result.call_id),
        content=content,
        is_error=result.is_error,
        tool_name=_clean_optional(result.tool_name),
    )


def _clean_optional(text: str | None) -> str | None:
    return None if text is None else clean_text(text)
