"""Content of Responses' messages and outputs as parts, and back."""

from collections.abc import Mapping
from typing import Final, TypeAlias, assert_never

from context_assembler.transcripts.content_lists import join_entries, read_entries
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.media_sources import read_bytes, read_detail, tell_file
from context_assembler.transcripts.parsing import left_over
from context_assembler.values.media.data_urls import write_inline_url
from context_assembler.values.native.response_items import PROVIDER
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

Piece: TypeAlias = dict[str, Json]

_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "input_text": frozenset({"type", "text"}),
    "input_image": frozenset({"type", "detail", "image_url", "file_id"}),
    "input_file": frozenset({"type", "filename", "file_data", "file_url", "file_id"}),
}
_CACHE_MARK: Final = "prompt_cache_breakpoint"


def read_content(content: Json, spot: Spot, log: IssueLog) -> tuple[ResultPart, ...]:
    """Return what a message of the user, or an output, holds; text is one part."""
    return read_entries(content, spot, log, read=_read_piece, one="piece of content", many="pieces")


def write_content(parts: tuple[Part, ...]) -> Json:
    """Return parts as content: one text as a string, none as an empty one, others as a list."""
    return join_entries(map(_write_piece, parts), text_type="input_text")


def _read_piece(entry: JsonObject, spot: Spot, log: IssueLog) -> ResultPart:
    kind = as_text(entry.get("type"))
    part = _read_known(kind, entry)
    if part is None:
        shown = as_text(entry.get("text")) or as_text(entry.get("refusal")) or f"[{kind}]"
        return Opaque(provider=PROVIDER, block=dict(entry), text=shown)
    fields = left_over(entry, _KNOWN[kind])
    log.count_unplaced(spot, fields, kind=kind, set_anew=_CACHE_MARK)
    return part


def _read_known(kind: str, entry: JsonObject) -> ResultPart | None:
    match kind:
        case "input_text":
            text = entry.get("text")
            return Text(text) if isinstance(text, str) else None
        case "input_image":
            source = _media_source(entry, "image_url")
            detail = read_detail(entry.get("detail"))
            is_lost = entry.get("detail") is not None and detail is None
            return None if source is None or is_lost else Image(source=source, detail=detail)
        case "input_file":
            return _read_file(entry)
        case _:
            return None


def _read_file(entry: JsonObject) -> Document | None:
    source = _media_source(entry, "file_url") or read_bytes(as_text(entry.get("file_data")))
    title = entry.get("filename")
    if source is None:
        return None
    return Document(source=source, title=title if isinstance(title, str) else None)


def _media_source(entry: JsonObject, key: str) -> MediaSource | None:
    url, file_id = as_text(entry.get(key)), as_text(entry.get("file_id"))
    if url.startswith("data:"):
        return read_bytes(url)
    if url:
        return UrlSource(url=url)
    return FileIdSource(provider=PROVIDER, file_id=file_id) if file_id else None


def _write_piece(part: Part) -> Piece | None:
    match part:
        case Text(text):
            return {"type": "input_text", "text": text}
        case Image():
            return _write_image(part)
        case Document():
            return _write_document(part)
        case Opaque():
            if part.provider == PROVIDER:
                return dict(part.block)
            return {"type": "input_text", "text": part.text} if part.text else None
        case Thinking() | ToolCall() | ToolResult():
            return None  # items of their own
        case _:
            assert_never(part)


def _write_image(part: Image) -> Piece:
    detail = {} if part.detail is None else {"detail": part.detail}
    match part.source:
        case Base64Source(media_type=media_type, data=data):
            target = {"image_url": write_inline_url(media_type, data)}
        case UrlSource(url=url):
            target = {"image_url": url}
        case FileIdSource(provider=provider, file_id=file_id) if provider == PROVIDER:
            target = {"file_id": file_id}
        case FileIdSource():
            return {"type": "input_text", "text": tell_file("image", part.source)}
        case _:
            assert_never(part.source)
    return {"type": "input_image", **detail, **target}


def _write_document(part: Document) -> Piece:
    named = {} if part.title is None else {"filename": part.title}
    match part.source:
        case Base64Source(media_type=media_type, data=data):
            target = {"file_data": write_inline_url(media_type, data)}
        case UrlSource(url=url):
            target = {"file_url": url}
        case FileIdSource(provider=provider, file_id=file_id) if provider == PROVIDER:
            target = {"file_id": file_id}
        case FileIdSource():
            return {"type": "input_text", "text": tell_file("document", part.source)}
        case _:
            assert_never(part.source)
    return {"type": "input_file", **named, **target}
