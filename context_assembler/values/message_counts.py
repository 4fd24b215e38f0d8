"""Counts of messages and tools, kept on the messages and tools themselves.

At every step a history is counted again of which only the end is new. A counter that has a
`counts_key` keeps what it found on each message, so that `count_each` reads an attribute where it
counted before:

    tokens = count_each(messages, counter)  # one number per message, in their order

Tools, few as they are, are asked for one by one. What is kept lives and goes with its message, and
is no part of what the message says: neither compared, hashed, shown, stored, pickled nor copied;
`replace` makes a message without counts.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

Kept: TypeAlias = "tuple[object, int, Earlier]"
Earlier: TypeAlias = "tuple[object, int, Earlier] | None"

MAX_KEPT: Final = 4  # counts per message: models and protocols in turn
NO_COUNTS: Final[Kept] = (object(), 0, None)  # a key that no counter has


class Countable:
    """Room for counts on a frozen value, that of the last counter in front.

    A base, since a dataclass would make a field of it; empty until something was counted.
    """

    __slots__ = ("kept_counts",)

    kept_counts: Kept


M_contra = TypeVar("M_contra", bound=Countable, contravariant=True)
M = TypeVar("M", bound=Countable)


class CountsMessages(Protocol[M_contra]):
    """Counts messages, as a `TokenCounter` does."""

    def count_message(self, message: M_contra, /) -> int:
        """Return the tokens of the message with its own overhead."""
        ...


def count_each(messages: Iterable[M], counter: CountsMessages[M]) -> list[int]:
    """Return the tokens of each message, as `counter.count_message` does for one.

    Of a counter without `counts_key` each message is asked about.
    """
    key, count = getattr(counter, "counts_key", None), counter.count_message
    if key is None:
        return list(map(count, messages))
    messages = tuple(messages)
    _count_new(messages, count)
    try:
        return [
            kept[1] if (kept := message.kept_counts)[0] is key else count(message)
            for message in messages
        ]
    except AttributeError:  # something new stands in the middle
        return list(map(count, messages))


def _count_new(messages: Sequence[M], count: Callable[[M], int]) -> None:
    """Count what is new at the end, where histories grow, so that all can be read."""
    for message in reversed(messages):
        if hasattr(message, "kept_counts"):
            return
        count(message)


def recall_count(message: M, key: object, count: Callable[[M], int]) -> int:
    """Return what was kept under this key, else what is counted now, and kept."""
    tokens = kept_count(message, key)
    if tokens is None:
        tokens = count(message)
        keep_count(message, key, tokens)
    return tokens


def kept_count(message: Countable, key: object) -> int | None:
    """Return what was kept under this key, or `None`."""
    kept: Earlier = getattr(message, "kept_counts", None)
    while kept is not None:
        if kept[0] is key:
            return kept[1]
        kept = kept[2]
    return None


def keep_count(message: Countable, key: object, tokens: int) -> None:
    """Keep a count on the message: in front of those of other keys, of which the oldest goes.

    Args:
        key: The counter's own; whatever has the same key must always count the same.
    """
    earlier: Earlier = getattr(message, "kept_counts", None)
    object.__setattr__(message, "kept_counts", (key, tokens, _newest(earlier, key, MAX_KEPT - 1)))


def _newest(kept: Earlier, key: object, number: int) -> Earlier:
    """Return the first counts that are of other keys."""
    if kept is None or not number:
        return None
    if kept[0] is key:
        return _newest(kept[2], key, number)
    return kept[0], kept[1], _newest(kept[2], key, number - 1)
