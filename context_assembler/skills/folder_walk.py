"""Finds the skill files below one folder, whatever its links lead to."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from context_assembler.skills.problems import SkillProblem

SKILL_FILE: Final = "SKILL.md"
MAX_DEPTH: Final = 6
MAX_FOLDERS: Final = 10_000
MAX_ENTRIES: Final = 10_000  # of one folder
MAX_SKILLS: Final = 2_000
TOO_MANY: Final = "too_many"


@dataclass(slots=True, kw_only=True)
class FolderWalk:
    """One walk below a folder, in which no folder is read twice, however many links lead to it.

    Attributes:
        entered: As what each folder was reached, by its identity on disk.
        problems: What was not searched.
        notes: What was not searched again.
    """

    root: str
    entered: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
    found: int = 0
    problems: list[SkillProblem] = field(default_factory=list[SkillProblem])
    notes: list[str] = field(default_factory=list[str])

    def skill_files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield every SKILL.md, in order of path, links last.

        What lies below a skill belongs to that skill; a link out of the root is not followed.
        """
        for path, found in self._below(self.root, depth=0):
            if self.found == MAX_SKILLS:
                self._leave_rest(f"only the first {MAX_SKILLS:,} skills below it were read")
                return
            self.found += 1
            yield path, found

    def _below(self, folder: str, *, depth: int) -> Iterator[tuple[str, os.stat_result]]:
        if not self._enter(folder):
            return
        path = os.path.join(folder, SKILL_FILE)  # noqa: PTH118 - all paths are text: it is faster
        found = _look_at(path)
        if found is not None:
            yield path, found
        elif inside := self._folders_in(folder):
            if depth == MAX_DEPTH:
                reason = f"what lies more than {MAX_DEPTH} levels down was not searched"
                self.notes.append(f"{folder}: {reason}")
                return
            for inner in inside:
                yield from self._below(inner, depth=depth + 1)

    def _enter(self, folder: str) -> bool:
        """Return whether the folder is to be searched: it can be, and was not yet."""
        try:
            found = os.stat(folder)  # noqa: PTH116 - as above
        except OSError:  # pragma: no cover - gone since it was listed
            return False
        identity = found.st_dev, found.st_ino
        earlier = self.entered.get(identity)
        if earlier is not None:
            self.notes.append(f"{folder}: the same folder as {earlier}, which was searched already")
            return False
        if len(self.entered) == MAX_FOLDERS:
            self._leave_rest(f"only the first {MAX_FOLDERS:,} folders below it were searched")
            return False
        self.entered[identity] = folder
        return True

    def _folders_in(self, folder: str) -> list[str]:
        """Return the folders inside, in order, links last: a folder is searched under its own name."""
        try:
            with os.scandir(folder) as entries:
                listed = list(islice(entries, MAX_ENTRIES + 1))
        except (
            OSError
        ):  # pragma: no cover - not permitted; whoever may read everything never sees it
            return []
        if len(listed) > MAX_ENTRIES:
            reason = (
                f"it has more than {MAX_ENTRIES:,} entries, and what lies below was not searched"
            )
            self.problems.append(SkillProblem(path=folder, reason=reason, rule=TOO_MANY))
            return []
        below = sorted(
            (entry.is_symlink(), entry.name, entry.path) for entry in listed if _is_open(entry)
        )
        return [
            path for is_link, _, path in below if not is_link or is_inside(path, root=self.root)
        ]

    def _leave_rest(self, reason: str) -> None:
        problem = SkillProblem(path=self.root, reason=reason, rule=TOO_MANY)
        if problem not in self.problems:
            self.problems.append(problem)


def _is_open(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a folder, or a link to one, that does not hide."""
    try:
        return not entry.name.startswith(".") and entry.is_dir()
    except OSError:  # a link in a circle
        return False


def is_inside(path: str, *, root: str) -> bool:
    """Whether what the path leads to lies below the root, or is the root."""
    return os.path.join(os.path.realpath(path), "").startswith(os.path.join(root, ""))  # noqa: PTH118 - as above


def _look_at(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
