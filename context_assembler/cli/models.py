"""`models`: what the registry knows, and whether the models in use are still offered."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from context_assembler.cli import ERROR, MODEL_NEEDS_ATTENTION, remedy_for
from context_assembler.cli.screen import (
    JsonFlag,
    counted,
    one_line,
    people,
    print_error,
    print_json,
    readable,
    table_of,
)
from context_assembler.errors import RegistryError, UnknownModelError, UnknownOptionError
from context_assembler.events import Json, to_json
from context_assembler.models import (
    DEFAULT_REGISTRY,
    KNOWN_FEATURES,
    ModelLimits,
    Price,
    lifecycle_notes,
    price_at,
)
from context_assembler.options import AssemblerConfig

app: Final = typer.Typer(add_completion=False)
_STYLES: Final = {"active": "green", "legacy": "", "deprecated": "yellow", "retired": "red"}


def _today() -> date:
    return datetime.now(tz=UTC).date()


@app.callback(invoke_without_command=True)
def models(context: typer.Context, *, as_json: JsonFlag = False) -> None:
    """List models, their limits, prices and dates. Without a command: `list`."""
    if context.invoked_subcommand is None:
        list_models(as_json=as_json)
    elif as_json:
        context.default_map = {context.invoked_subcommand: {"as_json": True}}


@app.command("list")
def list_models(
    *,
    provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only models of this vendor.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="active, legacy, deprecated or retired."),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only models that have it; may be repeated."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the models of the registry."""
    everything = list(DEFAULT_REGISTRY.rows())
    rows = [
        row
        for row in everything
        if provider in (None, row.provider)
        and status in (None, row.status)
        and all(map(row.supports, feature or ()))
    ]
    if not rows:
        for kind, given, known in (
            ("provider", [provider], {row.provider for row in everything}),
            ("status", [status], set(_STYLES)),
            ("feature", feature or [], set(KNOWN_FEATURES)),
        ):
            for name in given:
                if name and name not in known:
                    raise UnknownOptionError(name, kind=kind, known=known)
    if as_json:
        print_json(list(map(_as_json, rows)))
        return
    figures = ("window", "reply", "$ in", "$ out")
    table = table_of("model", "vendor", "status", *figures, "retires", right=figures)
    for row in rows:
        price = price_at(row, today=_today()) or Price()
        table.add_row(
            row.id,
            row.provider,
            Text(row.status, style=_STYLES[row.status]),
            f"{row.window_tokens:,}",
            "" if row.output_tokens is None else f"{row.output_tokens:,}",
            "" if price.input is None else f"{price.input:g}",
            "" if price.output is None else f"{price.output:g}",
            row.retires_on.isoformat() if row.retires_on else "",
        )
    people().print(table)


def _as_json(limits: ModelLimits) -> dict[str, Json]:
    return {**_plain(limits._asdict()), "warnings": lifecycle_notes(limits, _today())}


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else to_json(value)


@app.command("show")
def show(
    *,
    model: Annotated[str, typer.Argument(metavar="ID", help="As any gateway writes it.")],
    as_json: JsonFlag = False,
) -> None:
    """Show everything that is known of one model, and which file each field comes from."""
    limits, fields = DEFAULT_REGISTRY.get(model), DEFAULT_REGISTRY.fields(model)
    codes = DEFAULT_REGISTRY.sources()
    sources = {code: codes.get(code, "") for code in limits.sources}
    if as_json:
        origins = {path: file for path, _, file in fields}
        print_json({**_as_json(limits), "origins": origins, "source_names": sources})
        return
    table = table_of("field", "value", "file", header=False)
    for name, value in (("id", limits.id), ("sent as", limits.api_id), ("host", limits.host)):
        if value:
            table.add_row(name, one_line(value), "")
    for path, value, file in fields:
        table.add_row(path, one_line(readable(_plain(value)), max_chars=400), file)
    for code, text in sources.items():
        table.add_row(f"source {code}", one_line(text, max_chars=400), "")
    people().print(table)
    for note in lifecycle_notes(limits, _today()):
        people().print(Text(note, style="yellow"), soft_wrap=True)


@app.command("check")
def check(
    *,
    model: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Models in use.")] = None,
    stale_days: Annotated[
        int, typer.Option(min=1, metavar="N", help="Name rows that were last checked before that.")
    ] = 90,
    as_json: JsonFlag = False,
) -> None:
    """Check the registry, your own files, and the models that you use.

    Without ids: the models that the configuration names, and those of the others that retire soon.
    Exit code: 2 if a row breaks the schema or a model is unknown, 13 if a model in use needs
    attention.
    """
    today, registry = _today(), DEFAULT_REGISTRY
    problems = registry.problems()
    config = AssemblerConfig()
    layers = [config.defaults, *config.agents.values()]
    names = model or [options.model for options in layers if options.model]
    warnings: dict[str, list[str]] = {}
    unknown: dict[str, UnknownModelError] = {}
    rows: list[ModelLimits] = []
    for name in names:
        try:
            rows.append(limits := registry.get(name))
        except UnknownModelError as error:
            unknown[name] = error
        except RegistryError:
            continue  # it is among the problems
        else:
            warnings |= {name: found} if (found := lifecycle_notes(limits, today)) else {}
    if not model:
        broken = {problem.row for problem in problems}
        rows = [registry.get(one) for one in registry.ids() if one not in broken]
        rows = [row for row in rows if row.status != "retired" and row.id not in warnings]
    others = {row.id: found for row in rows if not model and (found := lifecycle_notes(row, today))}
    oldest = today - timedelta(days=min(stale_days, (today - date.min).days))
    stale = [row.id for row in rows if row.checked is not None and row.checked < oldest]
    count = len(registry.ids())
    if as_json:
        unknown_texts = {name: [str(error)] for name, error in unknown.items()}
        print_json(
            {
                "rows": count,
                "problems": list(map(str, problems)),
                "warnings": {**warnings, **unknown_texts},
                "other_warnings": others,
                "stale": stale,
            }
        )
    else:
        console = people()
        for problem in problems:
            console.print(Text(str(problem), style="red"), soft_wrap=True)
        for sentences in (*warnings.values(), *others.values()):
            for sentence in sentences:
                console.print(Text(sentence, style="yellow"), soft_wrap=True)
        for error in unknown.values():
            print_error(error.problem, remedy_for(error))
        if stale:
            text = f"{len(stale)} were last checked more than {stale_days} days ago: "
            console.print(f"{text}{', '.join(stale)}.", soft_wrap=True)
        read = f"{counted(count, 'model')} read, {len(problems)} broken, {len(warnings)}"
        console.print(f"{read} in use and {len(others)} others need attention.")
    if problems or (unknown and not warnings):
        raise typer.Exit(ERROR)
    if warnings:
        raise typer.Exit(MODEL_NEEDS_ATTENTION)
