"""Reads the text of a SKILL.md.

Source:
    https://agentskills.io/specification (read 2026-11-27)
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from context_assembler.values.json_bounds import broken_bound, shown
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.prompt import Skill
from context_assembler.values.texts.instruction_text import decode_text, split_front_matter
from context_assembler.values.texts.section_text import one_line

TOOL_FILE_ENDINGS: Final = (".json", ".yaml", ".yml")

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MAX_NAME_CHARS: Final = 64
_MAX_DESCRIPTION_CHARS: Final = 1024
# `Bash(git add:*)` is one tool; commas are what other clients write between them.
_ALLOWED: Final = re.compile(r"[^\s,()]+(?:\([^()]*\))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSkill:
    """The skill of one SKILL.md, or why there is none, and what was odd about it.

    `tool_files` are the files beside it that hold more of its tools.
    """

    skill: Skill | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()
    tool_files: tuple[str, ...] = ()


def parse_skill(raw_bytes: bytes, *, path: PurePath, priority: int = 0) -> ParsedSkill:
    """Return the skill; whatever the bytes are, nothing is raised."""
    decoded = decode_text(raw_bytes)
    front = split_front_matter(decoded.text)
    name, odd = _name_in(front.metadata, folder=path.parent.name)
    notes = [*decoded.warnings, *front.warnings, *odd]
    given = front.metadata.get("description")
    description = one_line(given) if isinstance(given, str) else ""
    if not description:
        problem = f"its front matter has no description{_why_none(given, text=decoded.text)}"
        return ParsedSkill(problem=problem, notes=tuple(notes))
    if len(description) > _MAX_DESCRIPTION_CHARS:
        notes.append(f"its description is longer than {_MAX_DESCRIPTION_CHARS:,} characters")
    tools = _tools_in(front.metadata.get("tools"))
    skill = Skill(
        name=name,
        description=description,
        path=str(path),
        instructions=front.text.strip(),
        priority=priority,
        tools=tools.specs,
        allowed_tools=_allowed_in(front.metadata.get("allowed-tools")),
    )
    return ParsedSkill(skill=skill, notes=(*notes, *tools.notes), tool_files=tools.files)


def _why_none(given: Json, *, text: str) -> str:
    """Say why a description was not found, where that is not plain."""
    if given is not None and not isinstance(given, str):
        return f" that is text: put {shown(given)} in quotes"
    if not text.startswith("---"):
        return ": the file does not begin with a line '---'"
    is_closed = re.search(r"^(---|\.\.\.)\s*$", text[len("---") :], re.MULTILINE) is not None
    return "" if is_closed else ": no line '---' closes it"


def _name_in(metadata: JsonObject, *, folder: str) -> tuple[str, list[str]]:
    """Return the skill's name, and what is odd about it."""
    given = metadata.get("name")
    name = one_line(given) if isinstance(given, str) else ""
    if not name:
        return one_line(folder), ["its front matter has no name; the folder's name is used"]
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_CHARS:
        return name, [f"{name!r} is not lower-case letters, digits and hyphens"]
    return name, [f"its name {name!r} is not that of its folder"] if name != folder else []


def _allowed_in(given: Json) -> tuple[str, ...]:
    """Return the tools that should be approved in advance, as a list or a line of them spells them."""
    lines: Iterable[Json] = given if is_array(given) else [given]
    texts = [one_line(line) for line in lines if isinstance(line, str)]
    return tuple(dict.fromkeys(tool for text in texts for tool in _ALLOWED.findall(text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tools:
    """What front matter says of tools: specs, and the files that hold more of them."""

    specs: tuple[JsonObject, ...] = ()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _tools_in(given: Json) -> _Tools:
    if given is None:
        return _Tools()
    entries: Iterable[Json] = given if is_array(given) else [given]
    specs: list[JsonObject] = []
    files: list[str] = []
    odd: list[str] = []
    for entry in entries:
        if is_object(entry) and broken_bound(entry) is None:
            specs.append(entry)
        elif isinstance(entry, str) and entry.lower().endswith(TOOL_FILE_ENDINGS):
            files.append(entry)
        else:
            odd.append(one_line(entry if isinstance(entry, str) else shown(entry))[:80])
    endings = ", ".join(TOOL_FILE_ENDINGS)
    notes = [
        f"of its tools, {name!r} is neither a spec nor a file of specs ({endings})" for name in odd
    ]
    return _Tools(specs=tuple(specs), files=tuple(dict.fromkeys(files)), notes=tuple(notes))
