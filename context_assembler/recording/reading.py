"""From a reply to what it adds to the session that its context was made from."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from context_assembler.errors import InvalidParameterError
from context_assembler.providers import provider_for_reply
from context_assembler.recording.answered_call import AnsweredCall
from context_assembler.values.compactions import compacted_window, find_compaction, twin_of
from context_assembler.values.context import AssembledContext
from context_assembler.values.given import check_type
from context_assembler.values.parts import Opaque
from context_assembler.values.wire import object_of


def read_answer(
    session_id: str,
    reply: Any,
    context: AssembledContext,
    *,
    account: str | None,
    now: datetime,
    summary: str | None = None,
) -> AnsweredCall:
    """Return what a reply adds to the session that its context was made from.

    Args:
        summary: The plain text of a compaction in the reply; by default what can be read of it.

    Raises:
        InvalidParameterError: The context is none, or belongs to another session; or the summary is
            no text.
        ReplyError: No bundled provider answers in that shape.
    """
    if not isinstance(context, AssembledContext):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidParameterError(
            "context",
            type(context).__name__,
            rule="must be the AssembledContext that was sent",
            remedy="Call record(session_id, reply, context), in this order.",
        )
    if context.metadata.session_id != session_id:
        raise InvalidParameterError(
            "context",
            context.metadata.session_id,
            rule=f"must be one of session {session_id!r}",
            remedy="Record the reply in the session that its context was assembled from.",
        )
    such_as = "the compaction's plain text, or None"
    check_type("summary", summary, str, type(None), such_as=such_as)
    provider = provider_for_reply(reply, asked=context.provider)
    context = context.for_provider(provider.name)
    answer = provider.read_reply(reply, context.draft)
    compacted = find_compaction(answer.parts)
    window: tuple[Opaque, ...] = ()
    twin = (summary or "").strip()
    if compacted is not None:
        window = compacted_window(object_of(reply) or {}, provider=provider.name)
        compacted = replace(compacted, before=()) if window else compacted
        twin = twin or twin_of(compacted.block)
    return AnsweredCall(
        context=context,
        provider=provider,
        reply=answer,
        compacted=compacted,
        native=window or ((compacted.block,) if compacted is not None else ()),
        summary=twin,
        account=account,
        now=now,
    )
