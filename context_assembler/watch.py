"""Watches folders, and calls back when something in them changes."""

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

_MAX_RETRIES: Final = 5

_Watched: TypeAlias = frozenset[tuple[Path, int, int]]


class FolderWatch:
    """Calls `on_change` soon after a file in one of the folders changed, while it is entered.

    Watched are the folders themselves, not what lies below them. They may change while the watch
    runs, and need not exist: one that appears, is replaced or moved is a change. If the system cannot
    watch, `failure` says why; nothing else changes, since files are compared on every load anyway.

    Args:
        folders: Returns the folders at any moment.
        on_change: Called from the event loop.
        look_again_seconds: How often it is looked whether the folders are still the same ones.
    """

    def __init__(
        self,
        folders: Callable[[], Iterable[Path]],
        on_change: Callable[[], None],
        *,
        look_again_seconds: float = 1.0,
    ) -> None:
        self._folders = folders
        self._look_again_ms = int(look_again_seconds * 1000)
        self._on_change = on_change
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.failure: Exception | None = None

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        self._stop.clear()
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop watching."""
        self._stop.set()
        assert self._task is not None, "it was entered"
        await self._task
        self._task = None

    async def _watch(self) -> None:
        retries = 0
        while not self._stop.is_set():
            try:
                await self._watch_while_same(_existing(self._wanted()))
                retries = 0
            except (OSError, RuntimeError) as error:
                retries += 1  # a folder may have gone before it could be watched
                if not isinstance(error, FileNotFoundError) or retries > _MAX_RETRIES:
                    self.failure = error
                    return

    async def _watch_while_same(self, watched: _Watched) -> None:
        # Its stop_event is typed with trio's as well, which is not installed.
        from watchfiles import awatch  # noqa: PLC0415  # pyright: ignore[reportUnknownVariableType]

        changes = awatch(
            *(path for path, _, _ in watched),
            watch_filter=lambda _, path: self._concerns(Path(path)),
            stop_event=self._stop,
            debounce=200,
            step=20,
            rust_timeout=self._look_again_ms,
            yield_on_timeout=True,
            recursive=False,
        )
        async with aclosing(changes):
            async for changed in changes:
                is_same = _existing(self._wanted()) == watched
                if changed or not is_same:
                    self._on_change()
                if not is_same:
                    return

    def _wanted(self) -> frozenset[Path]:
        absolute = (Path(os.path.abspath(folder)) for folder in self._folders())  # noqa: PTH100 - links stay
        return frozenset(absolute)

    def _concerns(self, path: Path) -> bool:
        """Whether a change there is one in the folders, or of one of them."""
        wanted = self._wanted()
        return path.parent in wanted or any(folder.is_relative_to(path) for folder in wanted)


def _existing(folders: Iterable[Path]) -> _Watched:
    """Return what has to be watched for the folders, as what it is at this moment."""
    places = {place for folder in folders for place in _places(folder)}
    found = ((place, place.stat()) for place in places)
    return frozenset((place, what.st_dev, what.st_ino) for place, what in found)


def _places(folder: Path) -> list[Path]:
    """Return the folder and the one around it, where it would go; else the nearest that exists."""
    existing = [place for place in (folder, *folder.parents) if place.is_dir()]
    return existing[: 2 if folder in existing else 1]
