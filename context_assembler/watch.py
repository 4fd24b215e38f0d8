"""Watches folders, and calls back when something in them changes."""

import os
from collections.abc import Callable, Iterable
from threading import Event, Thread


class FolderWatch:
    """Calls `on_change` soon after a file in one of the folders changed, until it is closed.

    Folders may come and go while it runs. If the system cannot watch, `failure` says why; nothing
    else changes, since files are compared on every load anyway.

    Args:
        folders: Returns the folders at any moment; called in the watch's own thread, like
            `on_change`.
        look_again_seconds: How often it is checked whether the folders are still the same.
    """

    def __init__(
        self,
        folders: Callable[[], Iterable[str]],
        on_change: Callable[[], None],
        *,
        look_again_seconds: float = 1.0,
    ) -> None:
        self.failure: Exception | None = None
        self._folders, self._on_change = folders, on_change
        self._look_again_seconds = look_again_seconds
        self._stop = Event()
        self._thread = Thread(target=self._run, name="watch-folders", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        from watchfiles import watch

        while not self._stop.is_set():
            watched = self._existing()
            if not watched:
                self._stop.wait(self._look_again_seconds)
            timeout_ms = int(self._look_again_seconds * 1000)
            try:
                for changes in watched and watch(
                    *watched,
                    watch_filter=None,
                    stop_event=self._stop,
                    debounce=50,
                    step=20,
                    rust_timeout=timeout_ms,
                    yield_on_timeout=True,
                    recursive=False,
                ):
                    is_same = self._existing() == watched
                    if changes or not is_same:
                        self._on_change()
                    if not is_same:
                        break
            except (OSError, RuntimeError) as error:  # a folder that has just gone, or no watches
                self.failure = error
                self._stop.wait(self._look_again_seconds)

    def _existing(self) -> list[str]:
        return sorted(folder for folder in self._folders() if os.path.isdir(folder))
