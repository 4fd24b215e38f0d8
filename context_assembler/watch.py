"""Watches folders, and calls back when something in them changes."""

import asyncio
import atexit
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread, current_thread
from types import TracebackType
from typing import Final, Self, TypeAlias

_MAX_RETRIES: Final = 5
_EXIT_SECONDS: Final = 10.0

_Watched: TypeAlias = frozenset[tuple[Path, int, int]]


class FolderWatch:
    """Calls `on_change` soon after a file in one of the folders changed, while it is entered.

    Watched are the folders themselves, not what lies below them. They may change while the watch
    runs, and need not exist: one that appears, is replaced or moved is a change. If the system cannot
    watch, `failure` says why; nothing else changes, since files are compared on every load anyway.

    It waits in a thread of its own: those that `anyio` lends out are few, and web frameworks run
    endpoints in them. It ends at exit, at the latest when its loop has closed, or with the program.

    Args:
        folders: Returns the folders at any moment; called from that thread.
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
        self._running: _Running | None = None
        self.failure: Exception | None = None

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        self._running = _Running(asyncio.get_running_loop(), watch=self._watch)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop watching, from whatever loop."""
        running, self._running = self._running, None
        assert running is not None, "it was entered"
        await running.end()

    def _watch(self, running: "_Running") -> None:
        retries = 0
        watched: _Watched | None = None
        while not running.is_over:
            try:
                watched = self._watch_while_same(
                    _existing(self._wanted()) if watched is None else watched, running
                )
                retries = 0
            except (OSError, RuntimeError) as error:
                retries += 1  # a folder may have gone before it could be watched
                watched = None
                if not isinstance(error, FileNotFoundError) or retries > _MAX_RETRIES:
                    self.failure = error
                    return

    def _watch_while_same(self, watched: _Watched, running: "_Running") -> _Watched:
        """Watch until the folders are others, and return what has to be watched then.

        That is what was found when the change was told: what changes after it is another change.
        """
        from watchfiles import watch  # noqa: PLC0415 - only with files

        changes = watch(
            *(path for path, _, _ in watched),
            watch_filter=lambda _, path: self._concerns(Path(path)),
            stop_event=running.stop,
            debounce=200,
            step=20,
            rust_timeout=self._look_again_ms,
            yield_on_timeout=True,
            recursive=False,
        )
        with closing(changes):
            for changed in changes:
                found = _existing(self._wanted())
                if changed or found != watched:
                    running.call_soon(lambda: self._tell(running))
                if found != watched or running.is_over:
                    return found
        return watched

    def _tell(self, running: "_Running") -> None:
        if running.is_over:
            return
        try:
            self._on_change()
        except (OSError, RuntimeError) as error:
            self.failure = error
            running.stop.set()

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


class _Running:
    """A watch that runs, in a thread of its own."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, watch: Callable[["_Running"], None]
    ) -> None:
        self.stop = Event()
        self._loop = loop
        self._watch = watch
        self._ended: Future[None] = Future()
        self._thread = Thread(target=self._run, name="watch-folders", daemon=True)
        atexit.register(self._end_with_the_program)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for changes any more."""
        return self.stop.is_set() or self._loop.is_closed()

    def call_soon(self, call: Callable[[], None]) -> None:
        """Have the loop call, unless it has closed meanwhile."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    async def end(self) -> None:
        """Stop, and wait until the thread has ended."""
        self.stop.set()
        await asyncio.shield(asyncio.wrap_future(self._ended))

    def _run(self) -> None:
        try:
            self._watch(self)
        finally:
            atexit.unregister(self._end_with_the_program)
            self._ended.set_result(None)

    def _end_with_the_program(self) -> None:
        self.stop.set()
        if current_thread() is not self._thread:  # pragma: no branch - atexit runs elsewhere
            self._thread.join(_EXIT_SECONDS)
