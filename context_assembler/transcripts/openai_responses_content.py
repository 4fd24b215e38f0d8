"""Content of Responses' messages and outputs as parts, and back."""

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, assert_never

from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.parsing import left_over
from context_assembler.values.json_shapes import is_array, is_object
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
_Detail: TypeAlias = Literal["low", "high", "auto", "original"]

_DATA_URL: Final = re.compile(r"data:(?P<type>[^;,]+)(?:;[^;,]*)*;base64,(?P<data>.*)", re.DOTALL)
_DETAILS: Final[Mapping[str, _Detail]] = {
    "low": "low",
    "high": "high",
    "auto": "auto",
    "original": "original",
}
_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "input_text": frozenset({"type", "text"}),
    "input_image": frozenset({"type", "detail", "image_url", "file_id"}),
    "input_file": frozenset({"type", "filename", "file_data", "file_url", "file_id"}),
}
_SET_ANEW: Final = "prompt_cache_breakpoint"


def read_content(content: Json, spot: Spot, log: IssueLog) -> tuple[ResultPart, ...]:
    """Return what a message of the user, or an output, holds; text is one part."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if content is None:
        return ()
    if not is_array(content):
        log.note(spot, f"is neither text nor a list of pieces ({content!r:.40}); left out")
        return ()
    parts: list[ResultPart] = []
    for number, entry in enumerate(content):
        place = spot.index(number)
        if isinstance(entry, str):
            parts.append(Text(entry))
        elif is_object(entry):
            parts.append(_read_piece(entry, place, log))
        else:
            log.note(place, f"is no piece of content ({entry!r:.40}); left out")
    return tuple(parts)


def write_content(parts: tuple[Part, ...]) -> Json:
    """Return parts as content: one text as a string, none as an empty one, others as a list."""
    written = [piece for part in parts if (piece := _write_piece(part)) is not None]
    if not written:
        return ""
    lone = as_text(written[0].get("text")) if len(written) == 1 else ""
    return lone if lone and written[0].keys() == {"type", "text"} else written


def _read_piece(entry: JsonObject, spot: Spot, log: IssueLog) -> ResultPart:
    kind = as_text(entry.get("type"))
    part = _read_known(kind, entry)
    if part is None:
        shown = as_text(entry.get("text")) or as_text(entry.get("refusal")) or f"[{kind}]"
        return Opaque(provider=PROVIDER, block=dict(entry), text=shown)
    for field in left_over(entry, _KNOWN[kind]):
        if field == _SET_ANEW:
            log.count(spot, field, "is set anew when a request is rendered")
        else:
            log.count(spot, f"{kind}.{field}", "has no place in a session")
    return part


def _read_known(kind: str, entry: JsonObject) -> ResultPart | None:
    match kind:
        case "input_text":
            text = entry.get("text")
            return Text(text) if isinstance(text, str) else None
        case "input_image":
            source = _media_source(entry, "image_url")
            detail = _DETAILS.get(as_text(entry.get("detail")))
            is_lost = entry.get("detail") is not None and detail is None
            return None if source is None or is_lost else Image(source=source, detail=detail)
        case "input_file":
            return _read_file(entry)
        case _:
            return None


def _read_file(entry: JsonObject) -> Document | None:
    source = _media_source(entry, "file_url") or _bytes_source(as_text(entry.get("file_data")))
    title = entry.get("filename")
    if source is None:
        return None
    return Document(source=source, title=title if isinstance(title, str) else None)


def _media_source(entry: JsonObject, key: str) -> MediaSource | None:
    url, file_id = as_text(entry.get(key)), as_text(entry.get("file_id"))
    if url.startswith("data:"):
        return _bytes_source(url)
    if url:
        return UrlSource(url=url)
    return FileIdSource(provider=PROVIDER, file_id=file_id) if file_id else None


def _bytes_source(url: str) -> Base64Source | None:
    found = _DATA_URL.fullmatch(url)
    return None if found is None else Base64Source(media_type=found["type"], data=found["data"])


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
            target = {"image_url": f"data:{media_type};base64,{data}"}
        case UrlSource(url=url):
            target = {"image_url": url}
        case FileIdSource(provider=provider, file_id=file_id) if provider == PROVIDER:
            target = {"file_id": file_id}
        case FileIdSource(provider=provider, file_id=file_id):
            return {"type": "input_text", "text": f"[image: {provider} file {file_id}]"}
        case _:
            assert_never(part.source)
    return {"type": "input_image", **detail, **target}


def _write_document(part: Document) -> Piece:
    named = {} if part.title is None else {"filename": part.title}
    match part.source:
        case Base64Source(media_type=media_type, data=data):
            target = {"file_data": f"data:{media_type};base64,{data}"}
        case UrlSource(url=url):
            target = {"file_url": url}
        case FileIdSource(provider=provider, file_id=file_id) if provider == PROVIDER:
            target = {"file_id": file_id}
        case FileIdSource(provider=provider, file_id=file_id):
            return {"type": "input_text", "text": f"[document: {provider} file {file_id}]"}
        case _:
            assert_never(part.source)
    return {"type": "input_file", **named, **target}
