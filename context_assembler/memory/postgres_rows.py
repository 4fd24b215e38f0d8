"""Records as rows of PostgreSQL, and the conditions under which they are looked for."""

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from context_assembler.memory.damage import DAMAGES, UPGRADE, newer_or_damaged, unreadable
from context_assembler.memory.preparing import PreparedRecord
from context_assembler.values.codec import load_json
from context_assembler.values.json_shapes import is_object
from context_assembler.values.leaf_codecs import FieldError
from context_assembler.values.memories.codec import MEMORY_FORMAT_VERSION, decode_details
from context_assembler.values.memories.kept_names import can_be_kept
from context_assembler.values.memories.kinds import KINDS, check_kind
from context_assembler.values.memories.metadata import Metadata
from context_assembler.values.memories.records import MemoryFilters, MemoryRecord
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.parts import Json

Row: TypeAlias = tuple[Any, ...]

COLUMNS: Final = (
    "r.key, r.id, r.kind, r.namespace, r.session_id, r.parent_id, r.author, r.text, "
    "r.details::text, r.created_at, r.importance, r.codes, "
    "CASE WHEN r.codes IS NOT NULL "
    "THEN (SELECT value FROM memory_state WHERE name = 'vector_model') END, "
    "r.access_count, r.last_access_at, r.format_version"
)
COLUMNS_COUNT: Final = 16

# Rows travel as one JSON text, however many they are.
_GIVEN: Final = """
    json_to_recordset(%(rows)s::json) AS given (
        id text, kind text, namespace text, session_id text, parent_id text, author text,
        line bigint, digest bigint, text text, details text, created_at timestamptz,
        own_created_at timestamptz, importance float8, codes text, access_count bigint,
        last_access_at timestamptz, format_version integer, words text
    )
"""
INSERT: Final = f"""
    INSERT INTO memory_records (
        id, kind, namespace, session_id, parent_id, author, line, digest, text, details,
        created_at, importance, codes, access_count, last_access_at, format_version, words
    )
    SELECT id, kind, namespace, session_id, parent_id, author, line, digest, text, details::json,
        created_at, importance, decode(codes, 'base64'), access_count, last_access_at,
        format_version, words::tsvector
    FROM {_GIVEN}
"""  # noqa: S608 – our own words
# The time stays where the new record has none of its own, and so does how often it was used.
UPDATE: Final = f"""
    UPDATE memory_records r SET
        kind = given.kind, namespace = given.namespace, session_id = given.session_id,
        parent_id = given.parent_id, author = given.author, line = given.line,
        digest = given.digest, text = given.text, details = given.details::json,
        created_at = coalesce(given.own_created_at, r.created_at), importance = given.importance,
        codes = decode(given.codes, 'base64'),
        access_count = greatest(r.access_count, given.access_count),
        last_access_at = greatest(r.last_access_at, given.last_access_at),
        format_version = given.format_version
    FROM {_GIVEN} WHERE r.id = given.id
"""  # noqa: S608 – our own words


def given_row(prepared: PreparedRecord, *, words: str = "") -> dict[str, Json]:
    """Return the record as `INSERT` and `UPDATE` take it."""
    record = prepared.record
    return {
        "id": prepared.memory_id,
        "kind": record.kind,
        "namespace": record.namespace,
        "session_id": record.session_id,
        "parent_id": record.parent_id,
        "author": record.author,
        "line": prepared.line,
        "digest": prepared.digest,
        "text": prepared.text,
        "details": None if prepared.details is None else prepared.details.decode(),
        "created_at": prepared.created_at.isoformat(),
        "own_created_at": None if record.created_at is None else record.created_at.isoformat(),
        "importance": record.importance,
        "codes": None if record.vector is None else b64encode(record.vector.codes).decode(),
        "access_count": record.access_count,
        "last_access_at": None if (at := record.last_access_at) is None else at.isoformat(),
        "format_version": MEMORY_FORMAT_VERSION,
        "words": words,
    }


def read_record(row: Row) -> MemoryRecord:
    """Return the record of a row that was selected by `COLUMNS`.

    Raises:
        MemoryFormatError: The row is damaged, or of a newer version.
    """
    (_, memory_id, kind, namespace, session_id, parent_id, author, text, details) = row[:9]
    (created_at, importance, codes, model, access_count, last_access_at, version) = row[9:16]
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
            created_at=in_utc(created_at),
            importance=importance,
            metadata=metadata,
            extras=extras,
            vector=None if codes is None else Vector(model=model, codes=codes),
            access_count=access_count,
            last_access_at=None if last_access_at is None else in_utc(last_access_at),
        )
    except DAMAGES as error:
        raise unreadable(memory_id, error) from error


def in_utc(moment: datetime) -> datetime:
    """Return a time that the server told in its own zone."""
    return moment.astimezone(UTC)


def conditions_of(filters: MemoryFilters) -> tuple[str, dict[str, object]]:
    """Return what comes behind `WHERE` for rows `r`, and its values; `true` for no filters."""
    parts: list[str] = []
    values: dict[str, object] = {}
    for column, wanted in (
        ("kind", filters.kinds),
        ("namespace", filters.namespaces),
        ("session_id", filters.session_ids),
        ("parent_id", filters.parent_ids),
        ("author", filters.authors),
    ):
        if wanted:
            parts.append(f"r.{column} = ANY(%({column}s)s)")
            values[f"{column}s"] = list(filter(can_be_kept, wanted))
    for column, unwanted in (
        ("id", filters.excluded_ids),
        ("session_id", filters.excluded_session_ids),
    ):
        if unwanted:
            parts.append(f"coalesce(r.{column}, '') <> ALL(%(no_{column}s)s)")
            values[f"no_{column}s"] = list(filter(can_be_kept, unwanted))
    for test, name, bound in (
        ("r.created_at >=", "since", filters.since),
        ("r.created_at <", "until", filters.until),
        ("r.importance >=", "least_importance", filters.least_importance),
    ):
        if bound is not None:
            parts.append(f"{test} %({name})s")
            values[name] = bound
    return " AND ".join(parts) or "true", values


def _read_details(
    memory_id: str, kind: str, dumped: str | None
) -> tuple[Metadata | None, dict[str, Json]]:
    if kind not in KINDS:
        raise unreadable(memory_id, f"its kind {kind!r} is not known", UPGRADE)
    if dumped is None:
        return None, {}
    details = load_json(dumped.encode())
    if not is_object(details):
        raise FieldError("details", "not an object")
    return decode_details(check_kind(kind), details)
