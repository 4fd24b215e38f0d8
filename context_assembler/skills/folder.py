"""Folders of skills: one folder per skill, with a SKILL.md.

Source:
    https://agentskills.io/specification (read 2026-11-27)
"""

import asyncio
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from context_assembler.skills.file_identity import (
    Identity,
    identity_at,
    identity_of,
    last_change_ns,
)
from context_assembler.skills.problems import SkillProblem
from context_assembler.skills.skill_file import ParsedSkill, parse_skill
from context_assembler.skills.tool_files import ToolFile, read_tool_file
from context_assembler.values.prompt import Skill

_FILE: Final = "SKILL.md"
_MAX_FILE_BYTES: Final = 1_000_000
_MAX_DEPTH: Final = 6
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
        problems: Skills of the last listing that were left out, and why.
        notes: What was odd about those that were not.
    """

    def __init__(
        self,
        *folders: str | Path,
        priority: int = 0,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.folders = tuple(Path(folder) for folder in folders)
        self.priority = priority
        self.problems: tuple[SkillProblem, ...] = ()
        self.notes: tuple[str, ...] = ()
        self._now_ns = now_ns
        self._read: dict[str, _ReadSkill] = {}

    async def list_skills(self) -> Sequence[Skill]:
        """Return the skills, sorted by name; a broken one does not harm the rest."""
        listing = await asyncio.to_thread(self._list)
        self.problems, self.notes = tuple(listing.problems), tuple(listing.notes)
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
            for path, found in _find(root, root=root, depth=0):
                read = self._skill_at(path, found, root=root)
                listing.read[path] = read
                listing.take(path, read.parsed)
        return listing

    def _skill_at(self, path: str, found: os.stat_result, *, root: str) -> _ReadSkill:
        try:
            if stat.S_ISLNK(found.st_mode):
                if not _is_inside(path, root=root):
                    return _unread("it lies outside the folder and was not read")
                found = os.stat(path)  # noqa: PTH116 - as above
            if not stat.S_ISREG(found.st_mode):
                return _unread("it is no regular file")
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


def _is_inside(path: str, *, root: str) -> bool:
    return os.path.join(os.path.realpath(path), "").startswith(os.path.join(root, ""))  # noqa: PTH118


def _look_at(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _find(folder: str, *, root: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every SKILL.md, in order of path; what lies below a skill belongs to that skill.

    Only links can lead outside the root, so that nothing else is resolved.
    """
    path = os.path.join(folder, _FILE)  # noqa: PTH118 - as above
    found = _look_at(path)
    if found is not None:
        yield path, found
        return
    try:
        with os.scandir(folder) as entries:
            below = sorted(
                (entry.name, entry.path, entry.is_symlink()) for entry in entries if entry.is_dir()
            )
    except OSError:  # pragma: no cover - not permitted; whoever may read everything never sees it
        return
    for name, inner, is_link in below:
        is_wanted = depth < _MAX_DEPTH and not name.startswith(".")
        if is_wanted and (not is_link or _is_inside(inner, root=root)):
            yield from _find(inner, root=root, depth=depth + 1)


@dataclass(slots=True, kw_only=True)
class _Listing:
    """The skills found so far, and everything read for them."""

    skills: dict[str, Skill] = field(default_factory=dict[str, Skill])
    problems: list[SkillProblem] = field(default_factory=list[SkillProblem])
    notes: list[str] = field(default_factory=list[str])
    read: dict[str, _ReadSkill] = field(default_factory=dict[str, _ReadSkill])

    def take(self, path: str, parsed: ParsedSkill) -> None:
        self.notes += [f"{path}: {text}" for text in parsed.notes]
        if parsed.skill is None:
            self.problems.append(SkillProblem(path=path, reason=parsed.problem))
        elif (earlier := self.skills.get(parsed.skill.name)) is not None:
            reason = f"{earlier.path} has the name {earlier.name!r} already"
            self.problems.append(SkillProblem(path=path, reason=reason, rule="duplicate"))
        else:
            self.skills[parsed.skill.name] = parsed.skill
