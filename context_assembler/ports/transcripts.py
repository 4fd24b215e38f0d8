"""The socket of transcripts."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from context_assembler.values.events import SessionEvent
from context_assembler.values.parts import JsonObject
from context_assembler.values.tools import ToolSpec


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
