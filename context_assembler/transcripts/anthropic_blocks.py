"""Anthropic's content blocks as parts; shared by the formats built on them.

Thinking and whatever we do not interpret – server tools, citations, references – stay verbatim.
Cache markers are not kept: requests get theirs anew.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from context_assembler.errors.base import with_article
from context_assembler.transcripts.anthropic_spelling import PROVIDER, write_block
from context_assembler.transcripts.content_lists import read_entries
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.parsing import left_over
from context_assembler.values.json_shapes import is_object
from context_assembler.values.native.anthropic_texts import describe_block
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Json,
    JsonObject,
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
from context_assembler.values.reading import as_text

_Read: TypeAlias = Callable[[JsonObject, Spot, IssueLog], Part]

_KNOWN_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset({"type", "text", "citations"}),
    "image": frozenset({"type", "source"}),
    "document": frozenset({"type", "source", "title", "citations", "context"}),
}
_CACHE_MARK: Final = "cache_control"
_READ_OF_CALLS: Final = frozenset({"type", "id", "name", "input", _CACHE_MARK})
_READ_OF_RESULTS: Final = frozenset({"type", "tool_use_id", "content", "is_error", _CACHE_MARK})
_KEPT_OF_DOCUMENTS: Final = ("context", "citations")


class _UnreadableError(ValueError):
    """A block lacks what its type promises."""


def read_content(content: Json, spot: Spot, log: IssueLog) -> tuple[Part, ...]:
    """Return a message's content as parts; text is one part, or none when it is empty."""
    return read_entries(content, spot, log, read=_read_block, one="content block", many="blocks")


def _read_block(block: JsonObject, spot: Spot, log: IssueLog) -> Part:
    """Return one block as a part; one that we do not interpret stays verbatim in an `Opaque`."""
    kind = block.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        if not as_text(kind):
            log.note(
                spot.key("type"), "is no text, so nobody knows what the block is; kept verbatim"
            )
        return _opaque(block)
    try:
        part = reader(block, spot, log)
    except _UnreadableError as error:
        log.note(
            spot,
            f"is {with_article(str(kind))} block whose {error}; kept verbatim, not interpreted",
        )
        return _opaque(block)
    if not isinstance(part, Opaque | Thinking):
        log.count_unplaced(spot, _unread(str(kind), block), kind=str(kind), set_anew=_CACHE_MARK)
    return part


def _read_text(block: JsonObject, _spot: Spot, _log: IssueLog) -> Part:
    text = _text_field(block, "text")
    # Citations point into documents and search results, and go back to the provider untouched.
    return _opaque(block) if block.get("citations") else Text(text)


def _read_image(block: JsonObject, _spot: Spot, _log: IssueLog) -> Part:
    return Image(source=_source(block))


def _read_document(block: JsonObject, _spot: Spot, _log: IssueLog) -> Part:
    source = block.get("source")
    title = block.get("title") if isinstance(block.get("title"), str) else None
    if is_object(source) and source.get("type") == "content":
        return _opaque(block)  # blocks inside it: nobody else has documents like that
    extras = _extras({name: block[name] for name in _KEPT_OF_DOCUMENTS if block.get(name)})
    if is_object(source) and source.get("type") == "text":
        text = _text_field(source, "data")
        encoded = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
        media_type = source.get("media_type")
        kept_type = media_type if isinstance(media_type, str) else "text/plain"
        return Document(
            source=Base64Source(media_type=kept_type, data=encoded),
            title=title,
            text=text,
            extras=extras,
        )
    return Document(source=_source(block), title=title, extras=extras)


def _read_thinking(block: JsonObject, _spot: Spot, _log: IssueLog) -> Part:
    text = _text_field(block, "thinking")
    if block.get("signature") is not None:
        _text_field(block, "signature")
    signed = dict(block) if block.get("signature") else None
    return Thinking(text=text, provider=PROVIDER, block=signed)


def _read_redacted(block: JsonObject, _spot: Spot, _log: IssueLog) -> Part:
    if not _text_field(block, "data"):
        raise _UnreadableError("data is empty")
    return Thinking(provider=PROVIDER, block=dict(block))


def _read_call(block: JsonObject, spot: Spot, log: IssueLog) -> Part:
    call_id, name, given = _text_field(block, "id"), _text_field(block, "name"), block.get("input")
    extras = _extras(left_over(block, _READ_OF_CALLS))
    if is_object(given):
        return ToolCall(call_id=call_id, name=name, arguments=dict(given), extras=extras)
    if given is None:
        return ToolCall(call_id=call_id, name=name, extras=extras)
    if not isinstance(given, str):
        raise _UnreadableError("input is no object")
    log.note(spot.key("input"), "is text, not an object; kept as the call's own spelling")
    return ToolCall(call_id=call_id, name=name, arguments_json=given, extras=extras)


def _read_result(block: JsonObject, spot: Spot, log: IssueLog) -> Part:
    call_id = _text_field(block, "tool_use_id")
    parts = read_content(block.get("content"), spot.key("content"), log)
    return ToolResult(
        call_id=call_id,
        content=tuple(_as_result_part(part) for part in parts),
        is_error=block.get("is_error") is True,
        extras=_extras(left_over(block, _READ_OF_RESULTS)),
    )


def _extras(kept: JsonObject) -> JsonObject | None:
    """Return fields that go back to this provider alone, as parts keep them."""
    return {PROVIDER: dict(kept)} if kept else None


_READERS: Final[Mapping[str, _Read]] = {
    "text": _read_text,
    "image": _read_image,
    "document": _read_document,
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
    "tool_use": _read_call,
    "tool_result": _read_result,
}


def _as_result_part(part: Part) -> ResultPart:
    if isinstance(part, Text | Image | Document | Opaque):
        return part
    block = write_block(part)
    assert block is not None, "only a foreign Opaque has no block"
    return _opaque(block)


def _opaque(block: JsonObject) -> Opaque:
    return Opaque(provider=PROVIDER, block=dict(block), text=describe_block(block))


def _source(block: JsonObject) -> MediaSource:
    source = block.get("source")
    if not is_object(source):
        raise _UnreadableError("source is missing")
    match source.get("type"):
        case "base64":
            media_type, encoded = _text_field(source, "media_type"), _text_field(source, "data")
            return Base64Source(media_type=media_type, data=encoded)
        case "url":
            return UrlSource(url=_text_field(source, "url"))
        case "file":
            return FileIdSource(provider=PROVIDER, file_id=_text_field(source, "file_id"))
        case other:
            raise _UnreadableError(f"source is of the unknown type {other!r:.40}")


def _text_field(fields: JsonObject, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _UnreadableError(f"{name} is no text")
    return value


def _unread(kind: str, block: JsonObject) -> Iterable[str]:
    """Return the fields that no part keeps; calls and results keep all but the cache's mark."""
    known = _KNOWN_FIELDS.get(kind)
    return left_over(block, known) if known else {_CACHE_MARK} & block.keys()
