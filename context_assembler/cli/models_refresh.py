"""`models refresh`: what others say about the models by now."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import counted, people, print_json, print_note
from context_assembler.errors import ConfigurationError, nearest
from context_assembler.limits import default_registry
from context_assembler.limits.refresh import (
    MODELS_APIS,
    PACKAGES,
    Catalogue,
    Change,
    ask_vendor,
    change_lines,
    installed_packages,
    proposal_file,
    propose_changes,
    reachable_vendors,
    read_file,
    read_package,
    unlisted_models,
)
from context_assembler.values.codec import to_json
from context_assembler.values.parts import Json

_STYLES: Final = {"-": "red", "+": "green", "@": "bold"}
_MOST_NAMES: Final = 12

From = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="SOURCE",
        help="anthropic, openai or google (their Models API), litellm or genai-prices (installed), "
        "or a JSON file of litellm or models.dev; may be repeated. Default: all that are at hand.",
    ),
]
Write = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Write the proposal to a new file of overrides."),
]


def refresh(*, sources: From = None, write: Write = None, as_json: JsonFlag = False) -> None:
    """Propose changes of the registry, from what others say about its models.

    A field is proposed where no source backs it any more. Nothing is changed: the proposal is
    printed, and written only where --write names a new file, in which whatever a person should
    look at first stands as a comment.
    """
    today = datetime.now(tz=UTC).date()
    catalogues = _catalogues(sources or (), today)
    rows = list(default_registry().rows())
    changes = propose_changes(rows, catalogues, today=today)
    unlisted = unlisted_models(rows, catalogues)
    if write is not None:
        text = proposal_file(
            changes,
            {row.id: row for row in rows},
            [catalogue.source for catalogue in catalogues],
            today=today,
        )
        _write_new(write, text)
    if as_json:
        print_json(_as_json(changes, catalogues, unlisted, today))
        return
    _print(changes, catalogues, unlisted)
    if write is not None:
        people().print(f"Written to {write}. Nothing else was changed.", soft_wrap=True)


def _catalogues(asked: Sequence[str], today: date) -> list[Catalogue]:
    if asked:
        return [_read(name, today) for name in asked]
    catalogues: list[Catalogue] = []
    for name in (*reachable_vendors(), *installed_packages()):
        try:
            catalogues.append(_read(name, today))
        except ConfigurationError as error:
            print_note(f"{error.problem} It was left out.")
    if not catalogues:
        raise ConfigurationError(
            "There is nothing to compare the registry with.",
            remedy="Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, install litellm or "
            "genai-prices, or pass --from FILE with the api.json of models.dev.",
        )
    return catalogues


def _read(name: str, today: date) -> Catalogue:
    if name in MODELS_APIS:
        return ask_vendor(name)
    if name in PACKAGES:
        return read_package(name, today=today)
    near = nearest(name, (*MODELS_APIS, *PACKAGES))
    if near and not Path(name).exists():
        raise ConfigurationError(
            f"{name} cannot be read: there is no such file or source.",
            remedy=f"Did you mean {near[0]!r}?",
        )
    return read_file(Path(name))


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}.",
            remedy="Name a file that does not exist yet, in a folder that does.",
        ) from error


def _as_json(
    changes: Sequence[Change],
    catalogues: Sequence[Catalogue],
    unlisted: dict[str, list[str]],
    today: date,
) -> dict[str, Json]:
    return {
        "checked": today.isoformat(),
        "sources": [to_json(catalogue.source) for catalogue in catalogues],
        "changes": [to_json(change) for change in changes],
        "unlisted": unlisted,
    }


def _print(
    changes: Sequence[Change], catalogues: Sequence[Catalogue], unlisted: dict[str, list[str]]
) -> None:
    console = people()
    for line in change_lines(changes):
        console.print(Text(line, style=_STYLES.get(line[0], "")), soft_wrap=True)
    for vendor, names in unlisted.items():
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        listed = ", ".join(names[:_MOST_NAMES])
        console.print(f"No row for what {vendor} offers: {listed}{more}.", soft_wrap=True)
    asked = ", ".join(catalogue.source.label for catalogue in catalogues)
    sure = sum(change.decision == "auto" for change in changes)
    console.print(
        f"{counted(len(changes), 'change')} proposed, {len(changes) - sure} of them to be reviewed; "
        f"asked: {asked}.",
        soft_wrap=True,
    )
