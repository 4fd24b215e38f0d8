"""A draft without the reasoning that another provider has no use for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from context_assembler.values.draft import Draft
from context_assembler.values.messages import Message
from context_assembler.values.native.part_signatures import bears_signature, without_signature
from context_assembler.values.parts import Part, Thinking
from context_assembler.values.report import ReportEntry

_SIGNS_PARTS: Final = "gemini"  # the provider that signs what a model says, beside its thoughts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """Something of replies that another provider has no use for."""

    what: str
    rule: str
    bears: Callable[[Part], bool]


def leave_reasoning(draft: Draft, *, provider: str) -> tuple[Draft, list[ReportEntry]]:
    """Return the draft without what only the provider that signed it reads, and a row for each kind."""
    thoughts = _Loss(
        what="thinking part(s)",
        rule="reasoning.provider",
        bears=lambda part: (
            isinstance(part, Thinking) and not (part.is_signed and part.provider == provider)
        ),
    )
    signatures = _Loss(
        what="thought signature(s)",
        rule="reasoning.provider",
        bears=lambda part: provider != _SIGNS_PARTS and bears_signature(part),
    )
    losses = (thoughts, signatures)
    rows = [row for loss in losses if (row := _loss_row(draft.messages, loss, provider=provider))]
    if not rows:
        return draft, rows
    messages = tuple(
        _without(message, thoughts=thoughts, signatures=signatures) for message in draft.messages
    )
    return replace(draft, messages=messages), rows


def _without(message: Message, *, thoughts: _Loss, signatures: _Loss) -> Message:
    parts = tuple(
        without_signature(part) if signatures.bears(part) else part
        for part in message.parts
        if not thoughts.bears(part)
    )
    return message if parts == message.parts else replace(message, parts=parts)


def _loss_row(messages: Sequence[Message], loss: _Loss, *, provider: str) -> ReportEntry | None:
    bearers = [message for message in messages if any(map(loss.bears, message.parts))]
    if not bearers:
        return None
    number = sum(loss.bears(part) for message in bearers for part in message.parts)
    newest = bearers[-1]
    return ReportEntry(
        kind="message",
        id=newest.id or newest.note or newest.kind,
        decision="cleared",
        reason=f"{number} {loss.what}, the last one here, cannot be sent to {provider}: "
        "it takes none that others signed.",
        rule=loss.rule,
    )
