"""What goes in front of the conversation."""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from context_assembler.values.parts import Json, JsonObject, Origin

SECTION_SEPARATOR: Final = "\n\n---\n\n"

Placement: TypeAlias = Literal["system", "note"]
FileState: TypeAlias = Literal["ok", "missing", "empty", "unreadable", "blocked", "waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSection:
    """One named piece of the system prompt.

    Higher `priority` comes first. A required section is never shortened or dropped. Placement
    `note` puts it behind the history instead of into the system prompt. `path` is that of the
    instruction file that it is the text of; empty for any other section.
    """

    name: str
    content: str
    priority: int = 0
    placement: Placement = "system"
    is_required: bool = False
    origin: Origin = "developer"
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPrompt:
    """The finished system prompt: `text` is the sections' contents, joined, highest first."""

    text: str = ""
    sections: tuple[PromptSection, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapFile:
    """One instruction file as loaded.

    `text` is what the model gets: decoded, without front matter and comments, imports resolved. It
    is empty unless `state` is `ok`; `waiting` is one whose text is not sent yet. `fingerprint` changes
    whenever what the model gets changes, `source_fingerprint` whenever the file itself says something
    else, before anything is cut, masked or filled in.
    `first_line` is the line of the file, from 1, on which `text` begins. `real_path` is where the
    bytes lie (another path than `path` for a link), `imports` what its `@path` references brought in.
    `absence` says of a missing file where it was looked for, what lies there, and what to do.
    """

    section: str
    path: str
    state: FileState
    text: str = ""
    metadata: JsonObject = field(default_factory=dict[str, Json])
    warnings: tuple[str, ...] = ()
    fingerprint: str = ""
    source_fingerprint: str = ""
    first_line: int = 1
    is_shortened: bool = False
    real_path: str = ""
    encoding: str = ""
    size_bytes: int = 0
    imports: tuple[str, ...] = ()
    absence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill: what the prompt lists of it, and its instructions, read when it is active.

    Attributes:
        path: Where its SKILL.md lies; what the instructions refer to lies beside it.
        priority: Of two skills with one name the higher stays, as do the higher ones in a list that
            is too long.
        tools: Specs, in any provider's shape, of tools that are offered while it is active.
        allowed_tools: Tools that its author wants approved in advance (`allowed-tools`). The model
            and the application are told; nothing is limited by it.
    """

    name: str
    description: str
    path: str
    instructions: str = ""
    priority: int = 0
    tools: tuple[JsonObject, ...] = ()
    allowed_tools: tuple[str, ...] = ()
