"""A context as another provider is sent it, with a report of what that spelling changes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from context_assembler.ports import TokenCounter
from context_assembler.providers import PROVIDERS
from context_assembler.respelling.count_anew import Spelling
from context_assembler.respelling.leave_reasoning import leave_reasoning
from context_assembler.respelling.tell_parameters import tell_unsent
from context_assembler.stages.tell_changes import count_rows, warn_of_losses
from context_assembler.tokens import CountingMode, CountOnce, calibrate, counter_for
from context_assembler.values.context import AssembledContext
from context_assembler.values.draft import Draft
from context_assembler.values.factors import TokenFactors
from context_assembler.values.ledger import Ledger
from context_assembler.values.offered_tools import known_tools
from context_assembler.values.report import ReportEntry

__all__ = ["respell"]


def respell(
    context: AssembledContext,
    provider: str,
    *,
    mode: CountingMode = "auto",
    corrections: Sequence[TokenFactors] = (),
) -> AssembledContext:
    """Return the context that a payload for a bundled provider is spelled from.

    Its draft is the same, without what that provider does not take. Each change has a row; the ledger
    and the rows count what is sent there, and add up. Nothing is cut anew: where that is more than the
    budget, a warning says so.

    Args:
        mode: How tokens are counted.
        corrections: What the context's own counts were corrected by, one after the other.
    """
    draft, reasoning_rows = leave_reasoning(context.draft, provider=provider)
    adapted, rows = PROVIDERS[provider].adapt(draft)
    unsent = tell_unsent(adapted, rows, provider=provider)
    spelling = Spelling(
        provider=provider,
        before=context.draft,
        after=adapted,
        counter=_counter(adapted, provider, mode=mode, corrections=corrections),
    )
    return _told(context, spelling, [*reasoning_rows, *rows, *unsent])


def _counter(
    draft: Draft, provider: str, *, mode: CountingMode, corrections: Sequence[TokenFactors]
) -> TokenCounter:
    counter: TokenCounter = counter_for(draft.limits, mode=mode, protocol=provider)
    for factors in corrections:
        counter = calibrate(counter, factors)
    return CountOnce(counter)


def _told(
    context: AssembledContext, spelling: Spelling, rows: Sequence[ReportEntry]
) -> AssembledContext:
    """Return the context as it is spelled, with rows and ledger that say so."""
    known = replace(spelling.before, tools=known_tools(spelling.before))
    counted = count_rows(rows, before=known, after=spelling.after, counter=spelling.counter)
    ledger = spelling.recount(context.metadata.ledger)
    report = replace(
        context.report,
        entries=spelling.tell(context.report.entries, counted, ledger=ledger),
        ledger=ledger,
        outlook=None,
        warnings=(
            *context.report.warnings,
            *warn_of_losses(counted),
            *_warn_of_size(ledger, made_for=context.provider, provider=spelling.provider),
        ),
    )
    metadata = replace(context.metadata, ledger=ledger)
    return replace(
        context,
        draft=spelling.after,
        provider=spelling.provider,
        metadata=metadata,
        report=report,
    )


def _warn_of_size(ledger: Ledger, *, made_for: str, provider: str) -> Iterator[str]:
    if ledger.free_tokens < 0:
        yield (
            f"The request was cut for {made_for}; spelled for {provider} it is "
            f"{-ledger.free_tokens:,} tokens over its budget of {ledger.budget_tokens:,}."
        )
