"""The vectors of a SQLite memory store, kept in memory to be compared with a query's."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from json import dumps
from typing import Any, Final

from context_assembler.errors import MissingExtraError
from context_assembler.memory.damage import unreadable, warn_of_damage
from context_assembler.memory.sqlite_rows import Row, conditions_of, fetch_rows, find_rows
from context_assembler.memory.sqlite_schema import read_state
from context_assembler.memory.sqlite_writes import check_model
from context_assembler.values.memories.records import NO_FILTERS, MemoryFilters
from context_assembler.values.memories.vectors import Vector

_ROWS_READ_AT_ONCE: Final = 8_192
_ROWS_AT_ONCE: Final = 2_048  # as floats they fit a processor's cache, where products are fastest
_LOOKED_AT_FIRST: Final = 8  # times as many as are wanted, where a filter may leave some out


class VectorScan:
    """Compares every vector; what was loaded stays, and only what is added is read again.

    A byte for each dimension: 13 MB for 100,000 vectors of 128. Products are of whole numbers, so
    that the answer is the same on every machine. Beside each vector stand the kind and the
    namespace of its record, as numbers: the others need not be compared where one is asked for.
    """

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._epoch: str | int | None = None
        self._count = 0
        self._last_key = 0
        self._keys: Any = None  # these have room for more than `_count`
        self._codes: Any = None
        self._lengths: Any = None
        self._labels: Any = None  # a kind and a namespace each
        self._number_by_label: dict[str, int] = {}

    def nearest(
        self,
        connection: sqlite3.Connection,
        vector: Vector,
        *,
        count: int,
        filters: MemoryFilters = NO_FILTERS,
    ) -> list[tuple[int, float]]:
        """Return the keys of the records most alike, with their cosines, best first.

        Raises:
            VectorModelError: The store keeps vectors of another model.
            MissingExtraError: numpy is not installed.
        """
        numpy = load_numpy()
        model = read_state(connection, "vector_model")
        if model is None:
            self._connection, self._count = None, 0
            return []
        dimension = read_state(connection, "vector_dimension")
        check_model(vector, model=model, dimension=dimension)
        self._refresh(connection, vector.dimension, numpy)
        places = self._places_of(numpy, filters)
        found = self._cosines(numpy, vector, places)
        keys = self._keys[: self._count] if places is None else self._keys[places]
        others = replace(filters, kinds=(), namespaces=())
        if others == NO_FILTERS:
            return _best(numpy, keys, found, count=count)
        best = _best(numpy, keys, found, count=_LOOKED_AT_FIRST * count)
        allowed = _allowed_keys(connection, others, [key for key, _ in best])
        chosen = [row for row in best if row[0] in allowed]
        if len(chosen) < count and len(best) < len(keys):
            allowed = _allowed_keys(connection, others)
            fits = numpy.isin(keys, numpy.fromiter(allowed, dtype=numpy.int64))
            return _best(numpy, keys[fits], found[fits], count=count)
        return chosen[:count]

    def similarities(self, vector: Vector, keys: Iterable[int]) -> dict[int, float]:
        """Return how alike these records are, those without a vector left out.

        They are compared as of the last `nearest`, which must have been asked for this vector.
        """
        if not self._count:
            return {}
        numpy = load_numpy()
        wanted = numpy.fromiter(keys, dtype=numpy.int64)
        places = numpy.searchsorted(self._keys[: self._count], wanted)
        places[places == self._count] = 0
        is_there = self._keys[places] == wanted
        codes = numpy.frombuffer(vector.codes, dtype=numpy.int8)
        found = _exact_cosines(numpy, codes, self._codes[places[is_there]])
        return dict(zip(wanted[is_there].tolist(), found, strict=True))

    def _places_of(self, numpy: Any, filters: MemoryFilters) -> Any:
        """Return where the records of the kinds and namespaces stand; `None` for everywhere."""
        fits: Any = None
        for column, wanted in enumerate((filters.kinds, filters.namespaces)):
            if wanted:
                numbers = [self._number_by_label.get(label, -1) for label in wanted]
                is_wanted = numpy.isin(self._labels[: self._count, column], numbers)
                fits = is_wanted if fits is None else fits & is_wanted
        return None if fits is None else numpy.flatnonzero(fits)

    def _cosines(self, numpy: Any, vector: Vector, places: Any) -> Any:
        wanted = numpy.frombuffer(vector.codes, dtype=numpy.int8).astype(numpy.float32)
        count = self._count if places is None else len(places)
        products = numpy.empty(count, dtype=numpy.float32)
        block = numpy.empty((_ROWS_AT_ONCE, vector.dimension), dtype=numpy.float32)
        for start in range(0, count, _ROWS_AT_ONCE):
            end = min(start + _ROWS_AT_ONCE, count)
            rows = block[: end - start]
            rows[...] = self._codes[start:end] if places is None else self._codes[places[start:end]]
            numpy.dot(rows, wanted, out=products[start:end])
        lengths = self._lengths[: self._count] if places is None else self._lengths[places]
        return products / lengths / numpy.sqrt(wanted @ wanted)

    def _refresh(self, connection: sqlite3.Connection, dimension: int, numpy: Any) -> None:
        epoch = read_state(connection, "vector_epoch")
        if connection is not self._connection or epoch != self._epoch:
            self._connection, self._epoch = connection, epoch
            self._count = self._last_key = 0
            self._keys = numpy.empty(0, dtype=numpy.int64)
            self._codes = numpy.empty((0, dimension), dtype=numpy.int8)
            self._lengths = numpy.empty(0, dtype=numpy.float32)
            self._labels = numpy.empty((0, 2), dtype=numpy.int32)
            self._number_by_label = {}
        select = (
            "SELECT key, vector, kind, namespace FROM memory_records INDEXED BY memory_vectors "
            "WHERE vector IS NOT NULL AND key > ? ORDER BY key LIMIT ?"
        )
        while rows := fetch_rows(connection, select, (self._last_key, _ROWS_READ_AT_ONCE)):
            self._last_key = int(rows[-1][0])
            whole = [row for row in rows if _is_whole(row[1], dimension)]
            if whole:
                self._add(numpy, whole, dimension)
            if len(whole) < len(rows):
                _warn_of_others(connection, {row[0] for row in rows} - {row[0] for row in whole})

    def _add(self, numpy: Any, rows: Sequence[Row], dimension: int) -> None:
        start, end = self._count, self._count + len(rows)
        if end > len(self._keys):
            room = max(2 * len(self._keys), end)
            self._keys = _with_room(numpy, self._keys, room)
            self._codes = _with_room(numpy, self._codes, room)
            self._lengths = _with_room(numpy, self._lengths, room)
            self._labels = _with_room(numpy, self._labels, room)
        joined = b"".join(row[1] for row in rows)
        codes = numpy.frombuffer(joined, dtype=numpy.int8).reshape(-1, dimension)
        floats = codes.astype(numpy.float32)
        self._keys[start:end] = [row[0] for row in rows]
        self._codes[start:end] = codes
        self._lengths[start:end] = numpy.sqrt((floats * floats).sum(axis=1))
        self._labels[start:end] = [(self._number(row[2]), self._number(row[3])) for row in rows]
        self._count = end

    def _number(self, label: str) -> int:
        return self._number_by_label.setdefault(label, len(self._number_by_label))


def cosines(vector: Vector, others: Sequence[Vector]) -> list[float]:
    """Return how alike each of the others is, in order.

    Raises:
        MissingExtraError: numpy is not installed.
    """
    if not others:
        return []
    numpy = load_numpy()
    codes = b"".join(other.codes for other in (vector, *others))
    rows = numpy.frombuffer(codes, dtype=numpy.int8).reshape(-1, vector.dimension)
    return _exact_cosines(numpy, rows[0], rows[1:])


def load_numpy() -> Any:
    """Return the module.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import numpy  # noqa: ICN001, PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("Comparing vectors", extra="memory") from error
    return numpy


def _is_whole(codes: object, dimension: int) -> bool:
    return type(codes) is bytes and len(codes) == dimension and any(codes)


def _warn_of_others(connection: sqlite3.Connection, keys: Iterable[int]) -> None:
    for row in find_rows(connection, "key", sorted(keys)):
        warn_of_damage(unreadable(row[1], "its vector is of another model, or damaged"))


def _exact_cosines(numpy: Any, wanted: Any, others: Any) -> list[float]:
    wanted, rows = wanted.astype(float), others.astype(float)
    products = rows @ wanted  # of whole numbers: the same on every machine
    lengths = numpy.sqrt((rows * rows).sum(axis=1)) * numpy.sqrt((wanted * wanted).sum())
    return [float(product) for product in products / lengths]


def _best(numpy: Any, keys: Any, cosines: Any, *, count: int) -> list[tuple[int, float]]:
    """Return so many keys with the largest cosines, the older record first where they agree."""
    if count < len(keys):
        least = numpy.partition(cosines, len(keys) - count)[len(keys) - count]
        chosen = cosines >= least
        keys, cosines = keys[chosen], cosines[chosen]
    order = numpy.lexsort((keys, -cosines))[:count]
    return list(zip(keys[order].tolist(), cosines[order].tolist(), strict=True))


def _with_room(numpy: Any, array: Any, room: int) -> Any:
    larger = numpy.empty((room, *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def _allowed_keys(
    connection: sqlite3.Connection, filters: MemoryFilters, keys: Sequence[int] | None = None
) -> set[int]:
    """Return which of the records with vectors may be found at all, or which of these."""
    condition, values = conditions_of(filters)
    place, given = "r.vector IS NOT NULL", list[str]()
    if keys is not None:
        place, given = "r.key IN (SELECT value FROM json_each(?))", [dumps(keys)]
    rows = connection.execute(
        f"SELECT r.key FROM memory_records r WHERE {place} AND {condition}",  # noqa: S608 – our own words
        (*given, *values),
    )
    return {key for (key,) in rows}
