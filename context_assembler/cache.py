"""The assembly cache: finished contexts under keys that cannot go stale."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Generic, TypeVar

from cachetools import TTLCache

from context_assembler.ports import Clock
from context_assembler.values.given import check_callable, check_count, check_type

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheKey:
    """Everything a context was made from.

    A new event moves `last_seq`, an edited file or another tool list moves `fingerprint`: what is
    found under a key is therefore never out of date.
    """

    session_id: str
    last_seq: int
    agent_id: str | None
    fingerprint: str


def digest_of(made_from: object) -> str:
    """Return a digest of things that differ when they are printed."""
    printed = repr(made_from).encode("utf-8", "surrogatepass")
    return blake2b(printed, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """How often the cache answered, and how many contexts it holds."""

    hits: int
    misses: int
    entries: int


def _no_size(_value: object) -> int:
    return 0


@dataclass(slots=True)
class AssemblyCache(Generic[Value]):
    """A bounded cache whose entries expire, with one load per key however many ask at once.

    Safe between threads and event loops; callers on different loops load on their own. Bounded twice:
    in number, and in what all values take together; one that is larger than that is not kept.

    Attributes:
        size_of: How many bytes a value takes, about.
    """

    max_entries: int = 256
    ttl_seconds: float = 60.0
    clock: Clock = time.monotonic
    max_bytes: int = 128 * 1024 * 1024
    size_of: Callable[[Value], int] = _no_size
    _values: TTLCache[CacheKey, Value] = field(init=False)
    _keys: dict[str, list[CacheKey]] = field(init=False)  # by session
    _loading: dict[Hashable, asyncio.Future[None]] = field(init=False)
    _lock: threading.Lock = field(init=False)
    _hits: int = field(init=False, default=0)
    _misses: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        check_type("ttl_seconds", self.ttl_seconds, int, float, such_as="a number of seconds")
        for name in ("max_entries", "max_bytes"):
            check_count(name, getattr(self, name))
        check_callable("clock", self.clock, such_as="a function such as time.monotonic")
        check_callable("size_of", self.size_of, such_as="a function from a value to its bytes")
        self._values = TTLCache(
            self.max_bytes, self.ttl_seconds, timer=self.clock, getsizeof=self.size_of
        )
        self._keys = {}
        self._loading = {}
        self._lock = threading.Lock()

    async def get_or_load(
        self, key: CacheKey, load: Callable[[], Awaitable[Value]]
    ) -> tuple[Value, bool]:
        """Return the value and whether it came from the cache.

        A load that fails or is cancelled leaves nothing behind: whoever waited for it loads again.
        """
        check_type("key", key, CacheKey, such_as="CacheKey(session_id=…)")
        slot = (id(asyncio.get_running_loop()), key)
        while True:
            with self._lock:
                with suppress(KeyError):  # one look: between two of them it may expire
                    value = self._values[key]
                    self._hits += 1
                    return value, True
                pending = self._loading.get(slot)
                if pending is None:
                    mine = asyncio.get_running_loop().create_future()
                    self._loading[slot] = mine
                    self._misses += 1
                    break
            await asyncio.shield(pending)
        try:
            value = await load()
            with self._lock:
                self._drop_overtaken(key)
                self._keep(key, value)
            return value, False
        finally:
            with self._lock:
                del self._loading[slot]
            mine.set_result(None)

    def _keep(self, key: CacheKey, value: Value) -> None:
        while len(self._values) >= self.max_entries:
            with suppress(KeyError):  # it expired just now
                self._values.popitem()  # the one that was asked for longest ago
        with suppress(ValueError):  # larger than all of them may be together
            self._values[key] = value

    def _drop_overtaken(self, key: CacheKey) -> None:
        """Let go of what was made from fewer events: a session only grows, so nobody asks for it."""
        current: list[CacheKey] = [key]
        for other in self._keys.get(key.session_id, ()):
            if other.last_seq < key.last_seq:
                self._values.pop(other, None)
            elif other != key and other in self._values:
                current.append(other)
        if len(self._keys) > 2 * self.max_entries:  # most sessions have nothing here any more
            self._keys = {}
            for one in self._values:
                self._keys.setdefault(one.session_id, []).append(one)
        self._keys[key.session_id] = current

    def invalidate(self, session_id: str | None = None) -> int:
        """Forget the session's contexts, or all of them; return how many there were."""
        check_type(
            "session_id", session_id, str, type(None), such_as="the session's id, or nothing"
        )
        with self._lock:
            gone = [key for key in self._values if session_id in (None, key.session_id)]
            for key in gone:
                self._values.pop(key, None)
            return len(gone)

    def stats(self) -> CacheStats:
        """Return the counts since the cache was made."""
        with self._lock:
            return CacheStats(hits=self._hits, misses=self._misses, entries=len(self._values))
