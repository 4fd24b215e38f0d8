"""Records as rows of SQLite, and the conditions under which they are looked for."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from json import dumps
from typing import Any, Final, NamedTuple, TypeAlias

from context_assembler.memory.damage import DAMAGES, UPGRADE, newer_or_damaged, unreadable
from context_assembler.memory.preparing import PreparedRecord
from context_assembler.memory.sqlite_schema import read_state
from context_assembler.values.codec import load_json
from context_assembler.values.json_bounds import shown
from context_assembler.values.json_shapes import is_object
from context_assembler.values.leaf_codecs import FieldError
from context_assembler.values.memories.codec import (
    MEMORY_FORMAT_VERSION,
    decode_details,
)
from context_assembler.values.memories.kept_names import can_be_kept
from context_assembler.values.memories.kinds import KINDS, check_kind
from context_assembler.values.memories.metadata import Metadata
from context_assembler.values.memories.records import (
    FIRST_MOMENT,
    LAST_MOMENT,
    MemoryFilters,
    MemoryRecord,
)
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.parts import Json

Row: TypeAlias = tuple[Any, ...]

COLUMNS: Final = (
    "r.key, r.id, r.kind, r.namespace, r.session_id, r.parent_id, r.author, r.text, r.details, "
    "r.created_at, r.importance, r.vector, r.access_count, r.last_access_at, r.format_version"
)
KEYS_PER_QUERY: Final = 500

_INSERT: Final = """
    INSERT INTO memory_records (
        key, id, kind, namespace, session_id, parent_id, author, line, digest, text, details,
        created_at, importance, vector, access_count, last_access_at, format_version
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE: Final = """
    UPDATE memory_records SET
        id = ?, kind = ?, namespace = ?, session_id = ?, parent_id = ?, author = ?, line = ?,
        digest = ?, text = ?, details = ?,
        created_at = ifnull(?, CASE typeof(created_at) WHEN 'integer' THEN created_at ELSE ? END),
        importance = ?, vector = ?,
        access_count = max(CASE typeof(access_count) WHEN 'integer' THEN access_count ELSE 0 END, ?),
        last_access_at = nullif(
            max(CASE typeof(last_access_at) WHEN 'integer' THEN last_access_at ELSE -1 END,
                ifnull(?, -1)),
            -1
        ),
        format_version = ?
    WHERE key = ?
"""
_TIME_AT: Final = 10  # among the values, behind which comes what stands for a damaged one
_GIVEN: Final = "(SELECT value FROM json_each(?))"  # one parameter, however many values
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NO_UTF8: Final = "decode to UTF-8"  # as Python's own module complains, without a code


class ComingRow(NamedTuple):
    """A record that is to be inserted, with the key and the id that it gets."""

    key: int
    memory_id: str
    prepared: PreparedRecord


def next_key(connection: sqlite3.Connection) -> int:
    """Return the first key that was never used; it stays so for as long as the lock is held."""
    row = connection.execute(
        "SELECT seq FROM sqlite_sequence WHERE name = 'memory_records'"
    ).fetchone()
    return 1 if row is None else int(row[0]) + 1


def insert_rows(connection: sqlite3.Connection, rows: Iterable[ComingRow]) -> None:
    """Insert the records under their keys and ids."""
    connection.executemany(
        _INSERT,
        (
            (key, memory_id, *_values(prepared, created_at=prepared.created_at))
            for key, memory_id, prepared in rows
        ),
    )


def update_row(connection: sqlite3.Connection, prepared: PreparedRecord, key: int) -> None:
    """Put the record in the place of the one with that key.

    Its time stays where the new one has none of its own, and so does how often it was used.
    """
    values = [*_values(prepared, created_at=prepared.record.created_at)]
    values.insert(_TIME_AT, to_stamp(prepared.created_at))
    connection.execute(_UPDATE, (prepared.memory_id, *values, key))


def given(values: Sequence[str | int]) -> tuple[str, tuple[str | int, ...]]:
    """Return what comes behind `IN` for these values, however many, and its parameter.

    A lone one is not worth a list: it is found in a third of the time.
    """
    return ("(?)", (values[0],)) if len(values) == 1 else (_GIVEN, (dumps(list(values)),))


def find_rows(
    connection: sqlite3.Connection, column: str, wanted: Sequence[str | int]
) -> Iterator[Row]:
    """Yield the rows of these ids or keys, in no order."""
    for start in range(0, len(wanted), KEYS_PER_QUERY):
        batch = wanted[start : start + KEYS_PER_QUERY]
        marks = ", ".join("?" * len(batch))
        yield from fetch_rows(
            connection,
            f"SELECT {COLUMNS} FROM memory_records r WHERE r.{column} IN ({marks})",  # noqa: S608 – our own words
            batch,
        )


def fetch_rows(
    connection: sqlite3.Connection, statement: str, values: Sequence[object] | Mapping[str, object]
) -> list[Row]:
    """Return the rows; in the place of a text that is no UTF-8 stand its bytes."""
    try:
        return connection.execute(statement, values).fetchall()
    except sqlite3.OperationalError as error:
        if _NO_UTF8 not in str(error):
            raise
    usual, connection.text_factory = connection.text_factory, _text_or_bytes
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.text_factory = usual


class RowReader:
    """Turns rows into records; one for each question, as the vectors' model may change."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._model = str(read_state(connection, "vector_model") or "")
        self._dimension = read_state(connection, "vector_dimension")

    def read(self, row: Row) -> MemoryRecord:
        """Return the record of a row that was selected by `COLUMNS`.

        Raises:
            MemoryFormatError: The row is damaged, or of a newer version.
        """
        (_, memory_id, kind, namespace, session_id, parent_id, author, text, details) = row[:9]
        (created_at, importance, codes, access_count, last_access_at, version) = row[9:]
        if version != MEMORY_FORMAT_VERSION:
            raise newer_or_damaged(memory_id, version)
        try:
            metadata, extras = _read_details(memory_id, kind, details)
            return MemoryRecord(
                id=memory_id,
                kind=kind,
                text=text,
                namespace=namespace,
                session_id=session_id,
                parent_id=parent_id,
                author=author,
                created_at=to_moment(created_at),
                importance=importance,
                metadata=metadata,
                extras=extras,
                vector=None if codes is None else self._vector(codes),
                access_count=access_count,
                last_access_at=None if last_access_at is None else to_moment(last_access_at),
            )
        except DAMAGES as error:
            raise unreadable(memory_id, error) from error

    def _vector(self, codes: bytes) -> Vector:
        if not self._model:
            reason = "nothing says of which model it is; drop_vectors() lets go of all of them"
            raise FieldError("vector", reason)
        if type(codes) is not bytes or len(codes) != self._dimension:
            raise FieldError("vector", f"{shown(codes)} has not {self._dimension} dimensions")
        return Vector(model=self._model, codes=codes)


def to_stamp(moment: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def to_moment(stamp: int) -> datetime:
    """Return the time that `to_stamp` was given, in UTC, or the nearest that there is.

    Raises:
        FieldError: The row is damaged: that is no number.
    """
    try:
        return _EPOCH + stamp * _MICROSECOND  # a third of the time that making a timedelta takes
    except OverflowError:
        return FIRST_MOMENT if stamp < 0 else LAST_MOMENT
    except TypeError:
        raise FieldError("time", f"{shown(stamp)} is no number") from None


def conditions_of(filters: MemoryFilters) -> tuple[str, list[str | int | float]]:
    """Return what comes behind `WHERE` for rows `r`, and its parameters; `1` for no filters."""
    parts: list[str] = []
    values: list[str | int | float] = []
    for column, wanted in (
        ("kind", filters.kinds),
        ("namespace", filters.namespaces),
        ("session_id", filters.session_ids),
        ("parent_id", filters.parent_ids),
        ("author", filters.authors),
    ):
        if wanted:
            parts.append(f"r.{column} IN {_GIVEN}")
            values.append(_listed(wanted))
    for column, unwanted in (
        ("id", filters.excluded_ids),
        ("session_id", filters.excluded_session_ids),
    ):
        if unwanted:
            parts.append(f"ifnull(r.{column}, '') NOT IN {_GIVEN}")
            values.append(_listed(unwanted))
    for test, bound in (
        ("r.created_at >= ?", None if filters.since is None else to_stamp(filters.since)),
        ("r.created_at < ?", None if filters.until is None else to_stamp(filters.until)),
        ("r.importance >= ?", filters.least_importance),
    ):
        if bound is not None:
            parts.append(test)
            values.append(bound)
    return " AND ".join(parts) or "1", values


def _listed(names: Iterable[str]) -> str:
    """Return the names for `json_each`, which would end one at NUL; no record has such a name."""
    return dumps(list(filter(can_be_kept, names)))


def _values(prepared: PreparedRecord, *, created_at: datetime | None) -> Row:
    record = prepared.record
    accessed = record.last_access_at
    return (
        record.kind,
        record.namespace,
        record.session_id,
        record.parent_id,
        record.author,
        prepared.line,
        prepared.digest,
        prepared.text,
        prepared.details,
        None if created_at is None else to_stamp(created_at),
        record.importance,
        None if record.vector is None else record.vector.codes,
        record.access_count,
        None if accessed is None else to_stamp(accessed),
        MEMORY_FORMAT_VERSION,
    )


def _read_details(
    memory_id: str, kind: str, dumped: bytes | None
) -> tuple[Metadata | None, dict[str, Json]]:
    if kind not in KINDS:
        raise unreadable(memory_id, f"its kind {kind!r} is not known", UPGRADE)
    if dumped is None:
        return None, {}
    try:
        details = load_json(dumped)
    except (TypeError, ValueError) as error:
        raise FieldError("details", f"not JSON ({error})") from None
    if not is_object(details):
        raise FieldError("details", "not an object")
    return decode_details(check_kind(kind), details)


def _text_or_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
