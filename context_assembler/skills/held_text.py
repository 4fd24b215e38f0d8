"""What the prompt says of each skill where its text is that of an earlier call."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import unescape
from typing import Final

from context_assembler.skills.prompt_text import (
    CountText,
    active_block,
    list_head,
    list_line,
    skill_row,
)
from context_assembler.values.epochs import FROZEN, UNTIL_REWRITE
from context_assembler.values.prompt import Skill
from context_assembler.values.report import ReportEntry

_LINE: Final = re.compile(r"- (?P<name>.+?) \(.*")
_BLOCK: Final = re.compile(
    r"<skill name=\"(?P<name>[^\"]*)\"[^\n]*>\n.*?(?=\n\n<skill name=|\Z)", re.DOTALL
)
# What becomes of skills in a list: other rows are of skills that are none, or not asked for.
_TOLD_RULES: Final = ("active", "listed", "skill_budget")
_PRESENT_TOOLS: Final = "its tools are offered as they are by now"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldText:
    """A section of skills, taken apart by their names.

    Attributes:
        lines: Of the list.
        blocks: The instructions of active skills, with the tags around them.
        is_short: Whether it had to be shortened when it was sent first.
    """

    lines: Mapping[str, str] = field(default_factory=dict[str, str])
    blocks: Mapping[str, str] = field(default_factory=dict[str, str])
    is_short: bool = False

    def names(self) -> Iterator[str]:
        """Yield the names of the skills that it tells of."""
        yield from dict.fromkeys((*self.lines, *self.blocks))


def read_text(text: str, skills: Iterable[Skill], *, is_short: bool = False) -> HeldText:
    """Take a section apart; a line that begins as that of a skill does is that skill's.

    Args:
        skills: Those whose names are known.
    """
    first = _BLOCK.search(text)
    listed = text if first is None else text[: first.start()]
    names = sorted((skill.name for skill in skills), key=len, reverse=True)
    lines: dict[str, str] = {}
    for line in listed.split("\n"):
        known = (name for name in names if line.startswith(f"- {name} ("))
        found = _LINE.fullmatch(line)
        if name := next(known, found["name"] if found else None):
            lines.setdefault(name, line)
    blocks = {unescape(found["name"]): found[0].rstrip() for found in _BLOCK.finditer(text)}
    return HeldText(lines=lines, blocks=blocks, is_short=is_short)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSkills:
    """Tells what of each skill is in the text that is sent again."""

    skills: Mapping[str, Skill]
    active: Collection[str]
    held: HeldText
    count_text: CountText

    def rows(self, entries: Iterable[ReportEntry]) -> tuple[ReportEntry, ...]:
        """Return the rows as they hold, with one for every skill that is not there any more."""
        gone = {name: self._gone(name) for name in self.held.names() if name not in self.skills}
        rows: list[ReportEntry] = []
        place = 0
        for entry in entries:
            row = entry
            if entry.kind == "skill" and entry.rule in _TOLD_RULES and entry.id in self.skills:
                row = self._row(entry, self.skills[entry.id])
            elif entry.kind == "skill" and entry.rule == "filter":
                row = gone.pop(entry.id, entry)
            rows.append(row)
            place = len(rows) if entry.kind == "skill" else place
        return (*rows[:place], *gone.values(), *rows[place:])

    def _row(self, entry: ReportEntry, skill: Skill) -> ReportEntry:
        line, block = self._told_of(skill.name)
        is_active = skill.name in self.active
        if not line and not block:
            return entry if entry.decision == "dropped" else self._missing(entry, skill)
        wanted = active_block(skill) if is_active and skill.instructions.strip() else ""
        if block == wanted and (not line or _is_line_of(skill, line)):
            return skill_row(
                skill,
                line.removeprefix(list_head(skill)).removeprefix(": ") if line else None,
                is_active=is_active,
                block_tokens=self.count_text(block),
                count_text=self.count_text,
            )
        what = (
            "It, or how its section was shortened, is not what the epoch began with"
            if self.held.is_short
            else "It has changed"
        )
        tools = f"; {_PRESENT_TOOLS}" if is_active and skill.tools else ""
        return self._frozen(skill.name, f"{what}, and the text of then is sent{tools}")

    def _missing(self, entry: ReportEntry, skill: Skill) -> ReportEntry:
        has_tools = skill.name in self.active and skill.tools
        tools = "; its tools are offered already" if has_tools else ""
        reason = f"The text that the epoch began with does not tell of it{tools}; {UNTIL_REWRITE}."
        return replace(entry, decision="dropped", tokens_after=0, reason=reason, rule=FROZEN)

    def _gone(self, name: str) -> ReportEntry:
        what = "It is gone, or cannot be read, and the text that the epoch began with is sent"
        return self._frozen(name, f"{what}; none of its tools is offered")

    def _frozen(self, name: str, reason: str) -> ReportEntry:
        tokens = sum(map(self.count_text, self._told_of(name)))
        return ReportEntry(
            kind="skill",
            id=name,
            decision="kept",
            tokens_before=tokens,
            tokens_after=tokens,
            reason=f"{reason}; {UNTIL_REWRITE}.",
            rule=FROZEN,
        )

    def _told_of(self, name: str) -> tuple[str, str]:
        """Return the line and the instructions of a skill; empty where there are none."""
        return self.held.lines.get(name, ""), self.held.blocks.get(name, "")


def _is_line_of(skill: Skill, line: str) -> bool:
    """Whether the line is the skill's, whole or as a list without room for all shortens it."""
    whole = list_line(skill, skill.description)
    return line in (whole, list_head(skill)) or (
        line.endswith("…") and whole.startswith(line.removesuffix("…"))
    )
