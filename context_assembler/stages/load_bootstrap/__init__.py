"""`BootstrapLoader`: AGENT.md, SOUL.md, CONTEXT.md of one folder → files.

Reading never raises for what lies in the folder: a missing, empty, unreadable or refused file is a
state, and the others still load.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias

from cachetools import TTLCache

from context_assembler.errors import InvalidParameterError, UnsafePathError
from context_assembler.stages.load_bootstrap.bootstrap_text import with_text
from context_assembler.stages.load_bootstrap.capping import FileCaps, cap_files
from context_assembler.stages.load_bootstrap.cut_text import CountText
from context_assembler.stages.load_bootstrap.file_reading import FileReading, Identity, identity
from context_assembler.stages.load_bootstrap.templates import render_bootstrap
from context_assembler.values.prompt import BootstrapFile

__all__ = ["BootstrapLoader", "render_bootstrap"]

STANDARD_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "agent": ("AGENT.md",),
    "soul": ("SOUL.md",),
    "context": ("CONTEXT.md",),
}
_MAX_AGENT_ID_CHARS: Final = 100
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
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.folder = Path(folder)
        self._root = None if root is None else Path(root)
        self._names = {**STANDARD_NAMES, "agent": tuple(agent_names)}
        self._searches_upward = searches_upward
        self._caps = FileCaps(max_file_tokens=max_file_tokens, max_total_tokens=max_total_tokens)
        self._now_ns = now_ns
        self._kept: TTLCache[_Key, _Loaded] = TTLCache(maxsize=256, ttl=ttl_seconds, timer=clock)
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
            _check_agent_id(agent_id, folder=self.folder)
        with self._lock:
            kept = self._kept.get((agent_id, count_text))
        if kept is not None and await asyncio.to_thread(kept.is_current):
            return list(kept.files)
        loaded = await asyncio.to_thread(self._load, agent_id, count_text)
        with self._lock:
            self._kept[agent_id, count_text] = loaded
        return list(loaded.files)

    def invalidate(self) -> None:
        """Forget what was read."""
        with self._lock:
            self._kept.clear()

    def _load(self, agent_id: str | None, count_text: CountText | None) -> "_Loaded":
        folder = Path(os.path.abspath(self.folder))  # noqa: PTH100 - links are resolved one by one
        repository = _repository_of(folder) if self._searches_upward else None
        root = Path(os.path.realpath(self._root or repository or folder))
        reading = FileReading(root=root)
        files = [
            reading.read_section(section, folder, _with_agent(names, agent_id))
            for section, names in self._names.items()
        ]
        above = _folders_between(folder, repository)
        found = [file for parent in above for file in self._read_above(reading, parent)]
        nearest_first: Sequence[BootstrapFile] = [*files, *found]
        if count_text is not None:
            nearest_first = cap_files(nearest_first, caps=self._caps, count_text=count_text)
        agent, *others = nearest_first
        in_order = [agent, *others[len(files) - 1 :], *others[: len(files) - 1]]
        return _Loaded(
            files=tuple(_without_copies(in_order)),
            seen=reading.seen,
            is_settled=self._now_ns() - reading.newest_ns > _UNSETTLED_NS,
        )

    def _read_above(self, reading: FileReading, parent: Path) -> Iterator[BootstrapFile]:
        file = reading.read_section("agent", parent, self._names["agent"])
        if file.state != "missing":
            yield file


def _check_agent_id(agent_id: object, *, folder: Path) -> None:
    if not isinstance(agent_id, str):
        raise InvalidParameterError(
            "agent_id", agent_id, rule="must be text", remedy="Pass the agent's name as a string."
        )
    is_plain = all(char.isalnum() or char in "._-" for char in agent_id)
    if is_plain and 0 < len(agent_id) <= _MAX_AGENT_ID_CHARS and not agent_id.startswith("."):
        return
    raise UnsafePathError(agent_id, root=str(folder), what="The agent id")


def _with_agent(names: Sequence[str], agent_id: str | None) -> list[str]:
    if agent_id is None:
        return list(names)
    own = [f"{Path(name).stem}.{agent_id}{Path(name).suffix}" for name in names]
    return [*own, *names]


def _repository_of(folder: Path) -> Path | None:
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
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
class _Loaded:
    """What one load found, and the identity of every path that it looked at."""

    files: tuple[BootstrapFile, ...]
    seen: Mapping[Path, Identity]
    is_settled: bool

    def is_current(self) -> bool:
        return self.is_settled and all(identity(path) == was for path, was in self.seen.items())
