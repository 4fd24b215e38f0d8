"""Parts of messages with text that any provider can take; signed and opaque blocks verbatim."""

from dataclasses import replace
from operator import is_
from typing import assert_never

from context_assembler.values.cleaning import clean_object, clean_text, is_clean
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


def clean_part(part: Part) -> Part:
    """Return the part with every string in it cleaned; the same object where there was nothing to do.

    A signed thinking part stays as it is, and so does the block of an opaque one: a provider takes
    them back verbatim or not at all.
    """
    match part:
        case Text() | Image() | Document() | Opaque():
            return _clean_content(part)
        case Thinking(text=text):
            is_done = part.is_signed or is_clean(text)
            return part if is_done else replace(part, text=clean_text(text))
        case ToolCall():
            return _clean_call(part)
        case ToolResult():
            return _clean_result(part)
        case _:
            assert_never(part)


def _clean_content(part: ResultPart) -> ResultPart:
    match part:
        case Text(text):
            return part if is_clean(text) else replace(part, text=clean_text(text))
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
        case Opaque(text=text):
            return part if is_clean(text) else replace(part, text=clean_text(text))
        case _:
            assert_never(part)


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
