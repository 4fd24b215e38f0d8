"""Counts of a session's messages, kept as long as its events."""

from collections.abc import Hashable, MutableMapping
from typing import Any, Final

from context_assembler.ports import TokenCounter
from context_assembler.values.messages import Message
from context_assembler.values.resting_counts import Resting, place_of_counts

_KEY: Final = "counts"
_MAX_COUNTERS: Final = 4  # per session: models and protocols in turn
_ROWS_PER_EVENT: Final = (
    3  # messages that a step makes anew are counted, and forgotten with all others
)
_LEAST_ROWS: Final = 1_000

_Rows = dict[int, tuple[Message, int]]


class KeptCounts:
    """A counter that knows the messages of a session again, by the objects that they are.

    What is kept is kept with the session's events, however long the session is: a memory that all
    sessions share would forget the first message of a long one before the last one is counted.

    Args:
        derived: Where it is kept; messages in it stay alive, so that none is taken for another.
        event_count: How long the session is: several times as many messages are kept at most.
    """

    def __init__(
        self, counter: TokenCounter, *, derived: MutableMapping[Hashable, Any], event_count: int
    ) -> None:
        self._counter = counter
        self.name = counter.name
        self.is_exact = counter.is_exact
        self.request_overhead_tokens = counter.request_overhead_tokens
        self.counts_key: object | None = getattr(counter, "counts_key", None)
        self.count_text = counter.count_text
        self.count_system = counter.count_system
        self.count_tool = counter.count_tool
        self.count_tools_overhead = counter.count_tools_overhead
        self._resting: Resting | None = derived.get(place_of_counts(counter))
        self._rows = _rows_for(
            counter, derived, max_rows=_LEAST_ROWS + _ROWS_PER_EVENT * event_count
        )

    def count_message(self, message: Message) -> int:
        """Return the tokens of the message with its own overhead."""
        row = self._rows.get(id(message))
        if row is None:
            row = message, self._count(message)
            self._rows[id(message)] = row
        return row[1]

    def _count(self, message: Message) -> int:
        if self._resting is None:
            return self._counter.count_message(message)
        return self._resting.count(message, self._counter.count_message)


def _rows_for(
    counter: TokenCounter, derived: MutableMapping[Hashable, Any], *, max_rows: int
) -> _Rows:
    """Return what was kept for this very counter, begun anew where it has grown too large."""
    kept: tuple[tuple[TokenCounter, _Rows], ...] = derived.get(_KEY, ())
    rows = next((rows for one, rows in kept if one is counter), None)
    if rows is None or len(rows) > max_rows:
        rows = {}
    others = [row for row in kept if row[0] is not counter]
    derived[_KEY] = ((counter, rows), *others[: _MAX_COUNTERS - 1])
    return rows
