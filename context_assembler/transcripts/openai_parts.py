"""OpenAI's content parts as ours, and ours as theirs.

Normal form, which writing gives and reading keeps: one text is a plain string; parts hold their own
fields only. What we do not interpret stays verbatim.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, assert_never

from context_assembler.transcripts.content_lists import join_entries, read_entries
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.media_sources import read_bytes, read_detail, tell_file
from context_assembler.transcripts.parsing import as_mapping, left_over
from context_assembler.values.json_shapes import is_array
from context_assembler.values.media.data_urls import write_inline_url
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
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)

PROVIDER: Final = "openai_chat"
REASONING_DETAILS: Final = "reasoning_details"

ContentPart: TypeAlias = dict[str, Json]
_Read: TypeAlias = Callable[[JsonObject, Spot, IssueLog], Part | None]


def read_content(content: Json, spot: Spot, log: IssueLog) -> tuple[Part, ...]:
    """Return a message's content as parts; text is one part, or none when it is empty."""
    return read_entries(content, spot, log, read=_read_part, one="content part", many="parts")


def write_content(parts: tuple[Part, ...]) -> Json:
    """Return parts as content: one text as a string, none as an empty one, others as a list."""
    return join_entries(map(_write_part, parts), text_type="text")


def _read_part(entry: JsonObject, spot: Spot, log: IssueLog) -> Part:
    kind = entry.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    part = reader(entry, spot, log) if reader is not None else None
    if part is None:
        return _opaque(entry)
    if isinstance(part, Text | Image | Document):
        fields = left_over(entry, _KNOWN_FIELDS)
        log.count_unplaced(spot, fields, kind=str(kind), set_anew=_CACHE_MARK)
    return part


def _read_text(entry: JsonObject, _spot: Spot, _log: IssueLog) -> Part | None:
    text = entry.get("text")
    return Text(text) if isinstance(text, str) else None


def _read_image(entry: JsonObject, spot: Spot, log: IssueLog) -> Part | None:
    given = entry.get("image_url")
    fields = {"url": given} if isinstance(given, str) else as_mapping(given)
    url, detail = fields.get("url"), fields.get("detail")
    source = _url_source(url) if isinstance(url, str) else None
    if source is None:
        return None
    if detail is not None and read_detail(detail) is None:
        log.note(spot.key("detail"), f"{detail!r:.40} is unknown; left out")
    return Image(source=source, detail=read_detail(detail))


def _read_file(entry: JsonObject, _spot: Spot, _log: IssueLog) -> Part | None:
    fields = as_mapping(entry.get("file"))
    file_id, encoded, title = (fields.get(key) for key in ("file_id", "file_data", "filename"))
    kept_title = title if isinstance(title, str) else None
    if isinstance(file_id, str):
        return Document(source=FileIdSource(provider=PROVIDER, file_id=file_id), title=kept_title)
    source = _url_source(encoded) if isinstance(encoded, str) else None
    return None if source is None else Document(source=source, title=kept_title)


def _read_thinking(entry: JsonObject, _spot: Spot, _log: IssueLog) -> Part | None:
    text = readable_text(entry.get("thinking"))
    return Thinking(text=text, provider=PROVIDER, block=dict(entry))


_READERS: Final[Mapping[str, _Read]] = {
    "text": _read_text,
    "image_url": _read_image,
    "file": _read_file,
    "thinking": _read_thinking,
}
_KNOWN_FIELDS: Final = frozenset({"type", "text", "image_url", "file"})
_CACHE_MARK: Final = "cache_control"


def readable_text(value: Json) -> str:
    """Return the text in a value: its own, or that of its parts."""
    if isinstance(value, str):
        return value
    if is_array(value):
        return "\n".join(text for entry in value if (text := readable_text(entry)))
    fields = as_mapping(value)
    names = ("text", "refusal", "summary", "transcript")
    return "\n".join(held for name in names if isinstance(held := fields.get(name), str))


def _opaque(entry: JsonObject) -> Opaque:
    return Opaque(
        provider=PROVIDER, block=dict(entry), text=readable_text(entry) or f"[{entry.get('type')}]"
    )


def _url_source(url: str) -> MediaSource | None:
    return read_bytes(url) if url.startswith("data:") else UrlSource(url=url)


def _write_part(part: Part) -> ContentPart | None:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image():
            return _write_image(part)
        case Document():
            return _write_document(part)
        case Thinking():
            is_ours = part.provider == PROVIDER and part.block is not None
            return dict(part.block or {}) if is_ours and "type" in (part.block or {}) else None
        case Opaque():
            if part.provider == PROVIDER:
                return dict(part.block)
            return {"type": "text", "text": part.text} if part.text else None
        case ToolCall() | ToolResult():
            return None  # written beside the content, or as a message of its own
        case _:
            assert_never(part)


def _write_image(part: Image) -> ContentPart:
    match part.source:
        case Base64Source(media_type=media_type, data=encoded):
            url = write_inline_url(media_type, encoded)
        case UrlSource():
            url = part.source.url
        case FileIdSource():
            return {"type": "text", "text": tell_file("image", part.source)}
        case _:
            assert_never(part.source)
    fields = {"url": url} if part.detail is None else {"url": url, "detail": part.detail}
    return {"type": "image_url", "image_url": fields}


def _write_document(part: Document) -> ContentPart:
    match part.source:
        case Base64Source(media_type=media_type, data=encoded):
            fields = {"file_data": write_inline_url(media_type, encoded)}
        case FileIdSource(provider=provider, file_id=file_id) if provider == PROVIDER:
            fields = {"file_id": file_id}
        case FileIdSource():
            return {"type": "text", "text": tell_file("document", part.source)}
        case UrlSource(url=url):
            return {"type": "text", "text": f"[document: {url}]"}
        case _:
            assert_never(part.source)
    named = fields if part.title is None else {**fields, "filename": part.title}
    return {"type": "file", "file": named}
