"""`models`: what the registry knows, and whether the models in use are still offered."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from context_assembler.cli import ERROR, MODEL_NEEDS_ATTENTION, DefaultGroup, remedy_for
from context_assembler.cli.command import Answer, command, counted, fields_of, readable, table_of
from context_assembler.errors import RegistryError, UnknownModelError, UnknownOptionError
from context_assembler.events import Json
from context_assembler.models import (
    DEFAULT_REGISTRY,
    KNOWN_FEATURES,
    ModelLimits,
    Price,
    lifecycle_notes,
    price_at,
)
from context_assembler.options import AssemblerConfig

app: Final = typer.Typer(add_completion=False, cls=DefaultGroup.of("list"))
_STYLES: Final = {"active": "green", "legacy": "", "deprecated": "yellow", "retired": "red"}


def _today() -> date:
    return datetime.now(tz=UTC).date()


def _plain(value: Any) -> Json:
    if isinstance(value, dict):
        return {key: _plain(held) for key, held in value.items()}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    return value.isoformat() if isinstance(value, date) else value


def _as_json(limits: ModelLimits) -> dict[str, Json]:
    return {**_plain(limits), "warnings": lifecycle_notes(limits, _today())}


@command(app, "list")
def list_models(
    *, provider: str | None = None, status: str | None = None, feature: list[str] | None = None
) -> Answer:
    """List the models of the registry.

    Args:
        provider: Only models of this vendor.
        status: active, legacy, deprecated or retired.
        feature: Only models that have it: vision, pdf …; repeatable.
    """
    everything = list(DEFAULT_REGISTRY.rows())
    for kind, names, known in (
        ("provider", [provider], {row.provider for row in everything}),
        ("status", [status], set(_STYLES)),
        ("feature", feature or [], set(KNOWN_FEATURES)),
    ):
        for name in names:
            if name is not None and name not in known:
                raise UnknownOptionError(name, kind=kind, known=known)
    rows = [
        row
        for row in everything
        if provider in (None, row.provider)
        and status in (None, row.status)
        and all(map(row.supports, feature or ()))
    ]
    right = ("window", "reply", "$ in", "$ out")
    columns = ("model", "vendor", "status", *right, "retires")
    table = table_of(*columns, right=right, rows=map(_cells, rows))
    return Answer([_as_json(row) for row in rows], [table])


def _cells(row: ModelLimits) -> list[Any]:
    price = price_at(row, today=_today()) or Price()
    tokens = [f"{n:,}" if n else "" for n in (row.window_tokens, row.output_tokens)]
    prices = ["" if usd is None else f"{usd:g}" for usd in (price.input, price.output)]
    retires = row.retires_on.isoformat() if row.retires_on else ""
    status = Text(row.status, style=_STYLES[row.status])
    return [row.id, row.provider, status, *tokens, *prices, retires]


@command(app, "show")
def show(model: str) -> Answer:
    """Show everything that is known of one model, and which file each field comes from.

    Args:
        model: As any gateway writes it.
    """
    limits, fields = DEFAULT_REGISTRY.get(model), DEFAULT_REGISTRY.fields(model)
    known = DEFAULT_REGISTRY.sources()
    sources = {code: known.get(code, "") for code in limits.sources}
    head = {"id": limits.id, "sent as": limits.api_id, "host": limits.host or ""}
    cells = [(path, readable(_plain(value))[:400], file) for path, value, file in fields]
    told = fields_of({**head, **{f"source {code}": text for code, text in sources.items()}})
    notes = [Text(note, style="yellow") for note in lifecycle_notes(limits, _today())]
    origins = {path: file for path, _, file in fields}
    value = {**_as_json(limits), "origins": origins, "source_names": sources}
    return Answer(value, [told, "", table_of("field", "value", "file", rows=cells), *notes])


@command(app, "check")
def check(model: list[str] | None = None, *, stale_days: int = 90) -> Answer:
    """Check the registry, your own files, and the models that you use.

    Without ids: the models that the configuration names, and those of the others that retire soon.
    Exit code: 2 if a row breaks the schema or a model is unknown, 13 if a model in use needs
    attention.

    Args:
        model: Models in use.
        stale_days: Name rows that were last checked before so many days.
    """
    today, registry, config = _today(), DEFAULT_REGISTRY, AssemblerConfig()
    problems = registry.problems()
    broken = {problem.row for problem in problems}
    layers = [config.defaults, *config.agents.values()]
    warnings: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    rows: list[ModelLimits] = []
    for name in model or [options.model for options in layers if options.model]:
        try:
            rows.append(registry.get(name))
            warnings[name] = lifecycle_notes(rows[-1], today)
        except UnknownModelError as error:
            unknown[name] = [f"{error.problem} {remedy_for(error)}"]
        except RegistryError:
            continue  # it is among the problems
    warnings = {name: notes for name, notes in warnings.items() if notes}
    others: dict[str, list[str]] = {}
    if not model:
        rows = [registry.get(one) for one in registry.ids() if one not in broken]
        rows = [row for row in rows if row.status != "retired" and row.id not in warnings]
        others = {row.id: notes for row in rows if (notes := lifecycle_notes(row, today))}
    oldest = today - timedelta(days=min(stale_days, 36_500))
    stale = [row.id for row in rows if row.checked is not None and row.checked < oldest]
    value: dict[str, Json] = {
        "rows": len(registry.ids()),
        "problems": list(map(str, problems)),
        "warnings": {**warnings, **unknown},
        "other_warnings": others,
        "stale": stale,
    }
    fails = problems or (unknown and not warnings)
    code = ERROR if fails else MODEL_NEEDS_ATTENTION if warnings else 0
    return Answer(value, _show_check(value, stale_days), code)


def _show_check(value: dict[str, Any], stale_days: int) -> Iterator[RenderableType]:
    yield from (Text(problem, style="red") for problem in value["problems"])
    for notes in (*value["warnings"].values(), *value["other_warnings"].values()):
        yield from (Text(note, style="yellow") for note in notes)
    if stale := value["stale"]:
        yield f"{len(stale)} were last checked more than {stale_days} days ago: {', '.join(stale)}."
    read = f"{counted(value['rows'], 'model')} read, {len(value['problems'])} broken"
    others = len(value["other_warnings"])
    yield f"{read}, {len(value['warnings'])} in use and {others} others need attention."
