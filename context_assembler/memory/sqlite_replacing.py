"""Putting a record in the place of another one in a SQLite memory store."""

import sqlite3

from context_assembler.memory.preparing import PreparedRecord, moved_notices
from context_assembler.memory.sqlite_index import (
    add_to_index,
    is_turn_like,
    keys_beside,
    merge_index,
    take_from_index,
)
from context_assembler.memory.sqlite_rows import update_row
from context_assembler.memory.sqlite_schema import read_state, write_state
from context_assembler.values.memories.kinds import KINDS


def replace_record(
    connection: sqlite3.Connection, prepared: PreparedRecord, key: int
) -> tuple[str, ...]:
    """Put the record where another one was, index anew what is told of it, and return the notices."""
    row = connection.execute(
        "SELECT kind, line, vector IS NOT NULL, namespace FROM memory_records WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        raise sqlite3.DatabaseError("the index of ids names a row that is not there")
    kind, line, had_vector, namespace = row
    affected = {
        key,
        *keys_told_of(connection, kind, line, key),
        *keys_told_of(connection, prepared.record.kind, prepared.line, key),
    }
    ordered = sorted(affected)
    take_from_index(connection, ordered)
    update_row(connection, prepared, key)
    add_to_index(connection, ordered)
    merge_index(connection, first_key=key, last_key=key)
    if had_vector or prepared.record.vector is not None:
        note_changed_vectors(connection)
    return moved_notices(prepared, before=namespace)


def keys_told_of(
    connection: sqlite3.Connection, kind: str, line: int | None, key: int
) -> list[int]:
    """Return whose words in the index depend on what stands at that place."""
    is_known = kind in KINDS  # of a damaged row nobody knows it
    if line is None or (is_known and not is_turn_like(kind)):
        return []
    return keys_beside(connection, line, key)


def note_changed_vectors(connection: sqlite3.Connection) -> None:
    """Let whoever keeps vectors in memory read them anew."""
    epoch = read_state(connection, "vector_epoch") or 0
    write_state(connection, "vector_epoch", int(epoch) + 1)
