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
        # By everything but the version: a newer one takes the place of an older one. With the time
        # that each expires at, the first one first.
        self._values: dict[CacheKey, tuple[CacheKey, Value, float]] = {}
        self._lock = Lock()
        self._hits = self._misses = 0

    def get(self, key: CacheKey) -> Value | None:
        """Return the value; `None` if there is none, or it has expired."""
        with self._lock:
            held, value, until = self._values.get(key._replace(version=""), (None, None, 0.0))
            is_hit = held == key and self._clock() < until
            self._hits += is_hit
            self._misses += not is_hit
            return value if is_hit else None

    def set(self, key: CacheKey, value: Value) -> None:
        """Keep a value in place of an older version's; the one that was kept first makes room."""
        place, now = key._replace(version=""), self._clock()
        with self._lock:
            self._values.pop(place, None)
            for first, (_, _, until) in list(self._values.items()):
                if now < until and len(self._values) < self._most:
                    break
                del self._values[first]
            self._values[place] = key, value, now + self._ttl_seconds

    def invalidate(self, session_id: str | None = None) -> int:
        """Forget the session's values, or all of them; return how many there were."""
        with self._lock:
            gone = [key for key in self._values if session_id in (None, key.session_id)]
            for key in gone:
                del self._values[key]
            return len(gone)

    def stats(self) -> CacheStats:
        """Return the counts since the cache was made."""
        with self._lock:
            return CacheStats(self._hits, self._misses, len(self._values))
