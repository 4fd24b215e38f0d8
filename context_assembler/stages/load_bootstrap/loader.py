"""`BootstrapLoader`: AGENT.md, SOUL.md, CONTEXT.md of one folder → files.

Reading never raises for what lies in the folder: a missing, empty, unreadable or refused file is a
state, and the others still load.
"""

import asyncio
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias

from cachetools import TTLCache

from context_assembler.stages.load_bootstrap.arguments import (
    check_agent_id,
    check_clocks,
    checked_folder,
    checked_names,
)
from context_assembler.stages.load_bootstrap.bootstrap_text import mask_file
from context_assembler.stages.load_bootstrap.capping import FileCaps, cap_files
from context_assembler.stages.load_bootstrap.cut_text import CountText
from context_assembler.stages.load_bootstrap.file_opening import Identity, identity
from context_assembler.stages.load_bootstrap.file_reading import FileReading
from context_assembler.stages.load_bootstrap.file_text import with_text
from context_assembler.stages.load_bootstrap.linting import Lint, lint_files
from context_assembler.values.given import check_callable, listed
from context_assembler.values.parts import Json
from context_assembler.values.prompt import BootstrapFile

STANDARD_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "agent": ("AGENT.md",),
    "soul": ("SOUL.md",),
    "context": ("CONTEXT.md",),
}
# A file that changed this recently may change again without its time stamps telling.
_UNSETTLED_NS: Final = 2_000_000_000

_Key: TypeAlias = tuple[str | None, CountText | None]


class BootstrapLoader:
    """Loads the instruction files of one folder.

    What was read is kept for `ttl_seconds`, and every call compares the files' identity on disk, so
    an edit shows on the next call.

    Args:
        folder: Where the files lie; it need not exist.
        root: What no path may leave; the folder itself by default, or the repository around it when
            `searches_upward`.
        agent_names: Names accepted for AGENT.md; the first that exists is read.
        searches_upward: Whether the same names in the folders above, up to the root of the
            repository, are read as well, nearest first.
        max_file_tokens: Longest text of one file.
        max_total_tokens: Longest text of all files together; the nearest file is cut last.
        masks_secrets: Whether secrets in the files are masked; needs the extra `secrets`.

    Raises:
        InvalidParameterError: No folder can have that name.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        root: str | Path | None = None,
        agent_names: Sequence[str] = ("AGENT.md",),
        searches_upward: bool = False,
        max_file_tokens: int = 25_000,
        max_total_tokens: int = 50_000,
        ttl_seconds: float = 60.0,
        masks_secrets: bool = False,
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        check_clocks(ttl_seconds=ttl_seconds, clock=clock, now_ns=now_ns)
        self.folder = checked_folder(folder)
        self._root = None if root is None else checked_folder(root, name="root")
        self._names = {**STANDARD_NAMES, "agent": checked_names(agent_names)}
        self._searches_upward = searches_upward
        self._caps = FileCaps(max_file_tokens=max_file_tokens, max_total_tokens=max_total_tokens)
        self._masks_secrets = masks_secrets
        self._now_ns = now_ns
        self._kept: TTLCache[_Key, _Loaded] = TTLCache(maxsize=256, ttl=ttl_seconds, timer=clock)
        self._looked_in: set[Path] = set()
        self._lock = Lock()  # callers without a loop come from threads of their own

    async def load(
        self, agent_id: str | None = None, *, count_text: CountText | None = None
    ) -> list[BootstrapFile]:
        """Return one file per section, the folder's own first; templates are not rendered yet.

        Args:
            agent_id: `AGENT.<agent_id>.md` wins over `AGENT.md` for this agent, so for the others.
            count_text: Counts tokens as the model does; without it nothing is cut.

        Raises:
            UnsafePathError: The agent id is no plain name.
            InvalidParameterError: The agent id is no text.
        """
        if agent_id is not None:
            check_agent_id(agent_id, folder=self.folder)
        if count_text is not None:
            check_callable("count_text", count_text, such_as="TokenCounter(…).count_text, or None")
        with self._lock:
            kept = self._kept.get((agent_id, count_text))
        if kept is not None and await asyncio.to_thread(self._is_current, kept):
            return list(kept.files)
        loaded = await asyncio.to_thread(self._load, agent_id, count_text)
        with self._lock:
            self._kept[agent_id, count_text] = loaded
            self._looked_in |= loaded.looked_in()
        return list(loaded.files)

    async def lint(
        self,
        agent_id: str | None = None,
        *,
        count_text: CountText,
        variables: Mapping[str, Json] | None = None,
        required: Collection[str] = (),
    ) -> Lint:
        """Return what a reviewer should know about the files, as `load` would read them.

        Args:
            variables: What the templates may name.
            required: Sections of which it is a warning that there is no file.

        Raises:
            UnsafePathError: The agent id is no plain name.
        """
        if agent_id is not None:
            check_agent_id(agent_id, folder=self.folder)
        check_callable("count_text", count_text, such_as="TokenCounter(…).count_text")
        required = listed("required", required, str, such_as="names of sections, such as ['agent']")
        return await asyncio.to_thread(
            self._lint, agent_id, count_text, variables or {}, required=required
        )

    def invalidate(self) -> None:
        """Forget what was read."""
        with self._lock:
            self._kept.clear()

    def watched_folders(self) -> set[Path]:
        """Return the folder, and every one that holds a file which the loads so far looked for."""
        with self._lock:
            return {Path(os.path.abspath(self.folder)), *self._looked_in}  # noqa: PTH100 - as in _read

    def _is_current(self, kept: "_Loaded") -> bool:
        return kept.is_settled and self._place() == kept.place and kept.has_same_files()

    def _load(self, agent_id: str | None, count_text: CountText | None) -> "_Loaded":
        place = self._place()
        reading, nearest_first = self._read(place, agent_id)
        if count_text is not None:
            nearest_first = cap_files(nearest_first, caps=self._caps, count_text=count_text)
        return _Loaded(
            files=tuple(_without_copies(self._in_order(nearest_first))),
            place=place,
            seen=reading.seen,
            is_settled=self._now_ns() - reading.newest_ns > _UNSETTLED_NS,
        )

    def _place(self) -> "_Place":
        folder = Path(os.path.abspath(self.folder))  # noqa: PTH100 - links are resolved one by one
        repository = _repository_of(folder) if self._searches_upward else None
        root = os.path.realpath(self._root or repository or folder)
        return _Place(folder=folder, repository=repository, root=Path(root))

    def _lint(
        self,
        agent_id: str | None,
        count_text: CountText,
        variables: Mapping[str, Json],
        *,
        required: Collection[str],
    ) -> Lint:
        _, nearest_first = self._read(self._place(), agent_id)
        capped = cap_files(nearest_first, caps=self._caps, count_text=count_text)
        files = self._in_order(nearest_first)
        shown = list(_without_copies(self._in_order(capped)))
        names = [name for own in self._names.values() for name in _with_agent(own, agent_id)]
        return lint_files(
            files,
            shown,
            folder=Path(os.path.abspath(self.folder)),  # noqa: PTH100 - as in _read
            names=names,
            count_text=count_text,
            variables=variables,
            required=required,
        )

    def _read(
        self, place: "_Place", agent_id: str | None
    ) -> tuple[FileReading, list[BootstrapFile]]:
        """Read all files, nearest first, whole."""
        reading = FileReading(root=place.root)
        files = [
            reading.read_section(section, place.folder, _with_agent(names, agent_id))
            for section, names in self._names.items()
        ]
        above = _folders_between(place.folder, place.repository)
        found = [file for parent in above for file in self._read_above(reading, parent)]
        if files[0].state == "missing" and all(file.state != "ok" for file in found):
            files = [
                reading.tell_absence(file, place.folder, _with_agent(names, agent_id))
                for file, names in zip(files, self._names.values(), strict=True)
            ]
        nearest_first = [*files, *found]
        if self._masks_secrets:
            nearest_first = list(map(mask_file, nearest_first))
        return reading, nearest_first

    def _in_order(self, nearest_first: Sequence[BootstrapFile]) -> list[BootstrapFile]:
        """Return the files in the order of the prompt: the agent's, nearest first, then the others."""
        agent, *others = nearest_first
        own = len(self._names) - 1
        return [agent, *others[own:], *others[:own]]

    def _read_above(self, reading: FileReading, parent: Path) -> Iterator[BootstrapFile]:
        file = reading.read_section("agent", parent, self._names["agent"])
        if file.state != "missing":
            yield file


def _with_agent(names: Sequence[str], agent_id: str | None) -> list[str]:
    if agent_id is None:
        return list(names)
    own = [f"{Path(name).stem}.{agent_id}{Path(name).suffix}" for name in names]
    return [*own, *names]


def _repository_of(folder: Path) -> Path | None:
    for candidate in (folder, *folder.parents):
        if os.path.exists(candidate / ".git"):  # noqa: PTH110 - `Path.exists` raises for some
            return candidate
    return None


def _folders_between(folder: Path, repository: Path | None) -> list[Path]:
    """Return the folders above `folder` up to the repository's root, nearest first."""
    if repository is None or folder == repository:
        return []
    above = list(folder.parents)
    return above[: above.index(repository) + 1]


def _without_copies(files: Sequence[BootstrapFile]) -> Iterator[BootstrapFile]:
    """Show a text once, whether it comes twice by a link or by copying."""
    shown: dict[str, str] = {}
    for file in files:
        if file.state == "ok" and file.text in shown:
            twice = f"the same text as {shown[file.text]}, which is shown already"
            yield replace(with_text(file, ""), state="blocked", warnings=(*file.warnings, twice))
        else:
            shown[file.text] = file.path
            yield file


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where files are looked for, and what no path may leave."""

    folder: Path
    repository: Path | None
    root: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """What one load found, where, and the identity of every path that it looked at."""

    files: tuple[BootstrapFile, ...]
    place: _Place
    seen: Mapping[Path, Identity]
    is_settled: bool

    def has_same_files(self) -> bool:
        return all(identity(path) == was for path, was in self.seen.items())

    def looked_in(self) -> set[Path]:
        """Return the folders inside the root in which the load looked for something."""
        names = {os.path.normpath(path) for path in self.seen}
        reals = {real for real, _ in self.seen.values() if real}
        parents = {Path(path).parent for path in names | reals}
        above = {self.place.root, self.place.folder}
        return {one for one in parents if any(one.is_relative_to(inside) for inside in above)}
