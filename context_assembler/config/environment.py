"""Settings that environment variables give: `CONTEXT_ASSEMBLER_TABLE__NAME`."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from context_assembler.config.kinds import Kind
from context_assembler.errors import ConfigurationError, UnknownOptionError, is_misspelt
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json

ENV_PREFIX: Final = "CONTEXT_ASSEMBLER_"

# The command line and the registry of models read these themselves; the others are the tests' own,
# and what Kubernetes sets for a service of this name.
_NOT_SETTINGS: Final = re.compile(
    r"models|sessions|corpus|bench(_.*)?|port(_.*)?|service_(host|port)(_.*)?"
)
_Steps: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the variables give.

    Attributes:
        variables: By the path of a setting, the variable that gives it.
    """

    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    variables: dict[_Steps, str] = field(default_factory=dict[_Steps, str])


def read_environment(config: type, *, known: Mapping[str, Json]) -> Environment:
    """Return the settings of the environment, in the shapes that files have.

    A value that begins with `{` or `[` is JSON, unless the setting is a text. A name that somebody
    chose (an agent's, a tool's) and that is spelled in capitals alone is the one of `known` that
    it is without regard to case, else it stands for the name in small letters.
    `CONTEXT_ASSEMBLER_MEMORY` may hold the URL of the store alone, as the command line reads it.

    Raises:
        UnknownOptionError: A variable that is nearly a setting's, or names a part of none.
        ConfigurationError: A value that should be JSON is not.
    """
    environment = Environment()
    for variable, names in sorted(_own_variables(), key=_tables_first):
        first = names[0].lower()
        if first in Kind(config).names:
            _take(environment, variable, names, kind=Kind(config), known=known)
        elif len(names) > 1 or is_misspelt(first, Kind(config).names):
            kind = f"setting in {variable.upper()}"
            raise UnknownOptionError(first, kind=kind, known=Kind(config).names)
    return environment


def unread_variables(config: type) -> list[str]:
    """Return the variables that begin like those of settings and are read by nobody."""
    known = Kind(config).names
    first_names = ((variable, names[0].lower()) for variable, names in _own_variables())
    return sorted(
        variable
        for variable, name in first_names
        if name not in known and not _NOT_SETTINGS.fullmatch(name)
    )


def _own_variables() -> Iterator[tuple[str, list[str]]]:
    for variable in os.environ:
        if variable.upper().startswith(ENV_PREFIX):
            yield variable, variable[len(ENV_PREFIX) :].split("__")


def _tables_first(own: tuple[str, list[str]]) -> tuple[int, bool, str]:
    """Whole tables stand before parts of them, and names with their case before those without."""
    variable, names = own
    return len(names), variable.isupper(), variable


def _take(
    environment: Environment, variable: str, names: list[str], *, kind: Kind, known: Json
) -> None:
    table, steps = environment.settings, list[str]()
    for name in names[:-1]:
        steps.append(_spelled(name, kind, (table, known)))
        kind, known = kind.of(steps[-1]), _at(known, steps[-1])
        if not is_object(table.get(steps[-1])):
            table[steps[-1]] = {}
        table = table[steps[-1]]
    last = _spelled(names[-1], kind, (table, known))
    table[last] = _value(variable, os.environ[variable], kind=kind.of(last), steps=(*steps, last))
    environment.variables[*steps, last] = variable


def _at(known: Json, name: str) -> Json:
    return known.get(name) if is_object(known) else None


def _spelled(name: str, kind: Kind, tables: tuple[Json, ...]) -> str:
    """Return the name of a setting, or a chosen name, that a part of a variable's name stands for."""
    if not kind.has_chosen_names:
        return name.lower()
    if name != name.upper():
        return name
    chosen = [other for table in tables if is_object(table) for other in table]
    alike = [other for other in chosen if other.lower() == name.lower()]
    best = [other for other in (name, name.lower()) if other in alike]
    return next(iter((*best, *alike)), name.lower())


def _value(variable: str, text: str, *, kind: Kind, steps: _Steps) -> Json:
    if steps == ("memory",) and not text.lstrip().startswith("{"):
        return {"store": text or None}
    if kind.is_text:
        return text
    if text.lstrip().startswith(("{", "[")):
        return _json(variable, text)
    return _number_or_text(text) if kind.is_of_options else text


def _json(variable: str, text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ConfigurationError(
            f"{variable} is no JSON: {reason}.",
            remedy="Lists and tables in environment variables are written as JSON, "
            """such as ["a", "b"] or {"a": 1}; so is a text that begins with { or [: ["[a]"].""",
        ) from None


def _number_or_text(text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
