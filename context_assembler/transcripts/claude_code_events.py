"""Rows of a Claude Code session as events."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from context_assembler.transcripts.anthropic_blocks import read_content
from context_assembler.transcripts.anthropic_replies import REPLY_FIELDS, read_made_by
from context_assembler.transcripts.claude_code_rows import CodeRow
from context_assembler.transcripts.issues import IssueLog
from context_assembler.transcripts.parsing import as_mapping, left_over, read_time
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    EventBody,
    Provenance,
    SessionEvent,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.json_shapes import is_array
from context_assembler.values.native.anthropic_texts import readable_text
from context_assembler.values.native.anthropic_usage import USAGE_FIELDS
from context_assembler.values.parts import Json, JsonObject, Origin, Part, Text, ToolResult

METADATA: Final = "claude_code"

# Fields of rows that are read into events, or describe the session as a whole.
_SESSION_FIELDS: Final = {
    "sessionId": "session_id",
    "cwd": "cwd",
    "version": "version",
    "gitBranch": "git_branch",
    "agentId": "agent_id",
}
_STRUCTURE_FIELDS: Final = frozenset(
    {
        "type",
        "subtype",
        "message",
        "uuid",
        "parentUuid",
        "logicalParentUuid",
        "timestamp",
        "isSidechain",
        "userType",
        "slug",
        "entrypoint",
        "sourceToolAssistantUUID",
        "toolUseResult",
        "attachment",
        "content",
        "level",
    }
).union(_SESSION_FIELDS)
_MESSAGE_FIELDS: Final = frozenset({"role", "content"}) | REPLY_FIELDS
_TITLES: Final[Mapping[str, str]] = {
    "summary": "summary",
    "ai-title": "aiTitle",
    "custom-title": "customTitle",
}
# What the client tells the model in the user's place.
_TEXT_ORIGINS: Final[Mapping[str, Origin]] = {
    "system:local_command": "user",
    "attachment:queued_command": "user",
    "attachment:file": "file",
    "attachment:directory": "file",
    "attachment:edited_text_file": "file",
    "attachment:hook_additional_context": "developer",
}


@dataclass(slots=True)
class _OpenReply:
    """A reply whose rows are still coming in; `place` is where its event stands."""

    place: int
    parts: tuple[Part, ...]
    made_by: Provenance | None


class EventBuilder:
    """Turns rows, in their order, into events; `session` gathers what describes all of them."""

    def __init__(self, log: IssueLog) -> None:
        self.session: dict[str, Json] = {}
        self._log = log
        self._events: list[SessionEvent] = []
        self._replies: dict[str, _OpenReply] = {}
        self._places: dict[str, int] = {}
        self._boundary: CodeRow | None = None

    def add(self, row: CodeRow) -> None:
        """Take one row."""
        for field, name in _SESSION_FIELDS.items():
            if row.fields.get(field):
                self.session[name] = row.fields[field]
        if not row.is_said:
            self._add_other(row)
        elif row.fields["type"] == "assistant":
            self._add_reply(row)
        elif row.fields.get("isCompactSummary"):
            self._add_summary(row)
        else:
            self._add_said(row)

    def finish(self) -> list[SessionEvent]:
        """Return the events."""
        if self._boundary is not None:
            self._log.note(self._boundary.spot, "has no summary behind it; nothing was compacted")
        return self._events

    def _add_reply(self, row: CodeRow) -> None:
        if row.fields.get("isApiErrorMessage"):
            text = readable_text(row.message.get("content"))
            self._log.note(
                row.spot, f"tells of a failed call, not of a reply ({text:.60}); left out"
            )
            return
        parts = read_content(row.message.get("content"), row.spot.key("content"), self._log)
        self._report_usage(row)
        made_by = read_made_by(row.message)
        reply = self._replies.get(row.reply_id or "")
        if reply is None:
            self._append(row, AssistantBody(parts=parts, made_by=made_by), "model")
            if row.reply_id:
                place = len(self._events) - 1
                self._replies[row.reply_id] = _OpenReply(place, parts, made_by)
            return
        # Each row repeats the reply's head; the last one has its final figures.
        reply.parts += parts
        reply.made_by = _merged(reply.made_by, made_by)
        event = self._events[reply.place]
        body = AssistantBody(parts=reply.parts, made_by=reply.made_by)
        metadata = {**event.metadata, **self._metadata(row)}
        self._events[reply.place] = replace(event, body=body, metadata=metadata)
        self._note_place(row, reply.place)

    def _add_said(self, row: CodeRow) -> None:
        if row.fields.get("toolUseResult") is not None:
            self._log.count(
                row.spot, "toolUseResult", "repeats results for display; the results are kept"
            )
        parts = read_content(row.message.get("content"), row.spot.key("content"), self._log)
        results = [part for part in parts if isinstance(part, ToolResult)]
        said = tuple(part for part in parts if not isinstance(part, ToolResult))
        for result in results:
            self._append(row, ToolResultBody(result=result), "tool")
        if said or not results:
            origin: Origin = "developer" if row.fields.get("isMeta") else "user"
            self._append(row, UserBody(parts=said), origin)

    def _add_summary(self, row: CodeRow) -> None:
        boundary, self._boundary = self._boundary, None
        summary = readable_text([row.message]) or str(row.message.get("content"))
        if not self._events:
            # What it covers is in another file: nothing here to stand in for.
            self._append(row, UserBody(parts=(Text(summary),)), "user")
            return
        last = len(self._events)
        kept = () if boundary is None else self._kept_ids(boundary)
        body = CompactionBody(summary=summary, first_seq=1, last_seq=last, excluded_ids=kept)
        self._append(row, body, "model", first=boundary)

    def _kept_ids(self, boundary: CodeRow) -> tuple[str, ...]:
        """Return the ids of the newest events, where the compaction left them standing."""
        segment = as_mapping(
            as_mapping(boundary.fields.get("compactMetadata")).get("preservedSegment")
        )
        head, tail = (self._places.get(str(segment.get(end))) for end in ("headUuid", "tailUuid"))
        if head is None or tail is None:
            return ()
        return tuple(event.id for event in self._events[head : tail + 1])

    def _add_other(self, row: CodeRow) -> None:
        kind = row.kind
        if row.is_boundary:
            self._boundary = row
        elif kind in _TEXT_READERS and (text := _TEXT_READERS[kind](row)):
            self._append(row, UserBody(parts=(Text(text),)), _TEXT_ORIGINS[kind])
        elif kind in _TITLES and row.fields.get(_TITLES[kind]):
            self.session["title"] = row.fields[_TITLES[kind]]
        else:
            self._log.count(row.spot, f"rows of type {kind}", _REASONS.get(kind, _NO_PLACE))

    def _append(
        self, row: CodeRow, body: EventBody, origin: Origin, *, first: CodeRow | None = None
    ) -> None:
        event_id = (row if first is None else first).uuid or ""
        copies = sum(event.id.partition("#")[0] == event_id for event in self._events[-20:])
        if event_id and copies:
            event_id = f"{event_id}#{copies + 1}"
        event = SessionEvent(
            body=body,
            id=event_id,
            origin=origin,
            created_at=read_time(row.fields.get("timestamp")),
            metadata=self._metadata(row),
        )
        self._note_place(row, len(self._events))
        self._events.append(event)

    def _note_place(self, row: CodeRow, place: int) -> None:
        if row.uuid:
            self._places.setdefault(row.uuid, place)

    def _metadata(self, row: CodeRow) -> JsonObject:
        kept = left_over(row.fields, _STRUCTURE_FIELDS)
        if unmapped := left_over(row.message, _MESSAGE_FIELDS):
            kept["message"] = unmapped
        return {METADATA: kept} if kept else {}

    def _report_usage(self, row: CodeRow) -> None:
        for field in left_over(as_mapping(row.message.get("usage")), USAGE_FIELDS):
            self._log.count(row.spot, f"usage.{field}", "is no count of tokens; left out")


_NO_PLACE: Final = "have no place in a session; left out"
_DISPLAY_ONLY: Final = "are shown by the client, not sent to the model; left out"
_REASONS: Final[Mapping[str, str]] = {
    "file-history-snapshot": "are backups of the client's; left out",
    "progress": _DISPLAY_ONLY,
    "system:turn_duration": _DISPLAY_ONLY,
    "system:stop_hook_summary": _DISPLAY_ONLY,
    "system:away_summary": _DISPLAY_ONLY,
    "system:bridge_status": _DISPLAY_ONLY,
    "queue-operation": "tell what waited; what was sent has rows of its own; left out",
    "last-prompt": "repeat what other rows say; left out",
}


def _merged(first: Provenance | None, second: Provenance | None) -> Provenance | None:
    if first is None or second is None:
        return first or second
    return replace(
        first,
        usage=second.usage or first.usage,
        stop_reason=second.stop_reason or first.stop_reason,
        container=second.container or first.container,
    )


def _local_command(row: CodeRow) -> str:
    return _plain(row.fields.get("content"))


def _attachment(row: CodeRow) -> JsonObject:
    return as_mapping(row.fields.get("attachment"))


def _queued_command(row: CodeRow) -> str:
    return _plain(_attachment(row).get("prompt"))


def _file(row: CodeRow) -> str:
    content = _attachment(row).get("content")
    held = as_mapping(as_mapping(content).get("file")).get("content", content)
    return _titled(_attachment(row).get("filename"), _plain(held))


def _directory(row: CodeRow) -> str:
    return _titled(_attachment(row).get("path"), _plain(_attachment(row).get("content")))


def _edited_file(row: CodeRow) -> str:
    return _titled(_attachment(row).get("filename"), _plain(_attachment(row).get("snippet")))


def _hook_context(row: CodeRow) -> str:
    return _plain(_attachment(row).get("content"))


_TEXT_READERS: Final[Mapping[str, Callable[[CodeRow], str]]] = {
    "system:local_command": _local_command,
    "attachment:queued_command": _queued_command,
    "attachment:file": _file,
    "attachment:directory": _directory,
    "attachment:edited_text_file": _edited_file,
    "attachment:hook_additional_context": _hook_context,
}


def _plain(value: Json) -> str:
    if isinstance(value, str):
        return value
    if is_array(value):
        return "\n".join(text for entry in value if (text := _plain(entry)))
    return readable_text(value)


def _titled(title: Json, text: str) -> str:
    return f"{title}:\n{text}" if isinstance(title, str) and text else text
