"""Contexts that are made of more than what was recalled, or of less."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from context_assembler.recall.compress import Compressed
from context_assembler.recall.fit_budget import CountText
from context_assembler.recall.premortem import (
    PremortemContext,
    PremortemLine,
    tell_unanswered,
    write_premortem,
)
from context_assembler.recall.task_path import TaskPath
from context_assembler.values.recall import (
    RECALL_TAG,
    FormattedContext,
    RecallExplanation,
    SourceState,
)
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.fences import escape_tag

MISSING_SHARE: Final = 0.1  # of the budget, for naming the sources that could not answer
NO_STATES: Final[Mapping[str, SourceState]] = MappingProxyType({})


def join_task_path(
    task: TaskPath, recalled: FormattedContext, *, max_tokens: int, count_text: CountText
) -> FormattedContext:
    """Return where the agent stands above what was recalled; alone where both do not fit."""
    alone = task.markdown.rstrip()
    joined = "\n\n".join(piece for piece in (alone, recalled.markdown) if piece)
    token_count = count_text(joined)
    recalled = replace(recalled, task_path=alone)
    ran_out = recalled.budget_exceeded or task.left_out > 0
    if token_count <= max_tokens:
        return replace(recalled, markdown=joined, token_count=token_count, budget_exceeded=ran_out)
    return replace(
        recalled,
        markdown=alone,
        token_count=count_text(alone) if alone else 0,
        items=(),
        sources_used=(),
        truncated_items=(),
        budget_exceeded=True,
        explanations=tuple(
            _left_out(row, "there was no room beside the task") for row in recalled.explanations
        ),
    )


def with_compressed(context: FormattedContext, smaller: Compressed) -> FormattedContext:
    """Return the context with its items made smaller, and the explanations with them."""
    gone = {(shown.source, shown.record.id) for shown in smaller.left_out}
    cut = {(shown.source, shown.record.id) for shown in smaller.shortened}
    explanations = tuple(
        _left_out(row, "it was left out to make the context smaller")
        if (row.source, row.memory_id) in gone and row.outcome != "left_out"
        else replace(row, outcome="shortened")
        if (row.source, row.memory_id) in cut and row.outcome == "kept"
        else row
        for row in context.explanations
    )
    return replace(
        context,
        markdown=smaller.markdown,
        items=smaller.items,
        token_count=smaller.token_count,
        sources_used=tuple(dict.fromkeys(shown.source for shown in smaller.items)),
        truncated_items=tuple(shown.record.id for shown in smaller.items if shown.is_truncated),
        budget_exceeded=context.budget_exceeded or bool(gone or cut),
        explanations=explanations,
    )


def fit_premortem(
    lines: Sequence[PremortemLine],
    *,
    domain: str,
    strategy: str | None,
    max_tokens: int,
    count_text: CountText,
    states: Mapping[str, SourceState] = NO_STATES,
) -> PremortemContext:
    """Return the lines that fit; one of each heading comes before the second of any.

    Args:
        states: What came of the sources; those that could not answer are named if there is room.
    """
    title = " ".join(clean_text(domain if strategy is None else f"{domain}, {strategy}").split())
    title = escape_tag(RECALL_TAG, title)
    nothing, missing = tell_unanswered(states)
    if count_text(missing) > max_tokens * MISSING_SHARE:
        missing = ""
    room_tokens = max_tokens - count_text(f"# Before you begin: {title}\n\n{missing}")
    kept = _lines_within(lines, room_tokens=room_tokens, count_text=count_text)
    while True:
        places = set(kept)
        shown = tuple(line for place, line in enumerate(lines) if place in places)
        markdown = write_premortem(shown, title=title, nothing=nothing, missing=missing)
        token_count = count_text(markdown)
        if token_count <= max_tokens or not kept:
            break
        kept.pop()  # the whole takes more than its parts
    if token_count > max_tokens or (lines and not kept):  # what had no room is not unknown
        markdown, token_count = "", 0
    return PremortemContext(
        markdown=markdown,
        lines=shown,
        left_out=tuple(line for place, line in enumerate(lines) if place not in places),
        token_count=token_count,
    )


def _lines_within(
    lines: Sequence[PremortemLine], *, room_tokens: int, count_text: CountText
) -> list[int]:
    """Return the places of the lines that fit, in the order of choosing; each is counted once."""
    headings: set[str] = set()
    kept: list[int] = []
    for at in _turn_by_turn(lines):
        line = lines[at]
        above = "" if line.heading in headings else f"\n## {line.heading}\n\n"
        tokens = count_text(f"{above}- {line.text}\n")
        if tokens <= room_tokens:
            room_tokens -= tokens
            headings.add(line.heading)
            kept.append(at)
    return kept


def _turn_by_turn(lines: Sequence[PremortemLine]) -> list[int]:
    """Return the places of the first line of each heading, then of the second, and so on."""
    seen: dict[str, int] = {}
    turns: list[tuple[int, int]] = []
    for at, line in enumerate(lines):
        seen[line.heading] = seen.get(line.heading, 0) + 1
        turns.append((seen[line.heading], at))
    return [at for _, at in sorted(turns)]


def _left_out(row: RecallExplanation, reason: str) -> RecallExplanation:
    return replace(row, outcome="left_out", reason=reason)
