"""What a provider could not take: counted for the report, and told as warnings."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from context_assembler.ports import TokenCounter
from context_assembler.values.draft import Draft
from context_assembler.values.report import ReportEntry, find_bearers


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
    """Yield a warning for what a provider did not take; one for all messages of one reason.

    What is sent in other words is no loss, and stands in the report alone.
    """
    for row in rows:
        if row.kind != "message" and row.rule.startswith(("tool.", "parameter.")):
            yield f"{row.id}: {row.reason}"
    lost = Counter(
        row.reason
        for row in rows
        if row.kind == "message"
        and row.decision in ("dropped", "shortened")
        and row.rule.startswith(("media.", "content."))
    )
    for reason, number in lost.items():
        yield reason if number == 1 else f"{reason} (in {number} messages)"


def overlay_rows(
    entries: Iterable[ReportEntry], changes: Iterable[ReportEntry]
) -> tuple[ReportEntry, ...]:
    """Return the entries, those of pieces that were changed later in their changed form.

    Of several entries of one piece the one that is offered changes. A piece that is not offered has
    its own reason for that, whatever was done to the definition that has to stay.
    What was shortened before keeps the size that it had before that, and both reasons.
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
    if entry.decision != "shortened":
        return change
    reason = f"{entry.reason} {change.reason}".strip()
    return replace(change, tokens_before=entry.tokens_before, reason=reason)
