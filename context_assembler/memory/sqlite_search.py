"""What a SQLite memory store asks its tables: each function sees one moment of the file."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from json import dumps
from typing import Final

from context_assembler.errors import UnknownMemoryError
from context_assembler.memory.damage import read_found
from context_assembler.memory.sqlite_match import (
    TermCounts,
    match_expression,
    meets_filters,
    present_kinds,
)
from context_assembler.memory.sqlite_rows import (
    COLUMNS,
    RowReader,
    conditions_of,
    fetch_rows,
    find_rows,
)
from context_assembler.memory.sqlite_schema import one_moment
from context_assembler.memory.vector_scan import VectorScan
from context_assembler.values.memories.fusion import fuse
from context_assembler.values.memories.kinds import MemoryKind
from context_assembler.values.memories.records import (
    MemoryFilters,
    MemoryHit,
    MemoryOrder,
    MemoryRecord,
)
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.memories.words import query_terms

CONTEXT_WEIGHT: Final = 0.3  # of a word beside the record's own

_SAYS_NOTHING: Final = 1e-6  # as bm25() weighs a word that more than half of the records have
_RANK: Final = f"bm25(memory_words, 1.0, {CONTEXT_WEIGHT}, 0.0)"
_ORDERS: Final[Mapping[MemoryOrder, str]] = {
    "newest": "r.created_at DESC, r.key DESC",
    "oldest": "r.created_at, r.key",
    "most_important": "r.importance DESC, r.created_at DESC, r.key DESC",
    "last_accessed": "r.last_access_at DESC, r.key DESC",
}


@dataclass(slots=True)
class Recollection:
    """What a reader remembers between its questions."""

    counts: TermCounts = field(default_factory=TermCounts)
    scan: VectorScan = field(default_factory=VectorScan)


def search_records(
    connection: sqlite3.Connection,
    query: str,
    *,
    limit: int,
    filters: MemoryFilters,
    vector: Vector | None,
    recollection: Recollection,
) -> list[MemoryHit]:
    """Return the records that fit best, best first.

    Raises:
        MemoryFormatError: Nothing of what was found can be read.
    """
    with one_moment(connection):
        by_words = _find_by_words(
            connection, query, limit=limit, filters=filters, counts=recollection.counts
        )
        by_vector = (
            []
            if vector is None
            else recollection.scan.nearest(connection, vector, count=limit, filters=filters)
        )
        bm25_by_key = dict(by_words)
        keys = list(dict.fromkeys((*bm25_by_key, *(key for key, _ in by_vector))))
        similarities = {} if vector is None else recollection.scan.similarities(vector, keys)
        best = _best(keys, bm25_by_key, similarities)[:limit]
        row_by_key = {row[0]: row for row in find_rows(connection, "key", best)}
        reader = RowReader(connection)
    # In a damaged file words may be left of what is gone.
    found = read_found((row_by_key[key] for key in best if key in row_by_key), reader.read)
    return [
        MemoryHit(
            record=record,
            order=key,
            bm25=bm25_by_key.get(key),
            similarity=similarities.get(key),
        )
        for (key, *_), record in found
    ]


def find_kinds(
    connection: sqlite3.Connection, *, filters: MemoryFilters, recollection: Recollection
) -> frozenset[MemoryKind]:
    """Return the kinds of which there may be records that the filters allow."""
    with one_moment(connection):
        return present_kinds(connection, filters, recollection.counts)


def find_record(connection: sqlite3.Connection, memory_id: str) -> MemoryRecord:
    """Return the record of that id.

    Raises:
        UnknownMemoryError: There is none.
    """
    with one_moment(connection):
        rows = list(find_rows(connection, "id", [memory_id]))
        if not rows:
            raise UnknownMemoryError(memory_id)
        return RowReader(connection).read(rows[0])


def list_records(
    connection: sqlite3.Connection, *, order: MemoryOrder, limit: int, filters: MemoryFilters
) -> list[MemoryRecord]:
    """Return the first records of that order."""
    condition, values = conditions_of(filters)
    if order == "last_accessed":
        condition = f"{condition} AND r.last_access_at IS NOT NULL"
    with one_moment(connection):
        rows = fetch_rows(
            connection,
            f"SELECT {COLUMNS} FROM memory_records r WHERE {condition} "  # noqa: S608 – our own words
            f"ORDER BY {_ORDERS[order]} LIMIT ?",
            (*values, limit),
        )
        reader = RowReader(connection)
    return [reader.read(row) for row in rows]


def find_neighbours(
    connection: sqlite3.Connection, memory_ids: Sequence[str], *, before: int, after: int
) -> dict[str, tuple[MemoryRecord, ...]]:
    """Return by id what stands around each of the records, in order, themselves left out."""
    with one_moment(connection):
        keys_by_id = _keys_beside(connection, memory_ids, before=before, after=after)
        wanted = {key for keys in keys_by_id.values() for key in keys}
        rows = list(find_rows(connection, "key", sorted(wanted)))
        reader = RowReader(connection)
    record_by_key = {row[0]: reader.read(row) for row in rows}
    return {
        memory_id: tuple(record_by_key[key] for key in keys_by_id[memory_id])
        for memory_id in memory_ids
        if memory_id in keys_by_id
    }


def read_page(
    connection: sqlite3.Connection, *, after_key: int, count: int, filters: MemoryFilters
) -> list[tuple[int, MemoryRecord]]:
    """Return the next records in the order of storing, with their keys."""
    condition, values = conditions_of(filters)
    with one_moment(connection):
        rows = fetch_rows(
            connection,
            f"SELECT {COLUMNS} FROM memory_records r WHERE {condition} "  # noqa: S608 – our own words
            "AND r.key > ? ORDER BY r.key LIMIT ?",
            (*values, after_key, count),
        )
        reader = RowReader(connection)
    return [(row[0], reader.read(row)) for row in rows]


def _find_by_words(
    connection: sqlite3.Connection,
    query: str,
    *,
    limit: int,
    filters: MemoryFilters,
    counts: TermCounts,
) -> list[tuple[int, float]]:
    terms = query_terms(query)
    if not terms:
        return []
    match = match_expression(connection, terms, filters, counts, allows_everywhere=False)
    found = [] if match is None else _rank(connection, match, filters, limit=limit)
    if len(found) < limit:
        wider = match_expression(connection, terms, filters, counts)
        if wider is not None and wider != match:
            known = {key for key, _ in found}
            newest = _newest(connection, wider, filters, limit=limit)
            found += [(key, _SAYS_NOTHING) for key in newest if key not in known]
    return found[:limit]


def _rank(
    connection: sqlite3.Connection, match: str, filters: MemoryFilters, *, limit: int
) -> list[tuple[int, float]]:
    source, condition, values = _matching(filters)
    # Only the best are read whole: sorting rows with their texts would copy all that match. By the
    # index's own rank all that match would be sorted, to the last: twice the time.
    best = f"SELECT memory_words.rowid, {_RANK} AS score FROM {{}} WHERE memory_words MATCH ?"  # noqa: S608 – our own words
    order = "ORDER BY score, memory_words.rowid LIMIT ?"
    if not values:
        rows = connection.execute(f"{best.format(source)} {order}", (match, limit))
    elif meets_filters(match, filters):  # a look at the rows that are found is enough
        statement = (
            f"SELECT key, score FROM ({best.format('memory_words')} {order}) "  # noqa: S608 – our own words
            f"CROSS JOIN memory_records r ON r.key = rowid WHERE {condition}"
        )
        rows = connection.execute(statement, (match, limit, *values))
    else:
        statement = f"{best.format(source)} AND {condition} {order}"
        rows = connection.execute(statement, (match, *values, limit))
    return [(key, -score) for key, score in rows]


def _newest(
    connection: sqlite3.Connection, match: str, filters: MemoryFilters, *, limit: int
) -> list[int]:
    """Return the keys of the last that match: a word that is everywhere ranks nothing."""
    source, condition, values = _matching(filters)
    rows = connection.execute(
        f"SELECT memory_words.rowid FROM {source} "  # noqa: S608 – our own words
        f"WHERE memory_words MATCH ? AND {condition} ORDER BY memory_words.rowid DESC LIMIT ?",
        (match, *values, limit),
    )
    return [key for (key,) in rows]


def _matching(filters: MemoryFilters) -> tuple[str, str, list[str | int | float]]:
    """Return what is read where words are looked for, and the condition with its parameters."""
    condition, values = conditions_of(filters)
    if condition == "1":
        return "memory_words", condition, values
    joined = "memory_words CROSS JOIN memory_records r ON r.key = memory_words.rowid"
    return joined, condition, values


def _best(
    keys: Sequence[int], bm25_by_key: Mapping[int, float], similarities: Mapping[int, float]
) -> list[int]:
    """Return the keys best first, those of one score in the order of storing."""
    if not similarities:
        return list(bm25_by_key)
    best = max(bm25_by_key.values(), default=0.0) or 1.0

    def rank(key: int) -> tuple[float, int]:
        words = bm25_by_key.get(key, 0.0) / best
        meaning = max(similarities.get(key, 0.0), 0.0)
        return -fuse(words, meaning), key

    return sorted(keys, key=rank)


def _keys_beside(
    connection: sqlite3.Connection, memory_ids: Sequence[str], *, before: int, after: int
) -> dict[str, list[int]]:
    """Return by id, of those that are there, the keys of what stands around, in order."""
    sides = ", ".join(
        f"(SELECT group_concat(key) FROM (SELECT n.key FROM memory_records n "  # noqa: S608 – our own words
        f"WHERE n.line = r.line AND n.kind = r.kind AND n.key {side} LIMIT ?))"
        for side in ("< r.key ORDER BY n.key DESC", "> r.key ORDER BY n.key")
    )
    rows = connection.execute(
        f"SELECT r.id, {sides} FROM memory_records r "  # noqa: S608 – our own words
        "WHERE r.id IN (SELECT value FROM json_each(?))",
        (before, after, dumps(memory_ids)),
    )
    return {
        memory_id: sorted(int(key) for side in around if side for key in side.split(","))
        for memory_id, *around in rows
    }
