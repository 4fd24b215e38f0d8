"""The step that makes a note of what was recalled, with a row for each memory."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from context_assembler.recall.fit_budget import CountText
from context_assembler.recall.tell_sources import tell_missing, tell_nothing
from context_assembler.values.prompt import PromptSection
from context_assembler.values.recall import (
    RECALL_TAG,
    FormattedContext,
    RecalledMemory,
    SourceState,
)
from context_assembler.values.recalled_notes import MEMORY_NOTE, RECALLED_LABEL, RecalledNote
from context_assembler.values.report import ReportEntry
from context_assembler.values.texts.fences import fence

_SEAM_TOKENS: Final = 4  # where texts are joined they may take more than by themselves
_MOST_NAMES_TOLD: Final = 5
_NO_WORDS: Final = "The query has no word to look for."
_TOLD_STATES: Final[Mapping[SourceState, str]] = {
    "timed_out": "Memory did not answer in time",
    "failed": "Memory could not be read",
    "skipped": "Memory was not asked",
}


def room_in_note(note_tokens: int, *, count_text: CountText) -> int:
    """Return what a note of so many tokens has for what is recalled; 0 or less: nothing."""
    return note_tokens - count_text(_labelled("")) - _SEAM_TOKENS


def tell_note(context: FormattedContext, *, count_text: CountText) -> RecalledNote:
    """Return the note with its label and fence; without one where nothing relevant was found."""
    warnings = tuple(_warnings(context))
    if context.signals is not None and not context.signals.terms:
        return RecalledNote(entries=(_dropped(_NO_WORDS, "memory.nothing"),), warnings=warnings)
    left_out = tuple(_left_out_rows(context))
    if context.is_empty or not context.markdown:
        return RecalledNote(entries=(_nothing(context), *left_out), warnings=warnings)
    section = PromptSection(
        name=MEMORY_NOTE,
        content=_labelled(context.markdown),
        placement="note",
        origin="memory",
    )
    rows = [_row(shown, count_text=count_text) for shown in context.items]
    return RecalledNote(sections=(section,), entries=(*rows, *left_out), warnings=warnings)


def _labelled(markdown: str) -> str:
    return f"{RECALLED_LABEL}\n{fence(RECALL_TAG, markdown)}"


def _row(shown: RecalledMemory, *, count_text: CountText) -> ReportEntry:
    sources = ", ".join(shown.found_in)
    before = count_text(shown.record.text) if shown.is_truncated else 0
    return ReportEntry(
        kind="memory",
        id=shown.record.id,
        decision="shortened" if shown.is_truncated else "kept",
        tokens_before=max(before, shown.tokens),
        tokens_after=shown.tokens,
        reason=f"Recalled from {sources}, score {shown.score:.2f}.",
        rule="memory.shortened" if shown.is_truncated else "memory.recalled",
    )


def _nothing(context: FormattedContext) -> ReportEntry:
    if context.budget_exceeded:
        return _dropped("Nothing of what was found fits the budget.", "memory.no_room")
    missing = tell_missing(context.source_status, fits=lambda _: True)
    told = tell_nothing(context.source_status)
    if missing:
        return _dropped(f"{told} {missing}", "memory.unanswered")
    return _dropped(told, "memory.nothing")


def _dropped(reason: str, rule: str) -> ReportEntry:
    return ReportEntry(kind="memory", id=MEMORY_NOTE, decision="dropped", reason=reason, rule=rule)


def _left_out_rows(context: FormattedContext) -> Iterator[ReportEntry]:
    """Yield a row for each reason for which candidates are left out."""
    reasons = Counter(row.reason for row in context.explanations if row.outcome == "left_out")
    for reason, number in reasons.items():
        yield ReportEntry(
            kind="memory",
            id="others",
            decision="dropped",
            reason=f"{number:,} left out: {reason}.",
            rule="memory.left_out",
        )


def _warnings(context: FormattedContext) -> Iterator[str]:
    """Yield a warning for each reason for which sources gave no answer, or not all of it."""
    names_by_reason: dict[tuple[str, str], list[str]] = {}
    told: dict[str, SourceState] = dict.fromkeys(context.source_notes, "ok")
    told |= context.source_status
    for name, state in told.items():
        reason = context.source_notes.get(name, "")
        said = _TOLD_STATES.get(state, "Memory")
        if reason or state in _TOLD_STATES:
            names_by_reason.setdefault((said, reason), []).append(name)
    for (said, reason), names in names_by_reason.items():
        end = "" if reason.endswith("…") else "."
        yield f"{said} ({_tell_names(names)}): {reason.rstrip('.')}{end}"


def _tell_names(names: Sequence[str]) -> str:
    told = ", ".join(names[:_MOST_NAMES_TOLD])
    left = len(names) - _MOST_NAMES_TOLD
    return f"{told} and {left} more" if left > 0 else told
