"""The calls that a session was made by: one before each reply."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    Provenance,
    SessionEvent,
    ToolCallBody,
)

_REPLIES: Final = (AssistantBody, ToolCallBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that led to a reply: it was made from the events before index `at`.

    `made_by` is what the reply says of itself; `None`: nothing.
    """

    at: int
    seq: int
    made_at: datetime | None
    answered_at: datetime | None
    made_by: Provenance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Calls between two compactions, and all events before the last of them."""

    events: Sequence[SessionEvent]
    calls: Sequence[Call]


def split_segments(ordered: Sequence[SessionEvent]) -> Iterator[Segment]:
    """Yield the calls that replies answer, in order, those behind each compaction together.

    A call from which nothing but instructions of the system stands has nothing to answer; there was
    none.
    """
    calls: list[Call] = []
    has_input = False
    for at, event in enumerate(ordered):
        if isinstance(event.body, CompactionBody) and calls:
            yield Segment(events=ordered[: calls[-1].at], calls=calls)
            calls = []
        if has_input and _opens_reply(event, ordered[at - 1]):
            made_at = _moment_of(ordered[at - 1])
            calls.append(
                Call(
                    at=at,
                    seq=event.seq,
                    made_at=made_at,
                    answered_at=_moment_of(event),
                    made_by=event.body.made_by if isinstance(event.body, _REPLIES) else None,
                )
            )
        has_input = has_input or event.type != "system"
    if calls:
        yield Segment(events=ordered[: calls[-1].at], calls=calls)


def _opens_reply(event: SessionEvent, before: SessionEvent) -> bool:
    if isinstance(event.body, AssistantBody):
        return True
    is_continued = isinstance(before.body, _REPLIES)
    return isinstance(event.body, ToolCallBody) and not is_continued


def _moment_of(event: SessionEvent) -> datetime | None:
    moment = event.created_at
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
