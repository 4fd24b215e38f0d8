"""What a memory store on PostgreSQL asks its tables: each function sees one moment of them."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from context_assembler.errors import UnknownMemoryError
from context_assembler.memory.damage import read_found
from context_assembler.memory.postgres_match import TermCounts, weigh_words
from context_assembler.memory.postgres_pool import run
from context_assembler.memory.postgres_rows import (
    COLUMNS,
    COLUMNS_COUNT,
    Row,
    conditions_of,
    in_utc,
    read_record,
)
from context_assembler.memory.postgres_schema import read_state
from context_assembler.memory.postgres_vectors import VectorTerms, vector_terms
from context_assembler.memory.postgres_words import WEIGHTS, to_tsqueries
from context_assembler.values.memories.fusion import fuse
from context_assembler.values.memories.records import (
    MemoryFilters,
    MemoryHit,
    MemoryOrder,
    MemoryRecord,
    MemoryStats,
)
from context_assembler.values.memories.vectors import Vector

if TYPE_CHECKING:
    from psycopg import AsyncConnection


_ORDERS: Final[Mapping[MemoryOrder, str]] = {
    "newest": "r.created_at DESC, r.key DESC",
    "oldest": "r.created_at, r.key",
    "most_important": "r.importance DESC, r.created_at DESC, r.key DESC",
    "last_accessed": "r.last_access_at DESC, r.key DESC",
}
_NEIGHBOURS: Final = f"""
    SELECT o.id, beside.* FROM memory_records o LEFT JOIN LATERAL (
        (SELECT {COLUMNS} FROM memory_records r WHERE r.line = o.line AND r.kind = o.kind
            AND r.key < o.key ORDER BY r.key DESC LIMIT %(before)s)
        UNION ALL
        (SELECT {COLUMNS} FROM memory_records r WHERE r.line = o.line AND r.kind = o.kind
            AND r.key > o.key ORDER BY r.key LIMIT %(after)s)
    ) AS beside ON true WHERE o.id = ANY(%(ids)s)
"""  # noqa: S608 – our own words
NOTHING: Final = MemoryStats(
    records=0,
    by_kind={},
    by_namespace={},
    vectors=0,
    vector_model=None,
    vector_dimension=None,
    oldest_at=None,
    newest_at=None,
    bytes=0,
)
"""What a store without tables holds."""

_KEY: Final = itemgetter(0)
_RECORDS_PER_PAGE: Final = 500
_TOTALS: Final = """
    SELECT count(*), count(codes), min(created_at), max(created_at),
        (SELECT sum(pg_total_relation_size(to_regclass(name)))::bigint FROM unnest(
            ARRAY['memory_records', 'memory_vectors', 'memory_state', 'memory_versions']
        ) AS name WHERE to_regclass(name) IS NOT NULL)
    FROM memory_records
"""


async def search_records(
    connection: "AsyncConnection[Any]",
    query: str,
    *,
    limit: int,
    filters: MemoryFilters,
    vector: Vector | None,
    counts: TermCounts,
) -> list[MemoryHit]:
    """Return the records that fit best, best first.

    Raises:
        VectorModelError: The store keeps vectors of another model.
        MemoryFormatError: Nothing of what was found can be read.
    """
    words = to_tsqueries(query)
    weights = await weigh_words(connection, words, counts) if words else {}
    terms = None if vector is None else await vector_terms(connection, vector)
    if limit == 0 or not (weights or terms):
        return []
    statement, values = _search_statement(weights, terms, filters)
    rows = await (await run(connection, statement, {**values, "limit": limit})).fetchall()
    hits = [
        MemoryHit(
            record=record,
            order=row[0],
            bm25=row[COLUMNS_COUNT],
            similarity=row[COLUMNS_COUNT + 1],
        )
        for row, record in read_found(rows, read_record)
    ]
    return sorted(hits, key=_Ranking(hits))[:limit]


async def find_record(connection: "AsyncConnection[Any]", memory_id: str) -> MemoryRecord:
    """Return the record of that id.

    Raises:
        UnknownMemoryError: There is none.
    """
    cursor = await run(
        connection,
        f"SELECT {COLUMNS} FROM memory_records r WHERE r.id = ANY(%(ids)s)",  # noqa: S608 – our own words
        {"ids": [memory_id]},
    )
    row = await cursor.fetchone()
    if row is None:
        raise UnknownMemoryError(memory_id)
    return read_record(row)


async def list_records(
    connection: "AsyncConnection[Any]", *, order: MemoryOrder, limit: int, filters: MemoryFilters
) -> list[MemoryRecord]:
    """Return the first records of that order."""
    condition, values = conditions_of(filters)
    if order == "last_accessed":
        condition = f"{condition} AND r.last_access_at IS NOT NULL"
    cursor = await run(
        connection,
        f"SELECT {COLUMNS} FROM memory_records r WHERE {condition} "  # noqa: S608 – our own words
        f"ORDER BY {_ORDERS[order]} LIMIT %(limit)s",
        {**values, "limit": limit},
    )
    return [read_record(row) for row in await cursor.fetchall()]


async def find_neighbours(
    connection: "AsyncConnection[Any]", memory_ids: Sequence[str], *, before: int, after: int
) -> dict[str, tuple[MemoryRecord, ...]]:
    """Return by id what stands around each of the records, in order, themselves left out."""
    asked = {"ids": list(memory_ids), "before": before, "after": after}
    cursor = await run(connection, _NEIGHBOURS, asked)
    rows_by_id: dict[str, list[Row]] = {}
    for memory_id, *row in await cursor.fetchall():
        beside = rows_by_id.setdefault(memory_id, [])
        if row[0] is not None:  # a record that nothing stands beside has one row of nothing
            beside.append(tuple(row))
    return {
        memory_id: tuple(read_record(row) for row in sorted(rows_by_id[memory_id], key=_KEY))
        for memory_id in memory_ids
        if memory_id in rows_by_id
    }


async def read_page(
    connection: "AsyncConnection[Any]", *, after_key: int, filters: MemoryFilters
) -> list[tuple[int, MemoryRecord]]:
    """Return the next records in the order of storing, with their keys."""
    condition, values = conditions_of(filters)
    cursor = await run(
        connection,
        f"SELECT {COLUMNS} FROM memory_records r WHERE {condition} "  # noqa: S608 – our own words
        "AND r.key > %(after_key)s ORDER BY r.key LIMIT %(count)s",
        {**values, "after_key": after_key, "count": _RECORDS_PER_PAGE},
    )
    return [(row[0], read_record(row)) for row in await cursor.fetchall()]


async def read_stats(connection: "AsyncConnection[Any]") -> MemoryStats:
    """Return what the store holds."""
    cursor = await run(connection, _TOTALS)
    records, vectors, oldest, newest, size_bytes = await cursor.fetchone() or (0, 0, None, None, 0)
    state = await read_state(connection)
    return MemoryStats(
        records=records,
        by_kind=await _count_by(connection, "kind"),
        by_namespace=await _count_by(connection, "namespace"),
        vectors=vectors,
        vector_model=state.get("vector_model"),
        vector_dimension=int(state["vector_dimension"]) if "vector_dimension" in state else None,
        oldest_at=None if oldest is None else in_utc(oldest),
        newest_at=None if newest is None else in_utc(newest),
        bytes=size_bytes,
    )


async def _count_by(connection: "AsyncConnection[Any]", column: str) -> dict[str, int]:
    cursor = await run(
        connection,
        f"SELECT {column}, count(*) FROM memory_records GROUP BY 1 ORDER BY 1",  # noqa: S608 – our own words
    )
    return dict(await cursor.fetchall())


def _search_statement(
    weights: Mapping[str, float], terms: VectorTerms | None, filters: MemoryFilters
) -> tuple[str, dict[str, object]]:
    """Return what finds the best by words, the best by vector, and reads the rows of both."""
    condition, values = conditions_of(filters)
    chosen: list[str] = []
    by_words = "SELECT NULL::bigint AS key, NULL::double precision AS score WHERE false"
    if weights:
        ranks: list[str] = []
        for at, (word, weight) in enumerate(weights.items()):
            values |= {f"word{at}": word, f"weight{at}": weight}
            ranks.append(f"%(weight{at})s * ts_rank({WEIGHTS}, r.words, %(word{at})s::tsquery)")
        values["any"] = " | ".join(weights)
        by_words = (
            f"SELECT r.key, {' + '.join(ranks)} AS score FROM memory_records r "  # noqa: S608 – our own words
            f"WHERE r.words @@ %(any)s::tsquery AND {condition} "
            "ORDER BY score DESC, r.key LIMIT %(limit)s"
        )
    chosen.append("SELECT key FROM by_words")
    similarity, vectors = "NULL::double precision", ""
    if terms is not None:
        values["vector"] = terms.literal
        chosen.append(
            f"(SELECT v.key FROM memory_vectors v JOIN memory_records r USING (key) "  # noqa: S608 – our own words
            f"WHERE {condition} ORDER BY v.direction {terms.operator} %(vector)s::{terms.type}, "
            "v.key LIMIT %(limit)s)"
        )
        similarity = f"1 - (v.direction {terms.operator} %(vector)s::{terms.type})"
        vectors = "LEFT JOIN memory_vectors v USING (key)"
    statement = (
        f"WITH by_words AS MATERIALIZED ({by_words}) SELECT {COLUMNS}, w.score, {similarity} "  # noqa: S608 – our own words
        f"FROM ({' UNION '.join(chosen)}) chosen JOIN memory_records r USING (key) "
        f"LEFT JOIN by_words w USING (key) {vectors}"
    )
    return statement, values


class _Ranking:
    """Sorts hits best first, those of one score in the order of storing."""

    def __init__(self, hits: Sequence[MemoryHit]) -> None:
        self._best = max((hit.bm25 or 0.0 for hit in hits), default=0.0)

    def __call__(self, hit: MemoryHit) -> tuple[float, int]:
        words = (hit.bm25 or 0.0) / self._best if self._best else 0.0
        meaning = max(hit.similarity or 0.0, 0.0)
        return -fuse(words, meaning), hit.order
