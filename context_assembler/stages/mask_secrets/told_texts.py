"""What a part tells a model in words: its text, and the fields beside that, each to be told anew."""

from collections.abc import Callable
from dataclasses import replace
from operator import is_
from typing import Final, TypeAlias, assert_never

from context_assembler.stages.mask_secrets.told_fields import (
    change_bytes,
    change_object,
    encode_text,
)
from context_assembler.values.native.part_signatures import unsigned_block
from context_assembler.values.parts import (
    Base64Source,
    Document,
    Image,
    JsonObject,
    MediaSource,
    Opaque,
    Part,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

Change: TypeAlias = Callable[[str], str]

_TEXT: Final = "text/"


def change_text(part: Part, change: Change, *, keeps_blocks: bool = False) -> Part:
    """Return the part with another text; the same object where it has none, or the same.

    Of a result it is the text of each part in it. A text that is another one bears no signature.

    Args:
        keeps_blocks: Whether a provider's own block stays what it is even if it says just that text.
    """
    match part:
        case ToolResult():
            return _with_content(part, lambda inner: _change_text(inner, change))
        case Opaque(text=text) if keeps_blocks:
            told = change(text)
            return part if told == text else replace(part, text=told)
        case Text() | Image() | Document() | Opaque():
            return _change_text(part, change)
        case Thinking() | ToolCall():
            return part
        case _:
            assert_never(part)


def change_fields(part: Part, change: Change) -> Part:
    """Return the part with other texts beside its own; the same object where they stay.

    These are the title and the context of a document, or all of a document that is sent as bytes, a
    provider's own fields, and its own blocks. What was changed bears no signature.
    """
    match part:
        case ToolResult(extras=extras):
            told = _with_content(part, lambda inner: _change_fields(inner, change))
            changed = _changed(extras, change)
            return told if changed is extras else replace(told, extras=changed)
        case Text() | Image() | Document() | Opaque():
            return _change_fields(part, change)
        case Thinking() | ToolCall():
            return part
        case _:
            assert_never(part)


def _with_content(
    result: ToolResult, change_part: Callable[[ResultPart], ResultPart]
) -> ToolResult:
    content = tuple(map(change_part, result.content))
    is_same = all(map(is_, content, result.content))
    return result if is_same else replace(result, content=content)


def _change_text(part: ResultPart, change: Change) -> ResultPart:
    match part:
        case Text(text):
            told = change(text)
            return part if told == text else replace(part, text=told, signature=None)
        case Document(text=str(text), source=source):
            told = change(text)
            return part if told == text else replace(part, text=told, source=_of(source, told))
        case Opaque():
            return _change_opaque(part, change)
        case Image() | Document():
            return part
        case _:
            assert_never(part)


def _change_opaque(part: Opaque, change: Change) -> Opaque:
    """Return the block with another text, in it as well where it says just that."""
    text = part.text
    told = change(text)
    if told == text:
        return part
    block = change_object(part.block, lambda held: told if held == text else held)
    block = part.block if block is part.block else unsigned_block(block)
    return replace(part, text=told, block=block)


def _change_fields(part: ResultPart, change: Change) -> ResultPart:
    match part:
        case Text(extras=extras):
            changed = _changed(extras, change)
            return part if changed is extras else replace(part, extras=changed, signature=None)
        case Document():
            return _change_document(part, change)
        case Opaque(block=block):
            changed = change_object(block, change)
            return part if changed is block else replace(part, block=unsigned_block(changed))
        case Image():
            return part
        case _:
            assert_never(part)


def _change_document(document: Document, change: Change) -> Document:
    title = None if document.title is None else change(document.title)
    extras, source = _changed(document.extras, change), document.source
    if document.text is None and isinstance(source, Base64Source):
        source = change_bytes(source, change)
    is_same = title == document.title and extras is document.extras and source is document.source
    if is_same:
        return document
    return replace(document, title=title, extras=extras, source=source)


def _changed(extras: JsonObject | None, change: Change) -> JsonObject | None:
    return None if extras is None else change_object(extras, change)


def _of(source: MediaSource, text: str) -> MediaSource:
    """Return the source of a document with this text: its bytes are those of the text, if any."""
    if isinstance(source, Base64Source) and source.media_type.startswith(_TEXT):
        return replace(source, data=encode_text(text))
    return source
