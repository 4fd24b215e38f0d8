"""What a call added to its session, as the events to store."""

from datetime import datetime
from typing import Any

from context_assembler.errors import InvalidParameterError
from context_assembler.providers import provider_for_reply
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import (
    AssistantBody,
    EventBody,
    Provenance,
    SessionEvent,
    SystemBody,
    UserBody,
)
from context_assembler.values.messages import Message


def events_to_record(
    session_id: str,
    reply: Any,
    context: AssembledContext,
    *,
    account: str | None,
    now: datetime,
) -> list[SessionEvent]:
    """Return the notes that the call added, then the reply: all that the session gained.

    The reply's parts are kept whole and in order. The model recorded is the registry's id, so that
    a dated snapshot in the answer does not part a reply from its model.

    Raises:
        InvalidParameterError: The context belongs to another session.
        ReplyError: No bundled provider answers in that shape.
    """
    if context.metadata.session_id != session_id:
        raise InvalidParameterError(
            "context",
            context.metadata.session_id,
            rule=f"must be one of session {session_id!r}",
            remedy="Record the reply in the session that its context was assembled from.",
        )
    provider = provider_for_reply(reply)
    answer = provider.read_reply(reply, context.draft)
    made_by = Provenance(
        provider=answer.provider,
        model=context.draft.limits.id,
        account=account,
        prefix_fingerprint=provider.fingerprints(context.draft)[-1],
        response_id=answer.response_id,
        stop_reason=answer.stop_reason,
        usage=answer.usage,
    )
    metadata = {"reply_model": answer.model}
    if answer.warnings:
        metadata["warnings"] = "; ".join(answer.warnings)
    event = SessionEvent(
        body=AssistantBody(parts=answer.parts, made_by=made_by),
        answers_seq=context.metadata.last_seq,
        created_at=now,
        origin="model",
        metadata=metadata,
    )
    return [*(_event_of_note(note, place) for note, place in context.placed_notes), event]


def _event_of_note(note: Message, place: int) -> SessionEvent:
    body: EventBody = (
        UserBody(parts=note.parts, note=note.note)
        if note.role == "user"
        else SystemBody(parts=note.parts, note=note.note)
    )
    return SessionEvent(
        body=body, answers_seq=place, created_at=note.created_at, origin=note.origin
    )
