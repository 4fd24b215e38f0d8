"""What a provider could not take: counted for the report, and told as warnings."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from context_assembler.ports import TokenCounter
from context_assembler.values.draft import Draft
from context_assembler.values.report import OFFERED, ReportEntry, find_bearers

_MOST_NAMES_TOLD: Final = 5


def count_rows(
    rows: Iterable[ReportEntry], *, before: Draft, after: Draft, counter: TokenCounter
) -> list[ReportEntry]:
    """Return the rows of changed messages and tools with what these take before and after."""
    changed = {
        ("message", old.id or old.note or old.kind): (
            counter.count_message(old),
            counter.count_message(new),
        )
        for old, new in zip(before.messages, after.messages, strict=True)
        if old is not new
    }
    kept = {tool.name for tool in after.tools}
    for tool in before.tools:
        tokens = counter.count_tool(tool)
        changed["tool", tool.name] = (tokens, tokens if tool.name in kept else 0)
    counted: list[ReportEntry] = []
    for row in rows:
        tokens_before, tokens_after = changed.get((row.kind, row.id), (0, 0))
        counted.append(replace(row, tokens_before=tokens_before, tokens_after=tokens_after))
    return counted


def warn_of_losses(rows: Collection[ReportEntry]) -> Iterator[str]:
    """Yield a warning for what a provider did not take; one for all tools or messages of one reason.

    What is sent in other words is no loss, and stands in the report alone.
    """
    names_by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.kind != "message" and row.rule.startswith(("tool.", "parameter.")):
            names_by_reason[row.reason].append(row.id)
    for reason, names in names_by_reason.items():
        yield f"{_tell_names(names)}: {reason}"
    lost = Counter(
        row.reason
        for row in rows
        if row.kind == "message"
        and row.decision in ("dropped", "shortened")
        and row.rule.startswith(("media.", "content.", "compaction.lost"))
    )
    for reason, number in lost.items():
        yield reason if number == 1 else f"{reason} (in {number} messages)"


def _tell_names(names: Sequence[str]) -> str:
    """Return the first names and how many there are besides; the report has them all."""
    told = ", ".join(names[:_MOST_NAMES_TOLD])
    left = len(names) - _MOST_NAMES_TOLD
    return f"{told} and {left:,} more" if left > 0 else told


def part_messages(
    rows: Sequence[ReportEntry],
) -> tuple[list[ReportEntry], list[ReportEntry]]:
    """Return the rows of messages, and those of everything else."""
    messages = [row for row in rows if row.kind == "message"]
    return messages, [row for row in rows if row.kind != "message"]


def overlay_rows(
    entries: Iterable[ReportEntry], changes: Iterable[ReportEntry]
) -> tuple[ReportEntry, ...]:
    """Return the entries, those of pieces that were changed later in their changed form.

    Of several entries of one piece the one that is offered changes. A piece that is not offered has
    its own reason for that, whatever was done to the definition that has to stay.
    What is offered has both reasons, and stays repaired where the change leaves it as it is; what was
    shortened before keeps the size that it had before that.
    """
    changed = {(entry.kind, entry.id): entry for entry in changes}
    known = list(entries)
    for piece, at in find_bearers(known).items():
        if piece in changed:
            known[at] = _laid_over(known[at], changed.pop(piece))
    return (*known, *changed.values())


def _laid_over(entry: ReportEntry, change: ReportEntry) -> ReportEntry:
    if change.decision == "repaired" and entry.decision in ("dropped", "blocked"):
        return entry
    if entry.decision not in OFFERED:
        return change
    was_repaired = entry.decision == "repaired" and change.decision == "kept"
    return replace(
        change,
        decision="repaired" if was_repaired else change.decision,
        tokens_before=(
            entry.tokens_before if entry.decision == "shortened" else change.tokens_before
        ),
        reason=_both(entry.reason, change.reason),
    )


def _both(reason: str, later: str) -> str:
    """Return two reasons in a row, one of them where it says what the other says as well."""
    if later in reason:
        return reason
    if not reason or reason in later:
        return later
    return f"{reason.removesuffix('.')}. {later}"
