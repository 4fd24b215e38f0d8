"""A history's lines as exchanges: what decides about a cut, as columns that grow by append.

A line is a stored event, or one that the assembler put between them. A reply with its calls and their
results is one exchange, any other message one of its own; notes and instructions belong to the
exchange that they follow. A *boundary* `b` lies right before exchange `b`.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, compress
from operator import and_, gt, not_
from typing import Final

from context_assembler.events import (
    ASSISTANT,
    COMPACTION,
    KIND_MASK,
    NOTE,
    PINNED,
    SYSTEM,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
)

SYNTHETIC: Final = 7
"""Kind of a user turn of the assembler's own making: it opens a window, and is no turn of the user."""

_BULK_LINES: Final = 64


def _table(**numbers: tuple[int, ...]) -> bytes:
    """Return what `bytes.translate` turns each kind into, whatever flags it has."""
    by_kind = {kind: int(number[1:]) for number, kinds in numbers.items() for kind in kinds}
    return bytes(by_kind.get(kind & KIND_MASK, 0) for kind in range(256))


_STARTS: Final = _table(_1=(USER, ASSISTANT, TOOL_CALL, COMPACTION, SYNTHETIC))
_JOINS: Final = _table(
    _1=(TOOL_CALL,), _2=(TOOL_RESULT,)
)  # what it joins, if that stands before it
_JOINED: Final = _table(_1=(ASSISTANT, TOOL_CALL), _2=(TOOL_RESULT,))
_RESULTS: Final = _table(_1=(TOOL_RESULT,))
_OPENERS: Final = (USER, SYNTHETIC)


class History:
    """The exchanges of a history.

    Attributes:
        kinds: Of each line, as in events.py, or `SYNTHETIC`.
        tokens: Of each line, as it is sent whole.
        starts: The first line of each exchange.
        ends: For each boundary, all tokens before it.
        heads: For each boundary, the messages before it; parallel results are one message.
        bulky: The lines that are results worth shortening.
        pins: The pinned lines.
        users: The exchanges that a message of the user opens.
        openers: Those that a window may begin with: the user's, or what stands in for one.
        summaries: Those that are summaries.
        lead: How many exchanges at the start are summaries, instructions and notes.
    """

    __slots__ = (
        "bulky",
        "ends",
        "heads",
        "kinds",
        "lead",
        "openers",
        "pins",
        "starts",
        "stub_tokens",
        "summaries",
        "tokens",
        "users",
    )

    def __init__(self, *, stub_tokens: int) -> None:
        """Begin an empty history; results of more than twice `stub_tokens` are worth shortening."""
        self.stub_tokens = stub_tokens
        self.kinds = bytearray()
        self.tokens = array("I")
        self.starts: list[int] = []
        self.ends, self.heads = [0], [0]
        self.bulky: list[int] = []
        self.pins: list[int] = []
        self.users: list[int] = []
        self.openers: list[int] = []
        self.summaries: list[int] = []
        self.lead = 0

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def count(self) -> int:
        """How many exchanges there are."""
        return len(self.starts)

    def is_bulky(self, tokens: int) -> bool:
        """Whether shortening a result of this size is worth a rewrite."""
        return tokens > 2 * self.stub_tokens

    def size(self, number: int) -> int:
        """Return the tokens of an exchange."""
        return self.ends[number + 1] - self.ends[number]

    def exchange_of(self, line: int) -> int:
        """Return the exchange that a line belongs to."""
        return bisect_left(self.starts, line + 1) - 1

    def first_line(self, boundary: int) -> int:
        """Return the line right behind a boundary."""
        return self.starts[boundary] if boundary < len(self.starts) else len(self.kinds)

    def last_opener(self, boundary: int) -> int:
        """Return the last exchange before a boundary that a window may begin with, or -1."""
        place = bisect_left(self.openers, boundary)
        return self.openers[place - 1] if place else -1

    def opens_window(self, number: int) -> bool:
        """Whether a window may begin with the exchange."""
        return self.kinds[self.starts[number]] & KIND_MASK in _OPENERS

    def extend(self, kinds: Sequence[int], tokens: Iterable[int]) -> None:
        """Append lines; one pass over what is new."""
        first = len(self.kinds)
        self.kinds += bytes(kinds)
        self.tokens += array("I", tokens)
        if len(self.kinds) - first < _BULK_LINES:
            for line in range(first, len(self.kinds)):
                self._append(line)
        else:
            self._append_many(first)
        for line in range(first, len(self.kinds)) if self._has_pins(first) else ():
            if self.kinds[line] & PINNED:
                self.pins.append(line)
        while self.lead < len(self.starts) and self._leads(self.lead):
            self.lead += 1

    def shrink(self, length: int) -> None:
        """Take the last lines off again, down to so many."""
        while len(self.kinds) > length:
            line = len(self.kinds) - 1
            for lines in (self.bulky, self.pins):
                if lines and lines[-1] == line:
                    lines.pop()
            if self.starts[-1] == line:
                self.starts.pop()
                self.ends.pop()
                self.heads.pop()
                for numbers in (self.users, self.openers, self.summaries):
                    if numbers and numbers[-1] == len(self.starts):
                        numbers.pop()
            else:
                self.ends[-1] -= self.tokens[line]
                self.heads[-1] -= not self._is_joined(line)
            del self.kinds[line], self.tokens[line]
        self.lead = min(self.lead, len(self.starts))

    def _has_pins(self, first: int) -> bool:
        return any(kind & PINNED for kind in set(self.kinds[first:]))

    def _leads(self, number: int) -> bool:
        return self.kinds[self.starts[number]] & KIND_MASK in (COMPACTION, NOTE, SYSTEM)

    def _is_joined(self, line: int) -> bool:
        """Whether the line belongs to the same message as the line before it."""
        kinds = self.kinds
        return bool(line and _JOINS[kinds[line]] & _JOINED[kinds[line - 1]])

    def _append(self, line: int) -> None:
        kind, tokens, is_joined = self.kinds[line], self.tokens[line], self._is_joined(line)
        if not self.starts or (_STARTS[kind] and not is_joined):
            self._note_start(line)
            self.ends.append(self.ends[-1])
            self.heads.append(self.heads[-1])
        self.ends[-1] += tokens
        self.heads[-1] += not is_joined
        if _RESULTS[kind] and self.is_bulky(tokens):
            self.bulky.append(line)

    def _note_start(self, line: int) -> None:
        kind, number = self.kinds[line] & KIND_MASK, len(self.starts)
        self.starts.append(line)
        if kind == COMPACTION:
            self.summaries.append(number)
        elif kind in _OPENERS:
            self.openers.append(number)
            if kind == USER:
                self.users.append(number)

    def _append_many(self, first: int) -> None:
        """Do what `_append` does for each line, in C: sums of all lines, read where exchanges begin."""
        tail, tokens = bytes(self.kinds[first:]), self.tokens[first:]
        before = bytes(self.kinds[first - 1 : -1]) if first else b"\0" + tail[:-1]
        joined = bytes(map(and_, tail.translate(_JOINS), before.translate(_JOINED)))
        begins = bytearray(map(gt, tail.translate(_STARTS), joined))
        if not self.starts:
            begins[0] = 1
        starts = list(compress(range(first, first + len(tail)), begins))
        bounds = [line - first for line in starts] + [len(tail)]
        ends = list(accumulate(tokens, initial=self.ends[-1]))
        heads = list(accumulate(map(not_, joined), initial=self.heads[-1]))
        self.ends[-1], self.heads[-1] = ends[bounds[0]], heads[bounds[0]]
        self.ends += [ends[bound] for bound in bounds[1:]]
        self.heads += [heads[bound] for bound in bounds[1:]]
        for line in starts:
            self._note_start(line)
        most = 2 * self.stub_tokens
        results = compress(range(first, first + len(tail)), tail.translate(_RESULTS))
        self.bulky += [line for line in results if self.tokens[line] > most]
