"""Watches folders, and calls back when something in them changes."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self


class FolderWatch:
    """Calls `on_change` soon after a file in one of the folders changed, while it is entered.

    Folders that do not exist are not watched. If the system cannot watch, `failure` says why;
    nothing else changes, since files are compared on every load anyway.
    """

    def __init__(self, folders: Iterable[str | Path], on_change: Callable[[], None]) -> None:
        self._folders = [Path(folder) for folder in folders]
        self._on_change = on_change
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.failure: Exception | None = None

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        existing = [folder for folder in self._folders if folder.is_dir()]
        if existing:
            self._stop.clear()
            self._task = asyncio.create_task(self._watch(existing))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop watching."""
        self._stop.set()
        if self._task is not None:
            await self._task
            self._task = None

    async def _watch(self, folders: list[Path]) -> None:
        # Its stop_event is typed with trio's as well, which is not installed.
        from watchfiles import awatch  # noqa: PLC0415  # pyright: ignore[reportUnknownVariableType]

        try:
            async for _ in awatch(*folders, stop_event=self._stop, debounce=200, step=20):
                self._on_change()
        except (OSError, RuntimeError) as error:
            self.failure = error
