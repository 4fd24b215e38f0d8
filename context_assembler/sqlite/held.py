"""A SQLite connection that is held open, and what has to be known of it to go on using it."""

import os
import sqlite3
from pathlib import Path
from typing import TypeAlias

FileIdentity: TypeAlias = tuple[int, int]  # of a file on this machine, wherever it is moved


class HeldConnection:
    """What is open, and in which process; outlives who uses it for as long as closing takes."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self.connection: sqlite3.Connection | None = None
        self.file_identity: FileIdentity | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it was opened in this process, not in the one that this was forked from."""
        return self.process_id == os.getpid()

    def close(self) -> None:
        """Close the connection, unless it came here by fork."""
        # Such a connection belongs to the parent: closing it would drop its locks.
        if self.connection is not None and self.is_ours:
            self.connection.close()
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
