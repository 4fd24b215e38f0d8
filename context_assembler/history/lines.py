"""A session's events as lines: the active, repaired history in reading order, as columns.

A line is a stored event, or what the assembler puts between events: a clock note, a result in place
of a missing one, an opening turn. Most lines follow from the columns alone. Bodies are read only
where calls and results do not follow each other one by one, or an event holds something unusual.
"""

import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from operator import is_, itemgetter, mul
from typing import Any, Final, NamedTuple

from context_assembler.events import (
    ASSISTANT,
    COMPACTION,
    HAS_CALLS,
    KIND_MASK,
    NOTE,
    NOTE_NAMES,
    PINNED,
    REWIND,
    SIGNED,
    SYSTEM,
    TOOL_CALL,
    TOOL_RESULT,
    UNUSUAL,
    USER,
    Body,
    JsonObject,
    Origin,
    active_ranges,
    link_of,
    mark_of,
)
from context_assembler.history import repair
from context_assembler.history.notes import Clock, is_known
from context_assembler.history.repair import Parts
from context_assembler.ports import TOOLS_NOTE, StoredColumns, Turn
from context_assembler.providers.wire import text_part
from context_assembler.report import Decision, ReportEntry

SYNTHETIC: Final = 7  # a user turn of the assembler's own making

# One letter for each event: regular stretches of a session are recognised by them.
_USER, _REPLY, _SYSTEM, _SUMMARY = 1, 2, 3, 4
_CALLS, _RESULTS, _NOTE, _JOINING, _ODD = 0x10, 0x20, 0x40, 0x60, 0x80
_BY_KIND: Final = (_USER, _REPLY, _JOINING, _RESULTS, _SUMMARY, _SYSTEM, _NOTE, _ODD)
_CLOCK, _CONTINUE, _TOOLS = (
    _NOTE | NOTE_NAMES.index(name) for name in ("clock", "continue", TOOLS_NOTE)
)
_ASIDE: Final = frozenset({_SYSTEM, *range(_NOTE, _NOTE + 16)} - {_CONTINUE})
_REPLIES: Final = frozenset({_REPLY, *range(_CALLS, _CALLS + 16)})


def _letter(kind: int) -> int:
    if kind & UNUSUAL:
        return _ODD
    has_calls = kind & (KIND_MASK | HAS_CALLS) == ASSISTANT | HAS_CALLS
    return _CALLS if has_calls else _BY_KIND[kind & KIND_MASK]


def _table(of: Callable[[int], int]) -> bytes:
    """Return what `bytes.translate` needs to do to each kind, letter or mark."""
    return bytes(map(of, range(256)))


_LETTERS: Final = _table(_letter)
_NUMBERS: Final = _table(lambda kind: kind & KIND_MASK)
_FEW: Final = _table(lambda mark: min(mark, 15))
_IS_USER: Final = _table(lambda letter: letter == _USER)
_IS_CALLS: Final = _table(lambda letter: letter & 0xF0 == _CALLS)
_IS_REPLY: Final = _table(lambda kind: kind & KIND_MASK in (ASSISTANT, TOOL_CALL))
_IS_SIGNED: Final = _table(lambda kind: bool(kind & SIGNED))
_PARALLEL_IS_ODD: Final = _table(lambda letter: _ODD if _CALLS + 1 < letter < _NOTE else letter)
_REGULAR: Final = re.compile(rb"(?:[\x01-\x04\x40-\x4f]|[\x10-\x1f][\x20-\x2f]+)*")

_MOVED: Final = "Tool results stood apart from their calls; they were moved right after them."
_PARTED: Final = "What stood between a provider's own call and its result was moved after both."
_SERVER: Final = "A call that a provider runs itself had no result, or a result had no call."
_BEGAN: Final = "The history began with the assistant; a minimal user turn was put in front."
_UNREAD: Final = (
    "The compaction that a provider wrote cannot be read here; its plain text is sent, or, if it has "
    "none, what it covers."
)
_ENDED: Final = "The model refuses a history that ends on such a reply; a user turn was added."


class Rules(NamedTuple):
    """What the lines of a session depend on besides its columns.

    Attributes:
        body: Returns the body of an event by its number.
        measure: Counts an event of a kind as a message, uncorrected, with the reasoning in it.
        seqs_by_id: Returns the numbers of a range of events by their ids.
        factor: Returns what corrects the count of an event; `None`: nothing does.
        objection: Says why an event's signed parts cannot be sent; `None`: they can.
        reads: Whether the blocks of a compaction can be sent, by its body.
        form: Returns an event's parts as they are sent, masked and capped: the same object if it
            changes nothing. `candidates` takes numbers, kinds and tokens, and returns the places of
            the events that it has to look at.
        quotes: Returns what a result costs more next to other results of its reply; `None`: nothing.
        clock: Places clock notes; `None`: there are none.
        keeps_thoughts: Whether the model wants the plain thoughts of an event back, by its body.
        on_refusal: What is sent of a reply that its provider refused to give; see `SafetySettings`.
        tools_after_seq: Notes about changed tools up to this event are not sent.
        provider: Who the request goes to; `None`: anyone.
        flaw_of: Says why that provider would refuse a block of its own; `None`: it would not.
        accepts_prefill: Whether the history may end on the assistant.
        takes_lead: Whether leading system events are the session's own system prompt.
    """

    body: Callable[[int], Body]
    measure: Callable[[int, Body], int]
    seqs_by_id: Callable[[int, int], dict[str, int]]
    objection: Callable[[int], str | None]
    reads: Callable[[Body], bool]
    factor: Callable[[int], float] | None = None
    form: Callable[[int, int, Parts], Parts] = lambda _seq, _kind, parts: parts
    candidates: Callable[..., Sequence[int]] = lambda *_columns: ()
    quotes: Callable[[JsonObject], int] | None = None
    clock: Clock | None = None
    keeps_thoughts: Callable[[Body], bool] = lambda _body: False
    on_refusal: str = "replace"
    tools_after_seq: int = 0
    provider: str | None = None
    flaw_of: Callable[[JsonObject], str | None] | None = None
    accepts_prefill: bool = False
    takes_lead: bool = True


class Line(NamedTuple):
    """A line on its way into the columns.

    `parts` `None`: those of the event's body; `note`: name and origin of a note that no event holds.
    """

    kind: int
    tokens: int
    seq: int = 0
    parts: Parts | None = None
    note: tuple[str, Origin] | None = None


_Answer = tuple[int, JsonObject]  # the place of an event, and a result in it


class Timeline:
    """The lines of one session for one reader, grown by append.

    `is_late` says that an event reaches back into lines that were handed out: a late result or
    reply, or a compaction. Then the timeline has to be made again, from all columns.

    Attributes:
        kinds: Of each line, as in events.py, or `SYNTHETIC`.
        tokens: Of each line, as it is sent.
        seqs: The event of each line; 0: none.
        parts: By line, what is sent instead of the event's own parts.
        notes: By line, name and origin of a note that no event holds.
        note_lines: The lines that are notes.
        tool_notes: The events that are notes about changed tools, sent or not.
        settled: How many lines stay as they are; later ones hold for this call alone.
        handed: How many lines somebody knows already; set by whoever takes them.
        has_opened: Whether anything is said: more than instructions and notes.
        lead: The events that are the session's own system prompt.
        calls: How many calls the active events hold.
        active: The events that no rewind left behind.
        log: An entry for every repair; its id is the number of the event.
    """

    def __init__(self, rules: Rules) -> None:
        """Begin without events."""
        self.rules = rules
        self.kinds, self.tokens, self.seqs = bytearray(), array("I"), array("I")
        self.parts: dict[int, Parts] = {}
        self.notes: dict[int, tuple[str, Origin]] = {}
        self.note_lines: list[int] = []
        self.tool_notes: list[int] = []
        self.lead: Sequence[int] = ()
        self.active: Sequence[range] = ()
        self.log: list[ReportEntry] = []
        self.settled = self.handed = self.calls = 0
        self.is_late = self.is_closed = self.has_opened = False
        self._seen = self._high = self._taken = 0  # events: all, latest when read, made lines of
        # Columns of the active events, in reading order.
        self._letters, self._kinds, self._links = bytearray(), bytearray(), array("H")
        self._seqs, self._tokens, self._created = array("I"), array("I"), array("d")
        self._own: dict[int, Parts] = {}  # by event, what is sent instead of its parts
        self._missing: dict[str, list[int]] = {}  # by call, the lines of results made up for it
        self._orphans: dict[str, list[_Answer]] = {}
        self._moved: dict[tuple[int, str], int] = {}  # results that went to calls further up
        # A provider's own calls, by id: `lost`, `answered`, `awaited` in a later reply, or `pending`
        # at the end; and those that were lost before the newest events came.
        self._server_calls, self._given_up = dict[str, str](), set[str]()
        self._clock_at: float | None = None
        self._before_tail: tuple[Any, ...] = ()

    # ---- events in ----

    def extend(self, columns: StoredColumns) -> None:
        """Take the columns of events that were appended to the session."""
        first, kinds, at = self._seen, bytes(columns.kinds), len(self._letters)
        order, self._high = _reading_order(columns.answers, first=first, high=self._high)
        has_summary = COMPACTION in kinds.translate(_NUMBERS)
        if first and (order is not None or has_summary):
            self.is_late = True
            return
        self._seen += len(kinds)
        if not first:
            order = self._begin(order, columns, has_summary=has_summary)

        def pick(column: Any) -> Any:
            if order is None:
                return column
            if isinstance(order, range):
                return column[order.start :]
            picked = map(column.__getitem__, order)
            return array(column.typecode, picked) if isinstance(column, array) else bytes(picked)

        kinds, marks, tokens = map(pick, (kinds, bytes(columns.marks), columns.tokens))
        self._kinds += kinds
        self._seqs += pick(array("I", range(first + 1, self._seen + 1)))
        self._tokens += tokens
        self._created += pick(columns.created)
        self._links += pick(columns.links)
        self._letters += bytes(map(int.__or__, kinds.translate(_LETTERS), marks.translate(_FEW)))
        if self.rules.quotes is not None:
            self._letters = self._letters.translate(_PARALLEL_IS_ODD)
        self.calls += sum(map(mul, kinds.translate(_IS_REPLY), marks))
        signed = list(compress(range(at, at + len(kinds)), kinds.translate(_IS_SIGNED)))
        reasoning = pick(columns.reasoning) if signed else ()
        for place in signed:
            if self.rules.objection(self._seqs[place]) is None:
                self._tokens[place] += reasoning[place - at]
            else:
                self._letters[place] = _ODD
        for place in range(at, len(kinds) + at) if NOTE in kinds.translate(_NUMBERS) else ():
            if self._number(place) == NOTE and _NOTE | marks[place - at] == _TOOLS:
                self.tool_notes.append(self._seqs[place])
                if self._seqs[place] <= self.rules.tools_after_seq:
                    self._letters[place] = _ODD | _TOOLS
        self._correct(at)
        self._given_up = self._server_calls_in("lost")
        if waiting := self._server_calls_in("pending"):
            answered, pending = self._answered_later(at, waiting)
            self.is_late |= not waiting - answered <= (pending or set())
            self._server_calls |= dict.fromkeys(waiting - (pending or set()), "awaited")
        self._take(is_closing=False)

    def _begin(
        self, order: Sequence[int] | None, columns: StoredColumns, *, has_summary: bool
    ) -> Sequence[int] | None:
        """Take out the session's own system prompt, and what summaries replace."""
        rules, kinds, lead = self.rules, columns.kinds, 0
        ordered: Sequence[int] = range(len(kinds)) if order is None else order
        self.active = active_of(columns)
        if REWIND in bytes(kinds).translate(_NUMBERS):
            ordered = order = [at for at in ordered if any(at + 1 in one for one in self.active)]
            for seq in (one.start - 1 for one in self.active[1:]):
                said = f"Nothing is sent of what was stored since event {columns.answers[seq - 1]}."
                self.log.append(_entry(seq, "dropped", "rewind", said))
        while rules.takes_lead and lead < len(ordered):
            place = ordered[lead]
            if kinds[place] & KIND_MASK != SYSTEM:
                break
            if any(part["type"] != "text" for part in rules.body(place + 1)["parts"]):
                break
            lead += 1
        self.lead = [place + 1 for place in ordered[:lead]]
        if not has_summary:
            return ordered[lead:] if lead else order
        active = _active_order(ordered[lead:], columns, rules, self.log)
        self._own = {at: parts for at, (_, parts) in enumerate(active) if parts is not None}
        return [place for place, _ in active]

    def _correct(self, at: int) -> None:
        """Count what is sent otherwise than it is stored, and correct the counts by usage."""
        rules, tokens = self.rules, self._tokens
        changed = set[int]() if at else {*self._own}
        for place in changed:
            self._letters[place] = _SUMMARY
        found = rules.candidates(self._seqs[at:], self._kinds[at:], tokens[at:])
        changed.update(at + one for one in found if self._letters[at + one] < _ODD)
        for place in changed:
            seq, kind = self._seqs[place], self._kinds[place]
            body = rules.body(seq)
            stored: Parts = body["parts"]
            parts = rules.form(seq, kind, self._own.get(place, stored))
            if parts is not stored:
                self._own[place] = parts
                tokens[place] = rules.measure(kind, {**body, "parts": parts})
        if rules.factor is not None:
            for place in range(at, len(tokens)):
                tokens[place] = scaled(tokens[place], rules.factor(self._seqs[place]))

    def _number(self, place: int) -> int:
        """Return the kind of an event without its flags."""
        return self._kinds[place] & KIND_MASK

    # ---- lines out ----

    def _take(self, *, is_closing: bool) -> None:
        """Turn events into lines, as far as nothing that follows can belong to them."""
        letters, at = self._letters, self._taken
        end = len(letters)
        while at < end:
            match = _REGULAR.match(letters, at)
            stop = self._answered(at, match.end() if match is not None else at)
            if stop < end and self._number(stop) in (TOOL_CALL, TOOL_RESULT):
                while stop > at and letters[stop - 1] & 0xF0 == _RESULTS:  # part of the last reply?
                    stop -= 1
                stop -= stop > at and letters[stop - 1] in _REPLIES
            elif stop == end and not is_closing:  # a call may join the last reply
                while stop > at and letters[stop - 1] == _REPLY:
                    stop -= 1
            at = self._take_regular(at, stop, is_closing=is_closing)
            if at < stop or at == end:
                break
            taken = self._take_odd(at, is_closing=is_closing)
            if taken == at:
                break
            at = taken
        if not is_closing:
            self._taken, self.settled = at, len(self.kinds)

    def _answered(self, at: int, stop: int) -> int:
        """Return where the first reply stands whose results are not those of its calls."""
        letters, links = self._letters, self._links
        for call in compress(range(at, stop), letters[at:stop].translate(_IS_CALLS)):
            link, waiting, behind = links[call], letters[call] & 15, call + 1
            while behind < stop and letters[behind] & 0xF0 == _RESULTS:
                link ^= links[behind]
                waiting -= letters[behind] & 15
                behind += 1
            if link or waiting:
                return call
        return stop

    def _take_regular(self, at: int, stop: int, *, is_closing: bool) -> int:
        """Take events as they are, with clock notes between them; return where one has to wait."""
        clock, letters = self.rules.clock, self._letters
        users = compress(range(at, stop), letters[at:stop].translate(_IS_USER))
        looks = 0 if _CLOCK in letters[at:stop] else 2
        for user in users if clock is not None else ():
            if not self._created[user]:  # nobody knows when it was said
                continue
            if looks and clock is not None and self._clock_at is not None:
                looks -= 1
                if clock.is_quiet(self._created[user:stop], last=self._clock_at):
                    break  # none is due in all that follows
            is_due, waits = self._clock_due(user)
            if is_due and waits and not is_closing:
                self._take_bulk(at, user)
                return user
            if is_due:
                self._take_bulk(at, user + 1)
                self._put_clock(user)
                at = user + 1
        self._take_bulk(at, stop)
        return stop

    def _clock_due(self, user: int) -> tuple[bool, bool]:
        """Return whether a clock note belongs after an event, and if one may yet be stored there."""
        clock, letters = self.rules.clock, self._letters
        moment = self._created[user]
        if clock is None or not is_known(moment):
            return False, False
        behind = user + 1  # a result moves away, to its call
        while behind < len(letters) and (
            letters[behind] in _ASIDE or self._number(behind) == TOOL_RESULT
        ):
            if letters[behind] == _CLOCK:
                self._clock_at = moment
                return False, False
            behind += 1
        return clock.is_due(moment, last=self._clock_at), behind == len(letters)

    def _put_clock(self, user: int) -> None:
        self._clock_at = moment = self._created[user]
        assert self.rules.clock is not None
        self.put_note("clock", "assembler", [text_part(self.rules.clock.text(moment))])

    def put_note(self, name: str, origin: Origin, parts: Parts) -> None:
        """Append a note that no event holds."""
        tokens = self.rules.measure(NOTE, {"parts": parts, "note": name, "origin": origin})
        self._put(Line(NOTE, self._scaled(0, tokens), parts=parts, note=(name, origin)))

    def _take_bulk(self, at: int, stop: int) -> None:
        for place in range(at, stop) if not self.has_opened else ():
            if self._letters[place] not in _ASIDE:
                self._open(place)
                break
        base, kinds = len(self.kinds), self._kinds[at:stop]
        self.kinds += kinds
        self.tokens += self._tokens[at:stop]
        self.seqs += self._seqs[at:stop]
        self.parts |= {base + p - at: own for p, own in self._own.items() if at <= p < stop}
        if NOTE in (numbers := kinds.translate(_NUMBERS)):
            self.note_lines += [base + i for i, number in enumerate(numbers) if number == NOTE]

    def _open(self, place: int) -> None:
        """Put a minimal turn of the user before a history that begins with the assistant."""
        self.has_opened = True
        # Anthropic's summary stands before everything else.
        # https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand (2026-11-30)
        first = self.rules.body(self._seqs[place])["parts"][:1]
        own = [one["block"].get("type") for one in first if one["type"] == "opaque"]
        is_summary = own == ["compaction"] and first[0]["provider"] == self.rules.provider
        if self._number(place) in (ASSISTANT, TOOL_CALL) and not is_summary:
            before, parts = self._cut_off(0), [text_part(repair.OPENING)]
            tokens = self._scaled(0, self.rules.measure(USER, {"parts": parts}))
            for line in (Line(SYNTHETIC, tokens, parts=parts), *before):
                self._put(line)
            self._note(place, "repaired", "first_user", _BEGAN)

    def _put(self, line: Line) -> None:
        at = len(self.kinds)
        self.kinds.append(line.kind)
        self.tokens.append(line.tokens)
        self.seqs.append(line.seq)
        if line.parts is not None:
            self.parts[at] = line.parts
        if line.note is not None:
            self.notes[at] = line.note
        if line.kind & KIND_MASK == NOTE:
            self.note_lines.append(at)

    def lines_from(self, first: int) -> list[Line]:
        """Return the last lines."""
        columns = (self.kinds[first:], self.tokens[first:], self.seqs[first:])
        rows = enumerate(zip(*columns, strict=True), first)
        return [Line(*row, self.parts.get(at), self.notes.get(at)) for at, row in rows]

    def _cut_off(self, first: int) -> list[Line]:
        """Take the last lines off again, and return them."""
        self.is_late |= first < self.handed
        lines = self.lines_from(first)
        for at in range(first, len(self.kinds)):
            self.parts.pop(at, None)
            self.notes.pop(at, None)
        del self.kinds[first:], self.tokens[first:], self.seqs[first:]
        while self.note_lines and self.note_lines[-1] >= first:
            self.note_lines.pop()
        return lines

    def _scaled(self, seq: int, tokens: int) -> int:
        return tokens if self.rules.factor is None else scaled(tokens, self.rules.factor(seq))

    def _note(self, place: int, decision: Decision, rule: str, reason: str) -> None:
        rule = rule if "." in rule else f"repair.{rule}"
        self.log.append(_entry(self._seqs[place], decision, rule, reason))

    # ---- events that are not as most are ----

    def _take_odd(self, at: int, *, is_closing: bool) -> int:
        """Take an event by its body; return the place behind it, its own if it has to wait."""
        number, logged = self._number(at), len(self.log)
        if number in (ASSISTANT, TOOL_CALL):
            return self._take_reply(at, is_closing=is_closing)
        if self._letters[at] == _ODD | _TOOLS:
            return at + 1  # what it tells of is declared by now
        parts, results = self._parts_of(at)
        is_due, waits = self._clock_due(at) if number == USER and parts else (False, False)
        if is_due and waits and not is_closing:
            del self.log[logged:]
            return at
        for result in results:
            self._take_loose(at, result)
        if parts and number != TOOL_RESULT:
            if not self.has_opened and number not in (SYSTEM, NOTE):
                self._open(at)
            self._put(self._line(at, self._kinds[at], parts))
        if is_due:
            self._put_clock(at)
        return at + 1

    def _line(self, place: int, kind: int, parts: Parts) -> Line:
        """Return the line of an event whose body was read; `place` -1: no event holds it."""
        seq, body = 0, dict[str, Any](parts=())
        if place >= 0:
            seq, body = self._seqs[place], self.rules.body(self._seqs[place])
            parts, keeps_thoughts = self.rules.form(seq, kind, parts), self.rules.keeps_thoughts
            is_thought = any(p["type"] == "thinking" for p in parts) and keeps_thoughts(body)
            is_misplaced = kind & KIND_MASK == TOOL_RESULT and self._number(place) != TOOL_RESULT
            if repair.same_parts(parts, body["parts"]) and not is_thought and not is_misplaced:
                return Line(kind, self._tokens[place], seq)
        tokens = self.rules.measure(kind, {**body, "parts": parts})
        return Line(kind, self._scaled(seq, tokens), seq, parts)

    def _result_line(self, place: int, result: JsonObject) -> Line:
        flags = self._kinds[place] & ~KIND_MASK if place >= 0 else 0
        return self._line(place, flags | TOOL_RESULT, [result])

    def _parts_of(self, at: int) -> tuple[Parts, Parts]:
        """Return the parts of an event that can be sent, and the results among them."""
        kind, seq, log = self._kinds[at], self._seqs[at], partial(self._note, at)
        rules, body = self.rules, self.rules.body(seq)
        parts: Parts = body["parts"]
        is_refused = self._is_refused(at)
        if is_refused:
            awaited = self._server_calls_in("awaited", "pending")
            answers = [part for part in parts if repair.server_id(part) in awaited]
            parts = [*answers, *repair.parts_of_refusal(body, log, policy=rules.on_refusal)]
        if parts or not is_refused:
            objection = rules.objection(seq) if kind & SIGNED else None
            number, keeps = self._number(at), rules.keeps_thoughts(body)
            parts = repair.repaired_parts(
                number, parts, log, objection=objection, keeps_thoughts=keeps
            )
        results = [part for part in parts if part["type"] == "tool_result"]
        if results and self._number(at) != TOOL_RESULT:
            parts = [part for part in parts if part["type"] != "tool_result"]
        return parts, results

    def _take_reply(self, at: int, *, is_closing: bool) -> int:
        """Take a reply with the calls right behind it, and the results behind those."""
        logged, end, stop = len(self.log), len(self._letters), at + 1
        members, results = list[tuple[int, Parts]](), list[_Answer]()
        self._take_parts(at, members, results)
        while stop < end:
            number = self._number(stop)
            if number == TOOL_RESULT:
                self._take_parts(stop, [], results)
            elif number == TOOL_CALL and not results:
                self._take_parts(stop, members, results)
            else:
                break
            stop += 1
        calls = [part for _, parts in members for part in parts if part["type"] == "tool_call"]
        answers = list[_Answer | None]()
        for call in calls:
            own = (one for one in results if one[1]["call_id"] == call["call_id"])
            answers.append(next(own, None))
            if answers[-1] is not None:
                results.remove(answers[-1])
        waits = stop == end and not is_closing and (not calls or None in answers)
        if waits or self._pair_server_calls(members, stop, is_closing=is_closing):
            del self.log[logged:]
            return at
        for place, part in results:
            self._take_loose(place, part)
        if stop < end and not calls and self.rules.on_refusal == "drop" and self._is_refused(at):
            self._drop_question()  # once more is said
        self._put_exchange(members, calls, answers)
        return stop

    def _take_parts(
        self, at: int, members: list[tuple[int, Parts]], results: list[_Answer]
    ) -> None:
        said, found = self._parts_of(at)
        members.append((at, said))
        results += [(at, result) for result in found]

    def _is_refused(self, at: int) -> bool:
        """Whether a reply was refused; one whose calls were answered all the same was not."""
        kind, after = self._kinds[at], at + 1
        if kind & HAS_CALLS and after < len(self._letters) and self._number(after) == TOOL_RESULT:
            return False
        return bool(kind & UNUSUAL) and repair.is_refusal(kind, self.rules.body(self._seqs[at]))

    def _drop_question(self) -> None:
        """Take off the user's last messages, and the notes to them."""
        numbers, at = self.kinds.translate(_NUMBERS), len(self.kinds)
        while at and numbers[at - 1] in (USER, NOTE, SYSTEM):
            at -= 1
        asked = numbers.find(USER, at)
        for line in self._cut_off(asked) if asked >= 0 else ():
            if line.kind & PINNED or line.kind & KIND_MASK == SYSTEM:
                self._put(line)
        self.has_opened = not all(map(self._is_aside, range(len(self.kinds))))

    def _pair_server_calls(
        self, members: list[tuple[int, Parts]], stop: int, *, is_closing: bool
    ) -> bool:
        """Leave out a provider's own calls that nobody answers, and answers without a call.

        At the end of the history the provider that is asked goes on from its own calls. Returns
        whether the next event decides.
        """
        said = [part for _, parts in members for part in parts]
        if not any(map(repair.server_id, said)):
            return False
        asked, answered, odd = self._paired(said, self._server_calls_in("awaited", "pending"))
        unanswered = {name: part for name, part in asked.items() if name not in answered}
        own = {n for n, p in unanswered.items() if self.rules.provider in (None, p["provider"])}
        sound = {name for name, part in unanswered.items() if not self._is_flawed(part)}
        later, pending = self._answered_later(stop, sound)
        if pending is None and not is_closing:
            return True
        pending = (pending or set()) & own
        lost = unanswered.keys() - later - pending
        self.is_late |= bool(lost.union(map(repair.server_id, odd)) & self._given_up)
        states = ("answered", answered), ("awaited", later), ("pending", pending), ("lost", lost)
        self._server_calls |= {name: state for state, names in states for name in names}
        odd += map(unanswered.__getitem__, lost)
        for at, (place, parts) in enumerate(members):
            kept = [part for part in parts if not any(part is one for one in odd)]
            if len(kept) < len(parts):
                self._note(place, "repaired" if kept else "dropped", "server_call", _SERVER)
                members[at] = place, kept
        return False

    def _answered_later(self, at: int, asked: Collection[str]) -> tuple[set[str], set[str] | None]:
        """Return which of a provider's own calls later replies answer, and which they yet may.

        `None`: the next event decides about that.

        A turn goes on over any number of replies with results for their calls. If something else
        stands before a reply with an answer, that reply and its results are moved in front of it.
        """
        answered, waiting, end = set[str](), {*asked}, len(self._letters)
        while waiting:
            behind = at
            while at < end and self._number(at) in (USER, NOTE, SYSTEM):
                at += 1
            if at == end:
                return answered, waiting if at == behind else set()
            first = last = at  # to behind the last reply with an answer
            while at < end and self._number(at) in (ASSISTANT, TOOL_CALL):
                again, over, _ = self._paired(self.rules.body(self._seqs[at])["parts"], waiting)
                at += 1
                last = at if over & waiting else last
                answered |= over & waiting
                waiting -= again.keys() | over  # a call that is asked again is another one
            replied = at
            while at < end and self._number(at) == TOOL_RESULT:
                at += 1
            if last > first > behind:
                self._note(first, "repaired", "server_call", _PARTED)
                last = at if last == replied else last
                self._move(first, last, behind)
                at = behind + last - first
            elif first > behind or at == first:
                break
            elif waiting and at == end:
                return answered, waiting if self._kinds[replied - 1] & HAS_CALLS else None
        return answered, set()

    def _paired(
        self, parts: Parts, awaited: set[str]
    ) -> tuple[dict[str, JsonObject], set[str], list[JsonObject]]:
        flawed = {repair.server_id(part) for part in parts if self._is_flawed(part)}
        done = self._server_calls_in("answered")
        return repair.pair_server_calls(parts, awaited - flawed, done=done)

    def _server_calls_in(self, *states: str) -> set[str]:
        return {name for name, state in self._server_calls.items() if state in states}

    def _is_flawed(self, part: JsonObject) -> bool:
        """Whether the provider that is asked would refuse this block of its own."""
        flaw_of, is_own = self.rules.flaw_of, part.get("provider") == self.rules.provider
        is_block = is_own and part["type"] == "opaque"
        return is_block and flaw_of is not None and flaw_of(part["block"]) is not None

    def _move(self, first: int, end: int, to: int) -> None:
        """Move events in front of others."""
        columns = self._letters, self._kinds, self._links, self._seqs, self._tokens, self._created
        for column in columns:
            moved: Any = column
            moved[to:end] = moved[first:end] + moved[to:first]
        places = dict(zip((*range(first, end), *range(to, first)), range(to, end), strict=True))
        self._own = {places.get(place, place): own for place, own in self._own.items()}

    def _put_exchange(
        self, members: Sequence[tuple[int, Parts]], calls: Parts, answers: list[_Answer | None]
    ) -> None:
        """Put a reply and one result for each of its calls, as stored; turns put them in order."""
        log, number = partial(self._note, members[0][0]), ASSISTANT
        settled: list[JsonObject] = []
        lines: list[tuple[int, str, Line]] = []  # with the place of the event, and the call
        for call, found in zip(calls, answers, strict=True):
            name, answer, place = call["call_id"], found, found[0] if found else len(self._letters)
            if answer is None and self._orphans.get(name):
                answer = self._orphans[name].pop(0)
                log("repaired", "moved_result", _MOVED)
            if answer is None:
                said = f"The call {name!r} ({call['name']}) has no result"
                log("repaired", "missing_result", f"{said}; an error stands in for it.")
                answer = -1, repair.missing_result(call)
            settled.append(repair.settle_call(call, log))
            result = answer[1]
            line = self._result_line(answer[0], result)
            if self.rules.quotes is not None and len(calls) > 1:
                more = self._scaled(line.seq, self.rules.quotes(result))
                line = line._replace(tokens=line.tokens + more)
            lines.append((place, name, line))
        sent_calls, is_same = iter(settled), all(map(is_, calls, settled))
        for place, own in members:
            parts = own
            if not is_same:
                parts = [next(sent_calls) if p["type"] == "tool_call" else p for p in own]
            if parts:
                if not self.has_opened:
                    self._open(place)
                self._put(self._line(place, self._kinds[place] & ~KIND_MASK | number, parts))
                number = TOOL_CALL
        for _, name, line in sorted(lines, key=itemgetter(0)):
            if not line.seq:
                self._missing.setdefault(name, []).append(len(self.kinds))
            self._put(line)

    def _take_loose(self, place: int, result: JsonObject) -> None:
        """Give a result to an earlier call that got none, for good, or keep it for a later call."""
        name = result["call_id"]
        if (place, name) in self._moved:
            return
        if not self._missing.get(name):
            self._orphans.setdefault(name, []).append((place, result))
            return
        at = self._missing[name].pop(0)
        if at < self.handed:
            self.is_late = True
            return
        self._moved[place, name] = at
        line = self._result_line(place, result)
        self.kinds[at], self.tokens[at], self.seqs[at] = line.kind, line.tokens, line.seq
        self.parts.pop(at)
        if line.parts is not None:
            self.parts[at] = line.parts

    def loose(self) -> list[ReportEntry]:
        """Return an entry for each result that went to a call further up, or to none."""
        reason = "The result was left out: no call {!r} waits for one."
        left = sorted((place, one["call_id"]) for of in self._orphans.values() for place, one in of)
        moved = [(place, "repaired", _MOVED, "moved") for place, _ in sorted(self._moved)]
        lost = [(place, "dropped", reason.format(name), "orphan") for place, name in left]
        return [
            _entry(self._seqs[place], decision, f"repair.{rule}_result", said)
            for place, decision, said, rule in (*moved, *lost)
        ]

    # ---- the end of the history, as one call sends it ----

    def close(self) -> None:
        """Add the lines that the history ends with until more is said; `reopen` takes them off."""
        self.is_closed, orphans = True, {name: [*held] for name, held in self._orphans.items()}
        state = self._clock_at, self.has_opened, len(self.log), orphans, {**self._server_calls}
        self._before_tail = state
        if self._taken < len(self._letters):
            self._take(is_closing=True)
        backwards = range(len(self.kinds) - 1, -1, -1)
        last = next((line for line in backwards if not self._is_aside(line)), None)
        if last is not None and self._is_reply(last) and not self._goes_on(last):
            self.put_note("continue", "assembler", [text_part(repair.CONTINUE)])
            self.log.append(_entry(self.seqs[last], "repaired", "repair.prefill", _ENDED))

    def reopen(self) -> None:
        """Take off again what `close` added; a result that went to an earlier call stays there."""
        is_late, self.is_closed = self.is_late, False
        self._cut_off(self.settled)
        # A reply that opened the history put a turn of the user before the lines that stay.
        self.is_late = is_late or (self.settled > 0 and self.has_opened != self._before_tail[1])
        self._clock_at, self.has_opened, logged, *loose = self._before_tail
        self._orphans, self._server_calls = loose
        del self.log[logged:]
        self._moved = {one: line for one, line in self._moved.items() if line < self.settled}
        for lines in self._missing.values():
            while lines and lines[-1] >= self.settled:
                lines.pop()

    def insert_notes(self, notes: Iterable[tuple[str, Origin, Parts]]) -> None:
        """Put notes (name, origin, parts) behind the last turn of the user or of tools."""
        end = at = len(self.kinds)
        while at and (self._is_aside(at - 1) or self._is_reply(at - 1)):
            at -= 1
        while 0 < at < end and self._is_aside(at):
            at += 1
        before = self._cut_off(max(at or end, self.settled))
        for note in notes:
            self.put_note(*note)
        for line in before:
            self._put(line)

    def note_at(self, line: int) -> tuple[str, str]:
        """Return name and text of the note at a line."""
        texts = (part["text"] for part in self.parts_at(line) if part["type"] == "text")
        name = self.notes[line][0] if line in self.notes else None
        return name or self.rules.body(self.seqs[line]).get("note", ""), "\n".join(texts)

    def parts_at(self, line: int) -> Parts:
        """Return the parts of a line."""
        own = self.parts.get(line)
        return self.rules.body(self.seqs[line])["parts"] if own is None else own

    @property
    def is_pending(self) -> bool:
        """Whether the provider that is asked goes on from a call of its own that it runs."""
        return "pending" in self._server_calls.values()

    @property
    def is_unanswered(self) -> bool:
        """Whether a call of the last reply, or one that the provider runs, has no result yet."""
        ends = zip(self.kinds[self.settled :], self.seqs[self.settled :], strict=True)
        is_open = any(kind & KIND_MASK == TOOL_RESULT and not seq for kind, seq in ends)
        return self.is_pending or is_open

    def _is_aside(self, line: int) -> bool:
        """Whether the line is an instruction or a note, and not said by anybody."""
        number = self.kinds[line] & KIND_MASK
        return number == SYSTEM or (number == NOTE and self.note_at(line)[0] != "continue")

    def _is_reply(self, line: int) -> bool:
        """Whether the line is sent as the assistant's, as a provider's own compaction is."""
        number = self.kinds[line] & KIND_MASK
        if number == COMPACTION:
            return any(part["type"] == "opaque" for part in self.parts_at(line))
        return number in (ASSISTANT, TOOL_CALL)

    def _goes_on(self, last: int) -> bool:
        """Whether the model goes on from a reply at the end of the history.

        It does from a call that its provider runs, not from a reply in which such a call has run:
        notes would come between them. A reply with signed reasoning is nothing to go on from: a model that may not think just then
        refuses it. https://github.com/tailcallhq/forgecode/issues/1853 (read 2026-11-27)
        """
        if self.is_pending:
            return True
        is_sealed, at = False, last
        while at >= 0 and (self._is_reply(at) or self._is_aside(at)):
            parts = self.parts_at(at) if self._is_reply(at) else ()
            is_sealed |= repair.is_signed_by(parts, self.rules.provider) or any(
                map(repair.server_id, parts)
            )
            at -= 1
        return self.rules.accepts_prefill and not is_sealed


def _entry(seq: int, decision: Any, rule: Any, reason: str) -> ReportEntry:
    return ReportEntry("message", str(seq), decision, 0, 0, reason, rule)


def scaled(tokens: int, factor: float) -> int:
    """Return a corrected count, rounded up: in thousandths, as factors are kept."""
    return -(-tokens * round(factor * 1_000) // 1_000)


def unscaled(tokens: int, factor: float) -> int:
    """Return the count that was corrected."""
    return tokens * 1_000 // round(factor * 1_000)


# ---- which events are active, and in which order they are read ----


def active_of(columns: StoredColumns) -> list[range]:
    """Return the ranges of events that no rewind left behind; the columns begin with event 1."""
    numbers, found = bytes(columns.kinds).translate(_NUMBERS), dict[int, int]()
    at = numbers.find(REWIND)
    while at >= 0:
        found[at + 1] = columns.answers[at]
        at = numbers.find(REWIND, at + 1)
    return active_ranges(found)


def columns_of(
    kinds: Sequence[int], bodies: Sequence[Body], family: Any = None, answers: Any = None
) -> StoredColumns:
    """Return the columns of events that no store holds; without a family, nothing is counted."""
    nothing = array("I", bytes(4 * len(kinds)))
    return StoredColumns(
        kinds=bytes(kinds),
        marks=bytes(map(mark_of, kinds, bodies)),
        created=array("d", bytes(8 * len(kinds))),
        answers=array("I", answers or nothing),
        links=array("H", map(link_of, bodies)),
        tokens=array("I", map(family.count_event, kinds, bodies) if family else nothing),
        reasoning=array("I", map(family.count_reasoning, bodies) if family else nothing),
    )


def _reading_order(
    answers: Sequence[int], *, first: int, high: int
) -> tuple[Sequence[int] | None, int]:
    """Return the places of events in reading order, and the latest position so far.

    A reply and its notes stand right after the last event that they were made from, all others where
    they were stored. `None` instead of an order: that of the store.

    Args:
        answers: `answers_seq` of each event.
        first: How many events came before them.
        high: The latest position of those.
    """
    if not any(answers):
        return None, max(high, first + len(answers))
    positions = [
        answered if 0 < answered < seq else seq for seq, answered in enumerate(answers, first + 1)
    ]
    if positions[0] >= high and positions == sorted(positions):
        return None, positions[-1]
    order = sorted(range(len(positions)), key=positions.__getitem__)
    return order, max(high, *positions)


def _summary_parts(body: Body, *, is_readable: bool) -> list[JsonObject]:
    """Return what is sent of a compaction: its text, then the blocks for those who can read them."""
    text = "\n".join(part["text"] for part in body["parts"] if part["type"] == "text")
    parts: list[JsonObject] = [{"type": "text", "text": text}] if text.strip() else []
    for part in body["parts"] if is_readable else ():
        if part["type"] == "opaque":
            is_compaction = part["block"].get("type") == "compaction"
            parts.append({**part, "text": text} if is_compaction else part)
    return parts


def _active_order(
    order: Sequence[int], columns: StoredColumns, rules: Rules, log: list[ReportEntry]
) -> list[tuple[int, list[JsonObject] | None]]:
    """Return the places of the events that no compaction replaced; of summaries, what is sent too.

    A summary stands at the place of the first event that it covers. A compaction covers only what
    was stored before it, and replaces an earlier one if it covers that event or everything that
    the earlier one covered. A provider's sealed compaction without text counts only for who can
    read it.
    """
    kinds = columns.kinds
    summaries = {place for place in order if kinds[place] & KIND_MASK == COMPACTION}
    covered = set[int]()  # numbers of events, as all that follows
    standing: dict[int, tuple[int, range, list[JsonObject]]] = {}  # with the place, of each summary
    for at, place in enumerate(order):
        if place not in summaries:
            continue
        seq, held = place + 1, rules.body(place + 1)
        has_blocks = any(part["type"] == "opaque" for part in held["parts"])
        is_readable = has_blocks and rules.reads(held)
        parts = _summary_parts(held, is_readable=is_readable)
        if has_blocks and not is_readable:
            did, rule = ("repaired", "twin") if parts else ("dropped", "sealed")
            log.append(_entry(seq, did, f"compaction.{rule}", _UNREAD))
        is_replacement = "replaced_by" in held.get("metadata", ())
        if not (parts or is_replacement):
            continue
        covers: JsonObject = held.get("covers") or {"first_seq": 1, "last_seq": 0}
        span = range(max(1, covers["first_seq"]), min(covers["last_seq"], seq - 1) + 1)
        names: Sequence[str] = covers.get("excluded_ids", ())
        ids = rules.seqs_by_id(span.start, span.stop - 1) if names else {}
        own = set(span) - {ids.get(name, 0) for name in names}
        if is_replacement:
            covered |= own
            for earlier in own & standing.keys():
                del standing[earlier]
            said = "What it covers was replaced by what was stored since."
            log.append(_entry(seq, "dropped", "reply.replaced", said))
            continue
        start = next((i for i, p in enumerate(order) if p + 1 in own), at)
        for earlier, (before, its_span, _) in list(standing.items()):
            is_within = bool(its_span) and its_span[0] in span and its_span[-1] in span
            if earlier in own or (is_within and earlier not in span):
                start = min(start, before)
                del standing[earlier]
        standing[seq] = start, span, parts
        covered |= own
        events = sorted(one for one in own if one - 1 not in summaries)
        log.append(_covers(seq, events, columns, held.get("made_by") or {}))
    active: list[tuple[int, list[JsonObject] | None]] = []
    for at, place in enumerate(order):
        active += [(seq - 1, parts) for seq, (start, _, parts) in standing.items() if start == at]
        if place not in summaries and place + 1 not in covered:
            active.append((place, None))
    return active


def _covers(
    seq: int, covered: Sequence[int], columns: StoredColumns, made_by: JsonObject
) -> ReportEntry:
    said = "It stands for nothing: the events that it covers are not there."
    if covered:
        tokens, plural = sum(columns.tokens[one - 1] for one in covered), "s" * (len(covered) > 1)
        named = f"{len(covered):,} event{plural}, {covered[0]} to {covered[-1]}"
        said = f"It stands for {named}, of {tokens:,} tokens."
    if (usage := made_by.get("usage")) is not None:
        spent = (f"{usage.get(f'{way}_tokens', 0):,} tokens {way}" for way in ("input", "output"))
        said += f" {made_by['model']} wrote it, with {' and '.join(spent)}."
    return _entry(seq, "kept", "compaction.covers", said)


# ---- lines as turns ----

# By kind of line: the turn's role, kind and origin, and the kind of lines that may join the turn.
_MADE: Final[Mapping[int, tuple[Any, Any, Any, int]]] = {
    USER: ("user", "said", "user", -1),
    ASSISTANT: ("assistant", "said", "model", TOOL_CALL),
    TOOL_CALL: ("assistant", "said", "model", TOOL_CALL),
    TOOL_RESULT: ("tool", "said", "tool", TOOL_RESULT),
    COMPACTION: ("user", "summary", "assembler", -1),
    SYSTEM: ("system", "said", "developer", -1),
    NOTE: ("system", "note", "developer", -1),
    SYNTHETIC: ("user", "synthetic", "assembler", -1),
}
_NO_BODY: Final[Body] = {"parts": []}


def turns_of(
    timeline: Timeline,
    lines: Iterable[int],
    bodies: Mapping[int, Body],
    shortened: Mapping[int, Sequence[JsonObject]],
) -> Iterator[Turn]:
    """Yield the turns of whole exchanges, in order.

    Args:
        bodies: By number, of every event of these lines.
        shortened: By line, parts that a cut left instead of the line's own.
    """
    special = timeline.parts.keys() | shortened.keys()
    turn: Turn | None = None
    calls: list[str] = []  # of the last reply
    joins = -1
    for line in lines:
        kind, seq = timeline.kinds[line], timeline.seqs[line]
        number, body = kind & KIND_MASK, bodies[seq] if seq else _NO_BODY
        is_result, parts = number == TOOL_RESULT, body["parts"]
        if line in special:
            parts = [*(shortened[line] if line in shortened else timeline.parts[line])]
        if turn is not None and number == joins:
            turn["parts"] = [*turn["parts"], *parts]
            if seq and is_result:
                turn["kind"] = "said"
        else:
            if turn is not None:
                yield _paired(turn, calls)
            if not is_result:
                calls = []
            role, made, origin, joins = _MADE[number]
            if is_result and not seq:
                made, origin = "synthetic", "assembler"
            note, origin = body.get("note"), body.get("origin", origin)
            if line in timeline.notes:
                note, origin = timeline.notes[line]
            turn = {
                "role": "user" if note == "continue" else role,
                "parts": parts,
                "kind": made,
                "note": note,
                "seq": seq,
                "id": str(seq) if seq else "",
                "origin": origin,
                "made_by": None if is_result else body.get("made_by"),
            }
        if kind & HAS_CALLS and not is_result:
            calls += [part["call_id"] for part in parts if part["type"] == "tool_call"]
        if kind & PINNED:
            turn["is_pinned"] = True
    if turn is not None:
        yield _paired(turn, calls)


def _paired(turn: Turn, calls: Sequence[str]) -> Turn:
    """Return a turn of results with one for each call, in the order of the calls; others as it is."""
    if turn["role"] == "tool" and [part["call_id"] for part in turn["parts"]] != calls:
        left, paired = [*turn["parts"]], list[JsonObject]()
        for name in calls:
            own = next((at for at, part in enumerate(left) if part["call_id"] == name), None)
            missing = repair.missing_result({"call_id": name, "name": ""})
            paired.append(missing if own is None else left.pop(own))
        turn["parts"] = paired
    return turn
