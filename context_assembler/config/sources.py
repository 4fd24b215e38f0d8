"""Where settings are read from besides code: the environment and TOML files."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    PyprojectTomlConfigSettingsSource,
    TomlConfigSettingsSource,
)

from context_assembler.errors import ConfigurationError, UnknownOptionError, is_misspelt
from context_assembler.values.json_shapes import is_object
from context_assembler.values.option_rules import TEXT_OPTIONS
from context_assembler.values.parts import Json

ENV_PREFIX: Final = "CONTEXT_ASSEMBLER_"
TABLE: Final = ("tool", "context-assembler")
_FILE: Final = "context-assembler.toml"


class Environment(EnvSettingsSource):
    """Reads options in their own types, and refuses a name that is nearly a setting's.

    `CONTEXT_ASSEMBLER_MEMORY` may hold the URL of the store alone, as the command line reads it.
    """

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        if field_name == "memory" and not str(value).lstrip().startswith("{"):
            return {"store": value or None}
        return super().decode_complex_value(field_name, field, value)

    def __call__(self) -> dict[str, Any]:
        own = [variable for variable in self.env_vars if variable.upper().startswith(ENV_PREFIX)]
        if not own:
            return {}  # without looking for every setting there is
        self._refuse_misspelt(own)
        try:
            found = super().__call__()
        except RecursionError:
            raise ConfigurationError(
                "A setting of the environment is nested too deeply.",
                remedy=f"Correct the JSON in the variables that begin with {ENV_PREFIX}.",
            ) from None
        if is_object(defaults := found.get("defaults")):
            found["defaults"] = _from_text(defaults)
        if is_object(agents := found.get("agents")):
            found["agents"] = {
                agent_id: _from_text(options) if is_object(options) else options
                for agent_id, options in agents.items()
            }
        return found

    def _refuse_misspelt(self, variables: Iterable[str]) -> None:
        known = list(self.settings_cls.model_fields)
        for variable in variables:
            name = variable[len(ENV_PREFIX) :].lower().split("__")[0]
            if is_misspelt(name, known):
                raise UnknownOptionError(name, kind=f"setting in {variable.upper()}", known=known)


def _from_text(options: Mapping[str, Json]) -> dict[str, Json]:
    return {
        name: value if name in TEXT_OPTIONS or not isinstance(value, str) else _json_or_text(value)
        for name, value in options.items()
    }


def _json_or_text(value: str) -> Json:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def file_sources(cls: type[BaseSettings], folder: Path) -> list[PydanticBaseSettingsSource]:
    readers = {_FILE: TomlConfigSettingsSource, "pyproject.toml": PyprojectTomlConfigSettingsSource}
    sources: list[PydanticBaseSettingsSource] = []
    for name, reader in readers.items():
        try:
            sources.append(reader(cls, folder / name))
        # TOML and text that is not UTF-8 are ValueErrors.
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"{folder / name} cannot be read: {error}.",
                remedy="Correct that file: it must be TOML in UTF-8.",
            ) from error
    return sources
