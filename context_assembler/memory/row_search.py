"""What a memory store asks a table of rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from context_assembler.errors import UnknownMemoryError
from context_assembler.memory.damage import read_found
from context_assembler.memory.row_tables import RowTable, take_first
from context_assembler.memory.row_words import query_stems
from context_assembler.memory.rows import (
    Row,
    RowTest,
    place_of,
    read_row,
    tests_of,
    to_moment,
)
from context_assembler.memory.vector_scan import cosines
from context_assembler.values.memories.fusion import fuse
from context_assembler.values.memories.records import (
    MemoryFilters,
    MemoryHit,
    MemoryOrder,
    MemoryRecord,
    MemoryStats,
)
from context_assembler.values.memories.vectors import Vector

VALUES_PER_TEST: Final = 500

_ORDERS: Final[Mapping[MemoryOrder, tuple[tuple[str, ...], bool]]] = {
    "newest": (("created_at", "place"), True),
    "oldest": (("created_at", "place"), False),
    "most_important": (("importance", "created_at", "place"), True),
    "last_accessed": (("last_access_at", "place"), True),
}


def search_rows(
    table: RowTable, query: str, *, limit: int, filters: MemoryFilters, vector: Vector | None
) -> list[MemoryHit]:
    """Return the records that fit best, best first.

    Raises:
        VectorModelError: The table keeps vectors of another model.
        MemoryFormatError: Nothing of what was found can be read.
    """
    model = table.read_model()
    tests = tests_of(filters)
    stems = query_stems(query)
    by_words: list[tuple[Row, float]] = []
    if stems:
        by_words = take_first(lambda count: table.find_by_words(stems, tests, limit=count), limit)
    by_vector: list[tuple[Row, float]] = []
    if vector is not None and model is not None:
        model.check(vector)
        by_vector = take_first(
            lambda count: table.find_by_vector(vector, tests, limit=count), limit
        )
    return rank_rows(
        by_words, by_vector, limit=limit, vector=vector, read=lambda row: read_row(row, model)
    )


def rank_rows(
    by_words: Sequence[tuple[Row, float]],
    by_vector: Sequence[tuple[Row, float]],
    *,
    limit: int,
    vector: Vector | None,
    read: Callable[[Row], MemoryRecord],
) -> list[MemoryHit]:
    """Return the hits of two rankings in one, those of one score in the order of storing.

    Args:
        read: Returns the record of a row, which has an `id` and a `place` in any case.

    Raises:
        MemoryFormatError: Nothing of what was found can be read.
    """
    row_by_id = {row["id"]: row for row, _ in (*by_words, *by_vector)}
    score_by_id = {row["id"]: score for row, score in _first(by_words, limit)}
    wanted = dict.fromkeys([*score_by_id, *(row["id"] for row, _ in _first(by_vector, limit))])
    found = read_found((row_by_id[memory_id] for memory_id in wanted), read)
    records = {row["id"]: record for row, record in found}
    similarities = _similarities(vector, records)
    hits = [
        MemoryHit(
            record=record,
            order=place_of(row_by_id[memory_id])[0],
            bm25=score_by_id.get(memory_id),
            similarity=similarities.get(memory_id),
        )
        for memory_id, record in records.items()
    ]
    return sorted(hits, key=_ranking(hits))[:limit]


def find_record(table: RowTable, memory_id: str) -> MemoryRecord:
    """Return the record of that id.

    Raises:
        UnknownMemoryError: There is none.
    """
    rows = table.find([RowTest("id", "in", [memory_id])])
    if not rows:
        raise UnknownMemoryError(memory_id)
    return read_row(rows[0], table.read_model())


def list_rows(
    table: RowTable, *, order: MemoryOrder, limit: int, filters: MemoryFilters
) -> list[MemoryRecord]:
    """Return the first records of that order."""
    columns, is_descending = _ORDERS[order]
    tests = tests_of(filters)
    if order == "last_accessed":
        tests.append(RowTest("last_access_at", ">=", 0))
    rows = table.find(tests, order=columns, is_descending=is_descending, limit=limit)
    model = table.read_model()
    return [read_row(row, model) for row in rows]


def find_beside(
    table: RowTable, memory_ids: Sequence[str], *, before: int, after: int
) -> dict[str, tuple[MemoryRecord, ...]]:
    """Return by id what stands around each of the records, in order, themselves left out."""
    rows = find_all(table, "id", memory_ids, columns=("id", "line", "place"))
    lines = read_lines(table, {row["line"] for row in rows if row["line"] is not None})
    ids_by_id: dict[str, list[str]] = {row["id"]: [] for row in rows}
    for row in rows:
        line = lines.get(row["line"], [])
        if (own := place_of(row)) in line:
            at = line.index(own)
            around = (*line[max(at - before, 0) : at], *line[at + 1 : at + 1 + after])
            ids_by_id[row["id"]] = [memory_id for _, memory_id in around]
    wanted = {memory_id for ids in ids_by_id.values() for memory_id in ids}
    model = table.read_model()
    records = {row["id"]: read_row(row, model) for row in find_all(table, "id", wanted)}
    return {
        memory_id: tuple(records[n] for n in ids_by_id[memory_id] if n in records)
        for memory_id in memory_ids
        if memory_id in ids_by_id
    }


def read_lines(table: RowTable, lines: Iterable[int]) -> dict[int, list[tuple[int, str]]]:
    """Return place and id of every record of these lines, in order."""
    rows = find_all(table, "line", lines, columns=("id", "line", "place"))
    found: dict[int, list[tuple[int, str]]] = {}
    for row in rows:
        found.setdefault(row["line"], []).append(place_of(row))
    return {line: sorted(places) for line, places in found.items()}


def find_all(
    table: RowTable,
    column: str,
    values: Iterable[str | int],
    *,
    columns: Sequence[str] | None = None,
) -> list[Row]:
    """Return the rows with one of these values, however many they are."""
    wanted = sorted(set(values))  # type: ignore[type-var, unused-ignore]
    return [
        row
        for start in range(0, len(wanted), VALUES_PER_TEST)
        for row in table.find(
            [RowTest(column, "in", wanted[start : start + VALUES_PER_TEST])], columns=columns
        )
    ]


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far the rows were read in the order of storing."""

    place: int = 0
    ids: frozenset[str] = frozenset()  # that were read of that place


def read_page(
    table: RowTable, after: Bookmark, *, count: int, filters: MemoryFilters
) -> tuple[list[MemoryRecord], Bookmark]:
    """Return the next records in the order of storing, and how far that is."""
    tests = [*tests_of(filters), RowTest("place", ">=", after.place)]
    found = table.find(tests, order=("place",), limit=count + len(after.ids))
    rows = [row for row in found if row["id"] not in after.ids]
    if not rows:
        return [], after
    last = rows[-1]["place"]
    known = after.ids if last == after.place else frozenset[str]()
    ids = known | {row["id"] for row in rows if row["place"] == last}
    model = table.read_model()
    return [read_row(row, model) for row in rows], Bookmark(last, ids)


def read_stats(table: RowTable) -> MemoryStats:
    """Return what the table holds."""
    rows = table.find([], columns=("kind", "namespace", "created_at"))
    model = table.read_model()
    times = [row["created_at"] for row in rows if isinstance(row["created_at"], int)]
    return MemoryStats(
        records=len(rows),
        by_kind=_count(row["kind"] for row in rows),
        by_namespace=_count(row["namespace"] for row in rows),
        vectors=0 if model is None else table.count_vectors(),
        vector_model=None if model is None else model.name,
        vector_dimension=None if model is None else model.dimension,
        oldest_at=to_moment(min(times)) if times else None,
        newest_at=to_moment(max(times)) if times else None,
        bytes=table.count_bytes(),
    )


def _first(found: Sequence[tuple[Row, float]], limit: int) -> list[tuple[Row, float]]:
    ordered = sorted(found, key=lambda pair: (-pair[1], place_of(pair[0])))
    return ordered[:limit]


def _similarities(vector: Vector | None, records: Mapping[str, MemoryRecord]) -> dict[str, float]:
    if vector is None:
        return {}
    others = {memory_id: r.vector for memory_id, r in records.items() if r.vector is not None}
    return dict(zip(others, cosines(vector, list(others.values())), strict=True))


def _ranking(hits: Sequence[MemoryHit]) -> Callable[[MemoryHit], tuple[float, int, str]]:
    best = max((hit.bm25 or 0.0 for hit in hits), default=0.0)

    def rank(hit: MemoryHit) -> tuple[float, int, str]:
        words = (hit.bm25 or 0.0) / best if best else 0.0
        meaning = max(hit.similarity or 0.0, 0.0)
        return -fuse(words, meaning), hit.order, hit.record.id

    return rank


def _count(names: Iterable[object]) -> dict[str, int]:
    # What is no text is damaged; it is counted as what it looks like.
    told = (name if isinstance(name, str) else repr(name) for name in names)
    return dict(sorted(Counter(told).items()))
