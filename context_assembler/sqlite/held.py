"""A SQLite connection that is held open, and what has to be known of it to go on using it."""

import os
import sqlite3
from pathlib import Path
from typing import Final, TypeAlias

from context_assembler.sqlite.forks import new_lock

FileIdentity: TypeAlias = tuple[int, int]  # of a file on this machine, wherever it is moved

# Of the process that this one was forked from; to close one would be to meddle with its locks, and
# whoever lets go of the last reference closes it: https://www.sqlite.org/howtocorrupt.html (2.6)
_INHERITED: Final[list[sqlite3.Connection]] = []


class HeldConnection:
    """What is open, and in which process; outlives who uses it for as long as closing takes.

    Attributes:
        in_use: For whoever is inside SQLite with it.
    """

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self.in_use = new_lock()
        self.connection: sqlite3.Connection | None = None
        self.file_identity: FileIdentity | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it was opened in this process, not in the one that this was forked from."""
        return self.process_id == os.getpid()

    def close(self) -> None:
        """Close the connection; one that came here by fork stays as it is for as long as the process."""
        if self.connection is None:
            return
        if self.is_ours:
            self.connection.close()
        else:
            _INHERITED.append(self.connection)
        self.connection = None


def identify_file(path: Path | None) -> FileIdentity | None:
    """Return the file's identity; `None` for a database in memory, and where there is no file."""
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
