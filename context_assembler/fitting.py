"""A system prompt with room for a history beside it."""

from collections.abc import Callable, Sequence

from context_assembler.ports import TokenCounter
from context_assembler.stages.build_system_prompt import BuiltPrompt, join_sections
from context_assembler.stages.hold_system import FittedPrompt, FreshPrompt, LastCall, pieces_of
from context_assembler.stages.split_window import fit_system
from context_assembler.stages.tell_changes import overlay_rows
from context_assembler.values.ledger import Ledger
from context_assembler.values.prompt import BootstrapFile, SystemPrompt
from context_assembler.values.report import ReportEntry


def fit_prompt(
    built: BuiltPrompt,
    *,
    measure: Callable[[SystemPrompt], Ledger],
    counter: TokenCounter,
    files: Sequence[BootstrapFile],
    last_call: LastCall,
) -> FittedPrompt:
    """Return the prompt as it fits, or the one of the last call where that is sent again.

    Args:
        measure: Returns the ledger of the fixed part with a prompt.
    """

    def fit(system: SystemPrompt, whole: Ledger) -> tuple[SystemPrompt, tuple[ReportEntry, ...]]:
        fitted = fit_system(
            system.sections,
            counter=counter,
            budget_tokens=whole.budget_tokens,
            other_fixed_tokens=whole.tokens_of("tools", "overhead"),
        )
        return join_sections(fitted.sections), fitted.entries

    whole = measure(built.system)
    fitted, cuts = fit(built.system, whole)
    fresh = FreshPrompt(
        built=built.system,
        fitted=fitted,
        built_rows=built.entries,
        fitted_rows=overlay_rows(built.entries, cuts),
        pieces=pieces_of(built.system.sections, files),
        budget_tokens=whole.budget_tokens,
        count_text=counter.count_text,
        files=files,
    )
    held = last_call.held
    before: SystemPrompt | None = None
    if held is not None:
        system = join_sections(held.sections)
        before, _ = fit(system, measure(system))
    return last_call.choose(fresh, before)
