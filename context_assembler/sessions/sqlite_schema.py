"""The tables of a SQLite session store, and how older files come up to date."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

Migration: TypeAlias = Callable[[sqlite3.Connection], object]


def _create_tables(connection: sqlite3.Connection) -> None:
    """Version 1. Neither `key` nor `incarnation` is used twice: a session made anew is another."""
    connection.execute(
        """
        CREATE TABLE sessions (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            incarnation TEXT NOT NULL DEFAULT (lower(hex(randomblob(8)))),
            last_seq INTEGER NOT NULL,
            record BLOB NOT NULL,
            created_at TEXT,
            format_version INTEGER NOT NULL
        )
        """
    )
    connection.execute(
        """
        CREATE TABLE events (
            session_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            id TEXT NOT NULL,
            type TEXT NOT NULL,
            body BLOB NOT NULL,
            created_at TEXT,
            format_version INTEGER NOT NULL,
            PRIMARY KEY (session_id, seq),
            UNIQUE (session_id, id)
        )
        """
    )


def _add_calibrations(connection: sqlite3.Connection) -> None:
    """Version 2."""
    connection.execute(
        """
        CREATE TABLE calibrations (
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            shape TEXT NOT NULL,
            counter TEXT NOT NULL,
            factor REAL NOT NULL,
            observations INTEGER NOT NULL,
            refused INTEGER NOT NULL,
            recent TEXT NOT NULL,
            PRIMARY KEY (provider, model, shape)
        )
        """
    )


MIGRATIONS: Final[tuple[Migration, ...]] = (_create_tables, _add_calibrations)


def read_version(connection: sqlite3.Connection) -> int:
    """Return the schema's version; 0 for a database without our tables."""
    has_table = connection.execute(
        "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'"
    ).fetchone()
    if has_table is None:
        return 0
    (version,) = connection.execute("SELECT max(version) FROM schema_version").fetchone()
    return int(version or 0)


def has_foreign_tables(connection: sqlite3.Connection) -> bool:
    """Whether a database of version 0 has tables named as ours would be."""
    found = connection.execute(
        "SELECT 1 FROM sqlite_schema WHERE name IN ('sessions', 'events') LIMIT 1"
    ).fetchone()
    return found is not None


def migrate(
    connection: sqlite3.Connection, *, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Apply the migrations that the file lacks, all or none, one process at a time.

    Args:
        connection: One that begins no transactions by itself.
    """
    if read_version(connection) >= len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again: another process may have been here between the look and the lock.
        for version, step in enumerate(migrations, start=1):
            if version > read_version(connection):
                step(connection)
                _note_version(connection, version)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _note_version(connection: sqlite3.Connection, version: int) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL PRIMARY KEY)"
    )
    connection.execute("INSERT INTO schema_version VALUES (?)", (version,))
