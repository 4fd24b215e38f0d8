"""The tables of settings, one for each part."""

import os
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from context_assembler.values.options import BootstrapPolicy, MaskedPlace

_BYTES_PER_MB: Final = 1024 * 1024


def at_home(folder: Path) -> Path:
    """Return the folder with the user's home in the place of a `~` in front."""
    return Path(os.path.expanduser(folder))  # noqa: PTH111 - it leaves a name that has no home


Folder: TypeAlias = Annotated[Path, AfterValidator(at_home)]


class Table(BaseModel):
    """Settings that belong together; an unknown one is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BootstrapSettings(Table):
    """Which instruction files are read, and how much of them.

    Attributes:
        folder: Where they lie; relative to the configuration's folder.
        agent_names: Names that are accepted for AGENT.md, first match wins (`AGENTS.md` …).
        searches_upward: Whether the parent folders up to the repository's root are read as well.
        required: Sections that are never shortened or dropped; where one of a folder that was named
            has no text, every report warns of it.
        max_file_tokens: Longest text of one file.
        max_total_tokens: Longest text of all files together; the nearest file is cut last.
        ttl_seconds: How long the folder's listing is trusted; the files' own state never is.
        policy: `refresh` shows an edit in the next call, which rewrites the prompt; `freeze` lets it
            wait until the payload is rewritten anyway, or `refresh=True` asks for it.
    """

    folder: Folder = Path("bootstrap")
    agent_names: tuple[str, ...] = ("AGENT.md",)
    searches_upward: bool = False
    required: tuple[str, ...] = ("agent",)
    max_file_tokens: int = Field(default=25_000, gt=0)
    max_total_tokens: int = Field(default=50_000, gt=0)
    ttl_seconds: float = Field(default=60.0, ge=0)
    policy: BootstrapPolicy = "refresh"


class PromptSettings(Table):
    """How the system prompt is put together.

    Attributes:
        priorities: Overrides of the standard numbers, by section.
        summarizes_tools: Whether the tools are listed in the prompt as well.
        skills_tokens: Longest list of skills; the instructions of active ones do not count.
        inherits: By agent, the only sections that its prompt has (`researcher = ["agent", "tools"]`);
            an agent that is not named has all.
        max_tokens: By section, its longest text; a required section is never shortened.
    """

    priorities: dict[str, int] = Field(default_factory=dict)
    summarizes_tools: bool = False
    skills_tokens: int = Field(default=2_000, gt=0)
    inherits: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    max_tokens: dict[str, Annotated[int, Field(gt=0)]] = Field(default_factory=dict)

    def has_section(self, name: str, *, agent_id: str | None) -> bool:
        """Whether the agent's prompt may have the section."""
        inherited = self.inherits.get(agent_id or "")
        return inherited is None or name in inherited


class SkillSettings(Table):
    """Where skills come from.

    Attributes:
        folders: Folders of skills, for an assembler that is given none; relative to the
            configuration's folder. Of two skills with one name that of the earlier folder stays.
    """

    folders: tuple[Folder, ...] = ()


class ToolSettings(Table):
    """Which tools are offered at all: globs over names; nothing included means everything.

    Attributes:
        timeout_seconds: How long one source of tools may take to answer.
        defers_above: How many tools are sent whole at most; with more of them the model searches
            for the others, where its provider has a search. By default no tool is deferred unless
            it asks for it.
        changes: How the model is told of tools that come or go in the course of a session: `append`
            adds to what it was sent before, where its provider has a form for that; `rewrite`
            declares them anew.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    timeout_seconds: float = Field(default=30.0, gt=0)
    defers_above: int | None = Field(default=None, ge=0)
    changes: Literal["append", "rewrite"] = "append"


class SafetySettings(Table):
    """What is kept from the model.

    Attributes:
        masks_secrets_in: Where secrets are masked on their way to the model: `files` (skills
            included), `tool_results`, `user`. Needs the extra `secrets`.
    """

    masks_secrets_in: tuple[MaskedPlace, ...] = ()


class CacheSettings(Table):
    """What is kept between calls: assembled contexts, and the events of the sessions read last.

    `max_mb` is what both may take, by a generous estimate, in units of 1,048,576 bytes.
    """

    ttl_seconds: float = Field(default=60.0, ge=0)
    max_entries: int = Field(default=256, ge=1)
    max_mb: int = Field(default=512, ge=0)

    @property
    def contexts_bytes(self) -> int:
        """What finished contexts may take: a quarter."""
        return self.max_mb * _BYTES_PER_MB // 4

    @property
    def events_bytes(self) -> int:
        """What events, and what is derived from them, may take: the rest."""
        return self.max_mb * _BYTES_PER_MB - self.contexts_bytes
