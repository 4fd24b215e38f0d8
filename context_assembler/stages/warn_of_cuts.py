"""Warnings of what was cut though nobody expects it to be: instructions, and what has to stay."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from context_assembler.values.report import Report, ReportEntry

# For want of room: what a setting allows a section is no surprise.
_CUT_SECTIONS: Final = frozenset({"system.shorten", "system.drop", "system.held_short"})
_CUT_MESSAGES: Final = "overflow.shorten"
_MOST_MESSAGES_TOLD: Final = 5
_ROOM: Final = "Raise max_context_tokens, or choose a model with a larger window"
_REQUIRE: Final = (
    "make it required ([bootstrap] required, or is_required=True of a section given in code)"
)


def warn_of_cuts(report: Report) -> Report:
    """Return the report with a warning for each section, and each kind of message, that was cut."""
    cut = [row for row in report.entries if row.rule in _CUT_SECTIONS or row.rule == _CUT_MESSAGES]
    if not cut:
        return report
    sections = [_tell_section(row) for row in cut if row.rule in _CUT_SECTIONS]
    messages = _tell_messages(row for row in cut if row.rule == _CUT_MESSAGES)
    return replace(report, warnings=(*report.warnings, *sections, *messages))


def _tell_section(row: ReportEntry) -> str:
    happened = (
        f"was left out ({row.tokens_before:,} tokens)"
        if row.decision == "dropped"
        else f"was shortened from {row.tokens_before:,} to {row.tokens_after:,} tokens"
    )
    return (
        f"The section {row.id!r} of the system prompt {happened} for want of room. "
        f"{_ROOM}, or {_REQUIRE}."
    )


def _tell_messages(rows: Iterable[ReportEntry]) -> Iterator[str]:
    """Yield a warning for all messages of one reason; the report has them all."""
    by_reason: defaultdict[str, list[ReportEntry]] = defaultdict(list)
    for row in rows:
        by_reason[row.reason].append(row)
    for reason, alike in by_reason.items():
        yield f"{_tell_sizes(alike)}: {reason} {_ROOM}."


def _tell_sizes(rows: Sequence[ReportEntry]) -> str:
    told = ", ".join(
        f"message {row.id!r} ({row.tokens_before:,} → {row.tokens_after:,} tokens)"
        for row in rows[:_MOST_MESSAGES_TOLD]
    )
    left = len(rows) - _MOST_MESSAGES_TOLD
    told = f"{told} and {left:,} more" if left > 0 else told
    return f"{told[:1].upper()}{told[1:]}"
