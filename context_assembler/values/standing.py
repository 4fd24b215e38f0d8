"""Which events of a session stand, and in which order: one answer for requests and exports."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from context_assembler.values.compactions import (
    ReadsCompaction,
    reads_no_compaction,
    stands_for_events,
)
from context_assembler.values.events import CompactionBody, SessionEvent, SystemBody
from context_assembler.values.parts import Text


def in_order(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    """Return the events in the order in which they are read.

    That of their sequence numbers, those without one last, in the order given; a reply and its
    notes stand right behind the last event that they were made from.
    """
    return sorted(events, key=_position)


def with_numbers(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    """Return events that no store has seen with the numbers that an empty session would give them.

    Where any of them has a number already, all stay as they are.
    """
    given = list(events)
    if any(event.seq for event in given):
        return given
    return [replace(event, seq=seq) for seq, event in enumerate(given, start=1)]


def shift_covers(events: Iterable[SessionEvent], *, by: int) -> list[SessionEvent]:
    """Return the events of a transcript as they go behind `by` events of a session.

    What a compaction in a transcript covers is counted from the transcript's own first event.
    """
    return [
        replace(
            event, body=replace(body, first_seq=body.first_seq + by, last_seq=body.last_seq + by)
        )
        if isinstance(body := event.body, CompactionBody)
        else event
        for event in events
    ]


def count_leading_system(events: Sequence[SessionEvent]) -> int:
    """Return how many events the session's own system prompt consists of: those it begins with."""
    for index, event in enumerate(events):
        body = event.body
        if not isinstance(body, SystemBody) or body.note is not None:
            return index
        if not all(isinstance(part, Text) for part in body.parts):
            return index
    return len(events)


def standing_events(
    events: Sequence[SessionEvent], *, reads: ReadsCompaction = reads_no_compaction
) -> list[SessionEvent | None]:
    """Return the events that no compaction has replaced; `None` where some were left out.

    A summary stands at the place of the first event that it stands for. A compaction covers only
    what was numbered before it, and replaces an earlier one when it covers that event, or
    everything that the earlier one covered. One that a provider wrote and sealed, without a plain
    text beside it, stands for those alone who can read it.

    Args:
        reads: Whether the blocks of such a compaction can be read; by default nobody can.
    """
    events = [event for event in events if not _is_sealed_for(event, reads)]
    seqs = sorted(event.seq for event in events if event.seq > 0)
    covers = _find_covers(events, seqs, reads)
    if not covers:
        return [*events]
    summaries = _place_summaries(covers)
    depths = _count_covers(events, covers, seqs)
    standing: list[SessionEvent | None] = []
    for index, event in enumerate(events):
        standing += summaries.get(index, ())
        if isinstance(body := event.body, CompactionBody) and (body.summary.strip() or body.native):
            continue
        is_covered = event.seq > 0 and depths[bisect_left(seqs, event.seq)] > 0
        standing.append(None if is_covered else event)
    return standing


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cover:
    """A compaction and the events in its range, by their ranks among all numbers (`end` excluded).

    `place` is the index of the first event that is really covered.
    """

    rank: int
    start: int
    end: int
    place: int
    event: SessionEvent
    excluded_ids: frozenset[str]

    def replaces(self, earlier: "_Cover") -> bool:
        """Whether the earlier compaction's summary has gone into this one."""
        covers_event = self.start <= earlier.rank < self.end
        covers_range = (
            earlier.start < earlier.end and self.start <= earlier.start and earlier.end <= self.end
        )
        return (covers_event or covers_range) and earlier.event.id not in self.excluded_ids


def _is_sealed_for(event: SessionEvent, reads: ReadsCompaction) -> bool:
    """Whether the event is a compaction that says nothing to those who do not read its blocks."""
    body = event.body
    return (
        isinstance(body, CompactionBody)
        and bool(body.native)
        and not stands_for_events(body, reads)
    )


def _find_covers(
    events: Sequence[SessionEvent], seqs: Sequence[int], reads: ReadsCompaction
) -> list[_Cover]:
    covers: list[_Cover] = []
    index_by_seq: dict[int, int] = {}
    for index, event in enumerate(events):
        if not isinstance(body := event.body, CompactionBody):
            continue
        if not stands_for_events(body, reads):
            continue  # a blank summary stands for nothing; repair reports it
        if not index_by_seq:
            index_by_seq = {other.seq: place for place, other in enumerate(events)}
        rank = bisect_left(seqs, event.seq) if event.seq > 0 else len(seqs)
        start = bisect_left(seqs, body.first_seq)
        end = max(start, min(bisect_right(seqs, body.last_seq), rank))
        excluded_ids = frozenset(body.excluded_ids)
        places = (index_by_seq[seqs[covered]] for covered in range(start, end))
        covers.append(
            _Cover(
                rank=rank,
                start=start,
                end=end,
                place=next((p for p in places if events[p].id not in excluded_ids), index),
                event=event,
                excluded_ids=excluded_ids,
            )
        )
    return covers


def _place_summaries(covers: Sequence[_Cover]) -> dict[int, list[SessionEvent]]:
    """Return the summaries that still stand, by the index of the event they stand before."""
    places: list[int] = []
    replaced: set[int] = set()
    for number, cover in enumerate(covers):
        gone = [k for k in range(number) if cover.replaces(covers[k])]
        replaced.update(gone)
        places.append(min([cover.place, *(places[k] for k in gone)]))
    by_index: dict[int, list[SessionEvent]] = {}
    for number, cover in enumerate(covers):
        if number not in replaced:
            by_index.setdefault(places[number], []).append(cover.event)
    return by_index


def _count_covers(
    events: Sequence[SessionEvent], covers: Sequence[_Cover], seqs: Sequence[int]
) -> list[int]:
    """Return for each rank how many compactions cover it."""
    steps = [0] * (len(seqs) + 1)
    spared = [0] * len(seqs)
    seq_by_id = {event.id: event.seq for event in events if event.id and event.seq > 0}
    for cover in covers:
        steps[cover.start] += 1
        steps[cover.end] -= 1
        for event_id in cover.excluded_ids:
            rank = bisect_left(seqs, seq_by_id[event_id]) if event_id in seq_by_id else -1
            if cover.start <= rank < cover.end:
                spared[rank] += 1
    return [depth - free for depth, free in zip(accumulate(steps[:-1]), spared, strict=True)]


def _position(event: SessionEvent) -> tuple[float, int]:
    if event.seq <= 0:
        return float("inf"), 0
    if not 0 < event.answers_seq < event.seq:  # nothing answers what was said after it
        return event.seq, 0
    return event.answers_seq, event.seq
