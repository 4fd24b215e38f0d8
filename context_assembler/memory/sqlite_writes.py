"""What a SQLite memory store tells its tables: each function is one transaction."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from context_assembler.errors import VectorModelError
from context_assembler.memory.preparing import PreparedRecord, normal_text
from context_assembler.memory.sqlite_index import (
    add_to_index,
    is_turn_like,
    keys_beside,
    last_key_of,
    take_from_index,
)
from context_assembler.memory.sqlite_rows import conditions_of, insert_row, update_row
from context_assembler.memory.sqlite_schema import read_state, write_state
from context_assembler.sqlite.schema import transaction
from context_assembler.values.memories.records import Remembered, Retention
from context_assembler.values.memories.vectors import Vector

_MICROSECONDS_PER_DAY: Final = 86_400_000_000


def remember_records(
    connection: sqlite3.Connection, prepared: Sequence[PreparedRecord]
) -> list[Remembered]:
    """Keep all of the records, or none.

    Raises:
        VectorModelError: The store keeps vectors of another model.
    """
    with transaction(connection):
        _agree_on_model(connection, [p.record.vector for p in prepared if p.record.vector])
        batch = _Batch(connection)
        outcomes = [batch.keep(record) for record in prepared]
        batch.finish()
    return outcomes


def forget_records(connection: sqlite3.Connection, memory_ids: Iterable[str]) -> list[str]:
    """Remove the records, and return the ids of those that were there."""
    with transaction(connection):
        return [found for found in memory_ids if _forget(connection, found)]


def touch_records(connection: sqlite3.Connection, memory_ids: Iterable[str], *, stamp: int) -> None:
    """Note that the records were used; ids that are not there are passed over."""
    with transaction(connection):
        connection.executemany(
            """
            UPDATE memory_records SET access_count = access_count + 1,
                last_access_at = max(ifnull(last_access_at, ?1), ?1)
            WHERE id = ?2
            """,
            ((stamp, memory_id) for memory_id in memory_ids),
        )


def prune_records(
    connection: sqlite3.Connection, retention: Retention, *, now_stamp: int
) -> list[str]:
    """Remove what the bounds do not cover, and return the ids, the oldest first."""
    condition, values = conditions_of(retention.filters)
    ranked = connection.execute(
        f"""
        SELECT r.id, r.created_at, r.importance FROM memory_records r WHERE {condition}
        ORDER BY r.created_at DESC, r.key DESC
        """,  # noqa: S608 – our own words
        values,
    ).fetchall()
    most, least = retention.max_records, retention.kept_importance
    oldest = (
        None
        if retention.max_age_days is None
        else now_stamp - int(retention.max_age_days * _MICROSECONDS_PER_DAY)
    )
    surplus = [
        memory_id
        for rank, (memory_id, created_at, importance) in enumerate(ranked)
        if ((most is not None and rank >= most) or (oldest is not None and created_at < oldest))
        and (least is None or importance < least)
    ]
    return forget_records(connection, reversed(surplus))


def drop_vectors(connection: sqlite3.Connection) -> None:
    """Forget every vector, and the model that they were of."""
    with transaction(connection):
        connection.execute("UPDATE memory_records SET vector = NULL WHERE vector IS NOT NULL")
        write_state(connection, "vector_model", None)
        write_state(connection, "vector_dimension", None)
        _note_changed_vectors(connection)


class _Batch:
    """Records that are kept in one transaction and indexed together, neighbours once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._waiting: list[int] = []  # keys that are to be indexed
        self._open_lines: set[int] = set()  # whose last record waits, too

    def keep(self, prepared: PreparedRecord) -> Remembered:
        """Insert the record, or replace the one of its id, unless it is there already."""
        connection, memory_id, notices = self._connection, prepared.memory_id, prepared.notices
        if prepared.record.id:
            key = _key_of(connection, memory_id)
            if key is not None:
                self.finish()
                _replace(connection, prepared, key)
                return Remembered(id=memory_id, outcome="replaced", notices=notices)
        elif (twin := _find_twin(connection, prepared)) is not None:
            _raise_importance(connection, twin, prepared)
            return Remembered(id=twin, outcome="duplicate", notices=notices)
        memory_id = self._insert(prepared)
        return Remembered(id=memory_id, outcome="added", notices=notices)

    def finish(self) -> None:
        """Index what waits."""
        add_to_index(self._connection, self._waiting)
        self._waiting.clear()
        self._open_lines.clear()

    def _insert(self, prepared: PreparedRecord) -> str:
        line = prepared.line
        if line is not None and is_turn_like(prepared.record.kind):
            last_key = None if line in self._open_lines else last_key_of(self._connection, line)
            if last_key is not None:
                take_from_index(self._connection, [last_key])
                self._waiting.append(last_key)
            self._open_lines.add(line)
        memory_id = prepared.memory_id
        try:
            key = insert_row(self._connection, prepared, memory_id)
        except sqlite3.IntegrityError:  # a made-up id: the same was said at the same moment
            memory_id = _free_id(self._connection, memory_id)
            key = insert_row(self._connection, prepared, memory_id)
        self._waiting.append(key)
        return memory_id


def _replace(connection: sqlite3.Connection, prepared: PreparedRecord, key: int) -> None:
    row = connection.execute(
        "SELECT kind, line, vector IS NOT NULL FROM memory_records WHERE key = ?", (key,)
    ).fetchone()
    kind, line, had_vector = row
    affected = {
        key,
        *_keys_told_of(connection, kind, line, key),
        *_keys_told_of(connection, prepared.record.kind, prepared.line, key),
    }
    ordered = sorted(affected)
    take_from_index(connection, ordered)
    update_row(connection, prepared, key)
    add_to_index(connection, ordered)
    if had_vector or prepared.record.vector is not None:
        _note_changed_vectors(connection)


def _forget(connection: sqlite3.Connection, memory_id: str) -> bool:
    row = connection.execute(
        "SELECT key, kind, line, vector IS NOT NULL FROM memory_records WHERE id = ?",
        (memory_id,),
    ).fetchone()
    if row is None:
        return False
    key, kind, line, had_vector = row
    beside = _keys_told_of(connection, kind, line, key)
    take_from_index(connection, [key, *beside])
    connection.execute("DELETE FROM memory_records WHERE key = ?", (key,))
    add_to_index(connection, beside)
    if had_vector:
        _note_changed_vectors(connection)
    return True


def _keys_told_of(
    connection: sqlite3.Connection, kind: str, line: int | None, key: int
) -> list[int]:
    """Return whose words in the index depend on what stands at that place."""
    if line is None or not is_turn_like(kind):
        return []
    return keys_beside(connection, line, key)


def _key_of(connection: sqlite3.Connection, memory_id: str) -> int | None:
    row = connection.execute("SELECT key FROM memory_records WHERE id = ?", (memory_id,)).fetchone()
    return None if row is None else int(row[0])


def _free_id(connection: sqlite3.Connection, memory_id: str) -> str:
    free, number = memory_id, 2
    while _key_of(connection, free) is not None:
        free = f"{memory_id}-{number}"
        number += 1
    return free


def _find_twin(connection: sqlite3.Connection, prepared: PreparedRecord) -> str | None:
    if prepared.digest is None:
        return None
    normal = normal_text(prepared.text)
    rows = connection.execute(
        "SELECT id, text FROM memory_records WHERE digest = ? ORDER BY key", (prepared.digest,)
    )
    # A short hash alone does not prove anything.
    return next((memory_id for memory_id, text in rows if normal_text(text) == normal), None)


def _raise_importance(
    connection: sqlite3.Connection, memory_id: str, prepared: PreparedRecord
) -> None:
    connection.execute(
        "UPDATE memory_records SET importance = max(importance, ?) WHERE id = ?",
        (prepared.record.importance, memory_id),
    )


def _agree_on_model(connection: sqlite3.Connection, vectors: Sequence[Vector]) -> None:
    if not vectors:
        return
    model = read_state(connection, "vector_model")
    dimension = read_state(connection, "vector_dimension")
    if model is None:
        model, dimension = vectors[0].model, vectors[0].dimension
        write_state(connection, "vector_model", model)
        write_state(connection, "vector_dimension", dimension)
    for vector in vectors:
        check_model(vector, model=model, dimension=dimension)


def check_model(vector: Vector, *, model: str | int | None, dimension: str | int | None) -> None:
    """Refuse a vector of another model than the one whose vectors are kept.

    Raises:
        VectorModelError: It is of another one.
    """
    if (vector.model, vector.dimension) != (model, dimension):
        raise VectorModelError(
            f"{vector.model!r} with {vector.dimension} dimensions",
            kept=f"{model!r} with {dimension}",
        )


def _note_changed_vectors(connection: sqlite3.Connection) -> None:
    epoch = read_state(connection, "vector_epoch") or 0
    write_state(connection, "vector_epoch", int(epoch) + 1)
