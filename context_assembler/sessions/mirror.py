"""Sessions of a store of the caller's own, copied into memory as far as they were read."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from context_assembler.errors import ConcurrentAppendError, ConfigurationError
from context_assembler.events import CallRow, SessionEvent, SessionHead, to_json
from context_assembler.ports import EventSource
from context_assembler.sessions.sqlite import MemoryStore, call_from_json, nonce_of

_MOST_SESSIONS: Final = 256
# In a reply's metadata: the row of its call, which the store has no place for.
_CALL: Final = "call"


class Mirror:
    """The sessions of a store of two or seven methods, with columns.

    Attributes:
        store: The caller's own.
        memory: The copy; `refresh` brings a session in it up to date.
    """

    def __init__(self, store: EventSource) -> None:
        self.store: Any = store
        self.memory = MemoryStore()
        self._seen: OrderedDict[str, SessionHead] = OrderedDict()

    async def refresh(self, session_id: str, texts: Mapping[str, str] | None = None) -> None:
        """Read what is new in a session.

        Raises:
            UnknownSessionError: There is no such session.
            ConfigurationError: The store yields events that do not follow each other.
        """
        head = await self.store.head(session_id)
        copy, seen = self.memory.look(session_id), self._seen.get(session_id)
        is_same = seen is not None and head.incarnation == seen.incarnation
        if copy and (head.last_seq < copy.last_seq or not is_same):
            self.memory.delete_now(session_id)
            copy = None
        if copy is None or copy.session != head.session:
            session, began = head.session, (head.incarnation, head.session.created_at)
            nonce = session.nonce or nonce_of(session.id, *began)  # the same in every process
            name = nonce_of(*began, size=8) if head.incarnation else ""  # and if it is read again
            self.memory.create_now(replace(session, nonce=nonce), incarnation=name)
        last_seq = copy.last_seq if copy else 0
        if last_seq < head.last_seq:
            await self._read(session_id, last_seq, head.last_seq, texts)
        self._seen[session_id] = head
        self._seen.move_to_end(session_id)
        if len(self._seen) > _MOST_SESSIONS:
            self.memory.delete_now(self._seen.popitem(last=False)[0])

    async def append(
        self,
        session_id: str,
        events: Sequence[SessionEvent],
        *,
        expected_seq: int | None = None,
        call: CallRow | None = None,
        texts: Mapping[str, str] | None = None,
    ) -> list[SessionEvent]:
        """Append to the caller's store, then read it back; see `SqlStore.append_now`."""
        if not callable(getattr(self.store, "append", None)):
            raise ConfigurationError(
                f"The session store {type(self.store).__name__} cannot be written to.",
                remedy="Give it append(), or record with a store that has it.",
            )
        if call is not None:
            kept = {**events[-1].metadata, _CALL: to_json(call)}
            events = [*events[:-1], replace(events[-1], metadata=kept)]
        stored: list[SessionEvent] = await self.store.append(
            session_id, events, expected_seq=expected_seq
        )
        await self.refresh(session_id, texts)
        return stored

    async def _read(
        self, session_id: str, last_seq: int, until_seq: int, texts: Mapping[str, str] | None
    ) -> None:
        events: list[SessionEvent] = []
        async for event in self.store.load(session_id, after_seq=last_seq):
            if event.seq != last_seq + len(events) + 1:
                name = type(self.store).__name__
                raise ConfigurationError(
                    f"load() of the session store {name} yielded event {event.seq} out of order.",
                    remedy="Yield every event after after_seq, in order; "
                    "docs/how-to/custom-session-store.md shows a store.",
                )
            events.append(event)
            if event.seq == until_seq:
                break
        found = [(event.seq, event.metadata.get(_CALL)) for event in events]
        calls = [replace(call_from_json(row), reply_seq=seq) for seq, row in found if row]
        with suppress(ConcurrentAppendError):  # another task read the same events meanwhile
            self.memory.append_now(session_id, events, expected_seq=last_seq)
            if calls:
                self.memory.keep_now(session_id, calls, texts or {})
