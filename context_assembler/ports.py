"""The sockets: what the assembler needs from the outside, and what each family offers."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol, TypeAlias, runtime_checkable

from context_assembler.values.calibration import Calibration, UsageObservation
from context_assembler.values.context import Payload
from context_assembler.values.deferral import ToolSearch
from context_assembler.values.draft import Draft, Reply
from context_assembler.values.events import Session, SessionEvent, SessionHead
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings
from context_assembler.values.parts import JsonObject
from context_assembler.values.prompt import Skill
from context_assembler.values.report import ReportEntry, Violation
from context_assembler.values.tool_changes import NO_CHANGES, ChangeForms
from context_assembler.values.tools import ToolSpec


class SessionStore(Protocol):
    """Keeps what happened in each session, in order.

    `append` is atomic and durable: after a crash all of `events` are there, or none.
    """

    async def create(self, session: Session) -> None:
        """Keep a new session; replace the record of one that exists, its events untouched."""
        ...

    async def append(
        self, session_id: str, events: Sequence[SessionEvent], *, expected_seq: int | None = None
    ) -> list[SessionEvent]:
        """Append, and return the events with `id` and `seq` filled in.

        A session that does not exist begins with its first event.

        Raises:
            ConcurrentAppendError: `expected_seq` is given and is not the last sequence number.
        """
        ...

    def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        """Yield the events with a larger sequence number, oldest first.

        Raises:
            UnknownSessionError: There is no such session.
        """
        ...

    async def head(self, session_id: str) -> SessionHead:
        """Return the session's record and last sequence number.

        Raises:
            UnknownSessionError: There is no such session.
        """
        ...

    async def list_sessions(self) -> list[SessionHead]:
        """Return every session, most recently created last."""
        ...

    async def delete(self, session_id: str) -> None:
        """Forget the session with all its events.

        Raises:
            UnknownSessionError: There is no such session.
        """
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...


@runtime_checkable
class CalibrationStore(Protocol):
    """Keeps what reported usage taught about token counts; session stores may offer it as well."""

    async def calibrations(self) -> Sequence[Calibration]:
        """Return all that is known, by provider, model and shape of request."""
        ...

    async def observe_usage(self, seen: UsageObservation) -> Calibration:
        """Learn from one call, and return what is known since.

        Atomic: of two processes that learn at once none is forgotten.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptIssue:
    """Something in a transcript that has no place in a session; `line` counts from 1."""

    line: int | None
    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTranscript:
    """The events of a transcript, in order, and everything that could not be mapped."""

    events: tuple[SessionEvent, ...]
    issues: tuple[TranscriptIssue, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    metadata: JsonObject | None = None


class Transcript(Protocol):
    """A format that sessions are exchanged in."""

    name: str

    def read(self, source: Any, *, name: str = "transcript") -> ReadTranscript:
        """Turn a transcript into events.

        Args:
            source: The text of a file, or the parsed JSON.
            name: What to call the source in errors.

        Raises:
            TranscriptError: The source as a whole is not of this format.
        """
        ...

    def write(self, events: Iterable[SessionEvent]) -> str:
        """Return the events in this format."""
        ...

    def matches(self, source: Any) -> bool:
        """Whether the source looks like this format."""
        ...


class TokenCounter(Protocol):
    """Counts tokens as one model family does.

    The count of a value depends on the value alone, so that it can be kept.
    """

    name: str
    is_exact: bool
    request_overhead_tokens: int

    def count_text(self, text: str) -> int:
        """Return the tokens of the text; any string is accepted."""
        ...

    def count_message(self, message: Message) -> int:
        """Return the tokens of the message with its own overhead."""
        ...

    def count_system(self, text: str) -> int:
        """Return the tokens of a system prompt; 0 when there is none."""
        ...

    def count_tool(self, tool: ToolSpec) -> int:
        """Return the tokens of one tool's definition."""
        ...

    def count_tools_overhead(self, tools: Sequence[ToolSpec]) -> int:
        """Return what having tools costs beside their definitions; 0 without tools."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """A history that fits.

    `entries` has one row for every message that was shortened or dropped. `level` is the checkpoint
    the cut was made at: 0 means untouched; the same level means the same cut.
    """

    messages: tuple[Message, ...]
    entries: tuple[ReportEntry, ...] = ()
    level: int = 0


class Truncate(Protocol):
    """Makes a repaired history fit: at most `room_tokens`, still in order, still paired."""

    def __call__(
        self,
        messages: Sequence[Message],
        /,
        *,
        room_tokens: int,
        counter: TokenCounter,
        settings: TruncationSettings,
    ) -> Truncation:
        """Return what to send.

        Raises:
            ContextOverflowError: The anchors alone do not fit, even shortened.
        """
        ...


class CheckPayload(Protocol):
    """Finds the rules of a provider that a payload breaks."""

    def __call__(
        self,
        payload: JsonObject,
        /,
        *,
        limits: ModelLimits | None = None,
        today: date | None = None,
    ) -> list[Violation]:
        """Return the violations in order of appearance.

        Args:
            limits: The model's row; without it the rules that depend on the model are left out.
            today: Against which dated rules are checked; without it the newest hold.
        """
        ...


def no_change_forms(_limits: ModelLimits) -> ChangeForms:
    """Return the forms of a provider that is told of its tools in front of the history alone."""
    return NO_CHANGES


def no_tool_search(_limits: ModelLimits) -> ToolSearch | None:
    """Return the search of a provider that has none."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One wire protocol.

    Attributes:
        adapt: Make a draft one that the provider can take, with a row for every change: parts
            replaced by a text that names them, tools left out, parameters corrected. Pure, and
            twice is the same as once; the number of messages stays.
        render: Spell a draft as keyword arguments for the SDK; adapts it first.
        read_reply: Read an SDK's reply object or its dict; the draft gives tools their names back.
        matches_reply: Whether a reply is of this provider's shape.
        check_payload: The provider's rules.
        fingerprints: One per message boundary of a draft: element *i* identifies everything before
            message *i* as rendered; cache markers and thinking do not count.
        change_forms: What a model can be told of tools behind the history.
        tool_search: How a model searches for tools whose definitions are held back; `None`: it
            cannot.
    """

    name: str
    adapt: Callable[[Draft], tuple[Draft, tuple[ReportEntry, ...]]]
    render: Callable[[Draft], Payload]
    read_reply: Callable[[Any, Draft | None], Reply]
    matches_reply: Callable[[Any], bool]
    check_payload: CheckPayload
    fingerprints: Callable[[Draft], tuple[str, ...]]
    change_forms: Callable[[ModelLimits], ChangeForms] = no_change_forms
    tool_search: Callable[[ModelLimits], ToolSearch | None] = no_tool_search


class ToolSource(Protocol):
    """Somewhere tools come from."""

    name: str

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools offered at this moment."""
        ...


class SkillProvider(Protocol):
    """Somewhere skills come from."""

    async def list_skills(self) -> Sequence[Skill]:
        """Return the skills, sorted by name."""
        ...


Clock: TypeAlias = Callable[[], float]
