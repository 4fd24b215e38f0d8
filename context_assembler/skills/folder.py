"""Folders of skills: one folder per skill, with a SKILL.md.

Source:
    https://agentskills.io/specification (read 2026-11-27)
"""

import asyncio
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from context_assembler.values.instruction_text import decode_text, split_front_matter
from context_assembler.values.parts import JsonObject
from context_assembler.values.prompt import Skill

_FILE: Final = "SKILL.md"
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MAX_NAME_CHARS: Final = 64
_MAX_FILE_BYTES: Final = 1_000_000
_MAX_DEPTH: Final = 6
# A file that changed this recently may change again without its time stamps telling.
_UNSETTLED_NS: Final = 2_000_000_000

_Identity: TypeAlias = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadSkill:
    """One SKILL.md: the skill, or why there is none, and what was odd about it.

    `identity` changes when the file is written or replaced; `None` means to read it again.
    """

    skill: Skill | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()
    identity: _Identity | None = None


class FolderSkills:
    """The skills below one or several folders; where two share a name, the earlier folder's wins.

    A file is read again only when it changed.

    Attributes:
        problems: Skills of the last listing that were left out, and why.
        notes: What was odd about those that were not.
    """

    def __init__(self, *folders: str | Path, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.folders = tuple(Path(folder) for folder in folders)
        self.problems: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        self._now_ns = now_ns
        self._read: dict[Path, _ReadSkill] = {}

    async def list_skills(self) -> Sequence[Skill]:
        """Return the skills, sorted by name; a broken one does not harm the rest."""
        listing = await asyncio.to_thread(self._list)
        self.problems, self.notes = tuple(listing.problems), tuple(listing.notes)
        self._read = listing.read
        return [listing.skills[name] for name in sorted(listing.skills)]

    def _list(self) -> "_Listing":
        listing = _Listing()
        for folder in self.folders:
            root = Path(os.path.realpath(folder))
            if not root.is_dir():
                listing.problems.append(f"{folder}: there is no such folder")
                continue
            for path in _find(root, root=root, depth=0):
                read = self._skill_at(path, root=root)
                listing.read[path] = read
                listing.take(path, read)
        return listing

    def _skill_at(self, path: Path, *, root: Path) -> _ReadSkill:
        try:
            if not Path(os.path.realpath(path)).is_relative_to(root):
                return _ReadSkill(problem="it lies outside the folder and was not read")
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                return _ReadSkill(problem="it is no regular file")
            identity = _identity(found)
            known = self._read.get(path)
            if known is not None and known.identity == identity:
                return known
            with path.open("rb") as file:
                raw_bytes = file.read(_MAX_FILE_BYTES + 1)
        except OSError as error:
            return _ReadSkill(problem=f"it cannot be read: {error.strerror}")
        newest_ns = max(found.st_mtime_ns, found.st_ctime_ns)
        is_settled = self._now_ns() - newest_ns > _UNSETTLED_NS
        return _parse(path, raw_bytes, identity=identity if is_settled else None)


def _identity(found: os.stat_result) -> _Identity:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _find(folder: Path, *, root: Path, depth: int) -> Iterator[Path]:
    """Yield every SKILL.md, in order of path; what lies below a skill belongs to that skill."""
    if os.path.lexists(folder / _FILE):
        yield folder / _FILE
        return
    try:
        below = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    except OSError:  # pragma: no cover - not permitted; whoever may read everything never sees it
        return
    for entry in below:
        is_inside = Path(os.path.realpath(entry)).is_relative_to(root)
        if depth < _MAX_DEPTH and is_inside and not entry.name.startswith("."):
            yield from _find(entry, root=root, depth=depth + 1)


class _Listing:
    """The skills found so far."""

    def __init__(self) -> None:
        self.skills: dict[str, Skill] = {}
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.read: dict[Path, _ReadSkill] = {}

    def take(self, path: Path, read: _ReadSkill) -> None:
        self.notes += [f"{path}: {text}" for text in read.notes]
        if read.skill is None:
            self.problems.append(f"{path}: {read.problem}")
        elif read.skill.name in self.skills:
            earlier = self.skills[read.skill.name].path
            self.problems.append(f"{path}: {earlier} has the name {read.skill.name!r} already")
        else:
            self.skills[read.skill.name] = read.skill


def _parse(path: Path, raw_bytes: bytes, *, identity: _Identity | None) -> _ReadSkill:
    if len(raw_bytes) > _MAX_FILE_BYTES:
        problem = f"it is longer than {_MAX_FILE_BYTES:,} bytes"
        return _ReadSkill(problem=problem, identity=identity)
    decoded = decode_text(raw_bytes)
    front = split_front_matter(decoded.text)
    name, odd = _name_in(front.metadata, folder=path.parent.name)
    notes = (*decoded.warnings, *front.warnings, *odd)
    description = front.metadata.get("description")
    if not isinstance(description, str) or not description.strip():
        problem = "its front matter has no description"
        return _ReadSkill(problem=problem, notes=notes, identity=identity)
    skill = Skill(
        name=name,
        description=" ".join(description.split()),
        path=str(path),
        instructions=front.text.strip(),
    )
    return _ReadSkill(skill=skill, notes=notes, identity=identity)


def _name_in(metadata: JsonObject, *, folder: str) -> tuple[str, list[str]]:
    """Return the skill's name, and what is odd about it."""
    given = metadata.get("name")
    name = " ".join(given.split()) if isinstance(given, str) else ""
    if not name:
        return folder, ["its front matter has no name; the folder's name is used"]
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_CHARS:
        return name, [f"{name!r} is not lower-case letters, digits and hyphens"]
    return name, [f"its name {name!r} is not that of its folder"] if name != folder else []
