"""What a family of tables is made of, and how older files come up to date."""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from context_assembler.errors import StoreError

Migration: TypeAlias = Callable[[sqlite3.Connection], object]


class Unavailable(Protocol):
    """Makes the error for a file that cannot be used."""

    def __call__(self, location: str, *, reason: str, remedy: str) -> StoreError:
        """Return the error; whoever asked for it raises it."""
        ...


class VersionMark(Protocol):
    """Where a file says of which version the tables of one kind of store are.

    Stores that share a file need a mark each.
    """

    def read(self, connection: sqlite3.Connection) -> int:
        """Return the version; 0 for a file without these tables."""
        ...

    def note(self, connection: sqlite3.Connection, version: int) -> None:
        """Say that the tables are of this version from now on."""
        ...


class _UserVersion:
    """The number that SQLite itself keeps for the purpose; a file has one."""

    def read(self, connection: sqlite3.Connection) -> int:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    def note(self, connection: sqlite3.Connection, version: int) -> None:
        connection.execute(f"PRAGMA user_version = {version}")


USER_VERSION: Final[VersionMark] = _UserVersion()


@dataclass(frozen=True, slots=True)
class VersionTable:
    """A table with a row for each version that the file came through."""

    name: str

    def read(self, connection: sqlite3.Connection) -> int:
        """Return the largest version in the table; 0 where there is none."""
        if not has_table(connection, self.name):
            return 0
        newest = f"SELECT max(CAST(version AS INTEGER)) FROM {self.name}"  # noqa: S608 – our own name
        (version,) = connection.execute(newest).fetchone()
        return int(version or 0)

    def note(self, connection: sqlite3.Connection, version: int) -> None:
        """Add a row; the first comes with the table."""
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {self.name} (version INTEGER NOT NULL PRIMARY KEY)"
        )
        connection.execute(f"INSERT INTO {self.name} VALUES (?)", (version,))  # noqa: S608 – our own name


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The tables of one kind of store.

    Attributes:
        name: What the store is called in the name of its threads.
        migrations: Bring a file from version *n* to *n + 1*; version 0 has no tables.
        tables: What every version has, and a file of version 0 none of; any other file is another
            program's.
        unavailable: Makes the error for a file that cannot be used.
        version: Where the file says of which version its tables are.
    """

    name: str
    migrations: tuple[Migration, ...]
    tables: tuple[str, ...]
    unavailable: Unavailable
    version: VersionMark = USER_VERSION

    def is_newest(self, connection: sqlite3.Connection) -> bool:
        """Whether the file's tables are of the newest version."""
        return self.version.read(connection) >= len(self.migrations)


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Whether the file has a table of that name."""
    found = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    return found is not None


def migrate(connection: sqlite3.Connection, schema: Schema) -> None:
    """Apply the migrations that the file lacks, all or none, one process at a time.

    Args:
        connection: One that begins no transactions by itself.
    """
    if schema.is_newest(connection):
        return
    with transaction(connection):
        # Read again: another process may have been here between the look and the lock.
        found = schema.version.read(connection)
        for version, step in enumerate(schema.migrations[found:], start=found + 1):
            step(connection)
            schema.version.note(connection, version)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Commit what is done inside, or nothing of it."""
    # IMMEDIATE takes the write lock at once: what is read inside cannot change before it is used.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some errors, such as a full disk, end it by themselves
            connection.execute("ROLLBACK")
        raise
