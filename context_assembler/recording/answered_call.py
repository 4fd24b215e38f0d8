"""A call and its reply, read, as the events that its session gains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeAlias

from context_assembler.ports import Provider
from context_assembler.stages.split_window import count_draft
from context_assembler.tokens import CountingMode, counter_for
from context_assembler.values.calibration import (
    LEAST_TOKENS,
    UsageObservation,
    counter_id,
    shape_of,
    why_incomparable,
)
from context_assembler.values.compactions import CompactedReply, told_blocks
from context_assembler.values.context import AssembledContext
from context_assembler.values.draft import Reply
from context_assembler.values.epochs import EPOCH, epoch_record
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    EventBody,
    Provenance,
    SessionEvent,
    SystemBody,
    UserBody,
)
from context_assembler.values.messages import Message
from context_assembler.values.parts import Json, JsonObject, Opaque, Part, Text
from context_assembler.values.readers import route_of
from context_assembler.values.unfinished import UNFINISHED_CALLS

_UNUSED_SUMMARY: Final = "A summary was given, but the reply holds no compaction; it was not used."
_NO_TWIN: Final = (
    "The compaction has no plain text, so other models, accounts and providers will be sent what it "
    "covers; pass record(…, summary=…)."
)


Observe: TypeAlias = Callable[[CountingMode], UsageObservation | None]
"""Tells what a call's usage says about our counts, as the assembler makes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a session stands in its store when a reply is to be appended.

    `arrived_ids` are the events behind those that the context was made from: the provider has not
    seen them, so no compaction of its own covers them.
    """

    last_seq: int
    arrived_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredCall:
    """A call and its reply, read: what the session gains, before any of it is an event.

    `native` are the provider's own blocks of a compaction in the reply, `summary` its plain text.
    """

    context: AssembledContext
    provider: Provider
    reply: Reply
    compacted: CompactedReply | None
    native: tuple[Opaque, ...]
    summary: str
    account: str | None
    now: datetime

    @property
    def depends_on_session(self) -> bool:
        """Whether what is stored depends on what the session holds by then.

        A compaction does not cover what arrived meanwhile, and a reply with an id may be there.
        """
        return self.compacted is not None or self.reply.response_id is not None

    def events(self, standing: Standing | None = None) -> list[SessionEvent]:
        """Return the notes that the call was sent, then the reply.

        A compaction in the reply is an event of its own between what it covers, all that was sent,
        and what the model said behind it. Only that last part is left out where nothing was said.

        Args:
            standing: Where the session stands in its store; by default where the context was made.
        """
        covered = [_event_of_note(note, place) for note, place in self.context.placed_notes]
        sent = self.context.draft.messages
        if self.compacted is None:
            return [*covered, self._reply_event(self.reply.parts, sent)]
        if self.compacted.before:
            covered.append(self._reply_event(self.compacted.before, sent, is_last=False))
        standing = standing or Standing(last_seq=self.context.metadata.last_seq)
        is_last = not self.compacted.rest
        body = CompactionBody(
            summary=self.summary,
            first_seq=1,
            last_seq=standing.last_seq + len(covered),
            excluded_ids=standing.arrived_ids,
            native=self.native,
            made_by=self._made_by(sent, is_last=is_last),
        )
        events = [*covered, self._event(body, is_last=is_last)]
        if is_last:
            return events
        return [*events, self._reply_event(self.compacted.rest, [self._summary_message()])]

    def observation(self, mode: CountingMode) -> UsageObservation | None:
        """Return what the call's usage tells about our counts; `None`: they are not comparable.

        Args:
            mode: How the assembler counts.
        """
        draft, usage = self.context.draft, self.reply.usage
        why = why_incomparable(draft, usage, stop_reason=self.reply.stop_reason)
        if usage is None or why is not None:
            return None
        counter = counter_for(draft.limits, mode=mode, protocol=self.provider.name)
        counted_tokens = count_draft(draft, counter=counter)
        if counted_tokens < LEAST_TOKENS:
            return None
        return UsageObservation(
            provider=self.provider.name,
            model=draft.limits.id,
            shape=shape_of(draft),
            counter=counter_id(counter.name),
            counted_tokens=counted_tokens,
            reported_tokens=usage.input_tokens,
        )

    def _summary_message(self) -> Message:
        """Return what stands in front of what the model said behind its compaction."""
        said = (Text(self.summary),) if self.summary else ()
        blocks = told_blocks(self.native, twin=self.summary)
        return Message(role="user", kind="summary", parts=(*said, *blocks))

    def _reply_event(
        self, parts: tuple[Part, ...], sent: Sequence[Message], *, is_last: bool = True
    ) -> SessionEvent:
        body = AssistantBody(parts=parts, made_by=self._made_by(sent, is_last=is_last))
        return self._event(body, is_last=is_last)

    def _made_by(self, sent: Sequence[Message], *, is_last: bool) -> Provenance:
        """Return where a part of the reply came from; the last one tells how the call ended.

        The model is the registry's id, so that a dated snapshot in the answer does not part a reply
        from its model.
        """
        draft = replace(self.context.draft, messages=tuple(sent))
        return Provenance(
            provider=self.reply.provider,
            model=draft.limits.id,
            account=route_of(draft.limits, account=self.account),
            prefix_fingerprint=self.provider.fingerprints(draft)[-1],
            response_id=self.reply.response_id,
            stop_reason=self.reply.stop_reason if is_last else None,
            usage=self.reply.usage if is_last else None,
            token_factor=None if (factor := self.context.metadata.ledger.factor) == 1 else factor,
            container=self.reply.container if is_last else None,
        )

    def _event(self, body: EventBody, *, is_last: bool) -> SessionEvent:
        warnings = list(self.reply.warnings) if is_last else []
        if isinstance(body, CompactionBody) and not self.summary:
            warnings.append(_NO_TWIN)
        if self.compacted is None and self.summary:
            warnings.append(_UNUSED_SUMMARY)
        metadata: dict[str, Json] = {"reply_model": self.reply.model}
        if is_last and self.reply.unfinished_calls:
            metadata[UNFINISHED_CALLS] = list(self.reply.unfinished_calls)
        if is_last and (epoch := self._epoch()):
            metadata[EPOCH] = epoch
        return SessionEvent(
            body=body,
            answers_seq=self.context.metadata.last_seq,
            created_at=self.now,
            origin="model",
            metadata={**metadata, "warnings": "; ".join(warnings)} if warnings else metadata,
        )

    def _epoch(self) -> JsonObject:
        """Return what is kept of what stood in front of the conversation, where it can be kept."""
        return epoch_record(self.context.epoch, before=self.context.epoch_before)


def _event_of_note(note: Message, place: int) -> SessionEvent:
    body: EventBody = (
        UserBody(parts=note.parts, note=note.note)
        if note.role == "user"
        else SystemBody(parts=note.parts, note=note.note)
    )
    return SessionEvent(
        body=body, answers_seq=place, created_at=note.created_at, origin=note.origin
    )
