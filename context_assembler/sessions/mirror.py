"""Sessions of a store of the caller's own, copied into memory as far as they were read."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import iscoroutine
from typing import Any, Final, cast

from context_assembler.errors import ConcurrentAppendError, ConfigurationError
from context_assembler.events import CallRow, SessionEvent, SessionHead, to_json
from context_assembler.ports import EventSource
from context_assembler.sessions.sqlite import MemoryStore, call_from_json

_MOST_SESSIONS: Final = 256
_CALL: Final = (
    "call"  # in a reply's metadata: the row of its call, which the store has no place for
)


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
            ConfigurationError: The store returned what a store must not return.
        """
        head = await self.store.head(session_id)
        if not isinstance(head, SessionHead):
            raise self._wrong("head", head, "Return SessionHead(session=Session(…), last_seq=3)")
        copy, seen = self.memory.look(session_id), self._seen.get(session_id)
        if copy and (head.last_seq < copy.last_seq or seen is None or _is_another(head, seen)):
            self.memory.delete_now(session_id)
            copy = None
        if copy is None or copy.session != head.session:
            self.memory.create_now(head.session)
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
        """Append to the caller's store, then read it back; see `ColumnStore.append_now`."""
        if not callable(getattr(self.store, "append", None)):
            raise ConfigurationError(
                f"The session store {type(self.store).__name__} cannot be written to.",
                remedy="Give it append(), or record with a store that has it.",
            )
        if call is not None:
            kept = {**events[-1].metadata, _CALL: to_json(call)}
            events = [*events[:-1], replace(events[-1], metadata=kept)]
        given: object = await self.store.append(session_id, events, expected_seq=expected_seq)
        stored = cast("list[SessionEvent]", given)
        if not isinstance(given, list) or len(stored) != len(events):
            raise self._wrong("append", stored, "Return a list of the events with id and seq")
        await self.refresh(session_id, texts)
        return stored

    async def _read(
        self, session_id: str, last_seq: int, until_seq: int, texts: Mapping[str, str] | None
    ) -> None:
        loaded = self.store.load(session_id, after_seq=last_seq)
        if not hasattr(loaded, "__aiter__"):
            if iscoroutine(loaded):
                loaded.close()
            raise self._wrong("load", loaded, "Write it as an asynchronous generator of events")
        events: list[SessionEvent] = []
        async for event in loaded:
            if not isinstance(event, SessionEvent) or event.seq != last_seq + len(events) + 1:
                raise self._wrong("load", event, "Yield every event after after_seq, in order")
            events.append(event)
            if event.seq == until_seq:
                break
        try:
            expected_seq, batch = last_seq, list[SessionEvent]()
            for event in events:  # a row is kept with the reply that it belongs to
                batch.append(event)
                row = event.metadata.get(_CALL)
                if row or event is events[-1]:
                    call = call_from_json(row) if row else None
                    self.memory.append_now(
                        session_id, batch, expected_seq=expected_seq, call=call, texts=texts
                    )
                    expected_seq, batch = event.seq, []
        except ConcurrentAppendError:
            pass  # another task read the same events meanwhile

    def _wrong(self, method: str, returned: object, remedy: str) -> ConfigurationError:
        what = f"a {type(returned).__name__}"
        if isinstance(returned, SessionEvent):
            what = f"event {returned.seq} out of order"
        return ConfigurationError(
            f"{method}() of the session store {type(self.store).__name__} returned {what}.",
            remedy=f"{remedy}; docs/how-to/custom-session-store.md shows a store.",
        )


def _is_another(head: SessionHead, seen: SessionHead) -> bool:
    return head.incarnation != seen.incarnation
