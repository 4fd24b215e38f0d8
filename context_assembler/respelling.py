"""A context as another provider is sent it, with a report of what that spelling changes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from context_assembler.errors import UnsupportedRequestError
from context_assembler.ports import TokenCounter
from context_assembler.providers import PROVIDERS
from context_assembler.stages.tell_changes import count_rows, overlay_rows, warn_of_losses
from context_assembler.tokens import CountingMode, counter_for
from context_assembler.values.context import AssembledContext
from context_assembler.values.draft import Draft
from context_assembler.values.ledger import Ledger
from context_assembler.values.messages import Message
from context_assembler.values.native.part_signatures import bears_signature, without_signature
from context_assembler.values.parts import Part, Text, Thinking
from context_assembler.values.report import ReportEntry

# What a model may be asked for that some have no field for, and that no renderer refuses then.
_PARAMETERS: Final = ("thinking_level", "thinking_budget")

_SIGNS_PARTS: Final = "gemini"  # the provider that signs what a model says, beside its thoughts


def respell(
    context: AssembledContext, provider: str, *, mode: CountingMode = "auto"
) -> AssembledContext:
    """Return the context that a payload for a bundled provider is spelled from.

    Its draft is the same, without what that provider does not take. Each change has a row in front of
    the message's own, and the ledger counts what is sent there. Nothing is cut anew: where that is
    more than the budget, a warning says so.

    Args:
        mode: How tokens are counted.
    """
    draft, reasoning_rows = _leave_reasoning(context.draft, provider=provider)
    adapted, rows = PROVIDERS[provider].adapt(draft)
    counter = counter_for(adapted.limits, mode=mode, protocol=provider)
    unsent = _tell_unsent(adapted, rows, provider=provider)
    counted = count_rows(
        (*reasoning_rows, *rows, *unsent), before=context.draft, after=adapted, counter=counter
    )
    ledger = _recount(context.metadata.ledger, context.draft, adapted, counter=counter)
    report = replace(
        context.report,
        entries=_tell(context, counted, adapted, counter=counter),
        ledger=ledger,
        outlook=None,
        warnings=(
            *context.report.warnings,
            *warn_of_losses(counted),
            *_warn_of_size(ledger, made_for=context.provider, provider=provider),
        ),
    )
    metadata = replace(context.metadata, ledger=ledger)
    return replace(context, draft=adapted, provider=provider, metadata=metadata, report=report)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """Something of replies that another provider has no use for."""

    what: str
    rule: str
    bears: Callable[[Part], bool]


def _leave_reasoning(draft: Draft, *, provider: str) -> tuple[Draft, list[ReportEntry]]:
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
        id=_name(newest),
        decision="cleared",
        reason=f"{number} {loss.what}, the last one here, cannot be sent to {provider}: "
        "it takes none that others signed.",
        rule=loss.rule,
    )


def _tell_unsent(
    draft: Draft, rows: Iterable[ReportEntry], *, provider: str
) -> Iterator[ReportEntry]:
    """Yield a row for each parameter that the provider's payload is the same without."""
    told = {row.rule for row in rows}
    question = Message(role="user", parts=(Text("?"),))
    probe = replace(draft, messages=(question,), tool_plan=None, cache="off")
    for name in _PARAMETERS:
        rule = f"parameter.{name}"
        if rule in told or not getattr(draft.parameters, name):
            continue
        unset: dict[str, Any] = {name: None}
        without = replace(draft.parameters, **unset)
        try:
            is_sent = PROVIDERS[provider].render(probe) != PROVIDERS[provider].render(
                replace(probe, parameters=without)
            )
        except UnsupportedRequestError:  # the payload cannot be spelled either, and says why
            continue
        if not is_sent:
            yield ReportEntry(
                kind="note",
                id=name,
                decision="dropped",
                reason=f"It is not sent: {provider} has no field for it with this model.",
                rule=rule,
            )


def _name(message: Message) -> str:
    return message.id or message.note or message.kind


def _recount(ledger: Ledger, before: Draft, after: Draft, *, counter: TokenCounter) -> Ledger:
    """Return the ledger with what changed counted anew; a count of another payload goes."""
    grown = {"history": 0, "notes": 0}
    for old, new in zip(before.messages, after.messages, strict=True):
        if old is not new:
            kind = "notes" if new.is_fresh_note else "history"
            grown[kind] += counter.count_message(new) - counter.count_message(old)
    gone = {tool.name for tool in before.tools} - {tool.name for tool in after.tools}
    rows = tuple(
        replace(row, tokens=max(0, row.tokens + grown.get(row.kind, 0)))
        for row in ledger.rows
        if row.kind != "tools" or row.name not in gone
    )
    return replace(ledger, rows=rows, anchored_tokens=None, counted_tokens=None)


def _tell(
    context: AssembledContext,
    rows: Iterable[ReportEntry],
    after: Draft,
    *,
    counter: TokenCounter,
) -> tuple[ReportEntry, ...]:
    """Return the report's entries with the rows in their places, and sizes as they are sent."""
    listed = list(rows)
    told = [row for row in listed if row.kind == "message"]
    sizes = {
        _name(new): counter.count_message(new)
        for old, new in zip(context.draft.messages, after.messages, strict=True)
        if old is not new
    }
    entries = overlay_rows(context.report.entries, [row for row in listed if row.kind != "message"])
    return tuple(_placed(entries, told, sizes))


def _placed(
    entries: Iterable[ReportEntry], told: Sequence[ReportEntry], sizes: dict[str, int]
) -> Iterator[ReportEntry]:
    waiting = list(told)
    for entry in entries:
        if entry.kind not in ("message", "note"):
            yield entry
            continue
        yield from (row for row in waiting if row.id == entry.id)
        waiting = [row for row in waiting if row.id != entry.id]
        is_resized = entry.decision == "kept" and entry.id in sizes
        yield replace(entry, tokens_after=sizes[entry.id]) if is_resized else entry
    yield from waiting


def _warn_of_size(ledger: Ledger, *, made_for: str, provider: str) -> Iterator[str]:
    if ledger.free_tokens < 0:
        yield (
            f"The request was cut for {made_for}; spelled for {provider} it is "
            f"{-ledger.free_tokens:,} tokens over its budget of {ledger.budget_tokens:,}."
        )
