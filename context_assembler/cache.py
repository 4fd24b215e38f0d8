"""The assembly cache: finished contexts under keys that cannot go stale."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

Value = TypeVar("Value")


class CacheKey(NamedTuple):
    """Everything that a context was made from.

    A new event changes `version`, an edited file or another tool list `fingerprint`: what is found
    under a key is never out of date.
    """

    session_id: str
    version: str = ""
    agent_id: str | None = None
    fingerprint: str = ""


class CacheStats(NamedTuple):
    """How often the cache answered, and how many values it holds."""

    hits: int
    misses: int
    entries: int

    @property
    def hit_rate(self) -> float:
        """The share of look-ups that were answered; 0.0 before the first."""
        return self.hits / max(1, self.hits + self.misses)


class AssemblyCache(Generic[Value]):
    """A bounded cache whose values expire; safe between threads.

    >>> cache = AssemblyCache[str](max_entries=100, ttl_seconds=60)
    >>> cache.set(CacheKey("trip-42", version="7"), "context")
    >>> cache.get(CacheKey("trip-42", version="7"))
    'context'
    """

    def __init__(
        self,
        *,
        max_entries: int = 256,
        ttl_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._ttl_seconds, self._clock = max_entries, ttl_seconds, clock
        # By everything but the version: a newer one takes the place of an older one. The value that
        # expires first comes first.
        self._values: dict[CacheKey, tuple[CacheKey, Value, float]] = {}
        self._used_at: dict[CacheKey, int] = {}  # after how many questions
        self._lock = Lock()
        self._hits = self._misses = 0

    def get(self, key: CacheKey) -> Value | None:
        """Return the value; `None` if there is none, or it has expired."""
        place = key._replace(version="")
        with self._lock:
            found = self._values.get(place)
            if found is not None:
                self._used_at[place] = self._hits + self._misses
            if found is not None and found[0] == key and self._clock() < found[2]:
                self._hits += 1
                return found[1]
            self._misses += 1
            return None

    def set(self, key: CacheKey, value: Value) -> None:
        """Keep a value in place of an older version's; the least recently used makes room."""
        place, now = key._replace(version=""), self._clock()
        with self._lock:
            self._drop(place)
            self._expire(now)
            if len(self._values) >= self._most:
                self._drop(min(self._values, key=self._used_at.__getitem__))
            self._values[place] = key, value, now + self._ttl_seconds
            self._used_at[place] = self._hits + self._misses

    def _drop(self, place: CacheKey) -> None:
        self._values.pop(place, None)
        self._used_at.pop(place, None)

    def _expire(self, now: float) -> None:
        """Let go of what has expired."""
        while self._values:
            place, (_, _, until) = next(iter(self._values.items()))
            if now < until:
                break
            self._drop(place)

    def invalidate(self, session_id: str | None = None) -> int:
        """Forget the session's values, or all of them; return how many there were."""
        with self._lock:
            gone = [key for key in self._values if session_id in (None, key.session_id)]
            for key in gone:
                self._drop(key)
            return len(gone)

    def stats(self) -> CacheStats:
        """Return the counts since the cache was made."""
        with self._lock:
            self._expire(self._clock())
            return CacheStats(self._hits, self._misses, len(self._values))
