"""What became of every piece, for people: runs of like decisions are one line."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rich.table import Table
from rich.text import Text

from context_assembler.cli.screen import one_line, spelling
from context_assembler.values.report import (
    Decision,
    PieceKind,
    ReportEntry,
    ResolvedParameter,
    Violation,
)

_STYLES: Final[dict[Decision, str]] = {
    "kept": "green",
    "shortened": "yellow",
    "cleared": "yellow",
    "dropped": "red",
    "blocked": "red",
    "repaired": "cyan",
}

# Clients use UUIDs for messages, of which people need no more than the beginning.
_LONGEST_MESSAGE_ID_CHARS: Final = 12
_LONGEST_ID_CHARS: Final = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Entries that met the same fate for the same reason; `is_unbroken` when nothing lies between."""

    kind: PieceKind
    decision: Decision
    reason: str
    rule: str
    first_id: str
    last_id: str
    count: int
    is_unbroken: bool
    tokens_before: int
    tokens_after: int


def runs_of(entries: Iterable[ReportEntry]) -> list[Run]:
    """Group neighbours of one fate, in their order."""
    grouped = groupby(entries, key=_fate_of)
    return [_run(list(members), is_unbroken=True) for _, members in grouped]


def single_runs(entries: Iterable[ReportEntry]) -> list[Run]:
    """Return a run of its own for each entry."""
    return [_run([entry], is_unbroken=True) for entry in entries]


def runs_by_fate(entries: Iterable[ReportEntry]) -> list[Run]:
    """Group entries into one run for each fate, wherever they stand, in order of appearance."""
    by_fate: dict[tuple[str, ...], list[ReportEntry]] = {}
    for entry in entries:
        by_fate.setdefault(_fate_of(entry), []).append(entry)
    return [_run(members, is_unbroken=False) for members in by_fate.values()]


def _fate_of(entry: ReportEntry) -> tuple[str, ...]:
    return entry.kind, entry.decision, entry.rule


def _run(members: Sequence[ReportEntry], *, is_unbroken: bool) -> Run:
    first = members[0]
    reasons = dict.fromkeys(entry.reason for entry in members)
    more = f" (and {len(reasons) - 1} like it)" if len(reasons) > 1 else ""
    return Run(
        kind=first.kind,
        decision=first.decision,
        reason=f"{first.reason}{more}",
        rule=first.rule,
        first_id=next((entry.id for entry in members if entry.id), ""),
        last_id=members[-1].id,
        count=len(members),
        is_unbroken=is_unbroken,
        tokens_before=sum(entry.tokens_before for entry in members),
        tokens_after=sum(entry.tokens_after for entry in members),
    )


def runs_table(runs: Iterable[Run]) -> Table:
    """Return one row for each run: what, how many, what it cost before and after, why."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("what", overflow="fold", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for run in runs:
        table.add_row(
            _name_of(run),
            Text(run.decision, style=_STYLES[run.decision]),
            _change(run),
            one_line(run.reason, max_chars=240),
        )
    return table


def _name_of(run: Run) -> str:
    longest = _LONGEST_MESSAGE_ID_CHARS if run.kind == "message" else _LONGEST_ID_CHARS
    first, last = (one_line(name, max_chars=longest) for name in (run.first_id, run.last_id))
    whole = run.kind if run.count == 1 else f"{run.count} {run.kind}s"
    if run.count == 1 or not first:  # what was added for this call has no id
        return f"{whole} {first}".rstrip()
    return f"{whole} {first} – {last}" if run.is_unbroken else f"{whole} from {first} on"


def _change(run: Run) -> str:
    if run.tokens_before == run.tokens_after:
        return f"{run.tokens_after:,}"
    return f"{run.tokens_before:,} → {run.tokens_after:,}"


def parameters_table(parameters: Iterable[ResolvedParameter]) -> Table:
    """Return every setting with its value and the layer that gave it."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("setting")
    table.add_column("value", overflow="fold")
    table.add_column("from", style="dim")
    for parameter in parameters:
        shown = one_line(spelling(parameter.value), max_chars=80)
        table.add_row(parameter.name, shown, parameter.layer)
    return table


def violation_lines(violations: Iterable[Violation]) -> list[Text]:
    """Return each broken rule as a line: level, rule, place, what is wrong."""
    return [
        Text.assemble(
            (f"{violation.level:8}", "red" if violation.level == "refused" else "yellow"),
            (f"{violation.rule:5}", "bold"),
            one_line(f"{violation.where}: {violation.message}", max_chars=300),
        )
        for violation in violations
    ]


def verdict(violations: Sequence[Violation], *, provider: str) -> Text:
    """Return how many of the provider's rules are broken, and below it each of them."""
    head = Text(f"Checked against {provider}'s rules: {len(violations)} broken.")
    return Text("\n").join([head, *violation_lines(violations)])
