"""The tables of a SQLite session store."""

import sqlite3
from typing import Final

from context_assembler.errors import StoreUnavailableError
from context_assembler.sqlite.schema import Schema, VersionTable


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


def _add_counts(connection: sqlite3.Connection) -> None:
    """Version 3. Derived: rows may be deleted at any time."""
    connection.execute(
        """
        CREATE TABLE message_counts (
            session_key INTEGER NOT NULL,
            counter TEXT NOT NULL,
            seq INTEGER NOT NULL,
            parts INTEGER NOT NULL,
            tokens INTEGER NOT NULL,
            PRIMARY KEY (session_key, counter, seq)
        ) WITHOUT ROWID
        """
    )


def _add_marks(connection: sqlite3.Connection) -> None:
    """Version 4. Every append has a mark of its own: by it two histories of one session differ."""
    connection.execute("ALTER TABLE sessions ADD COLUMN last_mark TEXT NOT NULL DEFAULT ''")
    connection.execute("ALTER TABLE events ADD COLUMN mark TEXT NOT NULL DEFAULT ''")


SCHEMA: Final = Schema(
    name="sessions",
    migrations=(_create_tables, _add_calibrations, _add_counts, _add_marks),
    tables=("sessions", "events"),
    unavailable=StoreUnavailableError,
    version=VersionTable("schema_version"),
)
