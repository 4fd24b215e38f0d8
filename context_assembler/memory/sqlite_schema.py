"""The tables of a SQLite memory store."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from context_assembler.errors import MemoryUnavailableError
from context_assembler.sqlite.schema import Schema


def _create_tables(connection: sqlite3.Connection) -> None:
    """Version 1."""
    _create_rows(connection)
    _create_index(connection)
    connection.execute(
        "CREATE TABLE memory_state (name TEXT NOT NULL PRIMARY KEY, value) WITHOUT ROWID"
    )


def _create_rows(connection: sqlite3.Connection) -> None:
    """Create the table of records.

    `key` is the order of storing and is never used twice. `line` is what records stand in a row in
    (their session or parent, hashed), `digest` the hash of what makes two records the same.
    Times are microseconds since 1970.
    """
    connection.execute(
        """
        CREATE TABLE memory_records (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            namespace TEXT NOT NULL,
            session_id TEXT,
            parent_id TEXT,
            author TEXT,
            line INTEGER,
            digest INTEGER,
            text TEXT NOT NULL,
            details BLOB,
            created_at INTEGER NOT NULL,
            importance REAL NOT NULL,
            vector BLOB,
            access_count INTEGER NOT NULL DEFAULT 0,
            last_access_at INTEGER,
            format_version INTEGER NOT NULL
        )
        """
    )
    for index in (
        "lines ON memory_records (line, key) WHERE line IS NOT NULL",
        "digests ON memory_records (digest) WHERE digest IS NOT NULL",
        "times ON memory_records (created_at)",
        "sessions ON memory_records (session_id) WHERE session_id IS NOT NULL",
        "vectors ON memory_records (key) WHERE vector IS NOT NULL",
    ):
        connection.execute(f"CREATE INDEX memory_{index}")


def _create_index(connection: sqlite3.Connection) -> None:
    """Create the full-text index.

    It holds no texts, and no lengths: on short texts a ranking without them is as good, and
    several times faster.
    """
    connection.execute(
        """
        CREATE VIRTUAL TABLE memory_words USING fts5 (
            text, context, tags,
            content = '', columnsize = 0, tokenize = 'porter unicode61 remove_diacritics 2'
        )
        """
    )


def _leave_merging(connection: sqlite3.Connection) -> None:
    """Version 2: let the pieces of the index be merged by `merge_index` alone.

    Left to itself, SQLite goes on with what that began whenever something is written, and takes its
    own time.
    """
    connection.execute("INSERT INTO memory_words (memory_words, rank) VALUES ('automerge', 0)")


SCHEMA: Final = Schema(
    name="memories",
    migrations=(_create_tables, _leave_merging),
    tables=("memory_records",),
    unavailable=MemoryUnavailableError,
)


def read_state(connection: sqlite3.Connection, name: str) -> str | int | None:
    """Return a setting of the file; `None` where it was never set."""
    row = connection.execute("SELECT value FROM memory_state WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def write_state(connection: sqlite3.Connection, name: str, value: str | int | None) -> None:
    """Set a setting of the file."""
    connection.execute("INSERT OR REPLACE INTO memory_state VALUES (?, ?)", (name, value))


@contextmanager
def one_moment(connection: sqlite3.Connection) -> Generator[None]:
    """Let every look inside see the file as it was at the first."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")
