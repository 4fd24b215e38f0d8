"""What the local provider is told to answer."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from context_assembler.errors import InvalidParameterError
from context_assembler.values.given import check_type, listed
from context_assembler.values.parts import ToolCall

_LEAST_STATUS: Final = 400
_LARGEST_STATUS: Final = 599
_MOST_LINES: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """One answer of the model.

    Attributes:
        text: What it says; empty says nothing.
        tool_calls: What it asks for, behind the text.
        thinking: What it thought first; signed where the model signs, left out where it does not
            think or the wire carries no thinking.
        stop_reason: In Anthropic's words; `None` is `tool_use` with calls and `end_turn` without.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str | None = None
    stop_reason: str | None = None

    def __post_init__(self) -> None:
        check_type("text", self.text, str, such_as="what the model says")
        calls = listed("tool_calls", self.tool_calls, ToolCall, such_as="[ToolCall(…)]")
        object.__setattr__(self, "tool_calls", calls)
        for name in ("thinking", "stop_reason"):
            check_type(name, getattr(self, name), str, type(None), such_as="a string, or None")

    @property
    def settled_stop_reason(self) -> str:
        """The stop reason, given or implied."""
        return self.stop_reason or ("tool_use" if self.tool_calls else "end_turn")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedError:
    """A refusal that has nothing to do with the request, such as an overloaded provider."""

    status: int = 529
    kind: str = "overloaded_error"
    message: str = "Overloaded"

    def __post_init__(self) -> None:
        check_type("status", self.status, int, such_as="an HTTP status such as 529")
        if not _LEAST_STATUS <= self.status <= _LARGEST_STATUS:
            raise InvalidParameterError(
                "status",
                self.status,
                rule=f"must be from {_LEAST_STATUS} to {_LARGEST_STATUS}",
                remedy="Pass the status of an error, such as 529.",
            )
        for name in ("kind", "message"):
            check_type(name, getattr(self, name), str, such_as="a string")


ScriptLine: TypeAlias = ScriptedReply | ScriptedError


class Script:
    """Lines in order, or an echo where no script was given; safe to share between threads.

    `complaint` says at the end what of the script was not played, or asked for in vain.
    """

    def __init__(self, lines: Iterable[ScriptLine] | None) -> None:
        self._lines = None if lines is None else deque(_checked(lines))
        self._asked_in_vain = 0
        self._lock = threading.Lock()

    def next_line(self, *, heard: str) -> ScriptLine | None:
        """Return what to answer to the text heard; `None` when the script is over."""
        if self._lines is None:
            return ScriptedReply(text=f"You said: {heard}" if heard else "You said nothing.")
        with self._lock:
            if self._lines:
                return self._lines.popleft()
            self._asked_in_vain += 1
            return None

    @property
    def complaint(self) -> str | None:
        """What is wrong once the test is over; `None` when all lines were played."""
        if self._asked_in_vain:
            return f"{self._asked_in_vain} request(s) came after the last line of the script"
        if self._lines:
            return (
                f"{len(self._lines)} line(s) of the script were never asked for: {self._lines[0]!r}"
            )
        return None


def _checked(given: Iterable[object]) -> Iterator[ScriptLine]:
    lines = listed("script", _bounded(given), object, such_as="[ScriptedReply(text=…)], or None")
    if len(lines) > _MOST_LINES:
        raise InvalidParameterError(
            "script",
            type(given).__name__,
            rule=f"must end, after at most {_MOST_LINES:,} lines",
            remedy="Pass as many lines as the test asks for, or None for an echo.",
        )
    for line in lines:
        if not isinstance(line, ScriptedReply | ScriptedError):
            raise InvalidParameterError(
                "script",
                line,
                rule="must be several of: ScriptedReply, ScriptedError",
                remedy="Pass [ScriptedReply(text=…)], or None for an echo.",
            )
        yield line


def _bounded(given: Iterable[object]) -> Iterable[object]:
    """Return no more of an iterator, which may be endless, than tells that it is too long."""
    return islice(given, _MOST_LINES + 1) if isinstance(given, Iterator) else given
