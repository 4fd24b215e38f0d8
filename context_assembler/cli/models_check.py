"""`models check`: whether the registry is sound, and the models in use are still there."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import typer
from rich.text import Text

from context_assembler.cli import exit_codes
from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import people, print_json
from context_assembler.errors import RegistryError, UnknownModelError
from context_assembler.limits import ModelRegistry, default_registry, lifecycle_notes
from context_assembler.values.limits import ModelLimits

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

    Every row is read, for every host it names. In use are the models given here and those that the
    configuration names; of the others it is only told which retire soon.

    Exit code: 2 when a row breaks the schema, 13 when a model in use needs attention.
    """
    registry, today = default_registry(), datetime.now(tz=UTC).date()
    problems = registry.problems()
    broken = {problem.row for problem in problems}
    used = _attention(registry, model or (), today) | _attention(registry, _configured(), today)
    current = [
        row
        for row in _readable(registry, broken)
        if row.status != "retired" and (row.is_assumed or row.id not in used)
    ]
    others = {row.id: found for row in current if (found := lifecycle_notes(row, today))}
    oldest = today - timedelta(days=stale_days)
    stale = [row.id for row in current if row.checked is not None and row.checked < oldest]
    used = {name: sentences for name, sentences in used.items() if sentences}
    if as_json:
        print_json(
            {
                "rows": len(registry.ids()),
                "problems": [str(problem) for problem in problems],
                "warnings": used,
                "other_warnings": others,
                "stale": stale,
            }
        )
    else:
        _print_check(registry, problems, used, others, stale, stale_days=stale_days)
    if problems:
        raise typer.Exit(exit_codes.ERROR)
    if used:
        raise typer.Exit(exit_codes.MODEL_NEEDS_ATTENTION)


def _configured() -> list[str]:
    """Return the models that the configuration of this folder names, in all its layers."""
    from context_assembler.config import AssemblerConfig  # noqa: PLC0415 - dear, and only here

    config = AssemblerConfig()
    layers = [config.defaults, *config.agents.values()]
    return [options.model for options in layers if options.model]


def _attention(registry: ModelRegistry, names: Iterable[str], today: date) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        try:
            found[name] = lifecycle_notes(registry.get(name), today)
        except UnknownModelError as error:
            found[name] = [str(error)]
        except RegistryError:
            continue  # it is among the problems
    return found


def _readable(registry: ModelRegistry, broken: set[str]) -> Iterator[ModelLimits]:
    return (registry.get(row_id) for row_id in registry.ids() if row_id not in broken)


def _print_check(
    registry: ModelRegistry,
    problems: list[RegistryError],
    used: Mapping[str, list[str]],
    others: Mapping[str, list[str]],
    stale: list[str],
    *,
    stale_days: int,
) -> None:
    console = people()
    for problem in problems:
        console.print(Text(str(problem), style="red"), soft_wrap=True)
    for sentences in (*used.values(), *others.values()):
        for sentence in sentences:
            console.print(Text(sentence, style="yellow"), soft_wrap=True)
    if stale:
        listed = ", ".join(stale)
        console.print(
            f"{len(stale)} were last checked more than {stale_days} days ago: {listed}.",
            soft_wrap=True,
        )
    console.print(
        f"{len(registry.ids())} models read, {len(problems)} broken, "
        f"{len(used)} in use and {len(others)} others need attention."
    )
