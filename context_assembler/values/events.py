"""The records of a session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias, assert_never

from context_assembler.values.content import as_parts, as_result_parts
from context_assembler.values.parts import (
    Json,
    JsonObject,
    Opaque,
    Origin,
    Part,
    ResultPart,
    Text,
    ToolCall,
    ToolResult,
)
from context_assembler.values.unfinished import split_calls

EventType: TypeAlias = Literal[
    "user", "assistant", "tool_call", "tool_result", "compaction", "system"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens that a provider reported for one call.

    `input_tokens` is the whole prompt, cached or not, for every provider (Anthropic reports the
    uncached rest; its reply reader adds the three figures up).
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """Where a provider ran code for a reply; later calls go on in it until it expires."""

    id: str
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a reply came from: what its signed parts are bound to.

    `prefix_fingerprint` identifies everything that was sent before the reply (`None`: unknown, as in
    imported sessions); `account` is the caller's own tag for the API account or route.
    `token_factor` is what reported usage corrected the counts of this call's new messages by
    (`None`: nothing, as before there were corrections).
    """

    provider: str
    model: str
    account: str | None = None
    prefix_fingerprint: str | None = None
    response_id: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    token_factor: float | None = None
    container: Container | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserBody:
    """What the user said.

    `note` names a user turn that the assembler itself placed there (`continue`).
    """

    parts: tuple[Part, ...]
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantBody:
    """A whole reply in its own order: thinking, text, calls, opaque blocks."""

    parts: tuple[Part, ...]
    made_by: Provenance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallBody:
    """One call, logged on its own: it belongs to the assistant turn before it."""

    call: ToolCall
    made_by: Provenance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultBody:
    """One result."""

    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionBody:
    """A summary that stands in for the events it covers.

    The covered events are those from `first_seq` to `last_seq`, both included, less
    `excluded_ids`; they stay in the store. `native` are the blocks of a provider that wrote the
    compaction itself, verbatim and in order, and `made_by` says who can read them; then `summary` is
    their plain-text twin, empty where there is none: for everybody else nothing is covered.
    """

    summary: str
    first_seq: int
    last_seq: int
    excluded_ids: tuple[str, ...] = ()
    native: tuple[Opaque, ...] = ()
    made_by: Provenance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemBody:
    """Instructions given in the course of a session.

    `note` names the kind of a note that the assembler itself placed there (`clock` …).
    """

    parts: tuple[Part, ...]
    note: str | None = None


EventBody: TypeAlias = (
    UserBody | AssistantBody | ToolCallBody | ToolResultBody | CompactionBody | SystemBody
)

EVENT_TYPES: Final[Mapping[type[EventBody], EventType]] = {
    UserBody: "user",
    AssistantBody: "assistant",
    ToolCallBody: "tool_call",
    ToolResultBody: "tool_result",
    CompactionBody: "compaction",
    SystemBody: "system",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """One record of a session, append-only.

    A store gives `seq` (1, 2, 3 … within the session; 0 means not stored yet) and, where it is
    empty, `id`. `created_at` is when it happened, with a time zone; `None` where nobody knows.
    `answers_seq` is given for a reply and the notes it was sent: the last event that they were made
    from. They belong right behind it, whatever was appended while the model was at work.
    """

    body: EventBody
    id: str = ""
    seq: int = 0
    answers_seq: int = 0
    created_at: datetime | None = None
    origin: Origin = "user"
    is_pinned: bool = False
    metadata: JsonObject = field(default_factory=dict[str, Json])

    @property
    def type(self) -> EventType:
        """The event's type, as the stores spell it."""
        return EVENT_TYPES[type(self.body)]

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the event holds, as parts."""
        match self.body:
            case UserBody() | AssistantBody() | SystemBody():
                return self.body.parts
            case ToolCallBody():
                return (self.body.call,)
            case ToolResultBody():
                return (self.body.result,)
            case CompactionBody(summary=summary, native=native):
                return (*((Text(summary),) if summary or not native else ()), *native)
            case _:
                assert_never(self.body)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that a reply asks for, in order; not those that it was cut off in."""
        return split_calls(self.parts, self.metadata)[0]

    @property
    def unfinished_calls(self) -> tuple[ToolCall, ...]:
        """The calls that a reply was cut off in: not to be run, for half of their arguments."""
        return split_calls(self.parts, self.metadata)[1]

    @property
    def text(self) -> str:
        """The texts, joined by line breaks."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text | ToolResult))


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session's own record: whose it is, and the settings it brings."""

    id: str
    agent_id: str | None = None
    defaults: JsonObject = field(default_factory=dict[str, Json])
    metadata: JsonObject = field(default_factory=dict[str, Json])
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHead:
    """Where a session stands: its record, its last sequence number (0: no event yet).

    `incarnation` is the store's own; it differs from that of every earlier session of the same id.
    Where it is empty nothing of the session is kept between calls: it might be another one by then.
    `last_mark` tells the last event from any that had its number in another history, before a backup
    was restored; empty where the store has no marks.
    """

    session: Session
    last_seq: int
    incarnation: str = ""
    last_mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBatch:
    """Events of one session as one reading found them, oldest first.

    `incarnation` is that of the session they belong to; `stored_bytes` is what they take beside what
    the store holds in memory anyway; `first_mark` and `last_mark` are those of the first and the last
    of them, as in `SessionHead`, and `mark_before` that of the event that they were asked behind: where
    it is known, they are behind that very event.
    """

    events: tuple[SessionEvent, ...]
    incarnation: str
    stored_bytes: int = 0
    first_mark: str = ""
    last_mark: str = ""
    mark_before: str = ""


Content: TypeAlias = str | Part | Sequence[Part]
ResultContent: TypeAlias = str | ResultPart | Sequence[ResultPart] | Json


def user_event(
    content: Content, *, created_at: datetime | None = None, is_pinned: bool = False
) -> SessionEvent:
    """Return a user message as an event.

    Args:
        is_pinned: Whether no cut may drop it, and no cap shorten it.

    Raises:
        ContentError: The content is neither text nor parts.
    """
    body = UserBody(parts=as_parts(content))
    return SessionEvent(body=body, created_at=created_at, is_pinned=is_pinned)


def assistant_event(
    content: Content, *, made_by: Provenance | None = None, created_at: datetime | None = None
) -> SessionEvent:
    """Return a model's reply as an event."""
    body = AssistantBody(parts=as_parts(content), made_by=made_by)
    return SessionEvent(body=body, created_at=created_at, origin="model")


def tool_result_event(
    call_id: str,
    content: ResultContent,
    *,
    is_error: bool = False,
    tool_name: str | None = None,
    created_at: datetime | None = None,
) -> SessionEvent:
    """Return what a tool answered as an event; a value that is neither text nor parts as JSON.

    Raises:
        ContentError: The value cannot be said in JSON.
    """
    result = ToolResult(
        call_id=call_id, content=as_result_parts(content), is_error=is_error, tool_name=tool_name
    )
    return SessionEvent(body=ToolResultBody(result=result), created_at=created_at, origin="tool")


def system_event(
    content: Content, *, note: str | None = None, created_at: datetime | None = None
) -> SessionEvent:
    """Return an instruction, or a note, as an event."""
    body = SystemBody(parts=as_parts(content), note=note)
    origin: Origin = "developer" if note is None else "assembler"
    return SessionEvent(body=body, created_at=created_at, origin=origin)
