"""`models`: what the registry knows, and whether the models in use are still offered."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from context_assembler import models
from context_assembler.cli import ERROR, MODEL_NEEDS_ATTENTION, remedy_for
from context_assembler.cli.command import Answer, command, fields_of, table_of
from context_assembler.errors import RegistryError, UnknownModelError, UnknownOptionError
from context_assembler.events import Json, to_json
from context_assembler.models import DEFAULT_REGISTRY, ModelLimits
from context_assembler.options import AssemblerConfig

app: Final = typer.Typer(add_completion=False, help="List models, their limits, prices and dates.")
_COLUMNS: Final = ("id", "status", "window K", "reply K", "input", "output", "retires_on")


def _today() -> date:
    return datetime.now(tz=UTC).date()


def _as_json(limits: ModelLimits) -> dict[str, Json]:
    return {**to_json(limits), "warnings": models.lifecycle_notes(limits, _today())}


@command(app, "list")
def list_models(*, provider: str | None = None, feature: list[str] | None = None) -> Answer:
    """List the models of the registry.

    Args:
        provider: Only models of this vendor.
        feature: Only models that have it: vision, pdf …; repeatable.
    """
    for name in feature or ():
        if name not in models.KNOWN_FEATURES:
            raise UnknownOptionError(name, kind="feature", known=models.KNOWN_FEATURES)
    found = [row for row in DEFAULT_REGISTRY.rows() if provider in (None, row.provider)]
    found = [row for row in found if all(map(row.supports, feature or ()))]
    rows: list[dict[str, Any]] = []
    for row in found:
        price = (models.price_at(row, today=_today()) or models.Price())._asdict()
        window, reply = row.window_tokens / 1000, (row.output_tokens or 0) / 1000
        sizes = {"window K": round(window), "reply K": round(reply) or None}
        rows.append({**price, **_as_json(row), **sizes})
    return Answer([_as_json(row) for row in found], [table_of(rows, *_COLUMNS)])


@command(app, "show")
def show(model: str) -> Answer:
    """Show every field of one model, and where it comes from.

    Args:
        model: The model's id, as any gateway writes it.
    """
    limits, codes = DEFAULT_REGISTRY.get(model), DEFAULT_REGISTRY.sources()
    fields = DEFAULT_REGISTRY.fields(model)
    rows = [{"field": path, "value": to_json(held), "file": file} for path, held, file in fields]
    value = {
        **_as_json(limits),
        "origins": {path: file for path, _, file in fields},
        "source_names": {code: codes.get(code, "") for code in limits.sources},
    }
    head = fields_of({name: value[name] for name in ("id", "api_id", "host", "source_names")})
    notes = [Text(note, style="yellow") for note in value["warnings"]]
    return Answer(value, [head, "", table_of(rows, "field", "value", "file"), *notes])


@command(app, "check")
def check(model: list[str] | None = None) -> Answer:
    """Check the registry and the models that you use.

    Without ids: the models that the configuration names, and those of the others that retire soon.
    Exit code: 2 if a row breaks the schema or a model is unknown, 13 if a model in use needs
    attention.

    Args:
        model: Models in use.
    """
    registry, config = DEFAULT_REGISTRY, AssemblerConfig()
    problems = list(map(str, registry.problems()))
    layers = (config.defaults, *config.agents.values())
    named: list[str] = model or [one.model for one in layers if one.model]
    used, others, fails = dict[str, list[str]](), dict[str, list[str]](), bool(problems)
    for name in dict.fromkeys(named if model else [*named, *registry.ids()]):
        warnings = used if name in named else others
        try:
            limits = registry.get(name)
            if (found := models.lifecycle_notes(limits, _today())) and (
                name in named or limits.status != "retired"
            ):
                warnings[name] = found
        except UnknownModelError as error:
            used[name], fails = [f"{error.problem} {remedy_for(error)}"], True
        except RegistryError:
            continue  # it is among the problems
    value: dict[str, Json] = {"rows": len(registry.ids()), "problems": problems}
    value |= {"warnings": used, "other_warnings": others}
    code = ERROR if fails else MODEL_NEEDS_ATTENTION if used else 0
    return Answer(value, _show_check(value), code)


def _show_check(value: dict[str, Any]) -> Iterator[RenderableType]:
    yield from (Text(problem, style="red") for problem in value["problems"])
    for notes in (*value["warnings"].values(), *value["other_warnings"].values()):
        yield from (Text(note, style="yellow") for note in notes)
    read = f"{value['rows']:,} models read, {len(value['problems'])} broken"
    others = len(value["other_warnings"])
    yield f"{read}, {len(value['warnings'])} in use and {others} others need attention."
