"""`MessageTransformer`: a session's events as the turns of a valid history, without a store."""

from array import array
from collections.abc import Callable, Iterable
from typing import NamedTuple

from context_assembler.events import (
    Body,
    SessionEvent,
    body_of,
    kind_of,
    link_of,
    mark_of,
)
from context_assembler.history.lines import Rules, Timeline
from context_assembler.history.reasoning import sum_up
from context_assembler.history.turns import turns_of
from context_assembler.ports import StoredColumns, Turn
from context_assembler.report import ReportEntry


class Transformed(NamedTuple):
    """A session as turns, oldest first.

    Attributes:
        leading_system: Texts of the system events that the session begins with: its own system
            prompt, which is not among the turns.
        entries: What repair did, and what each summary stands for.
    """

    turns: list[Turn]
    leading_system: tuple[str, ...] = ()
    entries: tuple[ReportEntry, ...] = ()


class MessageTransformer:
    """Turns events into turns: active, in reading order, one result after every call.

        turns = MessageTransformer().transform(events).turns

    Args:
        takes_leading_system: Whether the session's own system prompt is set aside.
        reads: Whether the blocks of a compaction that a provider wrote can be read, by its stored
            body; by default by nobody.
        keeps_signed: Whether reasoning that a provider signed stays.
    """

    def __init__(
        self,
        *,
        takes_leading_system: bool = True,
        reads: Callable[[Body], bool] | None = None,
        keeps_signed: bool = True,
    ) -> None:
        self._takes_lead, self._keeps_signed = takes_leading_system, keeps_signed
        self._reads = reads or (lambda _: False)

    def transform(self, events: Iterable[SessionEvent]) -> Transformed:
        """Return the events as turns; those without a number count in the order given."""
        given = sorted(events, key=lambda event: event.seq or float("inf"))
        bodies = {seq: body_of(event) for seq, event in enumerate(given, 1)}
        places = {event.seq: seq for seq, event in enumerate(given, 1) if event.seq}
        kinds = [
            kind_of(event.type, bodies[seq], is_pinned=event.is_pinned)
            for seq, event in enumerate(given, 1)
        ]
        for body in bodies.values():  # a transcript may be a part of a session
            if covers := body.get("covers"):
                first = min(
                    (at for seq, at in places.items() if seq >= covers["first_seq"]), default=1
                )
                last = max(
                    (at for seq, at in places.items() if seq <= covers["last_seq"]), default=0
                )
                body["covers"] = {**covers, "first_seq": first, "last_seq": last}
        none = array("I", bytes(4 * len(given)))
        columns = StoredColumns(
            kinds=bytes(kinds),
            marks=bytes(map(mark_of, kinds, bodies.values())),
            created=array("d", bytes(8 * len(given))),
            answers=array("I", (places.get(event.answers_seq, 0) for event in given)),
            links=array("H", map(link_of, bodies.values())),
            tokens=none,
            reasoning=none,
        )
        ids = {event.id: seq for seq, event in enumerate(given, 1)}
        rules = Rules(
            body=bodies.__getitem__,
            measure=lambda *_: 0,
            seqs_by_id=lambda *_: ids,
            objection=lambda _: None if self._keeps_signed else "unsupported",
            reads=self._reads,
            accepts_prefill=True,
            takes_lead=self._takes_lead,
        )
        timeline = Timeline(rules)
        timeline.extend(columns)
        timeline.close()
        turns = list(turns_of(timeline, range(len(timeline.kinds)), bodies, {}))
        for turn in turns:
            if seq := turn["seq"]:
                event = given[seq - 1]
                turn["seq"], turn["id"] = event.seq or seq, event.id
        texts = (given[seq - 1].text for seq in timeline.lead)
        named = (
            entry._replace(id=given[int(entry.id) - 1].id)
            for entry in (*timeline.log, *timeline.orphans())
        )
        system = tuple(text for text in texts if text.strip())
        return Transformed(turns, system, tuple(sum_up(named)))
