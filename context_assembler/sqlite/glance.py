"""A glance at a SQLite file: what is told in microseconds, without a thread to wait for."""

import sqlite3
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from context_assembler.sqlite.forks import new_lock
from context_assembler.sqlite.held import FileIdentity, HeldConnection, identify_file

_VERSION: Final = "PRAGMA data_version"

# Which connection, its data version, and when the file was last written, of which size.
FileMark: TypeAlias = tuple[int, int, int, int]

_Result = TypeVar("_Result")


class Glance:
    """Tells whether a file has changed, and reads what is small, on a connection of its own.

    Short enough for the event loop itself: the file's identity, a number that SQLite keeps in memory
    that all connections share, a few pages that were written just now. It waits for no lock; where it
    would have to, nothing is known.

    Source:
        https://www.sqlite.org/pragma.html#pragma_data_version: two answers of one connection differ
        when any other connection committed in between (read 2026-11-28)
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = new_lock()
        self._held = HeldConnection()
        self._opened = 0  # how often: numbers of two connections say nothing of each other
        weakref.finalize(self, self._held.close)

    def open(self) -> None:
        """Open what `mark` looks through, or open it again where the file is another; may wait."""
        found = identify_file(self._path)
        if not self._lock.acquire(blocking=False):
            return  # somebody is looking: then it is open
        try:
            is_known = self._held.is_ours and self._held.file_identity == found
            if found is None or is_known:  # where it could not be opened, it is not tried for ever
                return
            self._let_go()
            with suppress(sqlite3.Error):
                self._held.connection = _connect(self._path)
            self._held.file_identity = found
            self._opened += 1
        finally:
            self._lock.release()

    def mark(self) -> FileMark | None:
        """Return what stays the same while nobody writes; `None` where that is not known."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._look()
        except (OSError, sqlite3.Error):  # it is gone, or damaged, or somebody has it for himself
            return None
        finally:
            self._lock.release()

    def read(self, act: Callable[[sqlite3.Connection], _Result | None]) -> _Result | None:
        """Return what an action reads at once; `None` where somebody has to be waited for.

        Args:
            act: Reads a few rows; whatever SQLite refuses is left to whoever may wait and explain.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            found = self._path.stat()
            connection = self._connection_to((found.st_dev, found.st_ino))
            return None if connection is None else act(connection)
        except (OSError, sqlite3.Error):
            return None
        finally:
            self._lock.release()

    def close(self) -> None:
        """Let go of the file; `open` opens it again."""
        with self._lock:
            self._let_go()

    def _look(self) -> FileMark | None:
        found = self._path.stat()
        connection = self._connection_to((found.st_dev, found.st_ino))
        if connection is None:
            return None
        (version,) = connection.execute(_VERSION).fetchone()
        return self._opened, version, found.st_mtime_ns, found.st_size

    def _connection_to(self, file: FileIdentity) -> sqlite3.Connection | None:
        """Return what is open, if it is open to this very file and in this process."""
        held = self._held
        return held.connection if held.file_identity == file and held.is_ours else None

    def _let_go(self) -> None:
        self._held.close()
        self._held = HeldConnection()
        weakref.finalize(self, self._held.close)


def _connect(path: Path) -> sqlite3.Connection:
    """Open a file for glances, and take one: the first is the one that reads from the disk."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=ro",
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,  # one thread at a time, by the lock
    )
    try:
        connection.execute(_VERSION).fetchone()
    except BaseException:
        connection.close()
        raise
    return connection
