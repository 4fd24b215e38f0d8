"""The window divided: what is fixed, what is reserved, and what is left for the history."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final

from context_assembler.errors import ContextOverflowError, InvalidParameterError
from context_assembler.ports import TokenCounter
from context_assembler.stages.split_window.input_budget import input_budget
from context_assembler.values.ledger import Ledger, LedgerKind, LedgerRow
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.prompt import SECTION_SEPARATOR, PromptSection, SystemPrompt
from context_assembler.values.report import ReportEntry
from context_assembler.values.shortening import shorten_text
from context_assembler.values.tools import ToolSpec

_SHORTEST_SECTION_TOKENS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedSections:
    """Sections as they go into the system prompt, and what was done to make them fit."""

    sections: tuple[PromptSection, ...]
    entries: tuple[ReportEntry, ...] = ()


def split_window(
    limits: ModelLimits,
    *,
    system: SystemPrompt,
    tools: Sequence[ToolSpec],
    counter: TokenCounter,
    max_tokens: int,
    max_context_tokens: int | None = None,
    reserve_tokens: int | None = None,
) -> Ledger:
    """Return the ledger of the fixed part: at least one token is left for the history.

    The arguments are those of `measure_window`.

    Raises:
        ContextOverflowError: System prompt and tools leave nothing for the history.
    """
    ledger = measure_window(
        limits,
        system=system,
        tools=tools,
        counter=counter,
        max_tokens=max_tokens,
        max_context_tokens=max_context_tokens,
        reserve_tokens=reserve_tokens,
    )
    check_feasible(ledger, tools)
    return ledger


def check_feasible(ledger: Ledger, tools: Sequence[ToolSpec]) -> None:
    """Make sure that the fixed part leaves room for a history.

    Raises:
        ContextOverflowError: System prompt and tools leave nothing for the history.
    """
    if ledger.room_tokens <= 0:
        raise _overflow(ledger, tools)


def measure_window(
    limits: ModelLimits,
    *,
    system: SystemPrompt,
    tools: Sequence[ToolSpec],
    counter: TokenCounter,
    max_tokens: int,
    max_context_tokens: int | None = None,
    reserve_tokens: int | None = None,
) -> Ledger:
    """Return the ledger of the fixed part, even where it leaves no room for the history.

    The system prompt is counted once, as a whole; its sections share that count by their own sizes.

    Args:
        max_tokens: Longest reply; set aside from the model's window unless `reserve_tokens` is given.
        max_context_tokens: Upper bound for the whole input.
        reserve_tokens: Set aside for the reply instead; taken from `max_context_tokens` where both
            are given, as from the window.

    Raises:
        InvalidParameterError: A negative number.
    """
    return Ledger(
        window_tokens=limits.window_tokens,
        reserve_tokens=max_tokens if reserve_tokens is None else reserve_tokens,
        budget_tokens=input_budget(
            limits,
            max_tokens=max_tokens,
            max_context_tokens=max_context_tokens,
            reserve_tokens=reserve_tokens,
        ),
        rows=_rows(system, tools, counter=counter),
        counter=counter.name,
        is_exact=counter.is_exact,
    )


def add_messages(ledger: Ledger, messages: Iterable[Message], *, counter: TokenCounter) -> Ledger:
    """Return the ledger with what the messages use: the history, and this call's notes apart."""
    tokens: dict[LedgerKind, int] = {"history": 0, "notes": 0}
    for message in messages:
        tokens["notes" if message.is_fresh_note else "history"] += counter.count_message(message)
    rows = (LedgerRow(kind=kind, name=kind, tokens=used) for kind, used in tokens.items())
    return replace(ledger, rows=(*ledger.rows, *rows))


def fit_system(
    sections: Sequence[PromptSection],
    *,
    counter: TokenCounter,
    budget_tokens: int,
    other_fixed_tokens: int = 0,
    min_history_share: float = 0.2,
) -> FittedSections:
    """Shorten, then drop, optional sections until a share of the budget is left for the history.

    The lowest priority goes first, of equal priorities the later one. Required sections and those
    placed as notes are left alone. Whether the rest is feasible is for `split_window` to say.

    Args:
        sections: In the order in which they will be joined.
        budget_tokens: What system prompt, tools, history and notes may use together.
        other_fixed_tokens: Tools and the overhead of the request.
        min_history_share: The share of the budget that belongs to the history.

    Raises:
        InvalidParameterError: A share outside 0 to 1.
    """
    _check_share(min_history_share)
    allowed_tokens = int(budget_tokens * (1 - min_history_share)) - other_fixed_tokens
    kept: dict[int, PromptSection] = dict(enumerate(sections))
    entries: dict[int, ReportEntry] = {}
    for number in _most_dispensable_first(sections):
        excess_tokens = _joined_tokens(kept.values(), counter=counter) - allowed_tokens
        if excess_tokens <= 0:
            break
        before = kept.pop(number)
        shorter = _shorter(before, kept, number, allowed_tokens=allowed_tokens, counter=counter)
        if shorter is not None:
            kept = dict(sorted({**kept, number: shorter}.items()))
        entries[number] = _section_entry(before, shorter, counter=counter)
    return FittedSections(
        sections=tuple(kept.values()),
        entries=tuple(entries[number] for number in sorted(entries)),
    )


def _check_share(min_history_share: float) -> None:
    if not 0 <= min_history_share <= 1:
        raise InvalidParameterError(
            "min_history_share",
            min_history_share,
            rule="must be between 0 and 1",
            remedy="Give the share of the budget to keep free for the history, for example 0.2.",
        )


def _most_dispensable_first(sections: Sequence[PromptSection]) -> list[int]:
    optional = [n for n, s in enumerate(sections) if _is_in_system(s) and not s.is_required]
    return sorted(optional, key=lambda number: (sections[number].priority, -number))


def _is_in_system(section: PromptSection) -> bool:
    return section.placement == "system" and bool(section.content)


def _joined_tokens(sections: Iterable[PromptSection], *, counter: TokenCounter) -> int:
    contents = [section.content for section in sections if _is_in_system(section)]
    return counter.count_system(SECTION_SEPARATOR.join(contents))


def _shorter(
    section: PromptSection,
    others: Mapping[int, PromptSection],
    number: int,
    *,
    allowed_tokens: int,
    counter: TokenCounter,
) -> PromptSection | None:
    """Return the section as long as it may be beside the others; `None` where too little is left."""
    free_tokens = allowed_tokens - _joined_tokens(others.values(), counter=counter)
    while free_tokens >= _SHORTEST_SECTION_TOKENS:
        content = shorten_text(
            section.content, max_tokens=free_tokens, count_text=counter.count_text
        )
        shorter = replace(section, content=content)
        together = dict(sorted({**others, number: shorter}.items())).values()
        over_tokens = _joined_tokens(together, counter=counter) - allowed_tokens
        if over_tokens <= 0:
            return shorter
        free_tokens = min(free_tokens, counter.count_text(content)) - over_tokens
    return None


def _section_entry(
    before: PromptSection, after: PromptSection | None, *, counter: TokenCounter
) -> ReportEntry:
    return ReportEntry(
        kind="section",
        id=before.name,
        decision="dropped" if after is None else "shortened",
        tokens_before=counter.count_text(before.content),
        tokens_after=0 if after is None else counter.count_text(after.content),
        reason="System prompt and tools leave too little for the history; this optional section "
        f"of priority {before.priority} is the least important one left.",
        rule="system.drop" if after is None else "system.shorten",
    )


def _rows(
    system: SystemPrompt, tools: Sequence[ToolSpec], *, counter: TokenCounter
) -> tuple[LedgerRow, ...]:
    of_tools = (LedgerRow(kind="tools", name=t.name, tokens=counter.count_tool(t)) for t in tools)
    overhead = _overhead_rows(tools, counter=counter)
    return (*_system_rows(system, counter=counter), *of_tools, *overhead)


def _system_rows(system: SystemPrompt, *, counter: TokenCounter) -> list[LedgerRow]:
    whole_tokens = counter.count_system(system.text)
    sections = [section for section in system.sections if _is_in_system(section)]
    if not sections:
        row = LedgerRow(kind="system", name="system", tokens=whole_tokens)
        return [row] if whole_tokens else []
    weights = [counter.count_text(section.content) for section in sections]
    return [
        LedgerRow(kind="system", name=section.name, tokens=tokens)
        for section, tokens in zip(sections, _shares(whole_tokens, weights), strict=True)
    ]


def _shares(whole: int, weights: Sequence[int]) -> list[int]:
    """Divide a whole number by weights so that the shares add up to it."""
    bounds = [0, *accumulate(weights)]
    divisor = bounds[-1] or 1
    ends = [whole * bound // divisor for bound in bounds]
    ends[-1] = whole
    return [end - start for start, end in pairwise(ends)]


def _overhead_rows(tools: Sequence[ToolSpec], *, counter: TokenCounter) -> list[LedgerRow]:
    rows = (
        LedgerRow(kind="overhead", name="tools", tokens=counter.count_tools_overhead(tools)),
        LedgerRow(kind="overhead", name="request", tokens=counter.request_overhead_tokens),
    )
    return [row for row in rows if row.tokens]


def _overflow(ledger: Ledger, tools: Sequence[ToolSpec]) -> ContextOverflowError:
    """Say which section or group of tools leaves no room."""
    sources = {tool.name: tool.source for tool in tools}
    sizes: defaultdict[str, int] = defaultdict(int)
    for row in ledger.rows:
        sizes[_group_name(row, sources)] += row.tokens
    if ledger.budget_tokens <= 0 or not sizes:
        return ContextOverflowError(
            budget_tokens=ledger.budget_tokens,
            needed_tokens=ledger.fixed_tokens,
            culprit=f"the reserve of {ledger.reserve_tokens:,} tokens for the reply",
            sizes_tokens={**sizes, "reply reserve": ledger.reserve_tokens},
            remedy="Lower max_tokens or reserve_tokens, or raise max_context_tokens.",
        )
    culprit = max(sizes, key=lambda name: sizes[name])
    return ContextOverflowError(
        budget_tokens=ledger.budget_tokens,
        needed_tokens=ledger.fixed_tokens + 1,
        culprit=culprit,
        sizes_tokens=sizes,
        remedy=_remedy(culprit),
    )


def _group_name(row: LedgerRow, sources: Mapping[str, str]) -> str:
    if row.kind == "tools":
        return f"tools from {sources[row.name]}"
    return f"section {row.name!r}" if row.kind == "system" else f"{row.name} overhead"


def _remedy(culprit: str) -> str:
    otherwise = "raise max_context_tokens, lower max_tokens, or choose a model with a larger window"
    if culprit.startswith("tools"):
        return f"Offer fewer tools (permissions, disabled_tools), {otherwise}."
    if culprit.startswith("section"):
        return f"Shorten that section or make it optional, {otherwise}."
    return f"{otherwise[0].upper()}{otherwise[1:]}."
