"""A session's events as lines: the active, repaired history in reading order, as columns.

A line is a stored event, or what the assembler puts between events: a clock note, a result in place
of a missing one, an opening turn. Most lines follow from the columns alone. Bodies are read only
where calls and results do not follow each other one by one, or an event holds something unusual.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from operator import is_, mul, or_
from typing import Any, Final, NamedTuple

from context_assembler.events import (
    ASSISTANT,
    COMPACTION,
    HAS_CALLS,
    KIND_MASK,
    NOTE,
    NOTE_NAMES,
    SIGNED,
    SYSTEM,
    TOOL_CALL,
    TOOL_RESULT,
    UNUSUAL,
    USER,
    Body,
    JsonObject,
)
from context_assembler.history.active import active_order, reading_order
from context_assembler.history.notes import CLOCK_NOTE, Clock
from context_assembler.history.repair import (
    CONTINUE,
    OPENING,
    Parts,
    bears_signature,
    distinct_ids,
    missing_result,
    repaired_parts,
    server_id,
    server_ids,
    settle_call,
    text_part,
    without_signature,
)
from context_assembler.ports import TOOLS_NOTE, StoredColumns
from context_assembler.report import Decision, ReportEntry

SYNTHETIC: Final = 7  # a user turn of the assembler's own making
_MOST_CALLS: Final = 14  # of one reply that are matched with their results by number alone

# One letter for each event: regular stretches of a session are recognised by them.
_USER, _REPLY, _SYSTEM, _SUMMARY = 1, 2, 3, 4
_CALLS, _RESULTS, _NOTE, _JOINING, _ODD = 0x10, 0x20, 0x40, 0x60, 0x80
_CLOCK: Final = _NOTE | NOTE_NAMES.index("clock")
_CONTINUE: Final = _NOTE | NOTE_NAMES.index("continue")
_TOOLS: Final = NOTE_NAMES.index(TOOLS_NOTE)
_BY_KIND: Final = {
    USER: _USER,
    ASSISTANT: _REPLY,
    TOOL_CALL: _JOINING,
    TOOL_RESULT: _RESULTS,
    COMPACTION: _SUMMARY,
    SYSTEM: _SYSTEM,
    NOTE: _NOTE,
}


def _letter(kind: int) -> int:
    if kind & UNUSUAL:
        return _ODD
    if kind & (KIND_MASK | HAS_CALLS) == ASSISTANT | HAS_CALLS:
        return _CALLS
    return _BY_KIND.get(kind & KIND_MASK, _ODD)


def _exchanges() -> Iterator[bytes]:
    for calls in range(1, _MOST_CALLS + 1):
        yield re.escape(bytes([_CALLS | calls] + [_RESULTS | 1] * calls))
        yield re.escape(bytes([_CALLS | calls, _RESULTS | calls]))


_LETTERS: Final = bytes(map(_letter, range(256)))
_NUMBERS: Final = bytes(kind & KIND_MASK for kind in range(256))
_FEW: Final = bytes(min(mark, 15) for mark in range(256))
_IS_USER: Final = bytes(letter == _USER for letter in range(256))
_IS_CALLS: Final = bytes(letter & 0xF0 == _CALLS for letter in range(256))
_IS_REPLY: Final = bytes(kind & KIND_MASK in (ASSISTANT, TOOL_CALL) for kind in range(256))
_IS_SIGNED: Final = bytes(bool(kind & SIGNED) for kind in range(256))
_BEHIND: Final = frozenset({_SYSTEM, *range(_NOTE, _NOTE + 16)} - {_CONTINUE})
_REPLIES: Final = frozenset({_REPLY, *range(_CALLS, _CALLS + 16)})
_PARALLEL_IS_ODD: Final = bytes(
    _ODD if letter & 0xF0 in (_CALLS, _RESULTS) and letter & 15 > 1 else letter
    for letter in range(256)
)
_REGULAR: Final = re.compile(
    rb"(?:[\x01-\x04\x40-\x4f]|" + b"|".join(_exchanges()) + rb")*", re.DOTALL
)


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
        tools_after_seq: Notes about changed tools up to this event are not sent.
        provider: Who the request goes to; `None`: anyone.
        accepts_prefill: Whether the history may end on the assistant.
        takes_lead: Whether leading system events are the session's own system prompt.
    """

    body: Callable[[int], Body]
    measure: Callable[[int, Body], int]
    seqs_by_id: Callable[[int, int], dict[str, int]]
    factor: Callable[[int], float] | None = None
    objection: Callable[[int], str | None] = lambda seq: None
    reads: Callable[[Body], bool] = lambda body: False
    form: Callable[[int, int, Parts], Parts] | None = None
    candidates: Callable[[Sequence[int], Sequence[int], Sequence[int]], Sequence[int]] | None = None
    quotes: Callable[[JsonObject], int] | None = None
    clock: Clock | None = None
    tools_after_seq: int = 0
    provider: str | None = None
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
    note: tuple[str, str] | None = None


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
        lead: The events that are the session's own system prompt.
        began_at: POSIX time of the first event that has one; 0.0: none has.
        has_opened: Whether anything is said: more than instructions and notes.
        calls: How many calls the active events hold.
        log: An entry for every repair; its id is the number of the event.
    """

    def __init__(self, rules: Rules) -> None:
        """Begin without events."""
        self.rules = rules
        self.kinds, self.tokens, self.seqs = bytearray(), array("I"), array("I")
        self.parts: dict[int, Parts] = {}
        self.notes: dict[int, tuple[str, str]] = {}
        self.note_lines: list[int] = []
        self.tool_notes: list[int] = []
        self.is_closed = False
        self.settled = 0
        self.lead: tuple[int, ...] = ()
        self.began_at = 0.0
        self.log: list[ReportEntry] = []
        self.is_late = False
        self.calls = 0
        self._seen = self._high = 0  # events of the session; their latest position when read
        # Columns of the active events, in reading order.
        self._letters, self._event_kinds = bytearray(), bytearray()
        self._event_seqs, self._event_tokens, self._created = array("I"), array("I"), array("d")
        self._links = array("H")
        self._own: dict[int, Parts] = {}  # by event, what is sent instead of its parts
        self._taken = 0  # events that became lines
        self._missing: dict[str, list[int]] = {}  # by call, the lines of results made up for it
        self._orphans: dict[str, list[tuple[int, JsonObject]]] = {}
        self._moved: set[tuple[int, str]] = set()  # results that were taken before their neighbours
        self.has_opened = False
        self._clock_at: float | None = None
        self._before_tail: tuple[Any, ...] = ()

    # ---- events in ----

    def extend(self, columns: StoredColumns) -> None:
        """Take the columns of events that were appended to the session."""
        first, kinds = self._seen, bytes(columns.kinds)
        order, self._high = reading_order(columns.answers, first=first, high=self._high)
        has_summary = COMPACTION in kinds.translate(_NUMBERS)
        if first and (order is not None or has_summary):
            self.is_late = True
            return
        self._seen += len(kinds)
        if not first:
            order = self._begin(order, columns, has_summary=has_summary)
        marks, seqs = bytes(columns.marks), array("I", range(first + 1, self._seen + 1))
        tokens, created, reasoning = columns.tokens, columns.created, columns.reasoning
        links = columns.links
        if isinstance(order, range):
            at = order.start
            kinds, marks, seqs = kinds[at:], marks[at:], seqs[at:]
            tokens, created, reasoning = tokens[at:], created[at:], reasoning[at:]
            links = links[at:]
        elif order is not None:
            kinds, marks = (bytes(map(one.__getitem__, order)) for one in (kinds, marks))
            created = array("d", map(created.__getitem__, order))
            tokens, reasoning, seqs = (
                array("I", map(one.__getitem__, order)) for one in (tokens, reasoning, seqs)
            )
            links = array("H", map(links.__getitem__, order))
        at = len(self._letters)
        self._event_kinds += kinds
        self._event_seqs += seqs
        self._event_tokens += tokens
        self._created += created
        self._links += links
        self._letters += bytes(map(or_, kinds.translate(_LETTERS), marks.translate(_FEW)))
        for place in compress(range(at, at + len(kinds)), kinds.translate(_IS_SIGNED)):
            if self.rules.objection(self._event_seqs[place]) is None:
                self._event_tokens[place] += reasoning[place - at]
            else:
                self._letters[place] = _ODD
        if self.rules.quotes is not None:
            self._letters = self._letters.translate(_PARALLEL_IS_ODD)
        if NOTE in (numbers := kinds.translate(_NUMBERS)):
            self.tool_notes += [
                seq
                for seq, number, mark in zip(seqs, numbers, marks, strict=True)
                if number == NOTE and mark == _TOOLS
            ]
        self.calls += sum(map(mul, kinds.translate(_IS_REPLY), marks))
        self._correct(at)
        if not self.began_at:
            self.began_at = next(filter(None, created), 0.0)
        self._take()

    def _begin(
        self, order: Sequence[int] | None, columns: StoredColumns, *, has_summary: bool
    ) -> Sequence[int] | None:
        """Take out the session's own system prompt, and what summaries replace."""
        rules, kinds = self.rules, columns.kinds
        ordered: Sequence[int] = range(len(kinds)) if order is None else order
        lead = 0
        while rules.takes_lead and lead < len(ordered):
            place = ordered[lead]
            if kinds[place] & KIND_MASK != SYSTEM or any(
                part["type"] != "text" for part in rules.body(place + 1)["parts"]
            ):
                break
            lead += 1
        self.lead = tuple(place + 1 for place in ordered[:lead])
        if not has_summary:
            return ordered[lead:] if lead else order
        active = active_order(
            ordered[lead:],
            kinds,
            columns.tokens,
            body=rules.body,
            reads=rules.reads,
            seqs_by_id=rules.seqs_by_id,
            log=self.log,
        )
        self._own = {at: parts for at, (_, parts) in enumerate(active) if parts is not None}
        return [place for place, _ in active]

    def _correct(self, at: int) -> None:
        """Count what is sent otherwise than it is stored, and correct the counts by usage."""
        rules, tokens = self.rules, self._event_tokens
        for place in self._own if not at else ():
            self._letters[place] = _SUMMARY
        changed = set(self._own) if not at else set[int]()
        if rules.candidates is not None:
            columns = self._event_seqs[at:], self._event_kinds[at:], tokens[at:]
            found = rules.candidates(*columns)
            changed.update(at + one for one in found if self._letters[at + one] < _ODD)
        for place in changed:
            seq, kind = self._event_seqs[place], self._event_kinds[place]
            stored = rules.body(seq)["parts"]
            parts = self._formed(seq, kind, self._own.get(place, stored))
            if parts is not stored:
                self._own[place] = parts
                tokens[place] = rules.measure(kind, {**rules.body(seq), "parts": parts})
        if rules.factor is not None:
            for place in range(at, len(tokens)):
                tokens[place] = scaled(tokens[place], rules.factor(self._event_seqs[place]))

    def _formed(self, seq: int, kind: int, parts: Parts) -> Parts:
        return parts if self.rules.form is None else self.rules.form(seq, kind, parts)

    # ---- lines out ----

    def _take(self, *, is_closing: bool = False) -> None:
        """Turn events into lines, as far as nothing that follows can belong to them."""
        letters, at = self._letters, self._taken
        end = len(letters)
        while at < end:
            match = _REGULAR.match(letters, at)
            stop = self._linked(at, match.end() if match is not None else at)
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
            self._taken = at
            self.settled = len(self.kinds)

    def _linked(self, at: int, stop: int) -> int:
        """Return where the first reply stands whose results are not those of its calls."""
        letters, links = self._letters, self._links
        for call in compress(range(at, stop), letters[at:stop].translate(_IS_CALLS)):
            link, behind = links[call], call + 1
            if links[behind] == link:
                if letters[behind] & 15 == letters[call] & 15:
                    continue
            while behind < stop and letters[behind] & 0xF0 == _RESULTS:
                link ^= links[behind]
                behind += 1
            if link:
                letters[call] = _ODD
                return call
        return stop

    def _take_regular(self, at: int, stop: int, *, is_closing: bool) -> int:
        """Take events as they are, with clock notes between them; return where one has to wait."""
        clock, letters, created = self.rules.clock, self._letters, self._created
        users = compress(range(at, stop), letters[at:stop].translate(_IS_USER))
        looks = 0 if _CLOCK in letters[at:stop] else 2
        for user in users if clock is not None else ():
            if looks and self._clock_at is not None:  # none may be due in all that follows
                looks -= 1
                if clock.is_quiet(created[user:stop], last=self._clock_at):
                    break
            if letters[user + 1 : user + 2] and letters[user + 1] not in _BEHIND:
                if not clock.is_due(created[user], last=self._clock_at):
                    continue  # as after most messages
            is_due, waits = self._clock_due(user)
            if is_due and waits and not is_closing:
                self._take_bulk(at, user)
                self._take_results(user)
                return user
            if is_due:
                self._take_bulk(at, user + 1)
                at = user + 1
                self._put_clock(user)
        self._take_bulk(at, stop)
        return stop

    def _clock_due(self, user: int) -> tuple[bool, bool]:
        """Return whether a clock note belongs after an event, and if one may yet be stored there."""
        clock, letters = self.rules.clock, self._letters
        moment = clock.moment(self._created[user]) if clock is not None else None
        if clock is None or moment is None:
            return False, False
        behind = user + 1
        while behind < len(letters) and (
            letters[behind] in _BEHIND or self._number(behind) == TOOL_RESULT
        ):  # a result stands behind its call in the end
            if letters[behind] == _CLOCK:
                self._clock_at = moment
                return False, False
            behind += 1
        return clock.is_due(moment, last=self._clock_at), behind == len(letters)

    def _number(self, place: int) -> int:
        """Return the kind of an event without its flags."""
        return self._event_kinds[place] & KIND_MASK

    def _put_clock(self, user: int) -> None:
        assert self.rules.clock is not None
        self._clock_at = self._created[user]
        parts = [text_part(self.rules.clock.text(self._created[user]))]
        self.put_note(CLOCK_NOTE, "assembler", parts)

    def put_note(self, name: str, origin: str, parts: Parts) -> None:
        """Append a note that no event holds."""
        body = {"parts": parts, "note": name, "origin": origin}
        tokens = self._scaled(0, self.rules.measure(NOTE, body))
        self._put(Line(NOTE, tokens, parts=parts, note=(name, origin)))

    def _take_bulk(self, at: int, stop: int) -> None:
        if at >= stop:
            return
        if not self.has_opened:
            spoken = next(
                (one for one in range(at, stop) if self._letters[one] not in _BEHIND), None
            )
            if spoken is not None:
                self._open(spoken, is_reply=self._letters[spoken] in _REPLIES)
        base, kinds = len(self.kinds), self._event_kinds[at:stop]
        self.kinds += kinds
        self.tokens += self._event_tokens[at:stop]
        self.seqs += self._event_seqs[at:stop]
        for place in self._own:
            if at <= place < stop:
                self.parts[base + place - at] = self._own[place]
        numbers = kinds.translate(_NUMBERS)
        if NOTE in numbers:
            self.note_lines += [base + i for i, number in enumerate(numbers) if number == NOTE]

    def _open(self, place: int, *, is_reply: bool) -> None:
        """Put a minimal turn of the user before a history that begins with the assistant."""
        self.has_opened = True
        if is_reply:
            parts = [text_part(OPENING)]
            before = self._cut_off(0)
            tokens = self._scaled(0, self.rules.measure(USER, {"parts": parts}))
            self._put(Line(SYNTHETIC, tokens, parts=parts))
            for line in before:
                self._put(line)
            reason = "The history began with the assistant; a minimal user turn was put in front."
            self._note(place, "repaired", "repair.first_user", reason)

    def _put(self, line: Line) -> int:
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
        return at

    def _cut_off(self, first: int) -> list[Line]:
        """Take the last lines off again, and return them."""
        self.is_late |= first < self.settled
        lines = [
            Line(*row, self.parts.pop(at, None), self.notes.pop(at, None))
            for at, row in enumerate(
                zip(self.kinds[first:], self.tokens[first:], self.seqs[first:], strict=True), first
            )
        ]
        del self.kinds[first:], self.tokens[first:], self.seqs[first:]
        while self.note_lines and self.note_lines[-1] >= first:
            self.note_lines.pop()
        return lines

    def _scaled(self, seq: int, tokens: int) -> int:
        return tokens if self.rules.factor is None else scaled(tokens, self.rules.factor(seq))

    def _note(
        self, place: int, decision: Decision, rule: str, reason: str = "", parts: int = 0
    ) -> None:
        seq = str(self._event_seqs[place])
        self.log.append(ReportEntry("message", seq, decision, parts, 0, reason, rule))

    # ---- events that are not as most are ----

    def _take_odd(self, at: int, *, is_closing: bool) -> int:
        """Take an event by its body; return the place behind it, its own if it has to wait."""
        kind, seq = self._event_kinds[at], self._event_seqs[at]
        number = kind & KIND_MASK
        if number in (ASSISTANT, TOOL_CALL):
            return self._take_reply(at, is_closing=is_closing)
        if number == NOTE and seq <= self.rules.tools_after_seq:
            if self.rules.body(seq).get("note") == TOOLS_NOTE:
                return at + 1  # what it tells of is declared by now
        logged = len(self.log)
        parts, results = self._parts_of(at)
        is_due, waits = self._clock_due(at) if number == USER and parts else (False, False)
        if is_due and waits and not is_closing:
            del self.log[logged:]
            self._take_results(at)
            return at
        for result in results:
            if (at, result["call_id"]) not in self._moved:
                self._take_loose(at, result, is_closing=is_closing)
        if number != TOOL_RESULT and parts:
            if not self.has_opened and number not in (SYSTEM, NOTE):
                self._open(at, is_reply=False)
            self._put(self._line(at, kind, parts))
        if is_due:
            self._put_clock(at)
        return at + 1

    def _line(self, place: int, kind: int, parts: Parts) -> Line:
        """Return the line of an event whose body was read."""
        seq = self._event_seqs[place]
        body = self.rules.body(seq)
        stored, formed = body["parts"], self._formed(seq, kind, parts)
        if len(formed) == len(stored) and all(map(is_, formed, stored)):
            return Line(kind, self._event_tokens[place], seq)
        tokens = self._scaled(seq, self.rules.measure(kind, {**body, "parts": formed}))
        return Line(kind, tokens, seq, formed)

    def _parts_of(self, at: int) -> tuple[Parts, Parts]:
        """Return the parts of an event that can be sent, and the results among them apart."""
        kind, seq = self._event_kinds[at], self._event_seqs[at]
        number, parts = kind & KIND_MASK, self.rules.body(seq)["parts"]

        def log(decision: Decision, rule: str, reason: str) -> None:
            self._note(at, decision, f"repair.{rule}", reason)

        results: Parts = ()
        if kind & UNUSUAL:
            parts = repaired_parts(number, parts, log)
            results = [part for part in parts if part["type"] == "tool_result"]
            if results and number != TOOL_RESULT:
                parts = [part for part in parts if part["type"] != "tool_result"]
        elif number == TOOL_RESULT:
            results = parts
        if number in (ASSISTANT, TOOL_CALL):
            parts = self._without_reasoning(at, parts)
        return parts, results

    def _without_reasoning(self, at: int, parts: Parts) -> Parts:
        """Leave out reasoning that is not signed, or whose signature cannot be sent here."""
        kind, seq = self._event_kinds[at], self._event_seqs[at]
        objection = self.rules.objection(seq) if kind & (SIGNED | UNUSUAL) else None
        lost: dict[str, int] = {}
        kept: list[JsonObject] = []
        for part in parts:
            if part["type"] == "thinking":
                reason = objection if part.get("block") is not None else "unsigned"
                if reason is not None:
                    lost[reason] = lost.get(reason, 0) + 1
                    continue
            elif objection is not None and bears_signature(part):
                self._note(at, "cleared", f"signature.{objection}", parts=1)
                part = without_signature(part)
            kept.append(part)
        for reason, number in lost.items():
            self._note(at, "cleared", f"reasoning.{reason}", parts=number)
        if parts and not kept:
            reason = "Nothing was left of the message without its reasoning."
            self._note(at, "dropped", "reasoning.empty", reason)
        is_same = len(kept) == len(parts) and all(map(is_, kept, parts))
        return parts if is_same else kept

    def _take_reply(self, at: int, *, is_closing: bool) -> int:
        """Take a reply with the calls that joined it and the results behind it."""
        logged, end = len(self.log), len(self._letters)
        if self._event_kinds[at] & KIND_MASK == TOOL_CALL and self._joins_settled(at):
            self.is_late = True
        members, results, stop = (
            [(at, self._parts_of(at)[0])],
            list[tuple[int, JsonObject]](),
            at + 1,
        )
        while stop < end:
            number = self._event_kinds[stop] & KIND_MASK
            if number == TOOL_RESULT:
                results += [(stop, part) for part in self._parts_of(stop)[1]]
            elif number == TOOL_CALL and self._is_joined(members, stop, is_answered=bool(results)):
                members.append((stop, self._parts_of(stop)[0]))
            else:
                break
            stop += 1
        waits = self._pair_server_calls(members, stop, is_closing=is_closing)
        calls = [part for _, parts in members for part in parts if part["type"] == "tool_call"]
        answers, left_over = _match(calls, results)
        is_open = stop == end and not is_closing and (waits or not calls or None in answers)
        if is_open:
            del self.log[logged:]
        for place, part in left_over:
            key = place, part["call_id"]
            if key not in self._moved and (not is_open or part["call_id"] in self._missing):
                self._moved.add(key)
                self._take_loose(place, part, is_closing=is_closing)
        if is_open:
            return at
        self._put_exchange(members, calls, answers)
        return stop

    def _joins_settled(self, at: int) -> bool:
        """Whether a call belongs to a reply whose results were taken before it."""
        before = at - 1
        while before >= 0 and self._event_kinds[before] & KIND_MASK == TOOL_RESULT:
            before -= 1
        if before < 0 or before == at - 1:
            return False
        is_reply = self._event_kinds[before] & KIND_MASK in (ASSISTANT, TOOL_CALL)
        return is_reply and self._is_joined([(before, ())], at, is_answered=True)

    def _is_joined(
        self, members: Sequence[tuple[int, Parts]], at: int, *, is_answered: bool
    ) -> bool:
        """Whether a call belongs to the reply before it.

        Behind results it is the next step of the model, which could see them, unless both are known
        to come from one response.
        """
        made = [self.rules.body(self._event_seqs[place]).get("made_by") for place, _ in members]
        before = next(filter(None, made), None)
        made_by = self.rules.body(self._event_seqs[at]).get("made_by")
        if before is None or made_by is None:
            return not is_answered
        ids = before.get("response_id"), made_by.get("response_id")
        if is_answered or all(ids):
            return ids[1] is not None and ids[0] == ids[1]
        return (before["provider"], before["model"]) == (made_by["provider"], made_by["model"])

    def _pair_server_calls(
        self, members: list[tuple[int, Parts]], stop: int, *, is_closing: bool
    ) -> bool:
        """Leave out a provider's own calls that nobody answered, and answers without a call.

        The next reply may answer: a turn that paused goes on there. At the end of the history the
        provider asked goes on from its own calls. Returns whether that is still open.
        """
        said = [part for _, parts in members for part in parts]
        asked, answered = server_ids(said)
        if not asked and not answered:
            return False
        expected = self._asked_before(members[0][0])
        unanswered, waits = asked - answered, False
        if unanswered:
            if stop == len(self._letters):
                waits = True
                if is_closing:
                    unanswered -= server_ids(said, provider=self.rules.provider)[0]
                else:
                    unanswered = set()
            elif self._event_kinds[stop] & KIND_MASK == ASSISTANT:
                body = self.rules.body(self._event_seqs[stop])
                unanswered -= server_ids(body["parts"])[1]
        loose = unanswered | (answered - asked - expected)
        for at, (place, parts) in enumerate(members):
            kept = [part for part in parts if server_id(part) not in loose]
            if len(kept) < len(parts):
                reason = (
                    "A call that a provider runs itself had no result, or a result had no call."
                )
                self._note(place, "repaired" if kept else "dropped", "repair.server_call", reason)
                members[at] = place, kept
        return waits

    def _asked_before(self, at: int) -> set[str]:
        """Return the server calls of the reply before this one that it left open."""
        before = at - 1
        while before >= 0 and self._event_kinds[before] & KIND_MASK == TOOL_RESULT:
            before -= 1
        if before < 0 or self._event_kinds[before] & KIND_MASK != ASSISTANT:
            return set()
        asked, answered = server_ids(self.rules.body(self._event_seqs[before])["parts"])
        return asked - answered

    def _put_exchange(
        self,
        members: Sequence[tuple[int, Parts]],
        calls: Parts,
        answers: Sequence[tuple[int, JsonObject] | None],
    ) -> None:
        """Put a reply and one result for each of its calls, in their order."""
        first = members[0][0]

        def log(decision: Decision, rule: str, reason: str) -> None:
            self._note(first, decision, f"repair.{rule}", reason)

        changed: list[JsonObject] = []
        results: list[Line] = []
        missing: list[tuple[str, int]] = []
        ids = distinct_ids(calls, log)
        for call, call_id, answer in zip(calls, ids, answers, strict=True):
            name, orphans = call["call_id"], self._orphans.get(call["call_id"])
            if answer is None and orphans:
                answer = orphans.pop(0)
                log("repaired", "moved_result", _MOVED)
            if name != call_id:
                call = {**call, "call_id": call_id}
            if answer is None:
                reason = (
                    f"The call {name!r} ({call['name']}) has no result; an error stands in for it."
                )
                log("repaired", "missing_result", reason)
                missing.append((name, len(results)))
            result = missing_result(call) if answer is None else answer[1]
            if name != call_id and answer is not None:
                result = {**result, "call_id": call_id}
            call, result = settle_call(call, result, log)
            changed.append(call)
            results.append(self._result_line(None if answer is None else answer[0], result))
        places = [answer[0] for answer in answers if answer is not None]
        if places != sorted(places):
            reason = "The results of one set of calls were put together, in the order of the calls."
            log("repaired", "grouped_results", reason)
        said, number = iter(changed), ASSISTANT
        for place, parts in members:
            if not all(map(is_, calls, changed)):
                parts = [next(said) if part["type"] == "tool_call" else part for part in parts]
            if parts:
                if not self.has_opened:
                    self._open(place, is_reply=True)
                flags = self._event_kinds[place] & ~KIND_MASK
                self._put(self._line(place, flags | number, parts))
                number = TOOL_CALL
        for name, at in missing:
            self._missing.setdefault(name, []).append(len(self.kinds) + at)
        for line in results:
            if self.rules.quotes is not None and len(results) > 1:
                more = sum(map(self.rules.quotes, line.parts or self.rules.body(line.seq)["parts"]))
                line = line._replace(tokens=line.tokens + self._scaled(line.seq, more))
            self._put(line)

    def _result_line(self, place: int | None, result: JsonObject) -> Line:
        """Return the line of one result; `None`: no event holds it."""
        if place is None:
            tokens = self._scaled(0, self.rules.measure(TOOL_RESULT, {"parts": [result]}))
            return Line(TOOL_RESULT, tokens, parts=[result])
        flags = self._event_kinds[place] & ~KIND_MASK
        return self._line(place, flags | TOOL_RESULT, [result])

    def _take_loose(self, place: int, result: JsonObject, *, is_closing: bool) -> None:
        """Give a result to an earlier call that got none, or keep it for a later call."""
        missing = self._missing.get(result["call_id"])
        if not missing or is_closing:
            self._orphans.setdefault(result["call_id"], []).append((place, result))
            return
        at = missing.pop(0)
        result = {**result, "call_id": self.parts.pop(at)[0]["call_id"]}
        line = self._result_line(place, result)
        self.kinds[at], self.tokens[at], self.seqs[at] = line.kind, line.tokens, line.seq
        if line.parts is not None:
            self.parts[at] = line.parts
        self.is_late |= at < self.settled
        self._note(place, "repaired", "repair.moved_result", _MOVED)

    def _take_results(self, first: int) -> None:
        """Give the results behind a message that has to wait to earlier calls that got none."""
        for place in range(first + 1, len(self._letters)):
            for result in self._parts_of(place)[1] if self._number(place) == TOOL_RESULT else ():
                key = place, result["call_id"]
                if key not in self._moved and result["call_id"] in self._missing:
                    self._moved.add(key)
                    self._take_loose(place, result, is_closing=False)

    def orphans(self) -> list[ReportEntry]:
        """Return an entry for each result that no call asked for, or that came twice."""
        left = sorted((place, one["call_id"]) for of in self._orphans.values() for place, one in of)
        return [
            ReportEntry(
                "message",
                str(self._event_seqs[place]),
                "dropped",
                reason=f"The result was left out: its call {call_id!r} does not exist, or has one.",
                rule="repair.orphan_result",
            )
            for place, call_id in left
        ]

    # ---- the end of the history, as one call sends it ----

    def close(self) -> None:
        """Add the lines that the history ends with until more is said; `reopen` takes them off."""
        copies = (
            {key: [*held] for key, held in of.items()} for of in (self._missing, self._orphans)
        )
        self.is_closed = True
        self._before_tail = (
            self._clock_at,
            self.has_opened,
            len(self.log),
            {*self._moved},
            *copies,
        )
        if self._taken < len(self._letters):
            self._take(is_closing=True)
        last = self._last_spoken()
        if last is not None and self._is_reply(last) and not self._goes_on(last):
            self.put_note("continue", "assembler", [text_part(CONTINUE)])
            reason = "The model refuses a history that ends on such a reply; a user turn was added."
            self.log.append(
                ReportEntry(
                    "message", str(self.seqs[last]), "repaired", 0, 0, reason, "repair.prefill"
                )
            )

    def reopen(self) -> None:
        """Take off again what `close` added."""
        is_late, self.is_closed = self.is_late, False
        self._cut_off(self.settled)
        self.is_late = is_late
        self._clock_at, self.has_opened, logged, self._moved, *copies = self._before_tail
        self._missing, self._orphans = copies
        del self.log[logged:]

    def insert_notes(self, notes: Iterable[tuple[str, str, Parts]]) -> None:
        """Put notes (name, origin, parts) behind the last turn of the user or of tools."""
        end = at = len(self.kinds)
        while at and self._is_reply(at - 1):
            at -= 1
        while at and not self._ends_turn(at - 1):
            at -= 1
        while at and at < end and self._is_aside(at):
            at += 1
        before = self._cut_off(at or end)
        for name, origin, parts in notes:
            self.put_note(name, origin, parts)
        for line in before:
            self._put(line)

    def note_at(self, line: int) -> tuple[str, str]:
        """Return name and text of the note at a line."""
        if line in self.notes:
            return self.notes[line][0], self.parts[line][0].get("text", "")
        body = self.rules.body(self.seqs[line])
        texts = (part["text"] for part in body["parts"] if part["type"] == "text")
        return body.get("note", ""), "\n".join(texts)

    def parts_at(self, line: int) -> Parts:
        """Return the parts of a line."""
        own = self.parts.get(line)
        return self.rules.body(self.seqs[line])["parts"] if own is None else own

    def _is_aside(self, line: int) -> bool:
        """Whether the line is an instruction or a note, and not said by anybody."""
        number = self.kinds[line] & KIND_MASK
        return number == SYSTEM or (number == NOTE and self.note_at(line)[0] != "continue")

    def _last_spoken(self) -> int | None:
        backwards = range(len(self.kinds) - 1, -1, -1)
        return next((line for line in backwards if not self._is_aside(line)), None)

    def _is_reply(self, line: int) -> bool:
        """Whether the line is sent as the assistant's, as a provider's own compaction is."""
        number = self.kinds[line] & KIND_MASK
        if number == COMPACTION:
            return any(part["type"] == "opaque" for part in self.parts_at(line))
        return number in (ASSISTANT, TOOL_CALL)

    def _ends_turn(self, line: int) -> bool:
        return not self._is_aside(line) and self.kinds[line] & KIND_MASK not in (
            ASSISTANT,
            TOOL_CALL,
        )

    def _goes_on(self, last: int) -> bool:
        """Whether the model goes on from a reply at the end of the history.

        A reply with signed reasoning is nothing to go on from: a model that may not think just then
        refuses it. https://github.com/tailcallhq/forgecode/issues/1853 (read 2026-11-27)
        """
        rules, said = self.rules, list[JsonObject]()
        at = last
        while at >= 0 and (self._is_reply(at) or self._is_aside(at)):
            said += self.parts_at(at) if self._is_reply(at) else ()
            at -= 1
        asked, answered = server_ids(self.parts_at(last), provider=rules.provider)
        if asked - answered:
            return True
        return rules.accepts_prefill and not any(
            part["type"] == "thinking"
            and part.get("block") is not None
            and rules.provider in (None, part.get("provider"))
            for part in said
        )


_MOVED: Final = "Tool results stood apart from their calls; they were moved right behind them."


def scaled(tokens: int, factor: float) -> int:
    """Return a corrected count, rounded up: in thousandths, as factors are kept."""
    return -(-tokens * round(factor * 1_000) // 1_000)


def _match(
    calls: Parts, results: Sequence[tuple[int, JsonObject]]
) -> tuple[list[tuple[int, JsonObject] | None], list[tuple[int, JsonObject]]]:
    """Return the result of each call, and the results that are left over."""
    waiting: dict[str, list[int]] = {}
    for number, call in enumerate(calls):
        waiting.setdefault(call["call_id"], []).append(number)
    answers: list[tuple[int, JsonObject] | None] = [None] * len(calls)
    left_over: list[tuple[int, JsonObject]] = []
    for place, result in results:
        if queue := waiting.get(result["call_id"]):
            answers[queue.pop(0)] = place, result
        else:
            left_over.append((place, result))
    return answers, left_over
