"""Provider-neutral messages."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from context_assembler.values.events import Provenance
from context_assembler.values.message_counts import Countable
from context_assembler.values.parts import Origin, Part, Text, Thinking, ToolCall, ToolResult

Role: TypeAlias = Literal["user", "assistant", "tool", "system"]
CLOCK: Final = "clock"  # the name of the notes that tell the time

MessageKind: TypeAlias = Literal["said", "summary", "note", "marker", "synthetic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Countable):
    """One message of a conversation.

    A `tool` message holds the results of one set of parallel calls and nothing else; a `system`
    message stands in the middle of the conversation. `kind` tells what the assembler made itself:
    a `summary` of compacted events, a `note`, a `marker` where messages were left out, a
    `synthetic` result. `id` and `seq` are those of the first stored event behind it (`seq` 0: none).
    What counters keep on it (`message_counts`) is no part of it.
    """

    role: Role
    parts: tuple[Part, ...]
    kind: MessageKind = "said"
    id: str = ""
    seq: int = 0
    created_at: datetime | None = None
    made_by: Provenance | None = None
    origin: Origin = "user"
    is_pinned: bool = False
    note: str | None = None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls asked for, in order."""
        parts = self.parts
        if len(parts) == 1 and isinstance(parts[0], Text):  # as most messages are, and often asked
            return ()
        return tuple([part for part in parts if isinstance(part, ToolCall)])

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The results held, in order."""
        parts = self.parts
        if len(parts) == 1 and isinstance(parts[0], Text):
            return ()
        return tuple([part for part in parts if isinstance(part, ToolResult)])

    @property
    def text(self) -> str:
        """The text parts, joined by line breaks."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def is_from_user(self) -> bool:
        """Whether the user said this: neither a note, nor a summary, nor a marker."""
        return self.role == "user" and self.kind == "said"

    @property
    def is_signed(self) -> bool:
        """Whether the message carries reasoning that a provider can verify."""
        return any(part.is_signed for part in self.parts if isinstance(part, Thinking))

    @property
    def is_fresh_note(self) -> bool:
        """Whether this is a note that no event holds yet."""
        return self.kind == "note" and self.seq == 0
