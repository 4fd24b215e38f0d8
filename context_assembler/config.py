"""`AssemblerConfig`: settings from code, the environment and TOML files.

Highest first: arguments, `CONTEXT_ASSEMBLER_*` (nested with `__`), `context-assembler.toml`, the
table `[tool.context-assembler]` of `pyproject.toml`. Both files are looked for in the `folder` that
the arguments or `CONTEXT_ASSEMBLER_FOLDER` name, else in the current one.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    PyprojectTomlConfigSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.values.json_shapes import is_object
from context_assembler.values.option_rules import TEXT_OPTIONS, parse_options
from context_assembler.values.options import (
    AssembleOptions,
    ClockSettings,
    CompactionSettings,
    TruncationSettings,
    UnknownModelPolicy,
)
from context_assembler.values.parts import Json

_ENV_PREFIX: Final = "CONTEXT_ASSEMBLER_"
_TABLE: Final = ("tool", "context-assembler")
_FILE: Final = "context-assembler.toml"

_T = TypeVar("_T")


def _read_options(given: Json) -> Json:
    return parse_options(given) if is_object(given) else given


def _only_known_keys(kind: type[_T]) -> BeforeValidator:
    """Refuse keys that the value does not have; pydantic itself drops them silently."""
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]

    def check(given: Json) -> Json:
        if is_object(given):
            for key in given:
                if key not in known:
                    raise UnknownOptionError(key, kind="setting", known=known)
        return given

    return BeforeValidator(check)


Options = Annotated[AssembleOptions, BeforeValidator(_read_options)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BootstrapSettings(_Table):
    """Which instruction files are read, and how much of them.

    Attributes:
        folder: Where they lie; relative to the configuration's folder.
        agent_names: Names that are accepted for AGENT.md, first match wins (`AGENTS.md` …).
        searches_upward: Whether the parent folders up to the repository's root are read as well.
        required: Sections that are never shortened or dropped.
        max_file_tokens: Longest text of one file.
        max_total_tokens: Longest text of all files together; the nearest file is cut last.
        ttl_seconds: How long the folder's listing is trusted; the files' own state never is.
    """

    folder: Path = Path("bootstrap")
    agent_names: tuple[str, ...] = ("AGENT.md",)
    searches_upward: bool = False
    required: tuple[str, ...] = ("agent",)
    max_file_tokens: int = Field(default=25_000, gt=0)
    max_total_tokens: int = Field(default=50_000, gt=0)
    ttl_seconds: float = Field(default=60.0, ge=0)


class PromptSettings(_Table):
    """How the system prompt is put together.

    Attributes:
        priorities: Overrides of the standard numbers, by section.
        summarizes_tools: Whether the tools are listed in the prompt as well.
        skills_tokens: Longest list of skills; the instructions of active ones do not count.
    """

    priorities: dict[str, int] = Field(default_factory=dict)
    summarizes_tools: bool = False
    skills_tokens: int = Field(default=2_000, gt=0)


class ToolSettings(_Table):
    """Which tools are offered at all: globs over names; nothing included means everything.

    Attributes:
        timeout_seconds: How long one source of tools may take to answer.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    timeout_seconds: float = Field(default=30.0, gt=0)


class CacheSettings(_Table):
    """How long and how many assembled contexts are kept."""

    ttl_seconds: float = Field(default=60.0, ge=0)
    max_entries: int = Field(default=256, ge=1)


class AssemblerConfig(BaseSettings):
    """Everything that holds for all sessions of one assembler.

    Attributes:
        folder: Where the configuration files are looked for.
        defaults: The system layer of options.
        agents: The agent layer, by agent id.
        account: The caller's tag for its API account; signed reasoning is only sent back to the
            account it came from.
        on_tool_conflict: What to do when two sources define one tool differently.
        token_counter: `auto` counts exactly where a tokenizer is bundled; `estimate` never does;
            `exact` refuses models without one.

    Raises:
        UnknownOptionError: A key that does not exist.
        ConfigurationError: A value of the wrong type or out of range, or an unreadable file.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=_ENV_PREFIX,
        env_nested_delimiter="__",
        pyproject_toml_table_header=_TABLE,
    )

    folder: Path = Path()
    defaults: Options = Field(default_factory=AssembleOptions)
    agents: dict[str, Options] = Field(default_factory=dict)
    bootstrap: BootstrapSettings = Field(default_factory=BootstrapSettings)
    prompt: PromptSettings = Field(default_factory=PromptSettings)
    tools: ToolSettings = Field(default_factory=ToolSettings)
    cache: CacheSettings = Field(default_factory=CacheSettings)
    clock: Annotated[ClockSettings, _only_known_keys(ClockSettings)] = Field(
        default_factory=ClockSettings
    )
    truncation: Annotated[TruncationSettings, _only_known_keys(TruncationSettings)] = Field(
        default_factory=TruncationSettings
    )
    compaction: Annotated[CompactionSettings, _only_known_keys(CompactionSettings)] = Field(
        default_factory=CompactionSettings
    )
    token_counter: Literal["auto", "exact", "estimate"] = "auto"  # noqa: S105 - no secret
    account: str | None = None
    on_tool_conflict: Literal["rename", "error"] = "rename"
    unknown_model: UnknownModelPolicy = "error"

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise _readable(error, type(self)) from error
        except SettingsError as error:
            raise ConfigurationError(
                f"The environment cannot be read: {error}.",
                remedy="Lists and tables in environment variables are written as JSON.",
            ) from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - replaced below
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - files of secrets are not read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, highest first."""
        environment = _Environment(settings_cls)
        given: dict[str, Any] = {**environment(), **init_settings()}
        folder: object = given.get("folder", ".")
        # Anything else is refused with the other settings, once they are together.
        files = folder if isinstance(folder, str | Path) else "."
        return (init_settings, environment, *_file_sources(settings_cls, Path(files)))

    @property
    def bootstrap_folder(self) -> Path:
        """Where the bootstrap files lie."""
        return self.folder / self.bootstrap.folder


class _Environment(EnvSettingsSource):
    """Reads options in their own types, and refuses a name that is nearly a setting's."""

    def __call__(self) -> dict[str, Any]:
        self._refuse_misspelt()
        found = super().__call__()
        if is_object(defaults := found.get("defaults")):
            found["defaults"] = _from_text(defaults)
        if is_object(agents := found.get("agents")):
            found["agents"] = {
                agent_id: _from_text(options) if is_object(options) else options
                for agent_id, options in agents.items()
            }
        return found

    def _refuse_misspelt(self) -> None:
        known = list(self.settings_cls.model_fields)
        for variable in self.env_vars:
            if not variable.upper().startswith(_ENV_PREFIX):
                continue
            name = variable[len(_ENV_PREFIX) :].lower().split("__")[0]
            if name not in known and get_close_matches(name, known, n=1, cutoff=0.8):
                raise UnknownOptionError(name, kind=f"setting in {variable.upper()}", known=known)


def _from_text(options: Mapping[str, Json]) -> dict[str, Json]:
    return {
        name: value if name in TEXT_OPTIONS or not isinstance(value, str) else _json_or_text(value)
        for name, value in options.items()
    }


def _json_or_text(value: str) -> Json:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _file_sources(cls: type[BaseSettings], folder: Path) -> list[PydanticBaseSettingsSource]:
    readers = {_FILE: TomlConfigSettingsSource, "pyproject.toml": PyprojectTomlConfigSettingsSource}
    sources: list[PydanticBaseSettingsSource] = []
    for name, reader in readers.items():
        try:
            sources.append(reader(cls, folder / name))
        except (OSError, ValueError) as error:  # TOML and text that is not UTF-8 are ValueErrors
            raise ConfigurationError(
                f"{folder / name} cannot be read: {error}.",
                remedy="Correct that file: it must be TOML in UTF-8.",
            ) from error
    return sources


def _readable(error: ValidationError, config: type[AssemblerConfig]) -> ConfigurationError:
    """Return the first of pydantic's complaints in our own words, and how many more there are."""
    complaints = error.errors(include_url=False)
    first = complaints[0]
    cause = first.get("ctx", {}).get("error")
    where = ".".join(str(step) for step in first["loc"])
    if isinstance(cause, ConfigurationError):
        cause.args = (f"In the setting {where!r}: {cause}",)
        return cause
    if first["type"] == "extra_forbidden":
        return _unknown_key(first, config)
    more = f" ({len(complaints) - 1} more)" if len(complaints) > 1 else ""
    reason = str(cause) if cause else first["msg"]
    given = "" if cause else f"; got {first['input']!r}"
    place = f"The setting {where!r}: " if where else ""
    return ConfigurationError(
        f"{place}{reason}{given}{more}.", remedy="Correct that setting and try again."
    )


def _unknown_key(complaint: ErrorDetails, config: type[AssemblerConfig]) -> UnknownOptionError:
    *path, key = [str(step) for step in complaint["loc"]]
    model: type[BaseModel] = config
    for step in path:
        annotation = model.model_fields[step].annotation
        assert isinstance(annotation, type)
        assert issubclass(annotation, BaseModel)
        model = annotation
    kind = f"setting in {'.'.join(path)}" if path else "setting"
    return UnknownOptionError(key, kind=kind, known=list(model.model_fields))
