"""Folders of skills: one folder per skill, with a SKILL.md.

Source:
    https://agentskills.io/specification (read 2026-11-27)
"""

import asyncio
import os
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from context_assembler.skills.file_identity import (
    Identity,
    identity_at,
    identity_of,
    last_change_ns,
)
from context_assembler.skills.folder_walk import TOO_MANY, FolderWalk, is_inside
from context_assembler.skills.problems import SkillProblem
from context_assembler.skills.skill_file import ParsedSkill, parse_skill
from context_assembler.skills.tool_files import ToolFile, read_tool_file
from context_assembler.values.given import check_callable, check_path, check_type
from context_assembler.values.prompt import Skill

MAX_READ_BYTES: Final = 16_000_000
MAX_TOLD: Final = 50
_MAX_FILE_BYTES: Final = 1_000_000
# A file that changed this recently may change again without its time stamps telling.
_UNSETTLED_NS: Final = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadSkill:
    """One SKILL.md as parsed; `identities` are those of all files behind it, `None`: read it again."""

    parsed: ParsedSkill
    identity: Identity | None = None
    tool_files: tuple[ToolFile, ...] = ()


class FolderSkills:
    """The skills below one or several folders; where two share a name, the earlier folder's wins.

    A file is read again only when it changed.

    Args:
        priority: That of its skills: where another provider has a skill of the same name, the higher
            stays.

    Attributes:
        problems: Skills of the last listing that were left out, and why; the first 50, and how many
            more there are.
        notes: What was odd about those that were not, in the same way.
    """

    def __init__(
        self,
        *folders: str | Path,
        priority: int = 0,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        for folder in folders:
            check_path("the folder of skills", folder, such_as="a path, such as 'skills'")
        check_type("priority", priority, int, such_as="a whole number, such as 0")
        check_callable("now_ns", now_ns, such_as="a function such as time.time_ns")
        # A `~` in front is the user's home; a name that has none is left as it is.
        self.folders = tuple(Path(os.path.expanduser(folder)) for folder in folders)  # noqa: PTH111
        self.priority = priority
        self.problems: tuple[SkillProblem, ...] = ()
        self.notes: tuple[str, ...] = ()
        self._now_ns = now_ns
        self._read: dict[str, _ReadSkill] = {}

    async def list_skills(self) -> Sequence[Skill]:
        """Return the skills, sorted by name; a broken one does not harm the rest."""
        listing = await asyncio.to_thread(self._list)
        self.problems, self.notes = listing.told_problems(), listing.told_notes()
        self._read = listing.read
        return [listing.skills[name] for name in sorted(listing.skills)]

    def _list(self) -> "_Listing":
        listing = _Listing()
        for folder in self.folders:
            root = os.path.realpath(folder)
            if not os.path.isdir(root):  # noqa: PTH112 - all paths are text here: it is faster
                problem = SkillProblem(path=str(folder), reason="there is no such folder")
                listing.problems.append(problem)
                continue
            walk = FolderWalk(root=root)
            for path, found in walk.skill_files():
                read = self._skill_at(path, found, root=root, listing=listing)
                listing.read[path] = read
                listing.take(path, read.parsed)
            listing.problems += walk.problems
            listing.notes += walk.notes
        return listing

    def _skill_at(
        self, path: str, found: os.stat_result, *, root: str, listing: "_Listing"
    ) -> _ReadSkill:
        try:
            if stat.S_ISLNK(found.st_mode):
                if not is_inside(path, root=root):
                    return _unread("it lies outside the folder and was not read")
                found = os.stat(path)  # noqa: PTH116 - as above
            if not stat.S_ISREG(found.st_mode):
                return _unread("it is no regular file")
            if not listing.has_room_for(found.st_size):
                return _unread(f"more than {MAX_READ_BYTES:,} bytes of skills in all")
            identity = identity_of(found)
            known = self._read.get(path)
            if known is not None and known.identity == identity and _are_current(known.tool_files):
                return known
            if found.st_size > _MAX_FILE_BYTES:
                return _unread(f"it is longer than {_MAX_FILE_BYTES:,} bytes")
            with open(path, "rb") as file:  # noqa: PTH123 - as above
                raw_bytes = file.read(_MAX_FILE_BYTES)
        except OSError as error:
            return _unread(f"it cannot be read: {error.strerror}")
        parsed = parse_skill(raw_bytes, path=Path(path), priority=self.priority)
        return self._with_tool_files(parsed, path=path, identity=identity)

    def _with_tool_files(self, parsed: ParsedSkill, *, path: str, identity: Identity) -> _ReadSkill:
        folder = Path(path).parent
        files = tuple(read_tool_file(name, folder=folder) for name in parsed.tool_files)
        identities = [identity, *(file.identity for file in files if file.identity is not None)]
        is_settled = self._now_ns() - max(map(last_change_ns, identities)) > _UNSETTLED_NS
        if parsed.skill is not None and files:
            specs = (*parsed.skill.tools, *(spec for file in files for spec in file.specs))
            odd = [f"its tool file {f.path.name!r} {f.problem}" for f in files if f.problem]
            parsed = replace(
                parsed, skill=replace(parsed.skill, tools=specs), notes=(*parsed.notes, *odd)
            )
        return _ReadSkill(
            parsed=parsed, identity=identity if is_settled else None, tool_files=files
        )


def _unread(problem: str) -> _ReadSkill:
    return _ReadSkill(parsed=ParsedSkill(problem=problem))


def _are_current(files: Sequence[ToolFile]) -> bool:
    return all(identity_at(file.path) == file.identity for file in files)


@dataclass(slots=True, kw_only=True)
class _Listing:
    """The skills found so far, and everything read for them."""

    skills: dict[str, Skill] = field(default_factory=dict[str, Skill])
    problems: list[SkillProblem] = field(default_factory=list[SkillProblem])
    notes: list[str] = field(default_factory=list[str])
    read: dict[str, _ReadSkill] = field(default_factory=dict[str, _ReadSkill])
    read_bytes: int = 0

    def has_room_for(self, size_bytes: int) -> bool:
        """Whether so much more may be read; the files too long to be read at all do not count."""
        self.read_bytes += size_bytes if size_bytes <= _MAX_FILE_BYTES else 0
        return self.read_bytes <= MAX_READ_BYTES

    def told_problems(self) -> tuple[SkillProblem, ...]:
        """Return as many problems as somebody reads, and how many more there are."""
        more = len(self.problems) - MAX_TOLD
        if more <= 0:
            return tuple(self.problems)
        rest = SkillProblem(path="skills", reason=f"{more:,} more were left out", rule=TOO_MANY)
        return (*self.problems[:MAX_TOLD], rest)

    def told_notes(self) -> tuple[str, ...]:
        """Return as many notes as somebody reads, and how many more there are."""
        more = len(self.notes) - MAX_TOLD
        rest = [f"skills: {more:,} more notes of this kind"] if more > 0 else []
        return (*self.notes[:MAX_TOLD], *rest)

    def take(self, path: str, parsed: ParsedSkill) -> None:
        self.notes += [f"{path}: {text}" for text in parsed.notes]
        if parsed.skill is None:
            self.problems.append(SkillProblem(path=path, reason=parsed.problem))
        elif (earlier := self.skills.get(parsed.skill.name)) is not None:
            reason = f"{earlier.path} has the name {earlier.name!r} already"
            self.problems.append(SkillProblem(path=path, reason=reason, rule="duplicate"))
        else:
            self.skills[parsed.skill.name] = parsed.skill
