"""Session files of Claude Code, and its stream-json: JSON Lines with one row per content block.

Rows that share a reply's id are one reply. A session file is append-only and rows name their parent;
editing a prompt or rewinding starts a branch. The active branch ends at the last message of the file.
Parallel calls hang under each other and their results under their calls, so the rows of one reply, and
all results of its calls, belong together wherever their parents point. The rows of a stream name no parents. A compaction covers the events
before it, counted from 1: import such a transcript into a new session.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC
from typing import Final, NamedTuple

from context_assembler.events import Body, Json, JsonObject, SessionEvent, body_of, to_json
from context_assembler.history.repair import settle_call
from context_assembler.providers import anthropic
from context_assembler.providers.wire import as_list, as_object, as_text, objects_in
from context_assembler.transcripts.source import Format, Issues, Reading, Row
from context_assembler.transcripts.writing import dump_json_text, wire_for

METADATA: Final = "claude_code"
_SAID: Final = ("user", "assistant")
_ROW_FIELDS: Final = ("uuid", "parentUuid", "sessionId", "session_id", "leafUuid", "snapshot")
_ROW_TYPES: Final = (
    *_SAID,
    *("summary", "system", "attachment", "progress", "file-history-snapshot"),
)
# Fields that describe the session as a whole, by the name they get.
_SESSION: Final = {
    "sessionId": "session_id",
    "session_id": "session_id",
    "cwd": "cwd",
    "version": "version",
    "gitBranch": "git_branch",
    "agentId": "agent_id",
}
_READ: Final = frozenset(
    "type subtype message uuid parentUuid logicalParentUuid timestamp isSidechain userType slug "
    "entrypoint sourceToolAssistantUUID toolUseResult attachment content level parent_tool_use_id".split()
).union(_SESSION)
_READ_OF_MESSAGES: Final = frozenset("role content id type model stop_reason usage".split())
_TITLES: Final = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
_DISPLAY_ONLY: Final = "are shown by the client, not sent to the model; left out"
_REASONS: Final[Mapping[str, str]] = {
    "file-history-snapshot": "are backups of the client's; left out",
    "progress": _DISPLAY_ONLY,
    "system:turn_duration": _DISPLAY_ONLY,
    "system:stop_hook_summary": _DISPLAY_ONLY,
    "system:away_summary": _DISPLAY_ONLY,
    "system:bridge_status": _DISPLAY_ONLY,
    "system:init": "name what the client offered; left out",
    "result": "sum up the run; its last reply has a row of its own; left out",
    "stream_event": "are pieces of replies that have rows of their own; left out",
    "queue-operation": "name what waited; what was sent has rows of its own; left out",
    "last-prompt": "repeat what other rows say; left out",
}
# Rows that the client sends to the model in the user's place: origin, and the fields that hold a
# title and what is said.
_TEXTS: Final = {
    "system:local_command": ("user", "", "content"),
    "attachment:queued_command": ("user", "", "prompt"),
    "attachment:file": ("file", "filename", "content"),
    "attachment:directory": ("file", "path", "content"),
    "attachment:edited_text_file": ("file", "filename", "snippet"),
    "attachment:hook_additional_context": ("developer", "", "content"),
}


class _Row(NamedTuple):
    """One row and its fields."""

    row: Row
    fields: JsonObject

    @property
    def kind(self) -> str:
        """The row's type, with its subtype if it has one."""
        kind = str(self.fields.get("type"))
        inner = {"system": self.fields.get("subtype"), "attachment": self.attachment.get("type")}
        return f"{kind}:{inner[kind]}" if inner.get(kind) is not None else kind

    @property
    def attachment(self) -> JsonObject:
        return as_object(self.fields.get("attachment"))

    @property
    def uuid(self) -> str:
        found = self.fields.get("uuid")
        return found if isinstance(found, str) else ""

    @property
    def message(self) -> JsonObject:
        return as_object(self.fields.get("message"))

    @property
    def is_said(self) -> bool:
        is_content = isinstance(self.message.get("content"), str | list)
        return self.fields.get("type") in _SAID and is_content

    @property
    def reply_id(self) -> str:
        """The id that the rows of one reply share."""
        found = self.message.get("id") if self.fields.get("type") == "assistant" else None
        return found if isinstance(found, str) else ""

    def ids_in(self, block_type: str, field: str) -> set[str]:
        """Return the ids that blocks of one type carry in a field."""
        blocks = objects_in(self.message.get("content"))
        found = (block.get(field) for block in blocks if block.get("type") == block_type)
        return {call_id for call_id in found if isinstance(call_id, str)}


def _is_row(fields: JsonObject) -> bool:
    return isinstance(fields.get("type"), str) and any(name in fields for name in _ROW_FIELDS)


def _read(reading: Reading) -> None:
    """Read the events of the active branch and what describes the session.

    Events keep the `uuid` of their first row as id. A file that holds nothing but the rows of a
    sub-agent is read as that agent's session.
    """
    rows: dict[str, _Row] = {}
    parent: str | None = None
    for one in reading.rows:
        fields = one.fields
        if not _is_row(fields):
            continue
        if "session_id" in fields and "parentUuid" not in fields:  # stream-json: rows in order
            is_side = fields.get("parent_tool_use_id") is not None
            fields = {**fields, "parentUuid": parent, "isSidechain": is_side}
            parent = parent if is_side else _Row(one, fields).uuid or parent
        row = _Row(one, fields)
        if row.uuid in rows:
            reading.leave(one, "repeated rows", "have the uuid of an earlier row; left out")
        else:
            rows[row.uuid or f"#{one.at}"] = row
    kept = list(rows.values())
    if any(row.is_said and row.fields.get("isSidechain") is not True for row in kept):
        for row in kept:
            if row.fields.get("isSidechain") is True:
                reason = "are sessions of their own; read their own files"
                reading.leave(row.row, "rows of sub-agents", reason)
        kept = [row for row in kept if row.fields.get("isSidechain") is not True]
    builder = _Builder(reading)
    for row in _active(kept, reading):
        builder.add(row)
    builder.finish()


def _active(rows: list[_Row], reading: Reading) -> Iterator[_Row]:
    """Yield the rows of the active branch in the order written; report the others.

    Rows that belong to no branch, such as titles, are among them.
    """
    chain = set(_chain(rows, reading.issues))
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
        elif row.fields.get("isMeta") and as_text(row.fields.get("sourceToolUseID")) in calls:
            chain.add(row.uuid)
    for row in rows:
        hangs = not row.is_said and as_text(row.fields.get("parentUuid")) in chain
        if not row.uuid or row.uuid in chain or hangs:
            yield row
        elif row.is_said or row.kind in _TEXTS:
            reason = "were edited away or cleared; left out"
            reading.leave(row.row, "rows of abandoned branches", reason)
        else:
            _leave(row, reading)


def _leave(row: _Row, reading: Reading) -> None:
    """List a row that says nothing to the model; one that should is damaged."""
    if row.fields["type"] not in _SAID:
        reason = _REASONS.get(row.kind, "have no place in a session; left out")
        reading.leave(row.row, f"rows of type {row.kind}", reason)


def _chain(rows: list[_Row], issues: Issues) -> Iterator[str]:
    """Yield the ids from the last message back to where the conversation began."""
    places = {row.uuid: place for place, row in enumerate(rows) if row.uuid}
    place = next(
        (at for at in range(len(rows) - 1, -1, -1) if rows[at].is_said and rows[at].uuid), None
    )
    while place is not None:
        row = rows[place]
        yield row.uuid
        parent = row.fields.get("parentUuid") or row.fields.get("logicalParentUuid")
        if parent is None:
            return
        found = places.get(parent) if isinstance(parent, str) else None
        if found is None or found >= place:
            # The parent's line is damaged or missing: what stands before it is the conversation.
            found = next((at for at in range(place - 1, -1, -1) if rows[at].uuid), None)
            if found is not None:
                reason = "names no earlier row; the row before is taken for it"
                issues.note(f"{row.kind}.parentUuid", reason, row.row.line)
        place = found


class _Builder:
    """Turns rows, in their order, into events."""

    def __init__(self, reading: Reading) -> None:
        self.session = reading.metadata
        self._reading = reading
        self._issues = reading.issues
        self._events = reading.events
        self._replies: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self._boundary: _Row | None = None

    def add(self, row: _Row) -> None:
        for field, name in _SESSION.items():
            if row.fields.get(field):
                self.session[name] = row.fields[field]
        if not row.is_said:
            self._add_other(row)
        elif row.fields["type"] == "assistant":
            self._add_reply(row)
        elif row.fields.get("isCompactSummary"):
            self._add_summary(row)
        else:
            self._add_user(row)

    def finish(self) -> None:
        if self._boundary is not None:
            reason = "has no summary after it; nothing was compacted"
            self._reading.leave(self._boundary.row, self._boundary.kind, reason)

    def _note(self, row: _Row) -> Callable[[str, str], None]:
        return lambda where, what: self._issues.note(f"{row.kind}.{where}", what, row.row.line)

    def _read(self, row: _Row) -> list[tuple[str, Body]]:
        """Return the events that the provider's file reads from a row's message."""
        read = ("content", "id", "type", "model", "stop_reason", "usage", "container")
        message = {key: row.message[key] for key in read if key in row.message}
        message["role"] = row.fields["type"]
        return list(anthropic.read_messages([message], self._note(row)))

    def _add_reply(self, row: _Row) -> None:
        if row.fields.get("isApiErrorMessage"):
            text = _plain(row.message.get("content"))
            reason = f"reports a failed call, not a reply ({text:.60}); left out"
            self._reading.leave(row.row, row.kind, reason)
            return
        [(_, read)] = self._read(row) or [("assistant", {"parts": []})]
        parts, made_by = read["parts"], read.get("made_by")
        place = self._replies.get(row.reply_id)
        if place is None:
            body: Body = {"parts": parts} | ({"made_by": made_by} if made_by else {})
            self._append(row, "assistant", body)
            if row.reply_id:
                self._replies[row.reply_id] = len(self._events) - 1
            return
        # Each row repeats the reply's head; the last one has its final figures.
        body = self._events[place][1]
        body["parts"] += parts
        if made_by:
            body["made_by"] = {**body.get("made_by", {}), **made_by}
        if metadata := _metadata(row):
            kept = body.setdefault("metadata", {}).setdefault(METADATA, {})
            kept.update(metadata)
        self._places.setdefault(row.uuid, place)
        self._reading.use(row.row)

    def _add_user(self, row: _Row) -> None:
        if row.fields.get("toolUseResult") is not None:
            reason = "repeats results for display; the results are kept"
            self._issues.count("toolUseResult", reason, row.row.line)
        for event_type, body in self._read(row):
            if event_type == "user" and row.fields.get("isMeta"):
                body["origin"] = "developer"
            body.pop("metadata", None)
            self._append(row, event_type, body)

    def _add_summary(self, row: _Row) -> None:
        boundary, self._boundary = self._boundary, None
        parts = [{"type": "text", "text": _plain(row.message.get("content"))}]
        if not self._events:  # what it covers is in another file: nothing here to replace
            self._append(row, "user", {"parts": parts})
            return
        covers: dict[str, Json] = {"first_seq": 1, "last_seq": len(self._events)}
        if kept := self._kept_ids(boundary):
            covers["excluded_ids"] = kept
        body: Body = {"parts": parts, "covers": covers, "origin": "model"}
        self._append(row, "compaction", body, first=boundary)

    def _kept_ids(self, boundary: _Row | None) -> list[str]:
        """Return the ids of the newest events, if the compaction left them active."""
        if boundary is None:
            return []
        segment = as_object(
            as_object(boundary.fields.get("compactMetadata")).get("preservedSegment")
        )
        head, tail = (self._places.get(str(segment.get(end))) for end in ("headUuid", "tailUuid"))
        if head is None or tail is None:
            return []
        return [str(about["id"]) for _, _, about in self._events[head : tail + 1]]

    def _add_other(self, row: _Row) -> None:
        kind = row.kind
        if kind == "system:compact_boundary":
            self._boundary = row
            self._reading.use(row.row)
        elif kind in _TEXTS and (content := _said(row)):
            read = anthropic.read_messages([{"role": "user", "content": content}], self._note(row))
            for event_type, body in read:
                if (origin := _TEXTS[kind][0]) != "user":
                    body["origin"] = origin
                self._append(row, event_type, body)
        elif kind in _TITLES and row.fields.get(_TITLES[kind]):
            self.session["title"] = row.fields[_TITLES[kind]]
            self._reading.use(row.row)
        else:
            _leave(row, self._reading)

    def _append(self, row: _Row, event_type: str, body: Body, *, first: _Row | None = None) -> None:
        event_id = (first or row).uuid
        copies = sum(
            str(about["id"]).partition("#")[0] == event_id for _, _, about in self._events[-20:]
        )
        if event_id and copies:
            event_id = f"{event_id}#{copies + 1}"
        if metadata := _metadata(row):
            body["metadata"] = {**body.get("metadata", {}), METADATA: metadata}
        self._places.setdefault(row.uuid, len(self._events))
        created_at = row.fields.get("timestamp")
        self._reading.add(row.row, event_type, body, id=event_id, created_at=created_at)


def _metadata(row: _Row) -> dict[str, Json]:
    kept = {k: v for k, v in row.fields.items() if k not in _READ and v is not None}
    unread = {k: v for k, v in row.message.items() if k not in _READ_OF_MESSAGES and v is not None}
    return {**kept, **({"message": unread} if unread else {})}


def _plain(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text for entry in as_list(value) if (text := _plain(entry)))
    return anthropic.describe_block(as_object(value)) if isinstance(value, dict) else ""


def _said(row: _Row) -> Json:
    """Return what a row of `_TEXTS` says: blocks, or a text under its title."""
    _, title, name = _TEXTS[row.kind]
    fields = row.attachment or row.fields
    held, head = fields.get(name), f"{fields[title]}:" if title in fields else ""
    file = as_object(as_object(held).get("file"))
    if isinstance(file.get("base64"), str) and as_text(file.get("type")).startswith("image/"):
        source = {"type": "base64", "media_type": file["type"], "data": file["base64"]}
        return [{"type": "text", "text": head}, {"type": "image", "source": source}]
    if name == "prompt":
        return held
    text = _plain(file.get("content", held))
    return f"{head}\n{text}" if head and text else text


# ---- writing ----

# Names what has no UUID of its own, always alike.
_ROLES: Final = {"assistant": "assistant", "tool_call": "assistant", "tool_result": "tool"}
_TURN: Final = {"kind": "said", "note": None, "seq": 0, "id": "", "origin": "user"}
_NAMESPACE: Final = uuid.UUID("6b1d7a52-6a0e-5d0c-9d61-0a1c7cfd3d1e")


def write_rows(events: Iterable[SessionEvent]) -> str:
    """Return the rows of a session, each the child of the one before it.

    Instructions become meta rows of the user.
    """
    lines: list[str] = []
    parent: str | None = None
    place, replies = 1, set[str]()
    events = [*events]
    replaced = [e.covers for e in events if e.covers and "replaced_by" in e.metadata]
    gone = {seq for one in replaced for seq in range(one.first_seq, one.last_seq + 1)}
    for event in (event for event in events if event.seq not in gone):
        first_id = event.id if _is_uuid(event.id) else _name(f"{place}/0/{event.id!a}")
        for number, row in enumerate(_rows_of(event, place)):
            is_boundary = row.get("subtype") == "compact_boundary"
            if row["type"] == "assistant":  # rows with one id would be one reply
                message = row["message"]
                message["id"] += f"_{place}" if message["id"] in replies else ""
                replies.add(message["id"])
            place += not is_boundary
            links: dict[str, Json] = {"parentUuid": None if is_boundary else parent}
            if is_boundary:
                links["logicalParentUuid"] = parent
            head = {"isSidechain": False, "userType": "external", "sessionId": _name("session")}
            if event.created_at is not None:
                moment = event.created_at.astimezone(UTC).isoformat(timespec="microseconds")
                head["timestamp"] = moment.replace("+00:00", "Z")
            parent = first_id if number == 0 else _name(f"{first_id}/{number}")
            lines.append(dump_json_text({**links, **head, **row, "uuid": parent}) + "\n")
    return "".join(lines)


def _rows_of(event: SessionEvent, place: int) -> Iterator[dict[str, Json]]:
    wire, body = wire_for("anthropic", [event]), body_of(event)
    role = _ROLES.get(event.type, "user")
    parts = [settle_call(p) if p["type"] == "tool_call" else p for p in body["parts"]]
    wire.add({**_TURN, "role": role, "parts": parts, "made_by": body.get("made_by")})
    blocks = [block for message in wire.messages for block in message["content"]]
    if event.type == "compaction":
        if not event.text.strip():
            return  # sealed: what it covers is what others can read
        about: JsonObject = {}
        boundary = {"content": "Conversation compacted", "compactMetadata": about}
        yield {"type": "system", "subtype": "compact_boundary", **boundary}
        yield {**_user_row(event.text), "isCompactSummary": True}
    elif event.type == "system":
        text = f"<system-reminder>\n{event.text}\n</system-reminder>"
        yield {**_user_row(text), "isMeta": True}
    elif role == "assistant":
        yield _reply_row(blocks, event, place)
    else:
        results = [block for block in blocks if block["type"] == "tool_result"]
        said = [block for block in blocks if block["type"] != "tool_result"]
        for result in results:
            content = {key: _plainly(held) for key, held in result.items() if key == "content"}
            yield _user_row([{**result, **content}])
        if said or not results:
            meta = {"isMeta": True} if event.origin == "developer" else {}
            yield {**_user_row(_plainly(said)), **meta}


def _plainly(blocks: list[Json]) -> Json:
    """Return a lone text as text, as the client writes it."""
    is_text = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
    return blocks[0]["text"] if is_text else blocks


def _user_row(content: Json) -> dict[str, Json]:
    return {"type": "user", "message": {"role": "user", "content": content}}


def _reply_row(blocks: list[Json], event: SessionEvent, place: int) -> dict[str, Json]:
    made_by = event.made_by
    message: dict[str, Json] = {
        "id": (made_by and made_by.response_id) or f"msg_{place}",
        "type": "message",
        "role": "assistant",
        "model": made_by.model if made_by else "<synthetic>",
        "content": blocks,
        "stop_reason": made_by.stop_reason if made_by else None,
    }
    if made_by is not None and made_by.container is not None:
        message["container"] = to_json(made_by.container)
    if made_by is not None and (usage := made_by.usage) is not None:
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        message["usage"] = {
            "input_tokens": usage.input_tokens - cached,
            "output_tokens": usage.output_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
        }
    return {"type": "assistant", "message": message}


def _name(text: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, text))


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _marks(row: JsonObject) -> bool:
    return row["type"] in _ROW_TYPES


FORMAT: Final = Format(_is_row, _marks, _read, write=write_rows)
