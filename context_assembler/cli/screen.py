"""Output of the command line: JSON for programs, text, bars and tables for people."""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TextIO

import typer
from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text

from context_assembler.context import Ledger, LedgerRow
from context_assembler.errors import ConfigurationError
from context_assembler.events import Json, JsonObject
from context_assembler.report import ReportEntry, Violation

# Control characters could steer the reader's terminal, bidirectional ones reorder what it shows,
# lone surrogates cannot be written as UTF-8 at all.
_UNSHOWABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_UNSAFE_IN_JSON: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
SessionsUrl = Annotated[
    str | None,
    typer.Option(
        "--sessions",
        metavar="URL",
        envvar="CONTEXT_ASSEMBLER_SESSIONS",
        help="The session store, such as sqlite:agent.db.",
    ),
]


def people() -> Console:
    """Return the console for text that people read: coloured on a terminal, plain elsewhere."""
    return _console(sys.stdout)


def notes() -> Console:
    """Return the console for notes, progress and errors."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    is_fixed = not stream.isatty() and "COLUMNS" not in os.environ
    width = 100 if is_fixed else None
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def print_note(sentence: str) -> None:
    """Write one sentence to stderr that is not the answer itself."""
    notes().print(Text.assemble(("Note: ", "bold yellow"), one_line(sentence)), soft_wrap=True)


def print_error(problem: str, remedy: str) -> None:
    """Write the problem to stderr, and below it what to do."""
    notes().print(Text.assemble(("Error: ", "bold red"), one_line(problem)), soft_wrap=True)
    if remedy:
        notes().print(f"       {one_line(remedy)}", soft_wrap=True)


def print_json(value: Json) -> None:
    """Write a JSON value to stdout, and nothing else."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    escaped = _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    sys.stdout.write(f"{escaped}\n")


def printable(text: str) -> str:
    """Return the text with every character that a terminal would obey written out."""
    return _UNSHOWABLE.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def one_line(text: str, *, max_chars: int = 2_000) -> str:
    """Return the text on one line, cut with an ellipsis if it is longer."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= max_chars else f"{flat[: max_chars - 1].rstrip()}…"


def counted(count: int, one: str, many: str = "") -> str:
    """Return how many there are, such as `1 question`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def heading(console: Console, text: str) -> None:
    """Write a heading with an empty line before it."""
    console.print()
    console.print(text, style="bold")


def readable(value: Json) -> str:
    """Return a value of a setting or a figure as people write it; empty fields are left out."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        given = {name: entry for name, entry in value.items() if entry not in (None, [], "")}
        return ", ".join(f"{name}: {readable(entry)}" for name, entry in given.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(readable, value)) or "none"
    return str(value)


def table_of(*columns: str, right: Sequence[str] = (), header: bool = True) -> Table:
    """Return an empty table."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=header)
    for column in columns:
        justify: Any = "right" if column in right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in right)
    return table


# ---- reading files ----


def read_content(path: Path) -> bytes:
    """Return the bytes of a file, or of stdin if the path is `-`."""
    if path != Path("-"):
        return path.read_bytes()
    stdin: TextIO | None = sys.stdin
    if stdin is None:
        raise ConfigurationError("Stdin is closed.", remedy="Name a file, or send one on stdin.")
    return stdin.buffer.read()


def read_text(path: Path) -> str:
    """Return the text of a file or of stdin; a byte that cannot be read is U+FFFD, with a note."""
    from context_assembler.texts import decode_text

    text, _, warnings = decode_text(read_content(path))
    for warning in warnings:
        print_note(f"{path}: {warning}.")
    return text


def read_json(path: Path) -> Json:
    """Return the JSON in a file, or on stdin if the path is `-`."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        remedy = "Correct the file, or name another one."
        raise ConfigurationError(f"{path} is not JSON: {error}.", remedy=remedy) from error


# ---- the window ----


class _Look(NamedTuple):
    """How a part of the window is drawn: `cell` tells parts apart without colour."""

    name: str
    cell: str
    style: str


_LOOKS: Final[Mapping[str, _Look]] = {
    "system": _Look("system prompt", "█", "blue"),
    "tools": _Look("tools", "▓", "magenta"),
    "overhead": _Look("overhead", "=", "cyan"),
    "history": _Look("history", "▒", "green"),
    "notes": _Look("notes", "#", "yellow"),
}
_BAR_CELLS: Final = 72


def print_ledger(console: Console, ledger: Ledger, *, table: bool = True) -> None:
    """Write the budget as a bar, its legend, one sentence, and a table of who uses how much."""
    parts = [(look, ledger.tokens_of(kind)) for kind, look in _LOOKS.items()]  # type: ignore[arg-type]  # a kind of the table
    free = ledger.free_tokens
    parts.append((_Look("free", "·", "bright_black"), free))
    if free < 0:
        parts.append((_Look("too much", "!", "red"), -free))
    parts = [(look, tokens) for look, tokens in parts if tokens > 0]
    total = sum(tokens for _, tokens in parts)
    bar = Text()
    for look, tokens in parts:
        bar.append(look.cell * max(1, round(tokens * _BAR_CELLS / total)), style=look.style)
    console.print(bar)
    legend = [Text.assemble((k.cell, k.style), f" {k.name} {tokens:,}") for k, tokens in parts]
    console.print(Columns(legend, padding=(0, 3, 0, 0)))
    how = "counted" if ledger.is_exact else "estimated"
    console.print(
        f"{ledger.used_tokens:,} of {ledger.budget_tokens:,} tokens used; the reply has "
        f"{ledger.reserve_tokens:,}, the window {ledger.window_tokens:,} "
        f"({how} by {ledger.counter})."
    )
    if table:
        console.print()
        console.print(ledger_table(ledger))


def ledger_table(ledger: Ledger) -> Table:
    """Return the ledger's rows; the smallest of a long kind are added up."""
    table = table_of("part", "name", "tokens", "of budget", right=("tokens", "of budget"))
    for kind, look in _LOOKS.items():
        rows = sorted((r for r in ledger.rows if r.kind == kind), key=lambda row: -row.tokens)
        if len(rows) > 8:
            rest = sum(row.tokens for row in rows[7:])
            rows = [*rows[:7], LedgerRow(rows[0].kind, f"{len(rows) - 7} more", rest)]
        for row in rows:
            share = f"{100 * row.tokens / max(1, ledger.budget_tokens):.1f} %"
            part = Text(look.name, style=look.style)
            table.add_row(part, one_line(row.name, max_chars=60), f"{row.tokens:,}", share)
    return table


# ---- the report ----

_STYLES: Final = {
    "kept": "green",
    "shortened": "yellow",
    "cleared": "yellow",
    "dropped": "red",
    "blocked": "red",
    "repaired": "cyan",
}


def entries_table(entries: Sequence[ReportEntry], *, every: bool = False) -> tuple[Table, bool]:
    """Return the entries, neighbours with one decision and rule on one line if there are many.

    The second value says whether lines stand for several entries.
    """
    runs = [[entry] for entry in entries]
    if not every and len(runs) > 1:
        runs = [list(run) for _, run in groupby(entries, key=_fate)]
        if len(runs) > 16:
            by_fate: dict[Any, list[ReportEntry]] = {}
            for entry in entries:
                by_fate.setdefault(_fate(entry), []).append(entry)
            runs = list(by_fate.values())
    table = table_of("what", "", "tokens", "why", right=("tokens",))
    for run in runs:
        first, before = run[0], sum(entry.tokens_before for entry in run)
        after = sum(entry.tokens_after for entry in run)
        reasons = dict.fromkeys(entry.reason for entry in run)
        more = f" (and {len(reasons) - 1} like it)" if len(reasons) > 1 else ""
        table.add_row(
            _name_of(run),
            Text(first.decision, style=_STYLES[first.decision]),
            f"{after:,}" if before == after else f"{before:,} → {after:,}",
            one_line(f"{first.reason}{more}", max_chars=240),
        )
    return table, len(runs) < len(entries)


def _fate(entry: ReportEntry) -> tuple[str, str, str]:
    return entry.kind, entry.decision, entry.rule


def _name_of(run: Sequence[ReportEntry]) -> str:
    kind = run[0].kind
    ids = [_short_id(kind, entry.id) for entry in run if entry.id]
    if len(run) == 1:
        return f"{kind} {ids[0]}" if ids else kind
    span = f": {ids[0]} – {ids[-1]}" if len(ids) > 1 else ""
    return f"{len(run)} {kind}s{span}"


def _short_id(kind: str, name: str) -> str:
    """Return an id as people need it: a message's beginning, a path's end."""
    if kind == "message":
        return one_line(name, max_chars=12)
    path = Path(name)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        name = str(path.relative_to(Path.cwd()))
    shown = one_line(name, max_chars=len(name) + 1)
    return shown if len(shown) <= 42 else f"…{shown[-41:]}"


def violation_lines(violations: Iterable[Violation]) -> list[Text]:
    """Return each broken rule as a line: level, rule, place, what is wrong."""
    return [
        Text.assemble(
            (f"{one.level:8}", "red" if one.level == "refused" else "yellow"),
            (f"{one.rule:5}", "bold"),
            one_line(f"{one.where}: {one.message}", max_chars=300),
        )
        for one in violations
    ]


def print_verdict(console: Console, violations: Sequence[Violation], provider: str) -> None:
    """Write how many of the provider's rules are broken, and each of them."""
    console.print(f"Checked against {provider}'s rules: {len(violations)} broken.")
    for line in violation_lines(violations):
        console.print(line)


def payload_outline(payload: JsonObject, *, width_chars: int) -> str:
    """Return the payload in outline: a line for each setting and for some of the messages."""
    lines: list[str] = []
    for name, value in payload.items():
        if name in ("messages", "input", "contents") and isinstance(value, list):
            left_out = len(value) - 4
            shown = value if left_out < 2 else [*value[:3], f"… {left_out} more", value[-1]]
            texts = [_outline(entry, width_chars - 4) for entry in shown]
            lines.append(f'  "{name}": [\n    ' + ",\n    ".join(texts) + "\n  ]")
        else:
            lines.append(f'  "{name}": {_outline(value, width_chars - len(name) - 6)}')
    return "{\n" + ",\n".join(lines) + "\n}"


def _outline(value: Json, width_chars: int) -> str:
    if isinstance(value, str) and value.startswith("… "):
        return value
    more = f" ({len(value)} in all)" if isinstance(value, list) and len(value) > 1 else ""
    text = json.dumps(_shortened(value), ensure_ascii=False)
    return one_line(text, max_chars=width_chars - len(more)) + more


def _shortened(value: Json) -> Json:
    if isinstance(value, str):
        return one_line(value, max_chars=60)
    if isinstance(value, list):
        return [_shortened(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _shortened(entry) for key, entry in value.items()}
    return value
