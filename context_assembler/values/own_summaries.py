"""Summaries that a caller writes: the event that stands in for those it covers."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from context_assembler.errors import InvalidParameterError
from context_assembler.values.events import CompactionBody, SessionEvent
from context_assembler.values.given import check_type, listed
from context_assembler.values.parts import ToolResult

_SUCH_AS: Final = "events of the session, as its store yields them"


def compaction_event(
    summary: str, covered: Sequence[SessionEvent], *, created_at: datetime | None = None
) -> SessionEvent:
    """Return the event by which a summary stands in for stored events; they stay in the store.

    Pinned events among them are not covered: they are sent as before.

    Args:
        summary: What the model is told in their place.
        covered: Events of one session, oldest first and none left out between them. Leave out the
            last turn, which the model is about to answer.

    Raises:
        InvalidParameterError: The summary says nothing; the events are none, not stored, or not in a
            row; or they hold a call without its result, or a result without its call.
    """
    check_type("summary", summary, str, such_as="what the model is told in place of the events")
    if not summary.strip():
        raise InvalidParameterError(
            "summary", summary, rule="must say something", remedy="Ask for the summary again."
        )
    check_type("covered", covered, Sequence, such_as=_SUCH_AS)
    events = listed("covered", covered, SessionEvent, such_as=_SUCH_AS)
    _check_row(events)
    _check_calls(events)
    body = CompactionBody(
        summary=summary,
        first_seq=events[0].seq,
        last_seq=events[-1].seq,
        excluded_ids=tuple(event.id for event in events if event.is_pinned),
    )
    return SessionEvent(body=body, created_at=created_at, origin="model")


def _check_row(events: Sequence[SessionEvent]) -> None:
    """Refuse events that no range of numbers names."""
    numbers = [event.seq for event in events]
    first = numbers[0] if numbers else 0
    if first < 1 or numbers != list(range(first, first + len(numbers))):
        raise InvalidParameterError(
            "covered",
            numbers[:8],
            rule="must be stored events of one session in a row, oldest first",
            remedy="Pass events[:n] of what the store's load() yields.",
        )


def _check_calls(events: Sequence[SessionEvent]) -> None:
    """Refuse a range that parts a call from its result: who is sent the one has to see the other."""
    calls = Counter(call.call_id for event in events for call in event.tool_calls)
    results = Counter(call_id for event in events for call_id in _answered_by(event))
    if unanswered := calls - results:
        call_id = min(unanswered)
        asked = (e.seq for e in events if call_id in {call.call_id for call in e.tool_calls})
        remedy = f"End behind its result, or before event {max(asked)}, which holds the call."
        raise _parted(events, missing="the result of every call", call_id=call_id, remedy=remedy)
    if uncalled := results - calls:
        call_id = min(uncalled)
        told = (event.seq for event in events if call_id in _answered_by(event))
        remedy = f"Take in its call, or begin behind event {min(told)}, which holds the result."
        raise _parted(events, missing="the call of every result", call_id=call_id, remedy=remedy)


def _answered_by(event: SessionEvent) -> list[str]:
    return [part.call_id for part in event.parts if isinstance(part, ToolResult)]


def _parted(
    events: Sequence[SessionEvent], *, missing: str, call_id: str, remedy: str
) -> InvalidParameterError:
    rule = f"must hold {missing} in it, but that of {call_id!r} is missing"
    return InvalidParameterError(
        "covered", [events[0].seq, events[-1].seq], rule=rule, remedy=remedy
    )
