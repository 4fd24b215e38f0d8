"""What a SQLite memory store holds, in numbers."""

import sqlite3
from typing import Final

from context_assembler.memory.sqlite_rows import fetch_rows, to_moment
from context_assembler.memory.sqlite_schema import one_moment, read_state
from context_assembler.values.memories.records import MemoryStats

_IS_TIME: Final = "typeof(created_at) IN ('integer', 'real')"  # in a damaged row it may be a text


def read_stats(connection: sqlite3.Connection) -> MemoryStats:
    """Return what the store holds."""
    with one_moment(connection):
        (records, vectors, oldest, newest) = connection.execute(
            "SELECT count(*), count(vector), min(created_at) FILTER (WHERE "  # noqa: S608 – our own words
            f"{_IS_TIME}), max(created_at) FILTER (WHERE {_IS_TIME}) FROM memory_records"
        ).fetchone()
        by_kind, by_namespace = _count_by(connection, "kind"), _count_by(connection, "namespace")
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        (_, _, file) = connection.execute("PRAGMA database_list").fetchone()
        model = read_state(connection, "vector_model")
        dimension = read_state(connection, "vector_dimension")
    return MemoryStats(
        records=records,
        by_kind=by_kind,
        by_namespace=by_namespace,
        vectors=vectors,
        vector_model=None if model is None else str(model),
        vector_dimension=dimension if isinstance(dimension, int) else None,
        oldest_at=None if oldest is None else to_moment(oldest),
        newest_at=None if newest is None else to_moment(newest),
        bytes=pages * page_bytes if file or records else 0,  # empty tables in memory are nobody's
    )


def _count_by(connection: sqlite3.Connection, column: str) -> dict[str, int]:
    rows = fetch_rows(
        connection,
        f"SELECT {column}, count(*) FROM memory_records GROUP BY 1 ORDER BY 1",  # noqa: S608 – our own words
        (),
    )
    # What is no text is damaged; it is counted as what it looks like.
    return {name if isinstance(name, str) else repr(name): count for name, count in rows}
