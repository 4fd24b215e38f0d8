"""Session files of Claude Code, and its stream-json: JSON Lines with one row per content block.

Rows that share a reply's id are one reply. A session file is append-only and rows name their parent;
editing a prompt or rewinding starts a branch. The active branch ends at the last message of the file.
Parallel calls hang under each other and their results under their calls, so the rows of one reply, and
all results of its calls, belong together wherever their parents point. The rows of a stream name no parents. A compaction covers the events
before it, counted from 1: import such a transcript into a new session.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from context_assembler.events import Body, Json, JsonObject
from context_assembler.providers import anthropic, wire
from context_assembler.providers.gemini import snake_key
from context_assembler.transcripts.pieces import Builder, program
from context_assembler.transcripts.source import Issues, Reading, Row, walk_back

METADATA: Final = "claude_code"
_SAID: Final = ("user", "assistant")
_ROW_FIELDS: Final = ("uuid", "parentUuid", "sessionId", "session_id", "leafUuid", "snapshot")
_MARKS: Final = (*_SAID, "summary", "system", "attachment", "progress", "file-history-snapshot")
_SESSION: Final = "sessionId session_id cwd version gitBranch agentId".split()  # describe the whole
_READ: Final = frozenset(
    "type subtype message uuid parentUuid logicalParentUuid timestamp isSidechain userType slug "
    "entrypoint sourceToolAssistantUUID toolUseResult attachment content level parent_tool_use_id".split()
).union(_SESSION)
_OF_REPLIES: Final = "content id type model stop_reason usage container".split()
_READ_OF_MESSAGES: Final = frozenset("role content id type model stop_reason usage".split())
_TITLES: Final = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
# Rows that the client sends to the model in the user's place: origin, and the fields that hold a
# title and what is said.
_TEXTS: Final = {
    "system:local_command": ("", "", "content"),
    "attachment:queued_command": ("", "", "prompt"),
    "attachment:file": ("file", "filename", "content"),
    "attachment:directory": ("file", "path", "content"),
    "attachment:edited_text_file": ("file", "filename", "snippet"),
    "attachment:hook_additional_context": ("developer", "", "content"),
}


class _Row(Row):
    """A row by what it says about itself."""

    @property
    def kind(self) -> str:
        """The row's type, with its subtype if it has one."""
        kind = str(self.fields.get("type"))
        inner = {"system": self.fields.get("subtype"), "attachment": self.attachment.get("type")}
        return f"{kind}:{inner[kind]}" if inner.get(kind) is not None else kind

    @property
    def attachment(self) -> JsonObject:
        return wire.as_object(self.fields.get("attachment"))

    @property
    def uuid(self) -> str:
        return wire.as_text(self.fields.get("uuid"))

    @property
    def message(self) -> JsonObject:
        return wire.as_object(self.fields.get("message"))

    @property
    def is_said(self) -> bool:
        is_content = isinstance(self.message.get("content"), str | list)
        return self.fields.get("type") in _SAID and is_content

    @property
    def reply_id(self) -> str:
        """The id that the rows of one reply share."""
        return (
            wire.as_text(self.message.get("id")) if self.fields.get("type") == "assistant" else ""
        )

    def ids_in(self, block_type: str, field: str) -> set[str]:
        """Return the ids that blocks of one type carry in a field."""
        blocks = wire.objects_in(self.message.get("content"))
        found = (wire.as_text(one.get(field)) for one in blocks if one.get("type") == block_type)
        return set(filter(None, found))


def _is_row(fields: JsonObject) -> bool:
    return isinstance(fields.get("type"), str) and any(name in fields for name in _ROW_FIELDS)


def _read(builder: Builder) -> None:
    """Read the events of the active branch and what describes the session.

    Events keep the `uuid` of their first row as id. A file that holds nothing but the rows of a
    sub-agent is read as that agent's session.
    """
    reading = builder.reading
    rows: dict[str, _Row] = {}
    parent: str | None = None
    for one in reading.rows:
        row = _Row(*one)
        if not _is_row(row.fields):
            continue
        if "session_id" in row.fields and "parentUuid" not in row.fields:  # stream-json: in order
            is_side = row.fields.get("parent_tool_use_id") is not None
            linked = {**row.fields, "parentUuid": parent, "isSidechain": is_side}
            row = row._replace(fields=linked)
            parent = parent if is_side else row.uuid or parent
        if row.uuid in rows:
            reading.leave(row, "repeated rows", "have the uuid of an earlier row; left out")
        else:
            rows[row.uuid or f"#{row.at}"] = row
    kept = [row for row in rows.values() if row.fields.get("isSidechain") is not True]
    if any(row.is_said for row in kept):
        for row in rows.values():
            if row.fields.get("isSidechain") is True:
                reason = "are sessions of their own; read their own files"
                reading.leave(row, "rows of sub-agents", reason)
    else:
        kept = [*rows.values()]
    _add_rows(builder, _active(kept, reading))


def _active(rows: list[_Row], reading: Reading) -> Iterator[_Row]:
    """Yield the rows of the active branch in the order written; report the others.

    Rows that belong to no branch, such as titles, are among them.
    """
    chain = _chain(rows, reading.issues)
    replies = {row.reply_id for row in rows if row.uuid in chain and row.reply_id}
    chain |= {row.uuid for row in rows if row.uuid and row.reply_id in replies}
    on_chain = [row for row in rows if row.uuid in chain]
    calls = {one for row in on_chain for one in row.ids_in("tool_use", "id")}
    answered = {one for row in on_chain for one in row.ids_in("tool_result", "tool_use_id")}
    for row in rows:  # rows off the chain that answer, or explain, a call on it
        if not row.uuid or row.uuid in chain:
            continue
        answers = row.ids_in("tool_result", "tool_use_id")
        if answers and answers <= calls and not answers & answered:
            answered |= answers
            chain.add(row.uuid)
        elif row.fields.get("isMeta") and wire.as_text(row.fields.get("sourceToolUseID")) in calls:
            chain.add(row.uuid)
    known = {"", *(row.uuid for row in rows)}
    for row in rows:
        hangs = not row.is_said and wire.as_text(row.fields.get("parentUuid")) in chain
        if row.kind == "summary" and wire.as_text(row.fields.get("leafUuid")) not in known:
            # A new file of Claude Code begins with titles of the project's earlier sessions.
            reading.leave(row, "titles of other sessions", "end in rows of other files; left out")
        elif not row.uuid or row.uuid in chain or hangs:
            yield row
        elif row.is_said or row.kind in _TEXTS:
            reason = "were edited away or cleared; left out"
            reading.leave(row, "rows of abandoned branches", reason)
        else:
            _leave(row, reading)


def _leave(row: _Row, reading: Reading) -> None:
    """List a row that says nothing to the model; one that should is damaged."""
    if row.fields["type"] not in _SAID:
        reading.leave(row, f"rows of type {row.kind}", "are the client's own; left out")


def _chain(rows: list[_Row], issues: Issues) -> set[str]:
    """Return the ids from the last message back to where the conversation began."""
    named = [row for row in rows if row.uuid]
    parents = (r.fields.get("parentUuid") or r.fields.get("logicalParentUuid") for r in named)
    links = [(row.uuid, parent) for row, parent in zip(named, parents, strict=True)]
    chain = set[str]()
    last = max((at for at, row in enumerate(named) if row.is_said), default=-1)
    for at, is_linked in walk_back(links, last):
        chain.add(named[at].uuid)
        if at and not is_linked:
            reason = "names no earlier row; the row before is taken for it"
            issues.note(f"{named[at].kind}.parentUuid", reason, named[at].line)
    return chain


def _add_rows(builder: Builder, rows: Iterable[_Row]) -> None:
    """Turn rows, in their order, into events."""
    reading, events = builder.reading, builder.reading.events
    replies: dict[str, int] = {}  # ids of replies → their events
    places: dict[str, int] = {}  # ids of rows → their first events
    boundary: _Row | None = None
    for row in rows:
        builder.row, kind, place = row, row.kind, replies.get(row.reply_id, len(events))
        told = {snake_key(name): row.fields[name] for name in _SESSION if row.fields.get(name)}
        reading.metadata |= told
        about = {"id": row.uuid, "timestamp": row.fields.get("timestamp")}
        unread = _metadata(row)
        kept: Body = {"metadata": {METADATA: unread}} if unread else {}
        if kind == "system:compact_boundary":
            boundary = row
            reading.use(row)
        elif kind in _TITLES and row.fields.get(_TITLES[kind]):
            reading.metadata["title"] = row.fields[_TITLES[kind]]
            reading.use(row)
        elif row.is_said and row.fields.get("isApiErrorMessage"):
            text = _plain(row.message.get("content"))
            builder.leave(kind, f"reports a failed call, not a reply ({text:.60})")
        elif row.is_said and row.fields.get("isCompactSummary"):
            about["id"] = boundary.uuid if boundary and events else row.uuid
            ids = _kept_ids(boundary, places, reading)
            summary = wire.text_part(_plain(row.message.get("content")))
            builder.compact([summary], about, excluded_ids=ids, **kept)
            boundary = None
        else:
            said = _events_of(row, builder.note)
            for event_type, body in said:
                if place < len(events) and row.reply_id:
                    _go_on(events[place][1], body | kept)
                    reading.use(row)
                else:
                    builder.append(event_type, body | kept, about)
            if not said:
                _leave(row, reading)
            if row.reply_id:
                replies[row.reply_id] = place
            if row.fields.get("toolUseResult") is not None:
                reason = "repeats results for display; the results are kept"
                reading.issues.count("toolUseResult", reason, row.line)
        if place < len(events):
            places.setdefault(row.uuid, place)
    if boundary is not None:
        reading.leave(boundary, boundary.kind, "has no summary after it; nothing was compacted")


def _events_of(row: _Row, note: wire.Note) -> list[tuple[str, Body]]:
    """Return what a row says: a message, or what the client sends in the user's place."""
    if row.is_said:
        message = {key: row.message[key] for key in _OF_REPLIES if key in row.message}
        message["role"], origin = row.fields["type"], "developer" * bool(row.fields.get("isMeta"))
    elif row.kind in _TEXTS and (content := _said(row)):
        message, origin = {"role": "user", "content": content}, _TEXTS[row.kind][0]
    else:
        return []
    events = anthropic.read_messages([message], note)
    for event_type, body in events:
        body.pop("metadata", None)
        if event_type == "user" and origin:
            body["origin"] = origin
    return events


def _go_on(reply: Body, body: Body) -> None:
    """Add a row to its reply. Each repeats the reply's head; the last one has its final figures."""
    reply["parts"] += body["parts"]
    if "made_by" in body:
        reply["made_by"] = {**reply.get("made_by", {}), **body["made_by"]}
    if "metadata" in body:
        kept = reply.get("metadata", {}).get(METADATA, {})
        reply["metadata"] = {METADATA: {**kept, **body["metadata"][METADATA]}}


def _kept_ids(boundary: _Row | None, places: Mapping[str, int], reading: Reading) -> list[str]:
    """Return the ids of the newest events, if the compaction left them active."""
    about = wire.as_object(boundary.fields.get("compactMetadata")) if boundary else {}
    segment = wire.as_object(about.get("preservedSegment"))
    head, tail = (places.get(str(segment.get(end))) for end in ("headUuid", "tailUuid"))
    if head is None or tail is None:
        return []
    return [event_id for _, _, event_id, _ in reading.events[head : tail + 1]]


def _metadata(row: _Row) -> dict[str, Json]:
    kept = {k: v for k, v in row.fields.items() if k not in _READ and v is not None}
    unread = {k: v for k, v in row.message.items() if k not in _READ_OF_MESSAGES and v is not None}
    return {**kept, **({"message": unread} if unread else {})}


def _plain(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text for entry in wire.as_list(value) if (text := _plain(entry)))
    return anthropic.describe_block(wire.as_object(value)) if isinstance(value, dict) else ""


def _said(row: _Row) -> Json:
    """Return what a row of `_TEXTS` says: blocks, or a text under its title."""
    _, title, name = _TEXTS[row.kind]
    fields = row.attachment or row.fields
    held, head = fields.get(name), f"{fields[title]}:" if title in fields else ""
    file = wire.as_object(wire.as_object(held).get("file"))
    if isinstance(file.get("base64"), str) and wire.as_text(file.get("type")).startswith("image/"):
        source = {"type": "base64", "media_type": file["type"], "data": file["base64"]}
        return [{"type": "text", "text": head}, {"type": "image", "source": source}]
    if name == "prompt":
        return held
    text = _plain(file.get("content", held))
    return f"{head}\n{text}" if head and text else text


CLAUDE_CODE: Final = program(
    METADATA, _is_row, _read, keys="", marks=lambda row: row["type"] in _MARKS
)
