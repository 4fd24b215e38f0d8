"""What is asked of all messages of a history before one of them is spelled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from context_assembler.values.adapting import is_plain
from context_assembler.values.growing import begins_alike
from context_assembler.values.messages import Message
from context_assembler.values.parts import Part, Text, Thinking, ToolCall, ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is asked of all messages before one of them is spelled.

    Attributes:
        called: The names of the tools that are called.
        is_plain: Whether they hold nothing but text, calls, results of text, and thoughts: nothing
            that a provider could not take, and no summary.
        is_bare: Whether no call and no result has fields of a provider's own.
        has_thoughts: Whether they hold any.
    """

    called: frozenset[str] = frozenset()
    is_plain: bool = True
    is_bare: bool = True
    has_thoughts: bool = False

    def with_messages(self, messages: Sequence[Message]) -> "Facts":
        """Return the facts of these and more messages."""
        if not messages:
            return self
        parts = [part for message in messages for part in message.parts]
        asked = [part for part in parts if isinstance(part, ToolCall | ToolResult)]
        called = {part.name for part in asked if isinstance(part, ToolCall)}
        has_summary = any(message.kind == "summary" for message in messages)
        return Facts(
            called=self.called if called <= self.called else self.called | called,
            is_plain=self.is_plain and not has_summary and all(map(is_plain, parts)),
            is_bare=self.is_bare and not any(part.extras for part in asked),
            has_thoughts=self.has_thoughts or any(isinstance(part, Thinking) for part in parts),
        )


NO_FACTS: Final = Facts()


def is_taken_by_all(message: Message) -> bool:
    """Whether every provider takes the message as it is, whoever made it, wherever it stands.

    It says what can be said anywhere: nothing is signed, thought, or a provider's own.
    """
    is_bound = message.made_by is not None and message.made_by.container is not None
    return not is_bound and message.kind != "summary" and all(map(_is_taken_by_all, message.parts))


def _is_taken_by_all(part: Part) -> bool:
    match part:
        case Text() | ToolCall():
            return not part.extras and part.signature is None
        case ToolResult():
            return not part.extras and is_plain(part)
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What was found in the first `count` things that were made; `last` is the last of them.

    A thing that is kept stands behind the same ones for as long as it is.
    """

    count: int = 0
    last: object = None
    found: frozenset[str] = frozenset()

    def are_of(self, made: Sequence[object]) -> bool:
        """Whether these begin with the same things."""
        return not self.count or (self.count <= len(made) and made[self.count - 1] is self.last)


def begins_with(messages: Sequence[Message], beginning: Sequence[Message]) -> bool:
    """Whether the messages begin with these, or with ones that are spelled the same.

    A step makes some messages anew: what it shortens, its markers, the time.
    """
    if len(beginning) > len(messages):
        return False
    return begins_alike(messages, beginning) or all(map(_is_same, beginning, messages))


def _is_same(message: Message, other: Message) -> bool:
    if message is other:
        return True
    if len(message.parts) != len(other.parts) or replace(message, parts=()) != replace(
        other, parts=()
    ):
        return False
    return all(map(_is_same_part, message.parts, other.parts))


def _is_same_part(part: Part, other: Part) -> bool:
    """Whether the parts are equal to the letter: `1`, `1.0` and `True` are equal, and spelled apart."""
    return part is other or (part == other and (_is_text(part) or repr(part) == repr(other)))


def _is_text(part: Part) -> bool:
    if isinstance(part, ToolResult):
        return not part.extras and all(map(_is_text, part.content))
    return isinstance(part, Text) and not part.extras
