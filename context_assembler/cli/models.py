"""`models`: what the registry knows."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, date, datetime
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from context_assembler.cli import exit_codes
from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import one_line, people, print_json, spelling
from context_assembler.errors import UnknownOptionError
from context_assembler.limits import default_registry, lifecycle_warnings, price_at
from context_assembler.values.codec import to_json
from context_assembler.values.limits import ModelLimits, Price
from context_assembler.values.parts import Json

_STYLES: Final = {"active": "green", "legacy": "", "deprecated": "yellow", "retired": "red"}

app: Final = typer.Typer(add_completion=False)

Provider = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only models of this vendor: anthropic …")
]
Status = Annotated[
    str | None, typer.Option(metavar="NAME", help="active, legacy, deprecated or retired.")
]


@app.callback(invoke_without_command=True)
def models(context: typer.Context, *, as_json: JsonFlag = False) -> None:
    """List models, their limits, prices and dates.

    Without a command: `list`.
    """
    if context.invoked_subcommand is None:
        list_models(as_json=as_json)
    elif as_json:  # `models --json list` is `models list --json`
        context.default_map = {context.invoked_subcommand: {"as_json": True}}


@app.command("list")
def list_models(
    *, provider: Provider = None, status: Status = None, as_json: JsonFlag = False
) -> None:
    """List the models of the registry."""
    rows = [row for row in default_registry().rows() if not provider or row.provider == provider]
    rows = [row for row in rows if not status or row.status == status]
    if not rows:
        _refuse_unknown_filter(provider=provider, status=status)
    if as_json:
        print_json([_as_json(row) for row in rows])
        return
    people().print(_overview(rows))


@app.command("show")
def show(
    *,
    model: Annotated[str, typer.Argument(metavar="ID", help="In any spelling.")],
    as_json: JsonFlag = False,
) -> None:
    """Show everything that is known of one model."""
    limits = default_registry().get(model)
    if as_json:
        print_json(_as_json(limits))
        return
    console = people()
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _fields(limits):
        table.add_row(name, one_line(value, max_chars=400))
    console.print(table)
    for warning in lifecycle_warnings(limits, _today()):
        console.print(Text(warning, style="yellow"))


@app.command("check")
def check(
    *,
    model: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="All current models by default.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check the registry and name models that are retired, deprecated or about to be.

    Every row is read, those of your own files included.
    Exit code: 13 when a model that was asked for needs attention.
    """
    registry = default_registry()
    rows = [registry.get(name) for name in model or ()]
    current = [row for row in registry.rows() if row.status != "retired"]
    warnings = {
        limits.asked_id or limits.id: found
        for limits in rows or current
        if (found := lifecycle_warnings(limits, _today()))
    }
    if as_json:
        print_json({"rows": len(rows or current), "warnings": warnings})
    else:
        _print_check(warnings, count=len(rows or current))
    if rows and warnings:
        raise typer.Exit(exit_codes.MODEL_NEEDS_ATTENTION)


def _print_check(warnings: Mapping[str, list[str]], *, count: int) -> None:
    console = people()
    for sentences in warnings.values():
        for sentence in sentences:
            console.print(Text(sentence, style="yellow"), soft_wrap=True)
    console.print(f"{count} models read, {len(warnings)} need attention.")


def _refuse_unknown_filter(*, provider: str | None, status: str | None) -> None:
    rows = list(default_registry().rows())
    known_by_kind = {
        "provider": (provider, {row.provider for row in rows}),
        "status": (status, set(_STYLES)),
    }
    for kind, (asked, known) in known_by_kind.items():
        if asked and asked not in known:
            raise UnknownOptionError(asked, kind=kind, known=known)


def _overview(rows: list[ModelLimits]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("model", overflow="fold")
    table.add_column("vendor")
    table.add_column("status")
    for heading in ("window", "reply", "$ in", "$ out"):
        table.add_column(heading, justify="right")
    table.add_column("retires")
    today = _today()
    for row in rows:
        price = price_at(row, today=today) or Price()
        table.add_row(
            row.id,
            row.provider,
            Text(row.status, style=_STYLES[row.status]),
            f"{row.window_tokens:,}",
            _tokens(row.output_tokens),
            _dollars(price.input),
            _dollars(price.output),
            row.retires_on.isoformat() if row.retires_on else "",
        )
    return table


def _as_json(limits: ModelLimits) -> dict[str, Json]:
    return {**to_json(limits), "warnings": lifecycle_warnings(limits, _today())}


def _fields(limits: ModelLimits) -> Iterator[tuple[str, str]]:
    """Yield every field with a value, as text; a mapping of fields is one line for each."""
    for field in fields(limits):
        value = to_json(getattr(limits, field.name))
        if field.name == "prices":
            for number, price in enumerate(value):
                yield f"price {number + 1}" if len(value) > 1 else "price", spelling(price)
        elif value not in ("", None, [], {}):
            yield field.name, spelling(value)


def _tokens(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _dollars(price: float | None) -> str:
    return "" if price is None else f"{price:g}"


def _today() -> date:
    return datetime.now(tz=UTC).date()
