"""Makes room for the history where the system prompt takes too much of the window."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from context_assembler.ports import TokenCounter
from context_assembler.values.prompt import SECTION_SEPARATOR, PromptSection
from context_assembler.values.report import ReportEntry
from context_assembler.values.texts.section_text import cut_lines

_HISTORY_SHARE: Final = 0.2  # what of the budget belongs to the history
_SHORTEST_SECTION_TOKENS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedSections:
    """Sections as they go into the system prompt, and what was done to make them fit."""

    sections: tuple[PromptSection, ...]
    entries: tuple[ReportEntry, ...] = ()


def fit_system(
    sections: Sequence[PromptSection],
    *,
    counter: TokenCounter,
    budget_tokens: int,
    other_fixed_tokens: int = 0,
) -> FittedSections:
    """Shorten, then drop, optional sections until a share of the budget is left for the history.

    The lowest priority goes first, of equal priorities the later one. Required sections and those
    placed as notes are left alone. Whether the rest is feasible is for `check_feasible` to say.

    Args:
        sections: In the order in which they will be joined.
        budget_tokens: What system prompt, tools, history and notes may use together.
        other_fixed_tokens: Tools and the overhead of the request.
    """
    allowed_tokens = int(budget_tokens * (1 - _HISTORY_SHARE)) - other_fixed_tokens
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


def _most_dispensable_first(sections: Sequence[PromptSection]) -> list[int]:
    optional = [n for n, s in enumerate(sections) if is_in_system(s) and not s.is_required]
    return sorted(optional, key=lambda number: (sections[number].priority, -number))


def is_in_system(section: PromptSection) -> bool:
    """Whether the section takes room in the system prompt."""
    return section.placement == "system" and bool(section.content)


def _joined_tokens(sections: Iterable[PromptSection], *, counter: TokenCounter) -> int:
    contents = [section.content for section in sections if is_in_system(section)]
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
        content = cut_lines(section.content, max_tokens=free_tokens, count_text=counter.count_text)
        shorter = replace(section, content=content)
        together = dict(sorted({**others, number: shorter}.items())).values()
        over_tokens = _joined_tokens(together, counter=counter) - allowed_tokens
        if over_tokens <= 0:
            return shorter if content else None
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
