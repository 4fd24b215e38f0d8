"""The part of a history that no later event can change."""

from collections.abc import Hashable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from context_assembler.history.parting import ends_due, follow, ids_in, may_begin, places_to_part
from context_assembler.history.steps import BEFORE, History, HistoryWay, Worked, work_out
from context_assembler.values.changing import changed
from context_assembler.values.events import SessionEvent
from context_assembler.values.messages import Message
from context_assembler.values.tool_changes import is_change

MAX_OPEN_EVENTS: Final = 0
_MAX_WAYS: Final = 4  # per session: models, protocols and ways of telling tools in turn
_MOST_EARLIER: Final = 2
_EVENTS_APART: Final = 12  # what is read before the end is usually read just before it
_KEY: Final = "history"
_NOTING: Final = Lock()  # of two threads that settle one session, both are heard


@dataclass(frozen=True, kw_only=True)
class _Settled:
    """The settled part of a session, worked out in one way.

    Attributes:
        event_count: How many events it is made from; `last_event` is the last of them.
        seq_by_call_id: The number of the message that an id of a call or a result first stood in.
        unclear: Those of ids whose calls and results do not follow each other one by one.
        change_seqs: The numbers of its notes of tool changes, left out or not.
        known_messages: Those of the last step that may come again, to be the same objects then.
        lineage: One object for all that grew from one beginning.
        leaves_open: Whether a private key that was masked at its end may go on behind it.
        earlier: Shorter ones that this grew from, the newest last, to go back to.
    """

    way: HistoryWay
    history: History = field(default_factory=History)
    event_count: int = 0
    last_event: SessionEvent | None = None
    seq_by_call_id: dict[str, int] = field(default_factory=dict[str, int])
    unclear: dict[str, int] = field(default_factory=dict[str, int])
    change_seqs: tuple[int, ...] = ()
    known_messages: tuple[Message, ...] = ()
    lineage: object = field(default_factory=object)
    leaves_open: bool = False
    earlier: tuple["_Settled", ...] = ()

    @property
    def last_seq(self) -> int:
        return 0 if self.last_event is None else self.last_event.seq

    def would_be_the_same(self, way: HistoryWay) -> bool:
        """Whether another way makes the same of these events."""
        mine = self.way
        return (
            (mine.reader is way.reader or mine.reader == way.reader)
            and mine.masker is way.masker
            and mine.caps == way.caps
            and self._left_out(mine) == self._left_out(way)
        )

    def goes_before(self, events: Sequence[SessionEvent]) -> bool:
        """Whether this was worked out from the very events that these begin with."""
        if not self.event_count:
            return True
        return self.event_count <= len(events) and events[self.event_count - 1] is self.last_event

    def is_left_alone_by(self, events: Sequence[SessionEvent]) -> bool:
        """Whether none of the events that follow is read before it, joins it or covers it."""
        if not self.event_count:
            return True
        return follow(events, after_seq=self.last_seq) and may_begin(events)

    def is_paired_without(self, messages: Sequence[Message]) -> bool:
        """Whether no result that follows can belong to a call in it, and none in it to a later call."""
        first_is_call: dict[str, bool] = {}
        for _, call_id, is_call in ids_in(messages):
            first_is_call.setdefault(call_id, is_call)
        return not any(
            self._has(call_id, self.unclear)
            or (not is_call and self._has(call_id, self.seq_by_call_id))
            for call_id, is_call in first_is_call.items()
        )

    def extended(self, events: Sequence[SessionEvent], worked: Worked) -> "_Settled":
        """Return the settled part with more events, of which this was made."""
        self._note_ids(worked.messages)
        grown = self.history.followed_by(worked.history) if self.event_count else worked.history
        return changed(
            self,
            history=grown,
            event_count=self.event_count + len(events),
            last_event=events[-1],
            change_seqs=(*self.change_seqs, *(m.seq for m in worked.messages if is_change(m))),
            leaves_open=worked.leaves_open,
            earlier=self._with_this_among_earlier(),
        )

    def _note_ids(self, messages: Sequence[Message]) -> None:
        waiting: dict[str, int] = {}
        for seq, call_id, is_call in ids_in(messages):
            _note_first(self.seq_by_call_id, call_id, seq)
            if is_call is (call_id in waiting):
                _note_first(self.unclear, call_id, seq)
            elif is_call:
                waiting[call_id] = seq
            else:
                del waiting[call_id]
        for call_id, seq in waiting.items():
            _note_first(self.unclear, call_id, seq)

    def places_to_start(self) -> Iterator["_Settled"]:
        """Yield what a history can go on from, the longest first; the last one is empty."""
        yield self
        for place in range(len(self.earlier) - 1, -1, -1):
            before = self.earlier[place]
            count = len(before.history.messages)
            known = (*self.history.messages[count:], *self.known_messages)
            yield changed(
                before,
                way=self.way,
                known_messages=known,
                lineage=object(),
                earlier=self.earlier[:place],
            )
        yield self.started_over()

    def started_over(self) -> "_Settled":
        """Return a settled part with nothing in it."""
        known = (*self.history.messages, *self.known_messages)
        return _Settled(way=self.way, known_messages=known)

    def _with_this_among_earlier(self) -> tuple["_Settled", ...]:
        last = self.earlier[-1].event_count if self.earlier else 0
        if self.event_count < last + _EVENTS_APART:
            return self.earlier
        shorter = changed(self, known_messages=(), earlier=())
        return (*self.earlier[1 - _MOST_EARLIER :], shorter)

    def _left_out(self, way: HistoryWay) -> list[int]:
        return [seq for seq in self.change_seqs if seq <= way.tools.plan.after_seq]

    def _has(self, call_id: str, seq_by_call_id: Mapping[str, int]) -> bool:
        # The mappings are shared with every later state of the session, which may know more.
        return seq_by_call_id.get(call_id, self.last_seq + 1) <= self.last_seq


def shape_history(
    events: Sequence[SessionEvent],
    way: HistoryWay,
    *,
    derived: MutableMapping[Hashable, Any] | None = None,
    max_open_events: int = MAX_OPEN_EVENTS,
) -> History:
    """Return what all steps from events to a valid history make of a session.

    Args:
        events: In the order of their numbers.
        derived: What was kept from the session's earlier steps, and is kept for later ones. It
            changes what the call costs, never what it returns.
        max_open_events: How many events are worked out anew at a step, before some are settled.
    """
    if derived is None:
        return work_out(events, way).history
    settled = _find(derived, way)
    for start in settled.places_to_start():
        if not start.goes_before(events):
            continue
        history = _go_on(start, events, derived, max_open_events=max_open_events)
        if history is not None:
            return history
    return _reuse(work_out(events, way).history, settled.started_over())


def _go_on(
    settled: _Settled,
    events: Sequence[SessionEvent],
    derived: MutableMapping[Hashable, Any],
    *,
    max_open_events: int,
) -> History | None:
    """Return the history behind what is settled; `None` where an event reaches back into that."""
    if not settled.is_left_alone_by(events[settled.event_count :]):
        return None
    if len(events) - settled.event_count > max_open_events:
        settled = _settle_more(settled, events, keeps_open=max_open_events // 6)
    rest = events[settled.event_count :]
    if not rest:
        _keep(derived, changed(settled, known_messages=()))
        return changed(
            settled.history, settled_count=len(settled.history.messages), lineage=settled.lineage
        )
    worked = work_out(
        rest, settled.way, is_beginning=not settled.event_count, is_open=settled.leaves_open
    )
    if not settled.is_paired_without(worked.messages):
        return None
    open_part = _reuse(worked.history, settled)
    _keep(derived, changed(settled, known_messages=open_part.messages))
    whole = settled.history.followed_by(open_part) if settled.event_count else open_part
    return changed(whole, lineage=settled.lineage)


def _settle_more(settled: _Settled, events: Sequence[SessionEvent], *, keeps_open: int) -> _Settled:
    """Return the settled part up to a place where what follows stands by itself, if there is one."""
    rest = events[settled.event_count :]
    place = next(places_to_part(rest, keeps_open=keeps_open), 0)
    if not place:
        return settled
    is_beginning = not settled.event_count
    worked = work_out(
        rest[:place],
        settled.way,
        is_beginning=is_beginning,
        is_end=False,
        is_open=settled.leaves_open,
    )
    history = _reuse(worked.history, settled)
    is_due = ends_due(history.messages if is_beginning else (BEFORE, *history.messages))
    if not is_due or not settled.is_paired_without(worked.messages):
        return settled
    return settled.extended(rest[:place], worked._replace(history=history))


def _note_first(seq_by_id: MutableMapping[str, int], call_id: str, seq: int) -> None:
    """Note where an id stands, unless an earlier place is known.

    The mapping may know of a later one: of a state that is given up since a late reply reached back
    before its end, or from a message that stands before another of a lower number.
    """
    with _NOTING:
        seq_by_id[call_id] = min(seq, seq_by_id.get(call_id, seq))


# ---- what is kept ----


def _find(derived: MutableMapping[Hashable, Any], way: HistoryWay) -> _Settled:
    kept: tuple[_Settled, ...] = derived.get(_KEY, ())
    found = next((one for one in kept if one.would_be_the_same(way)), _Settled(way=way))
    return changed(found, way=way)


def _keep(derived: MutableMapping[Hashable, Any], settled: _Settled) -> None:
    kept: tuple[_Settled, ...] = derived.get(_KEY, ())
    others = [one for one in kept if not one.would_be_the_same(settled.way)]
    derived[_KEY] = (settled, *others[: _MAX_WAYS - 1])


def _reuse(history: History, settled: _Settled) -> History:
    """Return the history with the objects of the last step for messages that are the same.

    Whoever counted or rendered a message knows it again as long as it is the same object.
    """
    known = {message.seq: message for message in settled.known_messages if message.seq}
    messages = tuple(
        same if (same := known.get(message.seq)) is not None and same == message else message
        for message in history.messages
    )
    return changed(history, messages=messages)
