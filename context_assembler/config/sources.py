"""Where settings are read from besides code, highest first: the environment and two TOML files."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from context_assembler.config.environment import read_environment
from context_assembler.config.kinds import Kind
from context_assembler.config.tables import at_home
from context_assembler.errors import ConfigurationError
from context_assembler.errors.base import brief
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json

FILES: Final = ("context-assembler.toml", "pyproject.toml")
_OWN, _PYPROJECT = FILES
_TABLE: Final = "context-assembler"
_WRITE_BACKSLASHES: Final = (
    r"Write a path in single quotes, as 'C:\Users\me', or its backslashes twice, as "
    r'"C:\\Users\\me".'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One place that settings are read from.

    Attributes:
        name: `environment`, or the file's name.
        place: The file with its folder and table, in words; none for the environment.
        variables: By the path of a setting, the variable that gives it.
    """

    name: str
    settings: dict[str, Any]
    place: str = ""
    variables: Mapping[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])


def read_sources(config: type[BaseModel], given: Mapping[str, Json]) -> list[Source]:
    """Return the environment and both files, highest first.

    Args:
        given: What code gives; its `folder` wins over the environment's.

    Raises:
        ConfigurationError: A file cannot be read, or a table in it is none; a variable is no JSON.
        UnknownOptionError: A variable that is nearly a setting's.
    """
    places = {**read_environment(config, known={}).settings, **given}
    folder: object = places.get("folder", ".")
    # Anything else is refused with the other settings, once they are together.
    files = read_files(config, at_home(Path(folder if isinstance(folder, str | Path) else ".")))
    known = merge(given, *(file.settings for file in files))
    found = read_environment(config, known=known)
    environment = Source(name="environment", settings=found.settings, variables=found.variables)
    return [environment, *files]


def merge(*tables: Mapping[str, Json]) -> dict[str, Any]:
    """Return all tables in one, highest first: tables are merged, anything else is replaced."""
    together: dict[str, Any] = {}
    for name, value in ((name, value) for table in tables for name, value in table.items()):
        if name not in together:
            together[name] = value
        elif is_object(above := together[name]) and is_object(value):
            together[name] = merge(above, value)
    return together


def read_files(config: type[BaseModel], folder: Path) -> list[Source]:
    """Return the settings of both files of a folder; a file that is not there gives none.

    Raises:
        ConfigurationError: A file cannot be read, or holds something else in the place of a table.
    """
    own, pyproject = (folder / name for name in FILES)
    sources = [
        Source(name=_OWN, settings=_own_settings(own), place=str(own)),
        Source(
            name=_PYPROJECT,
            settings=_settings_in_pyproject(pyproject),
            place=f"{pyproject}, [tool.{_TABLE}]",
        ),
    ]
    for source in sources:
        _check_tables(config, source)
    return sources


def _own_settings(path: Path) -> dict[str, Any]:
    settings = _read_toml(path)
    if is_object(tool := settings.get("tool")) and _TABLE in tool:
        raise ConfigurationError(
            f"{path}: the table [tool.{_TABLE}] belongs in {_PYPROJECT}.",
            remedy="In this file settings stand without it, such as [defaults].",
        )
    return settings


def _settings_in_pyproject(path: Path) -> dict[str, Any]:
    tool = _table(path, "tool", _read_toml(path))
    for name in tool:
        if name != _TABLE and re.sub(r"[\W_]", "", name).lower() == "contextassembler":
            raise ConfigurationError(
                f"{path}: the table [tool.{name}] is not read.", remedy=f"Write [tool.{_TABLE}]."
            )
    return _table(path, f"tool.{_TABLE}", tool)


def _table(path: Path, name: str, within: Mapping[str, Json]) -> dict[str, Any]:
    settings = within.get(name.rpartition(".")[2], {})
    if not is_object(settings):
        raise ConfigurationError(
            f"{path}: {name} must be a table; got {brief(settings)}.",
            remedy=f"Write [tool.{_TABLE}], with settings below it.",
        )
    return dict(settings)


def _check_tables(config: type[BaseModel], source: Source) -> None:
    """Refuse what is no table, though a higher source may hide it."""
    for name, value in source.settings.items():
        if Kind(config).of(name).is_table and not is_object(value):
            raise ConfigurationError(
                f"{source.place}: The setting {name!r}: must be a table; got {brief(value)}.",
                remedy=f"Write a table, such as {name} = {{}}, with its settings in it.",
            )


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    # TOML and text that is not UTF-8 are ValueErrors.
    except (OSError, ValueError, RecursionError) as error:
        says = str(error)
        is_escape = "hex value" in says or "Unescaped" in says
        raise ConfigurationError(
            f"{path} cannot be read: {says}.",
            remedy=_WRITE_BACKSLASHES
            if is_escape
            else "Correct that file: it must be TOML in UTF-8.",
        ) from error
