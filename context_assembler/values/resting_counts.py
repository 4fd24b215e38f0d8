"""Token counts of messages as a session store keeps them beside its events."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Final, NamedTuple

from context_assembler.values.events import (
    CompactionBody,
    EventBody,
    SessionEvent,
    ToolCallBody,
    ToolResultBody,
)
from context_assembler.values.messages import Message
from context_assembler.values.parts import Part

_MOST_EVENTS: Final = 64  # that one message is made of


class RestingCount(NamedTuple):
    """The tokens of a message with so many parts: those of its first event, and of some that follow."""

    parts: int
    tokens: int


@dataclass(slots=True, kw_only=True)
class Resting:
    """The counts of one session by one counter: `known` from its store, and those `found` since.

    They are of messages that are made of events as they are stored. What was repaired, masked or
    shortened on the way is counted anew.
    """

    known: dict[int, RestingCount]
    found: dict[int, RestingCount] = field(default_factory=dict[int, RestingCount])
    _events: Sequence[SessionEvent] = field(default=(), init=False)
    _places: dict[int, int] = field(default_factory=dict[int, int], init=False)

    def see(self, events: Sequence[SessionEvent]) -> None:
        """Take notice of events behind those seen before: a session's are only ever added to."""
        seen = len(self._events)
        if len(events) > seen:
            self._events = events
            self._places |= {e.seq: place for place, e in enumerate(events[seen:], start=seen)}

    def count(self, message: Message, count: Callable[[Message], int]) -> int:
        """Return the tokens of a message: as they are known, or else counted, and noted."""
        if not self._is_as_stored(message):
            return count(message)
        known = self.known.get(message.seq)
        if known is not None and known.parts == len(message.parts):
            return known.tokens
        tokens = count(message)
        self.found[message.seq] = RestingCount(len(message.parts), tokens)
        return tokens

    def take_found(self, *, least: int) -> dict[int, RestingCount]:
        """Return what was found, as known from now on; nothing while there is less than that."""
        if len(self.found) < least:
            return {}
        found, self.found = self.found, {}
        self.known |= found
        return found

    def _is_as_stored(self, message: Message) -> bool:
        place = self._places.get(message.seq)
        if place is None or message.kind != "said":
            return False
        parts = message.parts
        stored = self._parts_from(place, least=len(parts))
        return len(stored) >= len(parts) and all(map(is_, parts, stored))

    def _parts_from(self, place: int, *, least: int) -> list[Part]:
        """Return the parts of an event, with those of the next ones until there are so many."""
        stored: list[Part] = []
        for at in range(place, min(place + _MOST_EVENTS, len(self._events))):
            stored += _parts_of(self._events[at].body)
            if len(stored) >= least:
                break
        return stored


def _parts_of(body: EventBody) -> tuple[Part, ...]:
    match body:
        case ToolCallBody():
            return (body.call,)
        case ToolResultBody():
            return (body.result,)
        case CompactionBody():
            return ()
        case _:
            return body.parts


def place_of_counts(counter: object) -> tuple[str, str] | None:
    """Return where the counts of a counter stand among what is derived; `None`: they are not kept."""
    key: str | None = getattr(counter, "rest_key", None)
    return None if key is None else ("counts at rest", key)
