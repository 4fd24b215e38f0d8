"""How the command line shows a window, a report and a payload."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from rich.columns import Columns
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from context_assembler.cli.command import one_line, table_of
from context_assembler.context import Ledger, LedgerRow
from context_assembler.events import Json, JsonObject
from context_assembler.report import ReportEntry, Violation

# By kind: name, the cell that tells it apart without colour, and its colour.
_LOOKS: Final = {
    "system": ("system prompt", "█", "blue"),
    "tools": ("tools", "▓", "magenta"),
    "overhead": ("overhead", "=", "cyan"),
    "history": ("history", "▒", "green"),
    "notes": ("notes", "#", "yellow"),
    "free": ("free", "·", "bright_black"),
    "over": ("too much", "!", "red"),
}
_STYLES: Final = {"kept": "green", "dropped": "red", "blocked": "red", "repaired": "cyan"}
_BAR_CELLS: Final = 72
_MOST_ROWS: Final = 8
_MOST_RUNS: Final = 16


def show_ledger(ledger: Ledger) -> Iterator[RenderableType]:
    """Yield the budget as a bar, its legend, and one sentence."""
    tokens = {kind: ledger.tokens_of(kind) for kind in _LOOKS}  # type: ignore[arg-type]  # 0 if none
    tokens |= {"free": ledger.free_tokens, "over": -ledger.free_tokens}
    parts = {kind: count for kind, count in tokens.items() if count > 0}
    bar, legend = Text(), list[Text]()
    for kind, count in parts.items():
        name, cell, style = _LOOKS[kind]
        cells = max(1, round(count * _BAR_CELLS / sum(parts.values())))
        bar.append(cell * cells, style=style)
        legend.append(Text.assemble((cell, style), f" {name} {count:,}"))
    yield bar
    yield Columns(legend, padding=(0, 3, 0, 0))
    how = "counted" if ledger.is_exact else "estimated"
    yield (
        f"{ledger.used_tokens:,} of {ledger.budget_tokens:,} tokens used; the reply has "
        f"{ledger.reserve_tokens:,}, the window {ledger.window_tokens:,} "
        f"({how} by {ledger.counter})."
    )


def ledger_table(ledger: Ledger) -> Table:
    """Return the ledger's rows; the smallest of a long kind are added up."""
    cells: list[Sequence[Any]] = []
    for kind, (name, _, style) in _LOOKS.items():
        rows = sorted((r for r in ledger.rows if r.kind == kind), key=lambda row: -row.tokens)
        if len(rows) > _MOST_ROWS:
            rest = rows[_MOST_ROWS - 1 :]
            added = LedgerRow(rows[0].kind, f"{len(rest)} more", sum(row.tokens for row in rest))
            rows = [*rows[: _MOST_ROWS - 1], added]
        for row in rows:
            share = f"{100 * row.tokens / max(1, ledger.budget_tokens):.1f} %"
            cells.append((Text(name, style=style), row.name[:60], f"{row.tokens:,}", share))
    right = ("tokens", "of budget")
    return table_of("part", "name", *right, right=right, rows=cells)


def entries_table(entries: Sequence[ReportEntry], *, every: bool = False) -> Table:
    """Return the entries, neighbours with one decision and rule on one line if there are many."""

    def fate(entry: ReportEntry) -> tuple[str, str, str]:
        return entry.kind, entry.decision, entry.rule

    runs = [[e] for e in entries] if every else [list(r) for _, r in groupby(entries, key=fate)]
    if len(runs) > _MOST_RUNS and not every:
        by_fate: dict[Any, list[ReportEntry]] = {}
        for entry in entries:
            by_fate.setdefault(fate(entry), []).append(entry)
        runs = list(by_fate.values())
    cells: list[Sequence[Any]] = []
    for run in runs:
        first, before = run[0], sum(entry.tokens_before for entry in run)
        after = sum(entry.tokens_after for entry in run)
        others = len({entry.reason for entry in run}) - 1
        reason = f"{first.reason} (and {others} like it)" if others else first.reason
        decision = Text(first.decision, style=_STYLES.get(first.decision, "yellow"))
        size = f"{after:,}" if before == after else f"{before:,} → {after:,}"
        cells.append((_name_of(run), decision, size, one_line(reason, max_chars=240)))
    return table_of("what", "decision", "tokens", "why", right=("tokens",), rows=cells)


def _name_of(run: Sequence[ReportEntry]) -> str:
    kind, ids = run[0].kind, [_short_id(entry) for entry in run if entry.id]
    if len(run) == 1:
        return f"{kind} {''.join(ids)}"
    span = f": {ids[0]} – {ids[-1]}" if len(ids) > 1 else ""
    return f"{len(run)} {kind}s{span}"


def _short_id(entry: ReportEntry) -> str:
    """Return an id as people need it: a message's beginning, a path's end."""
    if entry.kind == "message":
        return one_line(entry.id, max_chars=12)
    path = Path(entry.id)
    is_near = path.is_absolute() and path.is_relative_to(Path.cwd())
    shown = one_line(str(path.relative_to(Path.cwd())) if is_near else entry.id)
    return shown if len(shown) <= 42 else f"…{shown[-41:]}"


def show_violations(violations: Iterable[Violation]) -> Iterator[Text]:
    """Yield each broken rule as a line: level, rule, place, what is wrong."""
    for one in violations:
        level = (f"{one.level:8}", "red" if one.level == "refused" else "yellow")
        text = one_line(f"{one.where}: {one.message}", max_chars=300)
        yield Text.assemble(level, (f"{one.rule:5}", "bold"), text)


def outline(payload: JsonObject, *, width_chars: int) -> str:
    """Return the payload in outline: a line for each setting and for some of the messages."""
    lines: list[str] = []
    for name, value in payload.items():
        if name in ("messages", "input", "contents") and isinstance(value, list):
            shown = [_brief(entry, width_chars - 5) for entry in value]
            if len(shown) > 5:
                shown[3:-1] = [f"… {len(shown) - 4} more"]
            lines.append(f'  "{name}": [\n    ' + ",\n    ".join(shown) + "\n  ]")
        else:
            lines.append(f'  "{name}": {_brief(value, width_chars - len(name) - 7)}')
    return "{\n" + ",\n".join(lines) + "\n}"


def _brief(value: Json, width_chars: int) -> str:
    more = f" ({len(value)} in all)" if isinstance(value, list) and len(value) > 1 else ""
    text = json.dumps(_shortened(value), ensure_ascii=False)
    return one_line(text, max_chars=width_chars - len(more)) + more


def _shortened(value: Json) -> Json:
    if isinstance(value, str):
        return one_line(value, max_chars=60)
    if isinstance(value, list):
        return [_shortened(entry) for entry in value]
    return {k: _shortened(v) for k, v in value.items()} if isinstance(value, dict) else value
