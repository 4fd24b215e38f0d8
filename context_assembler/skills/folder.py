"""Folders of skills: one folder per skill, with a SKILL.md.

Source:
    https://agentskills.io/specification (read 2026-11-27)
"""

import asyncio
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from context_assembler.values.instruction_text import decode_text, split_front_matter
from context_assembler.values.parts import JsonObject
from context_assembler.values.prompt import Skill

_FILE: Final = "SKILL.md"
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MAX_NAME_CHARS: Final = 64
_MAX_FILE_BYTES: Final = 1_000_000
_MAX_DEPTH: Final = 6


class FolderSkills:
    """The skills below one or several folders; where two share a name, the earlier folder's wins.

    Attributes:
        problems: Skills of the last listing that were left out, and why.
        notes: What was odd about those that were not.
    """

    def __init__(self, *folders: str | Path) -> None:
        self.folders = tuple(Path(folder) for folder in folders)
        self.problems: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()

    async def list_skills(self) -> Sequence[Skill]:
        """Return the skills, sorted by name; a broken one does not harm the rest."""
        listing = await asyncio.to_thread(self._list)
        self.problems, self.notes = tuple(listing.problems), tuple(listing.notes)
        return [listing.skills[name] for name in sorted(listing.skills)]

    def _list(self) -> "_Listing":
        listing = _Listing()
        for folder in self.folders:
            root = Path(os.path.realpath(folder))
            if not root.is_dir():
                listing.problems.append(f"{folder}: there is no such folder")
                continue
            for path in _find(root, root=root, depth=0):
                listing.read(path, root=root)
        return listing


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

    def read(self, path: Path, *, root: Path) -> None:
        try:
            if not Path(os.path.realpath(path)).is_relative_to(root):
                self.problems.append(f"{path}: it lies outside the folder and was not read")
                return
            if not stat.S_ISREG(path.stat().st_mode):
                self.problems.append(f"{path}: it is no regular file")
                return
            with path.open("rb") as file:
                raw_bytes = file.read(_MAX_FILE_BYTES + 1)
        except OSError as error:
            self.problems.append(f"{path}: it cannot be read: {error.strerror}")
            return
        if len(raw_bytes) > _MAX_FILE_BYTES:
            self.problems.append(f"{path}: it is longer than {_MAX_FILE_BYTES:,} bytes")
            return
        self._take(path, raw_bytes)

    def _take(self, path: Path, raw_bytes: bytes) -> None:
        decoded = decode_text(raw_bytes)
        front = split_front_matter(decoded.text)
        self.notes += [f"{path}: {text}" for text in (*decoded.warnings, *front.warnings)]
        name = self._name_in(front.metadata, path)
        description = front.metadata.get("description")
        if not isinstance(description, str) or not description.strip():
            self.problems.append(f"{path}: its front matter has no description")
        elif name in self.skills:
            earlier = self.skills[name].path
            self.problems.append(f"{path}: {earlier} has the name {name!r} already")
        else:
            self.skills[name] = Skill(
                name=name,
                description=" ".join(description.split()),
                path=str(path),
                instructions=front.text.strip(),
            )

    def _name_in(self, metadata: JsonObject, path: Path) -> str:
        folder = path.parent.name
        given = metadata.get("name")
        name = " ".join(given.split()) if isinstance(given, str) else ""
        if not name:
            self.notes.append(f"{path}: its front matter has no name; the folder's name is used")
            return folder
        if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_CHARS:
            self.notes.append(f"{path}: {name!r} is not lower-case letters, digits and hyphens")
        elif name != folder:
            self.notes.append(f"{path}: its name {name!r} is not that of its folder")
        return name
