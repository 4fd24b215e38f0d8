"""Token counts beside the events of a SQLite session store."""

import sqlite3
from collections.abc import Mapping
from typing import Final

from context_assembler.sqlite.schema import has_table, transaction
from context_assembler.values.resting_counts import RestingCount

_TABLE: Final = "message_counts"
_FEW: Final = 200


def has_counts(connection: sqlite3.Connection) -> bool:
    """Whether the file has a place for counts: older ones get it with the next event."""
    return has_table(connection, _TABLE)


def find_counts(
    connection: sqlite3.Connection, *, session_id: str, counter: str, most: int = -1
) -> dict[int, RestingCount]:
    """Return the counts of a session; none where it has none, or is not there.

    Args:
        most: How many at the most; -1: all.
    """
    if not has_counts(connection):
        return {}
    rows = connection.execute(
        """
        SELECT seq, parts, tokens FROM message_counts
        WHERE session_key = (SELECT key FROM sessions WHERE id = ?) AND counter = ?
        LIMIT ?
        """,
        (session_id, counter, most),
    )
    return {seq: RestingCount(parts, tokens) for seq, parts, tokens in rows}


def find_few_counts(
    connection: sqlite3.Connection, *, session_id: str, counter: str
) -> dict[int, RestingCount] | None:
    """Return what `find_counts` does where that takes microseconds; `None`: there may be many."""
    counts = find_counts(connection, session_id=session_id, counter=counter, most=_FEW + 1)
    return counts if len(counts) <= _FEW else None


def keep_counts(
    connection: sqlite3.Connection,
    *,
    session_id: str,
    counts: Mapping[int, RestingCount],
    counter: str,
    incarnation: str,
    busy_seconds: float,
) -> None:
    """Insert counts of this very session, in place of older ones, if the file has a place for them.

    Without waiting: neither for the file's lock nor for the disk, since what a power cut takes is
    counted again. What was written before keeps its order, and the next event is waited for again.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("PRAGMA synchronous = NORMAL")
    try:
        with transaction(connection):
            row = connection.execute(
                "SELECT key FROM sessions WHERE id = ? AND incarnation = ?",
                (session_id, incarnation),
            ).fetchone()
            if row is not None:
                connection.executemany(
                    "INSERT OR REPLACE INTO message_counts VALUES (?, ?, ?, ?, ?)",
                    [(row[0], counter, seq, c.parts, c.tokens) for seq, c in counts.items()],
                )
    finally:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA busy_timeout = {round(busy_seconds * 1_000)}")


def forget_counts(connection: sqlite3.Connection, *, session_key: int) -> None:
    """Remove all counts of a session."""
    connection.execute("DELETE FROM message_counts WHERE session_key = ?", (session_key,))
