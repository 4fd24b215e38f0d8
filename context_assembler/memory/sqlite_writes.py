"""What a SQLite memory store tells its tables: each function is one transaction."""

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from context_assembler.errors import VectorModelError
from context_assembler.memory.preparing import PreparedRecord, prepare_records
from context_assembler.memory.sqlite_batch import Batch
from context_assembler.memory.sqlite_index import (
    add_to_index,
    merge_index,
    merge_whole_index,
    take_from_index,
)
from context_assembler.memory.sqlite_replacing import keys_told_of, note_changed_vectors
from context_assembler.memory.sqlite_rows import conditions_of
from context_assembler.memory.sqlite_schema import read_state, write_state
from context_assembler.ports import Clock
from context_assembler.sqlite.schema import transaction
from context_assembler.values.memories.records import MemoryRecord, Remembered, Retention
from context_assembler.values.memories.vectors import Vector

_MICROSECONDS_PER_DAY: Final = 86_400_000_000


def prepare_and_remember(
    connection: sqlite3.Connection,
    records: Sequence[MemoryRecord],
    *,
    clock: Clock,
    masks_secrets: bool,
    finds_duplicates: bool,
) -> list[Remembered]:
    """Keep all of the records, or none; made ready first, as other writers wait for the disk only.

    Raises:
        MemoryFormatError: A record holds something that JSON cannot say.
        VectorModelError: The store keeps vectors of another model.
        MissingExtraError: Secrets are to be masked, and detect-secrets is not installed.
    """
    prepared = prepare_records(
        records,
        now=datetime.fromtimestamp(clock(), UTC),
        masks_secrets=masks_secrets,
        finds_duplicates=finds_duplicates,
    )
    return remember_records(connection, prepared)


def remember_records(
    connection: sqlite3.Connection, prepared: Sequence[PreparedRecord]
) -> list[Remembered]:
    """Keep all of the records, or none.

    Raises:
        VectorModelError: The store keeps vectors of another model.
    """
    with transaction(connection):
        _agree_on_model(connection, [p.record.vector for p in prepared if p.record.vector])
        batch = Batch(connection, prepared)
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
        if (
            (most is not None and rank >= most)
            or (oldest is not None and _is_below(created_at, oldest))
        )
        and (least is None or _is_below(importance, least))
    ]
    return forget_records(connection, reversed(surplus))


def _is_below(stored: object, bound: float) -> bool:
    """Whether a number of a row is below the bound; of a damaged row nobody can say so."""
    return isinstance(stored, (int, float)) and stored < bound


def drop_vectors(connection: sqlite3.Connection) -> None:
    """Forget every vector, and the model that they were of."""
    with transaction(connection):
        connection.execute("UPDATE memory_records SET vector = NULL WHERE vector IS NOT NULL")
        write_state(connection, "vector_model", None)
        write_state(connection, "vector_dimension", None)
        note_changed_vectors(connection)


def optimize_index(connection: sqlite3.Connection) -> None:
    """Merge the pieces of the full-text index into one."""
    with transaction(connection):
        merge_whole_index(connection)


def _forget(connection: sqlite3.Connection, memory_id: str) -> bool:
    row = connection.execute(
        "SELECT key, kind, line, vector IS NOT NULL FROM memory_records WHERE id = ?",
        (memory_id,),
    ).fetchone()
    if row is None:
        return False
    key, kind, line, had_vector = row
    beside = keys_told_of(connection, kind, line, key)
    take_from_index(connection, [key, *beside])
    connection.execute("DELETE FROM memory_records WHERE key = ?", (key,))
    add_to_index(connection, beside)
    merge_index(connection, first_key=key, last_key=key)
    if had_vector:
        note_changed_vectors(connection)
    return True


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
