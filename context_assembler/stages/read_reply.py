"""A model's reply, with the notes it was sent, as the events to store."""

from datetime import datetime

from context_assembler.values.context import AssembledContext
from context_assembler.values.draft import Reply
from context_assembler.values.events import (
    AssistantBody,
    EventBody,
    Provenance,
    SessionEvent,
    SystemBody,
    UserBody,
)
from context_assembler.values.messages import Message


def events_of_reply(
    reply: Reply,
    context: AssembledContext,
    *,
    prefix_fingerprint: str,
    account: str | None,
    now: datetime,
) -> list[SessionEvent]:
    """Return the notes that the call added, then the reply: all that the session gained.

    The reply's parts are kept whole and in order. The model recorded is the registry's id, so that
    a dated snapshot in the answer does not part a reply from its model.
    """
    made_by = Provenance(
        provider=reply.provider,
        model=context.draft.limits.id,
        account=account,
        prefix_fingerprint=prefix_fingerprint,
        response_id=reply.response_id,
        stop_reason=reply.stop_reason,
        usage=reply.usage,
    )
    metadata = {"reply_model": reply.model}
    if reply.warnings:
        metadata["warnings"] = "; ".join(reply.warnings)
    answer = SessionEvent(
        body=AssistantBody(parts=reply.parts, made_by=made_by),
        created_at=now,
        origin="model",
        metadata=metadata,
    )
    return [*(_event_of_note(note) for note in context.notes), answer]


def _event_of_note(note: Message) -> SessionEvent:
    body: EventBody = (
        UserBody(parts=note.parts, note=note.note)
        if note.role == "user"
        else SystemBody(parts=note.parts, note=note.note)
    )
    return SessionEvent(body=body, created_at=note.created_at, origin=note.origin)
