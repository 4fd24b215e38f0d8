"""`AssemblerConfig`: settings from code, the environment and TOML files.

Highest first: arguments, `CONTEXT_ASSEMBLER_*` (nested with `__`), `context-assembler.toml`, the
table `[tool.context-assembler]` of `pyproject.toml`. Both files are looked for in the `folder` that
the arguments or `CONTEXT_ASSEMBLER_FOLDER` name, else in the current one.
Tables and lists in the environment are JSON. A name that somebody chose is read there as it is
spelled (`…_AGENTS__Reviewer__MODEL`); in capitals alone, as Windows keeps every name, it is the one
that code or a file has without regard to case, else the name in small letters.
"""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from context_assembler.config.complaints import readable
from context_assembler.config.memory_table import MemorySettings
from context_assembler.config.sources import Source, merge, read_sources
from context_assembler.config.tables import (
    BootstrapSettings,
    CacheSettings,
    Folder,
    PromptSettings,
    SafetySettings,
    SkillSettings,
    ToolSettings,
)
from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.values.json_shapes import is_object
from context_assembler.values.option_rules import parse_options
from context_assembler.values.options import (
    AssembleOptions,
    ClockSettings,
    CompactionSettings,
    TruncationSettings,
    UnknownModelPolicy,
)
from context_assembler.values.parts import Json

__all__ = [
    "AssemblerConfig",
    "BootstrapSettings",
    "CacheSettings",
    "MemorySettings",
    "PromptSettings",
    "SafetySettings",
    "SkillSettings",
    "ToolSettings",
]

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


class AssemblerConfig(BaseModel):
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
        calibrates_tokens: Whether the usage that providers report corrects later counts; what is
            learned is kept in the session store.
        checks_payloads: Hold every payload against its provider's rules when it is spelled out; a
            broken one is a `PayloadWarning`.

    Raises:
        UnknownOptionError: A key that does not exist.
        ConfigurationError: A value of the wrong type or out of range, or an unreadable file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    folder: Folder = Path()
    defaults: Options = Field(default_factory=AssembleOptions)
    agents: dict[str, Options] = Field(default_factory=dict)
    bootstrap: BootstrapSettings = Field(default_factory=BootstrapSettings)
    prompt: PromptSettings = Field(default_factory=PromptSettings)
    skills: SkillSettings = Field(default_factory=SkillSettings)
    tools: ToolSettings = Field(default_factory=ToolSettings)
    memory: MemorySettings = Field(default_factory=MemorySettings)
    cache: CacheSettings = Field(default_factory=CacheSettings)
    safety: SafetySettings = Field(default_factory=SafetySettings)
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
    calibrates_tokens: bool = True
    account: str | None = None
    on_tool_conflict: Literal["rename", "error"] = "rename"
    unknown_model: UnknownModelPolicy = "error"
    checks_payloads: bool = True

    def __init__(self, **given: Any) -> None:
        sources: list[Source] = []
        try:
            sources += read_sources(type(self), given)
            super().__init__(**merge(given, *(source.settings for source in sources)))
        except ValidationError as error:
            raise readable(error, type(self), given=given, sources=sources) from error
        except RecursionError:
            raise ConfigurationError(
                "The settings are nested too deeply, or hold themselves.",
                remedy="Correct what the code, the environment or a file gives.",
            ) from None

    @property
    def bootstrap_folder(self) -> Path:
        """Where the bootstrap files lie."""
        return self.folder / self.bootstrap.folder

    @property
    def skill_folders(self) -> list[Path]:
        """Where skills lie."""
        return [self.folder / folder for folder in self.skills.folders]
