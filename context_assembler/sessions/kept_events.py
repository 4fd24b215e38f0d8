"""Events kept in memory between the steps of a session, so that a step reads what is new."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable, MutableMapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, TypeGuard

from context_assembler.ports import BatchStore, SessionStore, is_offered
from context_assembler.sessions.answers import read_loaded
from context_assembler.values.events import EventBatch, SessionEvent
from context_assembler.values.growing import Growing

MAX_KEPT_BYTES: Final = 512 * 1024 * 1024
_BYTES_PER_EVENT: Final = 2_000  # of objects around the texts, and of what is derived from them
_BYTES_PER_STORED_BYTE: Final = 2  # text beyond Latin-1 takes more in memory than in UTF-8


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLog:
    """A session's events up to one of them, oldest first.

    As long as a session is kept, its logs hold the same event objects. `derived` is one mapping for
    all of them: what is kept there is forgotten with the events.
    """

    events: Growing[SessionEvent] = field(default_factory=Growing[SessionEvent])
    derived: MutableMapping[Hashable, Any] = field(default_factory=dict[Hashable, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    log: KeptLog
    incarnation: str
    last_mark: str
    size_bytes: int


class KeptEvents:
    """The events of the sessions read last; usable from several threads and event loops.

    What is kept is compared with the store at every reading, by the last event that both have and its
    mark: a session begun anew, or a store that was restored from a backup, is read from its first
    event.

    Args:
        max_bytes: What all kept sessions may take, by a generous estimate; those read longest ago
            go first, and a session larger than that is not kept. 0: nothing is kept.
    """

    def __init__(self, store: SessionStore, *, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = Lock()

    async def load(self, session_id: str, *, until_seq: int) -> KeptLog:
        """Return the session's events up to and including one; later ones are not among them.

        Raises:
            UnknownSessionError: There is no such session.
        """
        kept = self._find(session_id)
        log = None if kept is None else await self._go_on(session_id, kept, until_seq=until_seq)
        if log is not None:
            return log
        batch = await self._read(session_id, after_seq=0, until_seq=until_seq)
        return self._keep(session_id, batch, KeptLog(events=Growing(batch.events)))

    def forget(self, session_id: str | None = None) -> None:
        """Let go of the session's events, or of all."""
        with self._lock:
            for known in [session_id] if session_id is not None else list(self._entries):
                self._drop(known)

    async def _go_on(self, session_id: str, kept: _Entry, *, until_seq: int) -> KeptLog | None:
        """Return the log, brought up to date; `None` where the store tells another story."""
        events = kept.log.events
        shared = len(events)
        if events and events[-1].seq > until_seq:
            shared = bisect_right(events, until_seq, key=lambda event: event.seq)
        if not shared:
            return None
        if shared < len(events):
            # Somebody was faster, and has kept more; or the store was set back.
            if not await self._holds_end_of(session_id, kept):
                return None
            return KeptLog(events=events.first(shared), derived=kept.log.derived)
        last = events[-1]
        if last.seq < until_seq and kept.last_mark:
            log = await self._follow(session_id, kept, until_seq=until_seq)
            if log is not None:
                return log
        found = await self._read(session_id, after_seq=last.seq - 1, until_seq=until_seq)
        if not _begins_at_end_of(kept, found):
            return None
        if len(found.events) == 1:
            return kept.log
        log = KeptLog(events=events.followed_by(found.events[1:]), derived=kept.log.derived)
        return self._keep(session_id, found, log, size_bytes=kept.size_bytes)

    async def _follow(self, session_id: str, kept: _Entry, *, until_seq: int) -> KeptLog | None:
        """Return the log with what stands behind it; `None` where its end has not that very mark."""
        events = kept.log.events
        found = await self._read(session_id, after_seq=events[-1].seq, until_seq=until_seq)
        if found.mark_before != kept.last_mark or found.incarnation != kept.incarnation:
            return None
        log = KeptLog(events=events.followed_by(found.events), derived=kept.log.derived)
        return self._keep(session_id, found, log, size_bytes=kept.size_bytes)

    async def _holds_end_of(self, session_id: str, kept: _Entry) -> bool:
        """Whether the last event that is kept is still in the store: then all before it is."""
        seq = kept.log.events[-1].seq
        return _begins_at_end_of(
            kept, await self._read(session_id, after_seq=seq - 1, until_seq=seq)
        )

    async def _read(self, session_id: str, *, after_seq: int, until_seq: int) -> EventBatch:
        if _hands_out_batches(self._store):
            return await self._store.read_batch(
                session_id, after_seq=after_seq, until_seq=until_seq
            )
        incarnation = (await self._store.head(session_id)).incarnation
        events = await read_loaded(
            self._store, session_id, after_seq=after_seq, until_seq=until_seq
        )
        stored_bytes = sum(len(repr(event)) for event in events)
        return EventBatch(events=events, incarnation=incarnation, stored_bytes=stored_bytes)

    def _find(self, session_id: str) -> _Entry | None:
        with self._lock:
            entry = self._entries.get(session_id)
            if entry is not None:
                self._entries.move_to_end(session_id)
        return entry

    def _keep(
        self, session_id: str, batch: EventBatch, log: KeptLog, *, size_bytes: int = 0
    ) -> KeptLog:
        size_bytes += _BYTES_PER_STORED_BYTE * batch.stored_bytes
        size_bytes += _BYTES_PER_EVENT * len(batch.events)
        entry = _Entry(
            log=log,
            incarnation=batch.incarnation,
            last_mark=batch.last_mark,
            size_bytes=size_bytes,
        )
        if not batch.incarnation:
            return log
        with self._lock:
            if _is_longer(self._entries.get(session_id), log):
                return log
            self._drop(session_id)
            if size_bytes > self._max_bytes:
                return log
            self._entries[session_id] = entry
            self._size_bytes += size_bytes
            while self._size_bytes > self._max_bytes:
                self._drop(next(iter(self._entries)))
        return log

    def _drop(self, session_id: str) -> None:
        entry = self._entries.pop(session_id, None)
        self._size_bytes -= 0 if entry is None else entry.size_bytes


def _begins_at_end_of(kept: _Entry, found: EventBatch) -> bool:
    """Whether the first event found is the last one kept: in the same history, by its mark."""
    return (
        found.incarnation == kept.incarnation
        and found.events[:1] == (kept.log.events[-1],)
        and found.first_mark == kept.last_mark
    )


def _is_longer(kept: _Entry | None, log: KeptLog) -> bool:
    """Whether somebody else has kept more of the same meanwhile."""
    if kept is None or kept.log.derived is not log.derived:
        return False
    return len(kept.log.events) > len(log.events)


def _hands_out_batches(store: SessionStore) -> TypeGuard[BatchStore]:
    """Whether batches are what `load` yields."""
    return is_offered(store, "read_batch", instead_of=("load", "head"))
