"""A history's lines as exchanges: what decides about a cut, as columns that grow by append.

A line is a stored event, or one that the assembler put between them. A reply with its calls and their
results is one exchange, any other message one of its own; notes and instructions belong to the
exchange that they follow. A *boundary* `b` lies right before exchange `b`.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, compress
from operator import gt, not_
from typing import Final

from context_assembler import events
from context_assembler.events import ASSISTANT, COMPACTION, KIND_MASK, PINNED, USER

SYNTHETIC: Final = 7
"""Kind of a user turn of the assembler's own making: it opens a window, and is no turn of the user."""

_OPENERS: Final = (USER, SYNTHETIC)
_LEADING: Final = (COMPACTION, events.NOTE, events.SYSTEM)


def _table(numbers_by_kind: Mapping[int, int]) -> bytes:
    """Return what `bytes.translate` turns each kind into, whatever flags it has."""
    return bytes(numbers_by_kind.get(kind & KIND_MASK, 0) for kind in range(256))


_STARTS: Final = _table(dict.fromkeys((*_OPENERS, ASSISTANT, events.TOOL_CALL, COMPACTION), 1))
_USERS, _OPENS = _table({USER: 1}), _table(dict.fromkeys(_OPENERS, 1))
_RESULTS, _SUMMARIES = _table({events.TOOL_RESULT: 1}), _table({COMPACTION: 1})
# A line is one message with the line before it if the two numbers share a bit.
_JOINS: Final = _table({events.TOOL_CALL: 1, events.TOOL_RESULT: 2})
_JOINED: Final = _table({ASSISTANT: 1, events.TOOL_CALL: 1, events.TOOL_RESULT: 2})


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

    def __init__(self, *, stub_tokens: int) -> None:
        """Begin an empty history; results of more than twice `stub_tokens` are worth shortening."""
        self.stub_tokens = stub_tokens
        self.kinds = bytearray()
        self.tokens = array("I")
        self.ends, self.heads, self.lead = [0], [0], 0
        self.starts, self.bulky, self.pins = list[int](), list[int](), list[int]()
        self.users, self.openers, self.summaries = list[int](), list[int](), list[int]()

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
        return self._kind(number) in _OPENERS

    def extend(self, kinds: Sequence[int], tokens: Iterable[int]) -> None:
        """Append lines, in C: sums of all that are new, read where exchanges begin."""
        first, tail, sizes = len(self.kinds), bytes(kinds), array("I", tokens)
        if not tail:
            return
        before = bytes(self.kinds[-1:] or (USER,)) + tail[:-1]
        mine, its = tail.translate(_JOINS), before.translate(_JOINED)
        joined = (int.from_bytes(mine) & int.from_bytes(its)).to_bytes(len(tail))
        begins = bytearray(map(gt, tail.translate(_STARTS), joined))
        begins[0] |= not first
        starts = list(compress(range(len(tail)), begins))
        ends = list(accumulate(sizes, initial=self.ends[-1]))
        heads = list(accumulate(map(not_, joined), initial=self.heads[-1]))
        bounds = [*starts, len(tail)]
        self.ends[-1:] = [ends[bound] for bound in bounds]
        self.heads[-1:] = [heads[bound] for bound in bounds]
        opened, numbers = bytes(compress(tail, begins)), range(self.count, self.count + len(starts))
        self.users += compress(numbers, opened.translate(_USERS))
        self.openers += compress(numbers, opened.translate(_OPENS))
        self.summaries += compress(numbers, opened.translate(_SUMMARIES))
        self.starts += [first + at for at in starts]
        results, most = compress(range(len(tail)), tail.translate(_RESULTS)), 2 * self.stub_tokens
        self.bulky += [first + at for at in results if sizes[at] > most]
        if any(kind & PINNED for kind in set(tail)):
            self.pins += [first + at for at, kind in enumerate(tail) if kind & PINNED]
        self.kinds += tail
        self.tokens += sizes
        while self.lead < self.count and self._kind(self.lead) in _LEADING:
            self.lead += 1

    def shrink(self, length: int) -> None:
        """Take the last lines off again, down to so many."""
        if length >= len(self.kinds):
            return
        number = max(0, self.exchange_of(length - 1))
        first = self.starts[number]
        kinds, tokens = self.kinds[first:length], self.tokens[first:length]
        if self.bulky and self.bulky[-1] >= length:
            self.bulky = self.bulky[:]  # what was derived from the list does not hold any more
        for lines in (self.bulky, self.pins):
            del lines[bisect_left(lines, first) :]
        for numbers in (self.users, self.openers, self.summaries):
            del numbers[bisect_left(numbers, number) :]
        for sums in (self.ends, self.heads):
            del sums[number + 1 :]
        del self.kinds[first:], self.tokens[first:], self.starts[number:]
        self.lead = min(self.lead, number)
        self.extend(kinds, tokens)

    def _kind(self, number: int) -> int:
        return self.kinds[self.starts[number]] & KIND_MASK
