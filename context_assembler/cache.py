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
        from cachetools import TTLCache  # by whoever keeps contexts: not every first call does

        # By everything but the version: a newer one takes the place of an older one.
        self._values: TTLCache[CacheKey, tuple[CacheKey, Value]] = TTLCache(
            max_entries, ttl_seconds, timer=clock
        )
        self._lock = Lock()
        self._hits = self._misses = 0

    def get(self, key: CacheKey) -> Value | None:
        """Return the value; `None` if there is none, or it has expired."""
        with self._lock:
            held_key, value = self._values.get(key._replace(version=""), (None, None))
            self._hits += held_key == key
            self._misses += held_key != key
            return value if held_key == key else None

    def set(self, key: CacheKey, value: Value) -> None:
        """Keep a value in place of an older version's; the least recently used makes room."""
        with self._lock:
            self._values[key._replace(version="")] = key, value

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
