"""Where a session can be parted, so that what follows is worked out by itself."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    SessionEvent,
    SystemBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.messages import Message
from context_assembler.values.standing import in_order
from context_assembler.values.texts.cleaning import clean_text

_PLACES_TRIED: Final = 64


def places_to_part(events: Sequence[SessionEvent], *, keeps_open: int) -> Iterator[int]:
    """Yield the numbers of events behind which these can be parted, the best one first.

    What stands before and behind such a place is read in this order and shares no message, whatever
    follows later.

    Args:
        keeps_open: How many events stay behind it where possible: a late reply may go before them.
    """
    latest = len(events) - keeps_open
    best = range(latest, max(0, latest - _PLACES_TRIED), -1)
    tried = (*best, *range(max(0, latest) + 1, len(events)))
    return (place for place in tried if _parts_at(events, place))


def _parts_at(events: Sequence[SessionEvent], place: int) -> bool:
    """Whether the events from a place on can neither join nor precede those before it."""
    before, behind = events[:place], events[place:]
    last_seq = before[-1].seq
    return (
        _waits_for_answer(before)
        and follow(behind, after_seq=last_seq)
        and may_begin(behind)
        and all(0 <= event.answers_seq < last_seq for event in before)
        and _are_numbered(before)
    )


def _waits_for_answer(events: Sequence[SessionEvent]) -> bool:
    """Whether the last word seems to be the user's or a tool's; only repair can tell for certain."""
    spoken = (event.body for event in reversed(events) if not isinstance(event.body, SystemBody))
    return isinstance(next(spoken, None), UserBody | ToolResultBody)


def follow(events: Sequence[SessionEvent], *, after_seq: int) -> bool:
    """Whether none of the events is read before the one of that number, or covers it."""
    return (
        _are_numbered(events, after_seq=after_seq)
        and all(not event.answers_seq or event.answers_seq >= after_seq for event in events)
        and not any(isinstance(event.body, CompactionBody) for event in events)
    )


def _are_numbered(events: Sequence[SessionEvent], *, after_seq: int = 0) -> bool:
    for event in events:
        if event.seq <= after_seq:
            return False
        after_seq = event.seq
    return True


def may_begin(events: Sequence[SessionEvent]) -> bool:
    """Whether the first event begins a message of its own, whatever stands before it."""
    return not events or isinstance(in_order(events)[0].body, UserBody | AssistantBody)


def ends_due(messages: Sequence[Message]) -> bool:
    """Whether the last word is not the assistant's: then nothing about the end is repaired."""
    for message in reversed(messages):
        if message.role != "system":
            return message.role == "tool" or (message.role == "user" and message.kind == "said")
    return False


def ids_in(messages: Iterable[Message]) -> Iterator[tuple[int, str, bool]]:
    """Yield the message's number and the id of each call (`True`) and each result, as repair pairs."""
    for message in messages:
        if message.role == "assistant":
            yield from ((message.seq, clean_text(c.call_id), True) for c in message.tool_calls)
        yield from ((message.seq, clean_text(r.call_id), False) for r in message.tool_results)
