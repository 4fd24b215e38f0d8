"""Counts that are kept, within bounds."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from context_assembler.values.messages import Message
from context_assembler.values.parts import Document, Image, Opaque

_ROW_WEIGHT: Final = 64  # of a message that says nothing

K = TypeVar("K", bound=Hashable)


class BoundedMemo(Generic[K]):
    """Remembers numbers up to a total weight; the oldest go first."""

    def __init__(self, *, max_weight: int) -> None:
        self._max_weight = max_weight
        self._weight = 0
        self._rows: OrderedDict[K, tuple[int, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> int | None:
        """Return what was put, or `None`."""
        row = self._rows.get(key)
        return None if row is None else row[0]

    def put(self, key: K, number: int, *, weight: int) -> None:
        """Remember a number."""
        if weight > self._max_weight:
            return
        with self._lock:
            if key in self._rows:
                return
            self._rows[key] = (number, weight)
            self._weight += weight
            while self._weight > self._max_weight:
                _, (_, oldest_weight) = self._rows.popitem(last=False)
                self._weight -= oldest_weight


class MessageMemo:
    """Remembers counts by the message itself, not by what it says; the oldest go first.

    It keeps its messages alive, within a total weight in tokens, so that none of them can be taken
    for another. What carries bytes is not kept: a picture is few tokens, but large.

    Attributes:
        tokens_by_id: The counts by the identity of their messages; to be read only. Looking one up
            here costs about what reading an attribute does.
    """

    def __init__(self, *, max_weight: int) -> None:
        self._max_weight = max_weight
        self._weight = 0
        self.tokens_by_id: dict[int, int] = {}
        self._alive: dict[int, Message] = {}
        self._lock = threading.Lock()

    def get(self, message: Message) -> int | None:
        """Return the count of this very message, or `None`."""
        return self.tokens_by_id.get(id(message))

    def put(self, message: Message, tokens: int) -> None:
        """Remember a count."""
        weight = tokens + _ROW_WEIGHT
        if weight > self._max_weight or _carries_bytes(message):
            return
        with self._lock:
            if id(message) in self._alive:
                return
            self._alive[id(message)] = message
            self.tokens_by_id[id(message)] = tokens
            self._weight += weight
            while self._weight > self._max_weight:
                oldest = next(iter(self._alive))
                self._weight -= self.tokens_by_id.pop(oldest) + _ROW_WEIGHT
                del self._alive[oldest]  # last: until now its identity was its own


def _carries_bytes(message: Message) -> bool:
    results = (part for result in message.tool_results for part in result.content)
    return any(isinstance(part, Image | Document | Opaque) for part in (*message.parts, *results))
