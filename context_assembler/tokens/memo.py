"""Numbers that are kept, within bounds."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

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
