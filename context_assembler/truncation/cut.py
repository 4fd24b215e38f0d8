"""Where a history is cut, so that between two cuts every payload only grows.

A *checkpoint* is a place in the history where what is sent has to be cut, and that cut. Both follow
from what stands before it: lines that come later never move it. Until the next one each step sends what
the step before sent plus what is new, in whichever process it runs.

A line is a stored event, or one that the assembler put between them. A reply with its calls and their
results is one exchange, any other message one of its own; notes and instructions belong to the
exchange that they follow. A *boundary* `b` lies right before exchange `b`.
"""

import json
from array import array
from binascii import crc32
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, chain, compress
from operator import gt, not_
from typing import Any, Final, NamedTuple, SupportsIndex, cast

from context_assembler import events
from context_assembler.errors import InvalidParameterError
from context_assembler.events import ASSISTANT, COMPACTION, KIND_MASK, NOTE, USER, JsonObject
from context_assembler.options import TruncationSettings
from context_assembler.ports import HistoryColumns
from context_assembler.report import Decision, ReportEntry, Rule
from context_assembler.texts import BLANKS, find_names
from context_assembler.truncation import shorten
from context_assembler.truncation.shorten import Floor, Lines, Piece, Shortened, Shortening

_SUBSTANTIAL_SHARE: Final = 0.75  # of a step: what a cut frees at the least
_LEAST_SHARE: Final = 0.5  # of what a cut could free, if the last exchange leaves no step
_MOST_OF_FREE_SHARE: Final = 0.9  # what a cut frees if the last exchange leaves no step
_SPARE_PARTS: Final = (32, 16, 8, 4)  # of the room, if a cut takes more than it should
_LEAST_OPENING: Final = 4  # exchanges
_MANY_MESSAGES: Final = 9_999_999
_NAMES_SHARE: Final = 0.03  # of the room: what the names of a marker take at the most
_NAMED_LINES: Final = 128  # the newest of what is left out, and of what is kept before it grows
_READ_CHARS: Final = 20_000  # of one text
_LEAST_NAMES_TOKENS: Final = 24
_MEANT: Final = 5  # what a name of the user's, or of a call, counts for: results hold many
_KIND_NAMES: Final = (*events.EVENT_TYPES[:6], "note", "user")
_STUB_REASON: Final = "A bulky tool result of an older exchange."
_REPEAT_REASON: Final = "The same call got a newer result, which stands further down."
_REPEAT: Final = "[Left out here{}: the newest result of this same call stands further down.]"
_OUTSIDE: Final = ("window", "Older than the newest turns that this strategy keeps.")
_DROPPED: Final = ("drop", "The history does not fit, and the oldest exchanges go first.")
_NO_CLOCK: Final = Shortened((), 0, "overflow.clock", "What must stay fits only without it.")


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
_NOTES: Final = _table({NOTE: 1})
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
        notes: How many lines are notes.
    """

    def __init__(self, *, stub_tokens: int) -> None:
        """Begin an empty history; results of more than twice `stub_tokens` are worth shortening."""
        self.stub_tokens = stub_tokens
        self.kinds = bytearray()
        self.tokens = array("I")
        self.ends, self.heads, self.lead, self.notes = [0], [0], 0, 0
        self.starts, self.bulky, self.pins = list[int](), list[int](), list[int]()
        self.users, self.openers, self.summaries = list[int](), list[int](), list[int]()

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def count(self) -> int:
        """How many exchanges there are."""
        return len(self.starts)

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
        if any(kind & events.PINNED for kind in set(tail)):
            self.pins += [first + at for at, kind in enumerate(tail) if kind & events.PINNED]
        self.kinds += tail
        self.tokens += sizes
        self.notes += tail.translate(_NOTES).count(1)
        while self.lead < self.count and self._kind(self.lead) in _LEADING:
            self.lead += 1

    def shrink(self, length: int) -> None:
        """Take the last lines off again, down to so many."""
        if length >= len(self.kinds):
            return
        number = max(0, self.exchange_of(length - 1))
        first = self.starts[number]
        kinds, tokens = self.kinds[first:length], self.tokens[first:length]
        self.notes -= self.kinds[first:].translate(_NOTES).count(1)
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


class Strategy(NamedTuple):
    """What a strategy does to a history that does not fit: a row of `TRUNCATIONS`.

    Attributes:
        keeps_opening: Whether the first message of the user is an anchor, and so is what stands
            after it, if that leaves enough room.
        shortens: Whether bulky tool results are shortened before anything is dropped.
        marks: Whether a line says that messages were left out.
        has_window: Whether only the newest turns are kept to begin with.
    """

    keeps_opening: bool = False
    shortens: bool = False
    marks: bool = False
    has_window: bool = False


_OWN: Final = Strategy(marks=True)  # one that is a function of the caller's
TRUNCATIONS: Final = {
    "smart": Strategy(keeps_opening=True, shortens=True, marks=True),
    "simple": Strategy(),
    "sliding": Strategy(has_window=True),
}


def marker_parts(left_out: int, names: Sequence[str] = (), handle: str = "") -> list[JsonObject]:
    """Return the line that stands where messages are missing; `handle` says how they are read."""
    counted = "1 earlier message was" if left_out == 1 else f"{left_out:,} earlier messages were"
    done = f"{counted} left out here" if left_out else "Large results above were shortened"
    told = f" Named there: {' '.join(names)}" if names else ""
    text = f"[{done} to fit the context window{handle if left_out else ''}.{told}]"
    return [{"type": "text", "text": text}]


def names_in(parts: Iterable[JsonObject], kind: int = ASSISTANT) -> Mapping[str, int]:
    """Return the names in parts, with what each counts for."""
    found: dict[str, int] = {}
    for part in parts:
        if part["type"] == "thinking":
            continue
        weight = _MEANT if part["type"] == "tool_call" or kind == USER else 1
        texts = [one.get("text") or "" for one in (part, *part.get("content", ()))]
        if part["type"] == "tool_call":
            arguments = part.get("arguments_json") or events.compact_json(part.get("arguments"))
            texts = [f"{part['name']} {BLANKS.sub(' ', arguments)}"]
        text = "\n".join(texts)[:_READ_CHARS].replace(":", " ")
        found |= {name: max(weight, found.get(name, 0)) for name in find_names(text)}
    return found


class Cut(NamedTuple):
    """What is sent of a history that does not fit.

    Attributes:
        id: Never 0. For the same room and settings and a history that only grew, an equal id means
            that the same is sent, with new lines behind it.
        kept: Half-open ranges of lines, in order; the last one ends with the history.
        shortened: By line, what is sent of it.
        marker: The line that the marker stands before; `None`: there is no marker.
        left_out: How many messages the marker stands for.
        tokens: Of everything that is sent, the marker included.
        window: The first line of the window, if the strategy has one.
        names: What the marker says was named in these messages.
        handle: How the marker says they are read.
    """

    id: int
    kept: list[tuple[int, int]]
    shortened: dict[int, Shortened]
    marker: int | None
    left_out: int
    tokens: int
    window: int
    strategy: str
    names: tuple[str, ...] = ()
    handle: str = ""

    @property
    def marker_parts(self) -> list[JsonObject]:
        """The line that the marker is."""
        return marker_parts(self.left_out, self.names, self.handle)

    def dropped(self) -> Iterator[tuple[int, Rule, str]]:
        """Yield the lines that are left out, each with the rule and the reason."""
        at = 0
        for first, end in self.kept:
            for line in range(at, first):
                rule, reason = _OUTSIDE if line < self.window else _DROPPED
                yield line, cast("Rule", f"{self.strategy}.{rule}"), reason
            at = end


def cut_entries(
    cut: Cut, tokens: Sequence[int], name: Callable[[int], str]
) -> dict[int, ReportEntry]:
    """Return an entry for each line that is left out or shortened, in order.

    Args:
        tokens: Of each line, uncut.
        name: Returns the id of a line's event.
    """
    changes: dict[int, tuple[Rule, str, int]]
    changes = {line: (rule, reason, 0) for line, rule, reason in cut.dropped()}
    changes |= {at: (one.rule, one.reason, one.tokens) for at, one in cut.shortened.items()}
    entries: dict[int, ReportEntry] = {}
    for line, (rule, reason, left) in sorted(changes.items()):
        decision: Decision = "shortened" if left else "dropped"
        sizes = tokens[line], left
        entries[line] = ReportEntry("message", name(line), decision, *sizes, reason, rule)
    return entries


class _Place(NamedTuple):
    """Everything loose before `kept` is dropped, bulky results before `whole` are stubs.

    `is_checkpoint` is false for a cut that is made for one call alone. `stage` says how far what is
    left was shortened. If nothing more could be dropped, `left` is the tokens that the rest is
    shortened to; what comes in later stands behind it whole. `is_bare` leaves out the marker and
    clock notes: neither is worth a word of the user, or a request. Of `repeats`, a line is
    left each. `seen` is how many exchanges the marker's names are looked for in; 0: it has none.
    """

    kept: int
    whole: int
    is_checkpoint: bool = False
    left: int | None = None
    stage: tuple[int, int] | None = None
    is_bare: bool = False
    repeats: "_Repeats | None" = None
    seen: int = 0


class _Checkpoint(NamedTuple):
    """A cut, and how many exchanges (and tokens) there are when it is made first.

    `freed` is what it frees at the least: the next checkpoint is where more has to go.
    """

    exchanges: int
    end: int
    place: _Place | None
    view: "_View"
    freed: int


class _Done(NamedTuple):
    """A cut carried out; `kept_tokens` are those of the history, without the marker."""

    view: "_View"
    place: _Place
    tokens: int
    kept_tokens: int
    shortening: Shortening = Shortening({}, 0)


class Plan:
    """The cuts of one history for one room.

    What is found for its beginning is found for good, so that a step costs what is new in it.

    Args:
        stubs: By line, results that were shortened before; what a cut shortens is added.
    """

    def __init__(
        self,
        history: History,
        lines: Lines,
        *,
        room_tokens: int,
        settings: TruncationSettings,
        stubs: dict[int, Shortened] | None = None,
    ) -> None:
        self.history, self.lines, self.room = history, lines, room_tokens
        self.settings, strategy = settings, settings.strategy
        self.own = None if isinstance(strategy, str) else strategy
        self.name: str = strategy if isinstance(strategy, str) else "own"
        self.strategy = TRUNCATIONS.get(self.name, _OWN)
        self.stubs = {} if stubs is None else stubs
        self.longest_handle = lines.handle(())
        self.step = self.marker_tokens = self.names_tokens = self.stub_left = 0
        self._names: dict[int, Mapping[str, int]] = {}
        self.task: int | None = None
        self._bulky, self._saved = history.bulky, [0]  # what shortening those before each frees
        self._basis: object = None
        self._measured = (0, [0])  # a boundary, and the tokens before it: anchors lie before that
        self._found: list[_Checkpoint] = []
        self._last: tuple[_Checkpoint, Cut] | None = None  # less the tokens of the whole history

    def cut(self) -> Cut | None:
        """Return what to send of the history as it is; `None`: all of it.

        Raises:
            ContextOverflowError: What may not be dropped does not fit, even shortened.
        """
        history = self.history
        if not history.count or history.ends[-1] <= self.room:
            return None
        self._prepare()
        checkpoint = self._find(self._found, self.room)[-1]
        # A window moves with every turn of the user: the cut at its beginning may fit again.
        if self._last is not None and self._last[0] is checkpoint and not self._window_from:
            cut = self._last[1]
            tokens = cut.tokens + history.ends[-1]
            if tokens <= self.room:
                kept = [*cut.kept[:-1], (cut.kept[-1][0], len(history))]
                return cut._replace(kept=kept, tokens=tokens)
        done = self._fit(checkpoint)
        cut = self._carried(done)
        # Only a cut at a checkpoint stays the same until the next one.
        rest = cut._replace(tokens=cut.tokens - history.ends[-1])
        self._last = (checkpoint, rest) if done.place.is_checkpoint else None
        return cut

    # ---- anchors, opening, checkpoints ----

    def _prepare(self) -> None:
        """Find the anchors; forget what was found for others, or for an exchange that grew since."""
        history, has_task = self.history, self.strategy.keeps_opening and self.history.users
        task = history.users[0] if has_task else None
        head = {*range(history.lead), *(() if task is None else (task,))}
        head_tokens = sum(map(history.size, head))
        basis = head, head_tokens, len(history.pins), history.summaries[-1:]
        boundary, end = self._measured
        if basis != self._basis or not end or end != history.ends[boundary : boundary + 1]:
            self._basis, self._found, self.task = basis, [], task
            behind_head = self.room - head_tokens
            self.step = max(1, int(self.settings.step_share * behind_head))
            if self.strategy.marks:
                most = min(self.settings.marker_tokens, int(_NAMES_SHARE * self.room))
                self.names_tokens = most if most >= _LEAST_NAMES_TOKENS else 0
                longest = marker_parts(_MANY_MESSAGES, handle=self.longest_handle)
                self.marker_tokens = self.lines.count(USER, longest)
            anchors = {*head, *history.summaries[-1:], *map(history.exchange_of, history.pins)}
            boundary = max(anchors, default=-1) + 1
            self.whole = self.opened = _View(self, anchors)
            share = min(self.settings.opening_share, (1 - self.settings.step_share) / 2)
            if task is not None and (most_tokens := int(share * behind_head)) > 0:
                opening, beyond = self._opening(anchors, most_tokens)
                boundary = max(boundary, beyond)
                if len(opening) >= _LEAST_OPENING:
                    self.opened = _View(self, anchors.union(opening))
            self._measured = boundary, history.ends[boundary : boundary + 1]
        found = self._found
        while found and history.ends[found[-1].exchanges :][:1] != [found[-1].end]:
            found.pop()

    def _opening(self, anchors: set[int], most_tokens: int) -> tuple[list[int], int]:
        """Return the first exchanges that are no anchors, as far as they may take so much together.

        And the boundary after the first one that takes too much; beyond all if none does.
        """
        opening: list[int] = []
        for number in range(self.history.count):
            if number not in anchors:
                most_tokens -= self.history.size(number)
                if most_tokens < 0:
                    return opening, number + 1
                opening.append(number)
        return opening, self.history.count + 1

    def _find(self, found: list[_Checkpoint], room: int) -> list[_Checkpoint]:
        """Add the checkpoints that follow those found, oldest first.

        Once a cut could free no step besides the opening, that is given up for good.
        """
        ends, named_room = self.history.ends, room - self.names_tokens
        view = self.opened if not found or found[-1].view is self.opened else self.whole
        freed = found[-1].freed if found else 0
        while True:
            after = found[-1].exchanges + 1 if found else 1
            if ends[-1] <= room + freed or after >= len(ends):
                return found
            # A cut frees its step, and room for the names of its marker.
            cutter = _Cutter(view, bisect_right(ends, room + freed, lo=after), named_room)
            if view is not self.whole and not cutter.leaves_a_step:
                view = self.whole
                cutter = _Cutter(view, cutter.count, named_room)
            if self.own is not None:
                chosen, place = self._chosen(cutter.count, named_room)
                cutter = _Cutter(chosen, cutter.count, named_room, keeps=False)
            else:
                place = cutter.stepped(len(found) + 1)
            if place is None and cutter.keeps:
                cutter = _Cutter(view, cutter.count, room, keeps=False)
                place = cutter.stepped(len(found) + 1)
            if place is None and room == self.room and not self.strategy.has_window:
                place = self._shortening(cutter)
            if place is not None:
                freed = cutter.freed(place)
                place = place._replace(is_checkpoint=True, repeats=cutter.repeats)
                named = place._replace(seen=cutter.count - 1)
                names = self._marker(cutter.view, named) - self._marker(cutter.view, place)
                spare = freed - max(ends[cutter.count] - room, (len(found) + 1) * self.step)
                if place.left is None and 0 < names <= spare:
                    place, freed = named, freed - names
            found.append(_Checkpoint(cutter.count, ends[cutter.count], place, cutter.view, freed))

    def _chosen(
        self, count: int, room: int, *, frees: bool = True
    ) -> tuple["_View", _Place | None]:
        """Return what the caller's strategy keeps of the first exchanges, and the anchors.

        A step is free then, if `frees` and as far as there are exchanges that may go.
        """
        assert self.own is not None
        history, anchors, last = self.history, self.whole.anchor_set, count - 1
        budget = max(0, room - self.step * frees)
        groups = [range(history.starts[n], history.first_line(n + 1)) for n in range(count)]
        kinds = [_KIND_NAMES[kind & KIND_MASK] for kind in history.kinds[: groups[-1].stop]]
        columns = HistoryColumns(kinds, history.tokens[: len(kinds)], self.lines.parts)
        told: Any = self.own(groups, columns, budget)
        given, numbers = [*told] if hasattr(told, "__iter__") else [told], range(count)
        if unknown := [n for n in given if not (isinstance(n, SupportsIndex) and n in numbers)]:
            rule = f"must return indices of its {count} groups, from 0"
            remedy = "Return positions in `groups`."
            raise InvalidParameterError("truncation_strategy", unknown[0], rule=rule, remedy=remedy)
        chosen, newest = {*given}, range(self.newest(count), last)
        used = history.ends[count] - _View(self, anchors).dropped(last) + self.marker_tokens
        kept = {*anchors}
        for number in (*reversed(newest), *sorted(chosen.difference(newest), reverse=True)):
            size = history.size(number)
            if number not in kept and number < last and used + size <= budget:
                kept.add(number)
                used += size
        return _View(self, kept), _Place(last, last) if used <= room else None

    def newest(self, count: int) -> int:
        """Return the boundary behind what a cut may drop of so many exchanges."""
        history, last = self.history, count - 1
        messages, turns = self.settings.keep_last_messages, self.settings.keep_last_turns
        if messages:
            last = min(last, bisect_right(history.heads, history.heads[count] - messages) - 1)
        if turns and (place := bisect_left(history.users, count)):
            last = min(last, history.users[max(0, place - turns)])
        return max(0, last)

    def _shortening(self, cutter: "_Cutter") -> _Place | None:
        """Return the cut that shortens the last exchange as well, and leaves what it can of a step.

        Half of what could be left of the exchange is, at the least.
        """
        place = _Place(cutter.count - 1, cutter.count - 1)
        floor = self._floor(cutter.view, place, cutter.count)
        bare = self._floor(cutter.view, place._replace(is_bare=True), cutter.count)
        if bare.tokens <= self.room:  # leaving out the marker and clock notes is enough
            return None
        least = shorten.least_tokens(floor, self.lines, self.room, self.settings)
        gain = min(self.step, (self.room - least) // 2)
        return place._replace(left=self.room - gain) if gain > 0 else None

    # ---- which cut ----

    def _fit(self, checkpoint: _Checkpoint) -> _Done:
        found, last = self._at_checkpoint(checkpoint), self.history.count - 1
        if found is not None and not self.settings.cache_stable:
            place = found.place._replace(is_checkpoint=False, seen=0)
            found = self._carry(found.view, place)
        if self.own is not None and not self.settings.cache_stable:
            view, chosen = self._chosen(last + 1, self.room, frees=False)
            found = (chosen and self._fitting(view, chosen)) or found
        elif not self.settings.cache_stable:
            cuts = map(self._exact, dict.fromkeys((self.opened, self.whole)))
            fuller = [self._filled(cut) for cut in cuts if cut is not None]
            found = max(fuller, key=lambda done: done.kept_tokens, default=found)
            if found is not None and found.place.left is not None and found.place.kept == last:
                found = None  # no step has to be free besides the exchange in flight
        if found is not None:
            return found
        place, view = _Place(last, last, left=self.room), self.whole
        done, floor = self._carry(view, place), self._floor(view, place, last + 1)
        if done.tokens > self.room or shorten.shortens_user_text(done.place.stage):
            bare = place._replace(is_bare=True)
            if self._floor(view, bare, last + 1).tokens < floor.tokens:
                without = self._carry(view, bare)
                done = without if without.tokens <= self.room else done
        if done.tokens > self.room:
            raise shorten.overflow_of(floor, done.shortening, self.lines, self.room, self.settings)
        return done

    def _at_checkpoint(self, checkpoint: _Checkpoint) -> _Done | None:
        """Return the first cut that fits: at the window, or at a checkpoint.

        The tokens of a stub are counted when it is made, and a counter need not be additive: if the
        cut takes more than it should, the cut that leaves some room free is made.
        """
        if self._window_from and (done := self._fitting(self.whole, _Place(0, 0))):
            return done
        for spare in (0, *(self.room // part for part in _SPARE_PARTS)):
            found = self._find([], self.room - spare)[-1] if spare else checkpoint
            if found.place is not None:
                place = found.place
                if spare:
                    place = place._replace(is_checkpoint=False, seen=0)
                if done := self._fitting(found.view, place):
                    return done
        return None

    @property
    def _window_from(self) -> int:
        """The boundary before the newest turns; 0: there are no more than that."""
        turns, users = self.settings.window_turns, self.history.users
        return users[-turns] if self.strategy.has_window and len(users) > turns else 0

    def _fitting(self, view: "_View", place: _Place) -> _Done | None:
        """Return a cut carried out, if it fits; it drops what lies before the window as well."""
        if (window := self._window_from) > place.kept:
            whole = max(window, place.whole)
            place = place._replace(kept=window, whole=whole, is_checkpoint=False)
        done = self._carry(view, place)
        return done if done.tokens <= self.room else None

    def _exact(self, view: "_View") -> _Done | None:
        """Return the cut of a view that frees what has to go, if it fits."""
        cutter = _Cutter(view, self.history.count, self.room)
        place = cutter.exact()
        return place and self._fitting(view, place._replace(repeats=cutter.repeats))

    def _filled(self, done: _Done) -> _Done:
        """Keep more of the oldest as stubs, then more of the stubs whole, as far as the room goes.

        The newest message that it drops does not fit as a stub; the newest stub does not fit whole.
        """
        done = self._lowered(
            done, done.place.kept, self._window_from, lambda place, kept: place._replace(kept=kept)
        )
        place, savings = done.place, done.view.savings
        if savings(place.kept) == savings(place.whole):  # nothing is a stub
            return done
        return self._lowered(
            done, place.whole, place.kept, lambda place, whole: place._replace(whole=whole)
        )

    def _lowered(
        self, found: _Done, start: int, floor: int, at: Callable[[_Place, int], _Place]
    ) -> _Done:
        """Return the cut at the lowest boundary that fits, near ones tried first."""
        fitting, too_low, stride = start, floor - 1, 1
        place = found.place
        while fitting - too_low > 1:
            boundary = fitting - stride
            done = self._carry(found.view, at(place, boundary))
            if done.tokens <= self.room:
                found, fitting = done, boundary
            else:
                too_low = boundary
            stride = max(1, min(2 * stride, (fitting - too_low) // 2))
        return found

    # ---- a cut carried out ----

    def _carry(self, view: "_View", place: _Place) -> _Done:
        """Return what a cut leaves; if it shortens an exchange, as that was when it was made first."""
        ends, marker = self.history.ends, self._marker(view, place)
        if place.left is None:
            kept = ends[-1] - view.dropped(place.kept)
            for line, stub in self._stubs(view, place).items():
                kept -= self.history.tokens[line] - stub.tokens
            return _Done(view, place, kept + marker, kept)
        floor = self._floor(view, place, place.kept + 1)
        done = shorten.shorten_to(place.left, floor, self.lines, self.settings)
        tokens = done.tokens + ends[-1] - ends[place.kept + 1]
        place = place._replace(stage=done.stage)
        if place.is_bare:
            done.shortened.update(dict.fromkeys(floor.omitted, _NO_CLOCK))
        return _Done(view, place, tokens, tokens - marker, done)

    def _carried(self, done: _Done) -> Cut:
        """Return the cut as lines."""
        history, (view, place) = self.history, done[:2]
        numbers, left_out, gap = view.kept_before(place.kept)
        marker = self._marker(view, place)
        kept: list[tuple[int, int]] = []
        spans = [(history.starts[number], history.starts[number + 1]) for number in numbers]
        for first, end in (*spans, (history.starts[place.kept], len(history))):
            joins = bool(kept) and kept[-1][1] == first
            kept.append((kept.pop()[0] if joins else first, end))
        stubs = {line: stub for line, stub in self._stubs(view, place).items() if stub.rule}
        cut = Cut(
            id=self._id(view, place),
            kept=kept,
            shortened=stubs | done.shortening.shortened,
            marker=None if not marker else gap if left_out else history.first_line(place.whole),
            left_out=left_out,
            tokens=done.tokens,
            window=history.starts[self._window_from] if self._window_from else 0,
            strategy=self.name,
        )
        if not marker:
            return cut
        if self.longest_handle:
            cut = cut._replace(handle=self.lines.handle([line for line, _, _ in cut.dropped()]))
        named = cut._replace(names=self._named(cut, place.seen)) if place.seen else cut
        if not (named.names or left_out):
            return cut._replace(marker=None, tokens=cut.tokens - marker)
        tokens = cut.tokens - marker + self.lines.count(USER, named.marker_parts)
        told = crc32(" ".join(named.names).encode())  # the names depend on the room
        return named._replace(id=cut.id ^ told, tokens=tokens)

    def _named(self, cut: Cut, seen: int) -> tuple[str, ...]:
        """Return what is named in what a cut leaves out, and nowhere in what it keeps of `seen`."""
        end, scores = self.history.first_line(seen), Counter[str]()
        firsts = [(0, 0), *cut.kept]
        gaps = (range(end, first) for (_, end), (first, _) in zip(firsts, cut.kept, strict=False))
        gone = [*chain(*gaps)][-_NAMED_LINES:]
        for line in (*gone, *cut.shortened):
            scores.update(self._names_of(line))
        kept = [*chain(*(range(first, min(last, end)) for first, last in cut.kept))]
        for line in kept[-_NAMED_LINES:]:
            names = self._names_of(line)
            if (short := cut.shortened.get(line)) is not None:
                names = names_in(short.parts)
            for name in names:
                scores.pop(name, None)
        first = min(gone[:1], default=0)
        self._names = {line: names for line, names in self._names.items() if line >= first}
        ranked = [*reversed(scores)]  # of names used alike the latest first
        ranked.sort(key=lambda name: -(scores[name] ** 3) / len(name))
        base = self.lines.count(USER, marker_parts(cut.left_out, [""], cut.handle))
        chosen, left = list[str](), self.names_tokens
        for name in ranked:
            left -= self.lines.count_text(f" {name}")
            if left < 0:
                break
            chosen.append(name)
        most = base + self.names_tokens
        while chosen and self.lines.count(USER, cut._replace(names=(*chosen,)).marker_parts) > most:
            del chosen[-1 - len(chosen) // 16 :]
        return tuple(chosen)

    def _names_of(self, line: int) -> Mapping[str, int]:
        """Return the names in a line; each line is read once."""
        if line not in self._names:
            kind = self.history.kinds[line] & KIND_MASK
            self._names[line] = names_in(self.lines.parts(line), kind)
        return self._names[line]

    def _id(self, view: "_View", place: _Place) -> int:
        """Return the number that no other cut has: below 0 without the opening."""
        repeats = place.repeats.count if place.repeats and place.repeats.pointers else 0
        # With a stage all but one exchange and the anchors are dropped.
        how = place.stage or (place.whole, place.is_checkpoint, repeats)
        # The latest summary is an anchor; with a later one it is none any more.
        anchors = len(self.history.summaries), view.anchors if self.own is not None else None
        told = repr((place.kept, place.is_bare, how, anchors)).encode()
        number = int.from_bytes(blake2b(told, digest_size=7).digest(), "big") + 1
        return number if view is self.opened or place.stage is not None else -number

    def _marker(self, view: "_View", place: _Place) -> int:
        """Return the tokens of the marker, if there is one."""
        if not self.strategy.marks or place.is_bare:
            return 0
        left_out = view.kept_before(place.kept)[1]
        names_tokens = self.names_tokens if place.seen else 0
        has_stubs = names_tokens and view.savings(place.whole) > view.savings(place.kept)
        if not (left_out or has_stubs):
            return 0
        first = [""] if names_tokens else ()
        longest = marker_parts(left_out, first, self.longest_handle)
        return self.lines.count(USER, longest) + names_tokens

    def _stubs(self, view: "_View", place: _Place) -> dict[int, Shortened]:
        """Return what is left of bulky results of exchanges that are kept, and are no anchors.

        Repeats are pointers; all others are stubs before `whole`.
        """
        if not self.strategy.shortens:
            return {}
        bulky, first_line = self.history.bulky, self.history.first_line
        pointers = place.repeats.pointers if place.repeats else {}
        first, end = (bisect_left(bulky, first_line(b)) for b in (place.kept, place.whole))
        stubs = {line: pointers[line] for line in bulky[first:] if line in pointers}
        for line in bulky[first:end]:
            number = self.history.exchange_of(line)
            is_loose = line not in stubs and number not in view.anchor_set
            if is_loose and self.saved(number + 1) > self.saved(number):
                stubs[line] = self._stub(line)
        return stubs

    def _stub(self, line: int) -> Shortened:
        """Return what is left of a bulky result; made once."""
        if line not in self.stubs:
            history, lines, whole = self.history, self.lines, self.lines.parts(line)
            stub = Shortened(whole, history.tokens[line])
            parts = [
                shorten.shorten_part(lines, part, line, history.stub_tokens)
                if shorten.part_tokens(lines, part, line) > 2 * history.stub_tokens
                else part
                for part in whole
            ]
            if any(part is not old for part, old in zip(parts, whole, strict=True)):
                tokens = lines.count(history.kinds[line], parts, line)
                stub = Shortened(parts, tokens, "smart.shorten", _STUB_REASON)
            self.stubs[line] = stub
        return self.stubs[line]

    def saved(self, boundary: int) -> int:
        """Return what shortening all bulky results before a boundary frees."""
        history = self.history
        if self._bulky is not history.bulky:
            self._bulky, self._saved = history.bulky, [0]
        place = bisect_left(self._bulky, history.first_line(boundary))
        if len(self._saved) <= place:
            smallest = self.stub_left or shorten.smallest_stub_tokens(self.lines)
            self.stub_left = max(history.stub_tokens, smallest)
            sizes = (history.tokens[line] for line in self._bulky[len(self._saved) - 1 :])
            freed = (max(0, tokens - self.stub_left) for tokens in sizes)
            self._saved[-1:] = accumulate(freed, initial=self._saved[-1])
        return self._saved[place]

    def _floor(self, view: "_View", place: _Place, exchanges: int) -> Floor:
        """Return what is left of the first exchanges if all that may go is dropped."""
        history, pieces, omitted = self.history, list[Piece](), list[int]()
        for number in (*view.kept_before(place.kept)[0], *range(place.kept, exchanges)):
            for line in range(history.starts[number], history.first_line(number + 1)):
                if place.is_bare and self.lines.is_clock(line):
                    omitted.append(line)
                    continue
                tokens, parts = history.tokens[line], self.lines.parts(line)
                pieces.append(Piece(line, history.kinds[line], number, tokens, parts))
        if marker := self._marker(view, place):
            pieces.append(Piece(-1, NOTE, -1, marker, ()))
        return Floor(pieces, exchanges, self.task, place.kept, history, omitted)


class _View:
    """The history with some exchanges as anchors."""

    def __init__(self, plan: Plan, anchors: set[int]) -> None:
        history = plan.history
        self.plan, self.history = plan, history
        self.anchor_set, self.anchors = anchors, sorted(anchors)
        self._tokens = list(accumulate(map(history.size, self.anchors), initial=0))
        self._savings: list[int] = []
        # The first anchor that needs a user message before it, and that message's exchange.
        self._opened_by = (history.count, -1)
        behind_lead = anchors.difference(range(history.lead), history.summaries)
        if behind_lead and not history.opens_window(first := min(behind_lead)):
            self._opened_by = (first, history.last_opener(first))

    def loose(self, boundary: int) -> int:
        """Return the tokens before a boundary that may go."""
        return self.history.ends[boundary] - self._tokens[bisect_left(self.anchors, boundary)]

    def savings(self, boundary: int) -> int:
        """Return what shortening bulky results before a boundary frees, those of anchors left out."""
        if not self.plan.strategy.shortens:
            return 0
        saved = self.plan.saved
        if not self._savings:
            savings = (saved(number + 1) - saved(number) for number in self.anchors)
            self._savings = list(accumulate(savings, initial=0))
        return saved(boundary) - self._savings[bisect_left(self.anchors, boundary)]

    def islands(self, boundary: int) -> list[int]:
        """Return the exchanges before a boundary that are kept for the sake of what is behind it.

        These are the user's last message, unless the boundary falls on one, and the user message
        that opens the window.
        """
        history, (anchor, opener) = self.history, self._opened_by
        last = -1 if history.opens_window(boundary) else history.last_opener(boundary)
        islands = [last] if last >= 0 and last not in self.anchor_set else []
        if anchor < boundary and opener not in (-1, last) and opener not in self.anchor_set:
            islands.append(opener)
        return islands

    def dropped(self, boundary: int) -> int:
        """Return the tokens that dropping everything loose before a boundary frees."""
        return self.loose(boundary) - sum(map(self.history.size, self.islands(boundary)))

    def kept_before(self, boundary: int) -> tuple[Sequence[int], int, int]:
        """Return what is kept before a boundary, how many messages are not, and where these end."""
        anchors, heads = self.anchors[: bisect_left(self.anchors, boundary)], self.history.heads
        numbers = sorted((*anchors, *self.islands(boundary)))
        gap = next((n for n, number in enumerate(numbers) if n != number), len(numbers))
        behind = numbers[gap] if gap < len(numbers) else boundary
        left_out = heads[boundary] - sum(heads[n + 1] - heads[n] for n in numbers)
        return numbers, left_out, self.history.first_line(behind)


class _Repeats:
    """The bulky results whose calls, with the same arguments, got a newer one before a boundary.

    Anchors and the newest exchanges are not among them. `pointers` has the line that is left of each.
    """

    def __init__(self, view: _View, count: int) -> None:
        plan, self.history, self.count = view.plan, view.history, count
        bulky, lines, calls = view.history.bulky, plan.lines, set[str]()
        self.pointers, self.sizes = dict[int, Shortened](), list[tuple[int, int, int]]()
        is_wanted = plan.settings.shorten_repeats and plan.strategy.shortens
        newest = plan.newest(count) if is_wanted and plan.saved(count) else 0
        end = bisect_left(bulky, view.history.first_line(count)) if newest else 0
        for line in reversed(bulky[:end]):
            number, parts = view.history.exchange_of(line), lines.parts(line)
            call = self._call(lines, range(view.history.starts[number], line), parts)
            if call in calls and number < newest and number not in view.anchor_set:
                text = _REPEAT.format(lines.handle([line]))
                pointer = [{**parts[0], "content": [{"type": "text", "text": text}]}]
                left = lines.count(self.history.kinds[line], pointer, line)
                if (whole := self.history.tokens[line]) > left:
                    self.pointers[line] = Shortened(pointer, left, "smart.repeat", _REPEAT_REASON)
                    self.sizes.append((line, whole - left, max(0, whole - plan.stub_left)))
            elif call and not parts[0].get("is_error"):
                calls.add(call)

    @staticmethod
    def _call(lines: Lines, before: range, results: Sequence[JsonObject]) -> str:
        """Return the call of a result as text; empty: there are several results, or no call."""
        for part in (one for line in before for one in lines.parts(line)):
            asked = part["type"] == "tool_call" and [part["call_id"]]
            if asked and asked == [result.get("call_id") for result in results]:
                wanted = part["name"], part.get("arguments"), part.get("arguments_json")
                return json.dumps(wanted, sort_keys=True, default=str)
        return ""

    def freed(self, boundary: int, of: int = 1) -> int:
        """Return what pointers free before a boundary; `of` 2: what stubs would in their place."""
        end = self.history.first_line(boundary)
        return sum(size[of] for size in self.sizes if size[0] < end)


class _Cutter:
    """Cuts a view that ends behind its first `count` exchanges, and never the newest of these.

    That is the last one; and those that the settings keep, if `keeps`.
    """

    def __init__(self, view: _View, count: int, room: int, *, keeps: bool = True) -> None:
        self.view, self.count, self.step = view, count, view.plan.step
        self.last = view.plan.newest(count) if keeps else count - 1  # nothing behind it goes
        self.keeps = self.last < count - 1
        self.repeats = _Repeats(view, count)
        self.excess = view.history.ends[count] - room - self.repeats.freed(count)  # what has to go
        # What can be free besides anchors, the user's last message and the newest exchanges.
        self.free = self._freed(self.last)(self.last) - self.excess

    @property
    def leaves_a_step(self) -> bool:
        """Whether a step can be free besides what has to stay.

        If nothing may go yet the opening is not complete: what comes next may belong to it.
        """
        return self.view.loose(self.count) > 0 and self.free >= self.step

    def stepped(self, number: int) -> _Place | None:
        """Return the cut that frees about a step, or most of what can be free.

        It frees whole steps, counted from the start, so that there is at most one cut for each step
        that has to go; after a cut that could not, it frees the more. `None`: nothing but shortening
        the last exchange helps.

        Args:
            number: Of this cut, from 1.
        """
        excess, step = self.excess, self.step
        most = max(0, int(self.free * _MOST_OF_FREE_SHARE))
        over = excess + self.repeats.freed(self.count)
        owed = max(number, -(-over // step)) * step - over
        gain, share = max(step, min(owed, most)), _SUBSTANTIAL_SHARE
        owed = min(owed, gain)
        if not self.leaves_a_step:
            gain, share, owed = most, _LEAST_SHARE, 0
        while gain:
            place = self._freeing_half(excess + gain)
            if place is not None:
                least = max(owed, int(min(gain, step) * share))
                return self._smaller(place, excess + least)
            gain //= 2
            owed = 0
        return self.exact()

    def exact(self) -> _Place | None:
        """Return the cut that frees what has to go, and leaves stubs of a step at the most."""
        last, ahead = self.last, self.step
        while ahead:
            boundaries = range(self.count + 1)
            boundary = bisect_right(boundaries, self.excess + ahead, key=self.view.loose) - 1
            place = self._freeing(self.excess, boundary) if boundary < last else None
            if place is not None:
                return place
            ahead //= 2
        return self._freeing(self.excess, last)

    def freed(self, place: _Place) -> int:
        """Return what a cut frees at the least."""
        if place.left is not None:
            return self.view.history.ends[self.count] - place.left
        return self._freed(place.whole)(place.kept) + self.repeats.freed(self.count)

    def _freeing_half(self, wanted: int) -> _Place | None:
        """Return the cut that frees so much; half of what it leaves stays whole, or the last exchange."""
        loose, last = self.view.loose, self.last
        total = loose(self.count)
        whole = max((total - wanted) // 2, total - loose(last))
        return self._freeing(wanted, bisect_left(range(last), total - whole, key=loose))

    def _freeing(self, wanted: int, whole: int) -> _Place | None:
        """Return the cut that keeps most: stubs before a boundary first, then the oldest go."""
        savings, shortens = self._savings, self.view.plan.strategy.shortens
        if shortens and savings(whole) >= wanted:
            return _Place(0, bisect_left(range(whole), wanted, key=savings))
        last, whole = self.last, whole if shortens else 0
        freed = self._freed(whole)
        if last == 0 or freed(last) < wanted:
            return None
        kept = bisect_left(range(last + 1), wanted, lo=1, key=freed)
        return _Place(kept, max(kept, whole))

    def _freed(self, whole: int) -> Callable[[int], int]:
        """Return what a cut at a boundary frees at the least; never less for a later one above 0."""
        view, marker, savings = self.view, self.view.plan.marker_tokens, self._savings
        saved = savings(whole)

        def freed(kept: int) -> int:
            stubs = saved - savings(kept) if whole > kept else 0
            return view.dropped(kept) + stubs - (marker if kept else 0) - self.repeats.freed(kept)

        return freed

    def _savings(self, boundary: int) -> int:
        """Return what shortening bulky results before a boundary frees besides pointers."""
        return self.view.savings(boundary) - self.repeats.freed(boundary, 2)

    def _smaller(self, place: _Place, least: int) -> _Place:
        """Return the cut that spares one exchange more, if only as stubs, if that frees enough."""
        if not place.kept:
            smaller = _Place(0, max(0, place.whole - 1))
        else:
            kept = place.kept - 1 if self.view.loose(place.kept - 1) else 0
            smaller = _Place(kept, place.whole if self.view.plan.strategy.shortens else kept)
        return smaller if self._freed(smaller.whole)(smaller.kept) >= least else place
