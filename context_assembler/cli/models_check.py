"""`models check`: whether the registry is sound, and the models in use are still there."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import typer
from rich.text import Text

from context_assembler.cli import exit_codes
from context_assembler.cli.remedies import remedy_for
from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import counted, people, print_error, print_json
from context_assembler.errors import RegistryError, UnknownModelError
from context_assembler.limits import ModelRegistry, default_registry, lifecycle_notes
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import Json

StaleDays = Annotated[
    int, typer.Option(min=1, metavar="N", help="Name rows that were last checked before that.")
]


def check(
    *,
    model: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Models in use, in any spelling.")
    ] = None,
    stale_days: StaleDays = 90,
    as_json: JsonFlag = False,
) -> None:
    """Check the registry, your own files, and the models that you use.

    Every row is read, for every host it names. With ids, only they are told of; without, the models
    that the configuration names, and those of the others that retire soon.

    Exit code: 2 when a row breaks the schema or a model is unknown, 13 when a model in use needs
    attention.
    """
    registry, today = default_registry(), datetime.now(tz=UTC).date()
    problems = registry.problems()
    used = _attention(registry, model or _configured(), today)
    current = _asked_rows(registry, model) if model else _other_rows(registry, problems, used)
    others = {row.id: told for row in current if (told := lifecycle_notes(row, today))}
    oldest = _days_before(today, stale_days)
    found = Found(
        rows=len(registry.ids()),
        problems=[str(problem) for problem in problems],
        unknown={name: note for name, note in used.items() if isinstance(note, UnknownModelError)},
        warnings={name: note for name, note in used.items() if note and isinstance(note, list)},
        other_warnings={} if model else others,
        stale=[row.id for row in current if row.checked is not None and row.checked < oldest],
    )
    if as_json:
        print_json(_as_json(found))
    else:
        _print_found(found, asked=len(model or ()), stale_days=stale_days)
    if problems:
        raise typer.Exit(exit_codes.ERROR)
    if found.warnings:
        raise typer.Exit(exit_codes.MODEL_NEEDS_ATTENTION)
    if found.unknown:
        raise typer.Exit(exit_codes.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a check found: `warnings` of models in use, by name, and of the others, by row."""

    rows: int
    problems: Sequence[str]
    unknown: Mapping[str, UnknownModelError]
    warnings: Mapping[str, list[str]]
    other_warnings: Mapping[str, list[str]]
    stale: Sequence[str]


def _days_before(today: date, days: int) -> date:
    """Return the day so many days ago, or the first one there is."""
    return today - timedelta(days=min(days, (today - date.min).days))


def _configured() -> list[str]:
    """Return the models that the configuration of this folder names, in all its layers."""
    from context_assembler.config import AssemblerConfig  # noqa: PLC0415 - dear, and only here

    config = AssemblerConfig()
    layers = [config.defaults, *config.agents.values()]
    return [options.model for options in layers if options.model]


def _attention(
    registry: ModelRegistry, names: Iterable[str], today: date
) -> dict[str, list[str] | UnknownModelError]:
    found: dict[str, list[str] | UnknownModelError] = {}
    for name in names:
        try:
            found[name] = lifecycle_notes(registry.get(name), today)
        except UnknownModelError as error:
            found[name] = error
        except RegistryError:
            continue  # it is among the problems
    return found


def _asked_rows(registry: ModelRegistry, names: Iterable[str]) -> list[ModelLimits]:
    rows: list[ModelLimits] = []
    for name in names:
        with suppress(UnknownModelError, RegistryError):
            rows.append(registry.get(name))
    return rows


def _other_rows(
    registry: ModelRegistry, problems: Iterable[RegistryError], used: Collection[str]
) -> list[ModelLimits]:
    broken = {problem.row for problem in problems}
    rows = (registry.get(row_id) for row_id in registry.ids() if row_id not in broken)
    return [r for r in rows if r.status != "retired" and (r.is_assumed or r.id not in used)]


def _as_json(found: Found) -> dict[str, Json]:
    unknown = {name: [str(error)] for name, error in found.unknown.items()}
    return {
        "rows": found.rows,
        "problems": list(found.problems),
        "warnings": {**found.warnings, **unknown},
        "other_warnings": dict(found.other_warnings),
        "stale": list(found.stale),
    }


def _print_found(found: Found, *, asked: int, stale_days: int) -> None:
    console = people()
    for problem in found.problems:
        console.print(Text(problem, style="red"), soft_wrap=True)
    for sentences in (*found.warnings.values(), *found.other_warnings.values()):
        for sentence in sentences:
            console.print(Text(sentence, style="yellow"), soft_wrap=True)
    for error in found.unknown.values():
        print_error(error.problem, remedy_for(error))
    if found.stale:
        listed = ", ".join(found.stale)
        console.print(
            f"{len(found.stale)} were last checked more than {stale_days} days ago: {listed}.",
            soft_wrap=True,
        )
    needy = len(found.warnings)
    read = f"{counted(found.rows, 'model')} read, {len(found.problems)} broken, "
    unknown = f", {len(found.unknown)} unknown" if found.unknown else ""
    if asked:
        console.print(f"{read}{needy} of {asked} asked for need attention{unknown}.")
    else:
        others = len(found.other_warnings)
        console.print(f"{read}{needy} in use and {others} others need attention{unknown}.")
