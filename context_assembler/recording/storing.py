"""Appending what a call added to its session, which may have grown, or gone, meanwhile."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from context_assembler.errors import ConcurrentAppendError, InvalidParameterError, StoreError
from context_assembler.ports import BatchStore, SessionStore
from context_assembler.recording.answered_call import AnsweredCall, Observe, Standing
from context_assembler.recording.recorded import find_recorded
from context_assembler.sessions import KeptLog, checked_appended, checked_head
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import SessionEvent, SessionHead


class LoadLog(Protocol):
    """Reads a session's events up to one of them."""

    def __call__(self, session_id: str, *, until_seq: int) -> Awaitable[KeptLog]: ...


async def store_answer(
    store: SessionStore,
    session_id: str,
    answered: AnsweredCall,
    *,
    load: LoadLog,
    learn: Callable[[Observe], Awaitable[None]],
) -> list[SessionEvent]:
    """Append what a call added to its session, all of it or nothing, and learn from its usage.

    Where the store cannot keep what was learned, the counts of later calls are as they were.

    Of a reply that is there already, by its provider's id, nothing is stored or learned again: what
    was stored is returned.

    Raises:
        InvalidParameterError: The session is not the one that the context was made from any more.
        UnknownSessionError: There is no such session.
    """
    while True:
        head = checked_head(await store.head(session_id), store=store)
        await _check_still_there(store, head, answered.context)
        if not answered.depends_on_session:
            events = answered.events()
            stored = await store.append(session_id, events)
            break
        log = await load(session_id, until_seq=head.last_seq)
        if recorded := find_recorded(answered, log):
            return recorded
        events = answered.events(_standing(answered, log, head))
        try:
            stored = await store.append(session_id, events, expected_seq=head.last_seq)
            break
        except ConcurrentAppendError:
            continue  # somebody came first: perhaps with this very reply
    with suppress(StoreError):  # the reply is stored: an error would have it stored once more
        await learn(answered.observation)
    return checked_appended(stored, count=len(events), store=store)


def _standing(answered: AnsweredCall, log: KeptLog, head: SessionHead) -> Standing:
    last_seen = answered.context.metadata.last_seq
    place = bisect_right(log.events, last_seen, key=lambda event: event.seq)
    arrived_ids = tuple(event.id for event in log.events[place:])
    return Standing(last_seq=head.last_seq, arrived_ids=arrived_ids)


async def _check_still_there(
    store: SessionStore, head: SessionHead, context: AssembledContext
) -> None:
    """See that the session is the one that the context was made from, or has grown from it."""
    asked = context.metadata
    is_another = asked.incarnation and head.incarnation and asked.incarnation != head.incarnation
    is_behind = head.last_seq < asked.last_seq
    if is_another or is_behind or await _has_forked(store, head, context):
        raise InvalidParameterError(
            "context",
            asked.session_id,
            rule="must be one of the session as it stands, which was deleted, or set back, meanwhile",
            remedy="Assemble the session again, and send that request.",
        )


async def _has_forked(store: SessionStore, head: SessionHead, context: AssembledContext) -> bool:
    """Whether another event has the number of the last one that the context was made from."""
    asked = context.metadata
    if not (asked.last_mark and head.last_mark) or asked.last_mark == head.last_mark:
        return False
    if head.last_seq == asked.last_seq or not isinstance(store, BatchStore):
        return head.last_seq == asked.last_seq
    seq = asked.last_seq
    batch = await store.read_batch(asked.session_id, after_seq=seq - 1, until_seq=seq)
    return bool(batch.first_mark) and batch.first_mark != asked.last_mark
