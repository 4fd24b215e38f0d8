"""Appending what a call added to its session, which may have grown, or gone, meanwhile."""

from context_assembler.errors import ConcurrentAppendError, InvalidParameterError
from context_assembler.ports import BatchStore, SessionStore
from context_assembler.recording.answered_call import AnsweredCall, Standing
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import SessionEvent, SessionHead


async def store_answer(
    store: SessionStore, session_id: str, answered: AnsweredCall
) -> list[SessionEvent]:
    """Append what a call added to its session, all of it or nothing.

    Raises:
        InvalidParameterError: The session is not the one that the context was made from any more.
        UnknownSessionError: There is no such session.
    """
    head = await store.head(session_id)
    await _check_still_there(store, head, answered.context)
    if answered.compacted is None:
        return await store.append(session_id, answered.events())
    while True:
        after_seq = answered.context.metadata.last_seq
        arrived = [event async for event in store.load(session_id, after_seq=after_seq)]
        last_seq = max([head.last_seq, *(event.seq for event in arrived)])
        standing = Standing(last_seq=last_seq, arrived_ids=tuple(event.id for event in arrived))
        try:
            return await store.append(session_id, answered.events(standing), expected_seq=last_seq)
        except ConcurrentAppendError:  # somebody came first: what they said is not covered either
            head = await store.head(session_id)


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
