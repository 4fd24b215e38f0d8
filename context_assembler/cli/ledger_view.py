"""The window as a picture: one bar and one table of who uses it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.columns import Columns
from rich.table import Table
from rich.text import Text

from context_assembler.cli.screen import one_line
from context_assembler.values.ledger import Ledger, LedgerKind, LedgerRow

BAR_CELLS: Final = 72
_MOST_ROWS_OF_A_KIND: Final = 8


@dataclass(frozen=True, slots=True)
class _Look:
    """How a part of the window is drawn: `cell` tells parts apart where there is no colour."""

    name: str
    cell: str
    style: str


_LOOKS: Final[Mapping[LedgerKind, _Look]] = {
    "system": _Look("system prompt", "█", "blue"),
    "tools": _Look("tools", "▓", "magenta"),
    "overhead": _Look("overhead", "=", "cyan"),
    "history": _Look("history", "▒", "green"),
    "notes": _Look("notes", "#", "yellow"),
}
_FREE: Final = _Look("free", "·", "bright_black")
_OVER: Final = _Look("too much", "!", "red")


def ledger_bar(ledger: Ledger, *, cells: int = BAR_CELLS) -> Text:
    """Return the budget as one line of cells, each part of it in its own colour and character."""
    parts = _parts(ledger)
    widths = _share_out([tokens for _, tokens in parts], cells=cells)
    bar = Text()
    for (look, _), width in zip(parts, widths, strict=True):
        bar.append(look.cell * width, style=look.style)
    return bar


def ledger_legend(ledger: Ledger) -> Columns:
    """Return what the cells of the bar stand for, with tokens."""
    entries = [
        Text.assemble((look.cell, look.style), f" {look.name} {tokens:,}")
        for look, tokens in _parts(ledger)
    ]
    return Columns(entries, padding=(0, 3, 0, 0))


def ledger_summary(ledger: Ledger) -> str:
    """Return the budget in one sentence."""
    how = "counted" if ledger.is_exact else "estimated"
    return (
        f"{ledger.used_tokens:,} of {ledger.budget_tokens:,} tokens used; the reply has "
        f"{ledger.reserve_tokens:,}, the window {ledger.window_tokens:,} "
        f"({how} by {ledger.counter or 'nobody'})."
    )


def ledger_table(ledger: Ledger) -> Table:
    """Return the ledger's rows; the smallest of a long kind are added up."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("part", style="dim")
    table.add_column("name", overflow="fold")
    table.add_column("tokens", justify="right")
    table.add_column("of budget", justify="right", style="dim")
    for kind, look in _LOOKS.items():
        for row in _largest([row for row in ledger.rows if row.kind == kind]):
            table.add_row(
                Text(look.name, style=look.style),
                one_line(row.name, max_chars=60),
                f"{row.tokens:,}",
                _percent(row.tokens, ledger.budget_tokens),
            )
    return table


def _parts(ledger: Ledger) -> list[tuple[_Look, int]]:
    used = [(look, ledger.tokens_of(kind)) for kind, look in _LOOKS.items()]
    rest = ledger.free_tokens
    used.append((_FREE, rest) if rest >= 0 else (_OVER, -rest))
    return [(look, tokens) for look, tokens in used if tokens > 0]


def _share_out(sizes: Sequence[int], *, cells: int) -> list[int]:
    """Divide the cells in proportion, largest remainder first; who has anything gets a cell."""
    total = sum(sizes)
    exact = [size * cells / total for size in sizes] if total else []
    widths = [max(1, int(share)) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: widths[i] - exact[i])
    for index in by_remainder:
        if sum(widths) < cells:
            widths[index] += 1
    while sum(widths) > max(cells, len(widths)):
        widths[widths.index(max(widths))] -= 1
    return widths


def _largest(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    if len(rows) <= _MOST_ROWS_OF_A_KIND:
        return list(rows)
    by_size = sorted(rows, key=lambda row: row.tokens, reverse=True)
    shown, rest = by_size[: _MOST_ROWS_OF_A_KIND - 1], by_size[_MOST_ROWS_OF_A_KIND - 1 :]
    tokens = sum(row.tokens for row in rest)
    return [*shown, LedgerRow(kind=rows[0].kind, name=f"{len(rest)} more", tokens=tokens)]


def _percent(tokens: int, whole: int) -> str:
    return f"{100 * tokens / whole:.1f} %" if whole > 0 else "–"
