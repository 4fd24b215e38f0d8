"""Shortens sections to the tokens that the settings give each of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from context_assembler.values.prompt import PromptSection
from context_assembler.values.report import ReportEntry
from context_assembler.values.texts.section_text import cut_lines

CountText: TypeAlias = Callable[[str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A section that has text, and what is to be said of it.

    `group` is the name that settings know it by: files of one kind, near and far, share theirs.
    `row` stands for it in the report where it was shortened or left out.
    """

    group: str
    section: PromptSection
    remarks: tuple[str, ...] = ()
    row: ReportEntry | None = None


def cap_candidates(
    candidates: Sequence[Candidate], *, max_tokens: Mapping[str, int], count_text: CountText
) -> list[Candidate]:
    """Return the candidates in their order, each group within its tokens.

    Of a group the last gives way first. One of which nothing is left has no text, and its row.
    """
    capped = list(candidates)
    for group, limit_tokens in max_tokens.items():
        places = [at for at, candidate in enumerate(candidates) if candidate.group == group]
        tokens = {at: count_text(candidates[at].section.content) for at in places}
        excess_tokens = sum(tokens.values()) - limit_tokens
        for at in reversed(places):
            if excess_tokens <= 0:
                break
            allowed_tokens = max(0, tokens[at] - excess_tokens)
            capped[at] = _capped(
                candidates[at], allowed_tokens, limit_tokens=limit_tokens, count_text=count_text
            )
            excess_tokens -= tokens[at] - count_text(capped[at].section.content)
    return capped


def _capped(
    candidate: Candidate, allowed_tokens: int, *, limit_tokens: int, count_text: CountText
) -> Candidate:
    section = candidate.section
    budget = f"the budget of the section {candidate.group!r}: {limit_tokens:,} tokens"
    if section.is_required:
        return replace(candidate, remarks=(*candidate.remarks, f"required, though over {budget}"))
    text = cut_lines(section.content, max_tokens=allowed_tokens, count_text=count_text)
    row = ReportEntry(
        kind="section",
        id=section.name,
        decision="shortened" if text else "dropped",
        tokens_before=count_text(section.content),
        tokens_after=count_text(text),
        reason=f"{'It was over' if text else 'Nothing of it fits'} {budget}.",
        rule="section.budget",
    )
    return replace(candidate, section=replace(section, content=text), row=row)
