"""`models`: what the registry knows."""

from datetime import UTC, date, datetime
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from context_assembler.cli.models_check import check
from context_assembler.cli.models_refresh import refresh
from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import one_line, people, print_json, spelling
from context_assembler.errors import UnknownOptionError
from context_assembler.limits import (
    FEATURE_SYNONYMS,
    KNOWN_FEATURES,
    default_registry,
    lifecycle_notes,
    price_at,
)
from context_assembler.resources import bundled_path
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
Feature = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Only models that have it: vision, pdf …; may be repeated."),
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
    *,
    provider: Provider = None,
    status: Status = None,
    feature: Feature = None,
    as_json: JsonFlag = False,
) -> None:
    """List the models of the registry."""
    features = [FEATURE_SYNONYMS.get(name, name) for name in feature or ()]
    everything = list(default_registry().rows())
    rows = [row for row in everything if not provider or row.provider == provider]
    rows = [row for row in rows if not status or row.status == status]
    rows = [row for row in rows if all(map(row.supports, features))]
    if not rows:
        _refuse_unknown("provider", [provider or ""], {row.provider for row in everything})
        _refuse_unknown("status", [status or ""], set(_STYLES))
        _refuse_unknown("feature", features, {*KNOWN_FEATURES, *FEATURE_SYNONYMS})
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
    """Show everything that is known of one model, and which file each field comes from."""
    registry = default_registry()
    limits, fields = registry.get(model), registry.fields(model)
    codes = registry.sources()
    sources = {code: codes.get(code, "") for code in limits.sources}
    if as_json:
        origins = {path: _origin(file) for path, _, file in fields}
        print_json({**_as_json(limits), "origins": origins, "source_names": sources})
        return
    console = people()
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="dim", overflow="fold")
    for name, value in _addresses(limits):
        table.add_row(name, one_line(value, max_chars=400), "")
    for path, value, file in fields:
        text = one_line(_readable(value), max_chars=400)
        table.add_row(path, text, _origin(file))
    for code, text in sources.items():
        table.add_row(f"source {code}", one_line(text, max_chars=400), "")
    console.print(table)
    for note in lifecycle_notes(limits, _today()):
        console.print(Text(note, style="yellow"), soft_wrap=True)


app.command("check")(check)
app.command("refresh")(refresh)


def _addresses(limits: ModelLimits) -> list[tuple[str, str]]:
    addresses = [("id", limits.id), ("sent as", limits.api_id), ("host", limits.host or "")]
    return [(name, value) for name, value in addresses if value]


def _origin(file: str) -> str:
    return "bundled" if file == str(bundled_path("model_limits.yaml")) else file


def _readable(value: Json) -> str:
    return "not given" if value is None else spelling(to_json(value))


def _refuse_unknown(kind: str, asked: list[str], known: set[str]) -> None:
    for name in asked:
        if name and name not in known:
            raise UnknownOptionError(name, kind=kind, known=known)


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
    return {**to_json(limits), "warnings": lifecycle_notes(limits, _today())}


def _tokens(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _dollars(price: float | None) -> str:
    return "" if price is None else f"{price:g}"


def _today() -> date:
    return datetime.now(tz=UTC).date()
