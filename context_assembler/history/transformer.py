"""`MessageTransformer`: a session's events as the turns of a valid history, without a store."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from context_assembler.events import Body, SessionEvent, body_of, kind_of
from context_assembler.history.lines import Rules, Timeline, columns_of, turns_of
from context_assembler.history.reasoning import sum_up
from context_assembler.ports import Turn
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
        accepts_prefill: Whether the history may end on the assistant; else a minimal turn follows.
    """

    def __init__(
        self,
        *,
        takes_leading_system: bool = True,
        reads: Callable[[Body], bool] | None = None,
        keeps_signed: bool = True,
        accepts_prefill: bool = True,
    ) -> None:
        self._takes_lead, self._reads = takes_leading_system, reads or _reads_nothing
        self._objection = None if keeps_signed else "unsupported"
        self._accepts_prefill = accepts_prefill

    def transform(self, events: Iterable[SessionEvent]) -> Transformed:
        """Return the events as turns; those without a number count in the order given."""
        given = sorted(events, key=lambda event: event.seq or float("inf"))
        # In the session: a transcript may be a part of it.
        numbers = [event.seq or place for place, event in enumerate(given, 1)]
        places = {number: place for place, number in enumerate(numbers, 1)}
        bodies = {place: body_of(event) for place, event in enumerate(given, 1)}
        for body in bodies.values():
            if covers := body.get("covers"):
                first = bisect_left(numbers, covers["first_seq"]) + 1
                last = bisect_right(numbers, covers["last_seq"])
                body["covers"] = {**covers, "first_seq": first, "last_seq": last}
        pairs = zip(given, bodies.values(), strict=True)
        kinds = [kind_of(event.type, body, is_pinned=event.is_pinned) for event, body in pairs]
        answers = [places.get(event.answers_seq, 0) for event in given]
        columns = columns_of(kinds, [*bodies.values()], answers=answers)

        def seqs_by_id(first: int, last: int) -> dict[str, int]:
            return {event.id: seq for seq, event in enumerate(given[first - 1 : last], first)}

        rules = Rules(
            body=bodies.__getitem__,
            measure=_no_tokens,
            seqs_by_id=seqs_by_id,
            objection=dict.fromkeys(bodies, self._objection).get,
            reads=self._reads,
            accepts_prefill=self._accepts_prefill,
            takes_lead=self._takes_lead,
        )
        timeline = Timeline(rules)
        timeline.extend(columns)
        timeline.close()
        turns = list(turns_of(timeline, range(len(timeline.kinds)), bodies, {}))
        for turn in turns:
            if seq := turn.get("seq"):
                turn["seq"], turn["id"] = numbers[seq - 1], given[seq - 1].id
        texts = (given[seq - 1].text for seq in timeline.lead)
        entries = (*timeline.log, *timeline.loose())
        named = (entry._replace(id=given[int(entry.id) - 1].id) for entry in entries)
        return Transformed(turns, tuple(filter(str.strip, texts)), tuple(sum_up(named)))


def _no_tokens(_kind: int, _body: Body) -> int:
    return 0


def _reads_nothing(_body: Body) -> bool:
    return False
