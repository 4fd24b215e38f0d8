"""What became of every piece, for people: runs of like decisions are one line."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
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
_MOST_SPANS_SHOWN: Final = 3
# The reason is what a row is read for: however long the names are, it keeps its place.
_WHAT_CHARS: Final = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Entries that met the same fate for the same reason.

    `spans` are the first and the last id of each unbroken stretch of them, in order; what was added
    for this call has no id and is in none.
    """

    kind: PieceKind
    decision: Decision
    reason: str
    rule: str
    spans: tuple[tuple[str, str], ...]
    count: int
    tokens_before: int
    tokens_after: int


def runs_of(entries: Iterable[ReportEntry]) -> list[Run]:
    """Group neighbours of one fate, in their order."""
    grouped = groupby(enumerate(entries), key=lambda placed: _fate_of(placed[1]))
    return [_run(list(members)) for _, members in grouped]


def single_runs(entries: Iterable[ReportEntry]) -> list[Run]:
    """Return a run of its own for each entry."""
    return [_run([placed]) for placed in enumerate(entries)]


def runs_by_fate(entries: Iterable[ReportEntry]) -> list[Run]:
    """Group entries into one run for each fate, wherever they stand, in order of appearance."""
    by_fate: dict[tuple[str, ...], list[tuple[int, ReportEntry]]] = {}
    for at, entry in enumerate(entries):
        by_fate.setdefault(_fate_of(entry), []).append((at, entry))
    return list(map(_run, by_fate.values()))


def _fate_of(entry: ReportEntry) -> tuple[str, ...]:
    return entry.kind, entry.decision, entry.rule


def _run(placed: Sequence[tuple[int, ReportEntry]]) -> Run:
    """Return the run of entries, each with its place in the report."""
    members = [entry for _, entry in placed]
    first = members[0]
    reasons = dict.fromkeys(entry.reason for entry in members)
    more = f" (and {len(reasons) - 1} like it)" if len(reasons) > 1 else ""
    return Run(
        kind=first.kind,
        decision=first.decision,
        reason=f"{first.reason}{more}",
        rule=first.rule,
        spans=tuple(_spans(placed)),
        count=len(members),
        tokens_before=sum(entry.tokens_before for entry in members),
        tokens_after=sum(entry.tokens_after for entry in members),
    )


def _spans(placed: Iterable[tuple[int, ReportEntry]]) -> Iterator[tuple[str, str]]:
    # Neighbours have the same distance between their places and their numbers in the run.
    stretches = groupby(enumerate(placed), key=lambda numbered: numbered[1][0] - numbered[0])
    for _, stretch in stretches:
        ids = [entry.id for _, (_, entry) in stretch if entry.id]
        if ids:
            yield ids[0], ids[-1]


def runs_table(runs: Iterable[Run]) -> Table:
    """Return one row for each run: what, how many, what it cost before and after, why."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("what", overflow="fold", max_width=_WHAT_CHARS)
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
    whole = run.kind if run.count == 1 else f"{run.count} {run.kind}s"
    if not run.spans:  # what was added for this call has no id
        return whole
    spans = [_spell_span(run.kind, first, last) for first, last in run.spans]
    if len(spans) > _MOST_SPANS_SHOWN:
        spans = [*spans[: _MOST_SPANS_SHOWN - 1], "…", spans[-1]]
    return f"{whole}{':' if run.count > 1 else ''} {', '.join(spans)}"


def _spell_span(kind: PieceKind, first: str, last: str) -> str:
    ends = (_spell_id(kind, first), _spell_id(kind, last))
    return ends[0] if first == last else " – ".join(ends)


def _spell_id(kind: PieceKind, name: str) -> str:
    """Return an id as people need it: a message's beginning, a path's end."""
    if kind == "message":
        return one_line(name, max_chars=_LONGEST_MESSAGE_ID_CHARS)
    path = Path(name)
    if not path.is_absolute():
        return one_line(name, max_chars=_LONGEST_ID_CHARS)
    is_below = path.is_relative_to(Path.cwd())
    shown = one_line(str(path.relative_to(Path.cwd()) if is_below else path), max_chars=len(name))
    return shown if len(shown) <= _LONGEST_ID_CHARS else f"…{shown[1 - _LONGEST_ID_CHARS :]}"


def _change(run: Run) -> str:
    if run.tokens_before == run.tokens_after:
        return f"{run.tokens_after:,}"
    return f"{run.tokens_before:,} → {run.tokens_after:,}"


def parameters_table(
    parameters: Iterable[ResolvedParameter], *, origins: Mapping[str, str]
) -> Table:
    """Return every setting with its value and what gave it: its origin, else its layer."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("setting")
    table.add_column("value", overflow="fold")
    table.add_column("from", style="dim")
    for parameter in parameters:
        shown = one_line(spelling(parameter.value), max_chars=80)
        origin = origins.get(parameter.name, parameter.layer)
        table.add_row(parameter.name, shown, origin)
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
