"""The vectors of a SQLite memory store, kept in memory to be compared with a query's."""

import sqlite3
from collections.abc import Sequence
from json import dumps
from typing import Any, Final

from context_assembler.errors import MissingExtraError
from context_assembler.memory.sqlite_rows import conditions_of
from context_assembler.memory.sqlite_schema import read_state
from context_assembler.memory.sqlite_writes import check_model
from context_assembler.values.memories.records import NO_FILTERS, MemoryFilters
from context_assembler.values.memories.vectors import Vector

_ROWS_READ_AT_ONCE: Final = 8_192
_ROWS_AT_ONCE: Final = 2_048  # as floats they fit a processor's cache, where products are fastest
_LOOKED_AT_FIRST: Final = 8  # times as many as are wanted, where a filter may leave some out
_FACTOR: Final = 8


class VectorScan:
    """Compares every vector; what was loaded stays, and only what is added is read again.

    A byte for each dimension: 13 MB for 100,000 vectors of 128. Products are of whole numbers, so
    that the answer is the same on every machine.
    """

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._epoch: str | int | None = None
        self._count = 0
        self._last_key = 0
        self._keys: Any = None  # these three have room for more than `_count`
        self._codes: Any = None
        self._lengths: Any = None

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
        if model is None or count <= 0:
            return []
        dimension = read_state(connection, "vector_dimension")
        check_model(vector, model=model, dimension=dimension)
        self._refresh(connection, vector.dimension, numpy)
        found = self._cosines(numpy, vector)
        if filters == NO_FILTERS:
            return self._best(numpy, found, count=count)
        looked_at = _LOOKED_AT_FIRST * count
        while True:
            best = self._best(numpy, found, count=looked_at)
            allowed = _allowed_keys(connection, [key for key, _ in best], filters)
            chosen = [row for row in best if row[0] in allowed]
            if len(chosen) >= count or looked_at >= self._count:
                return chosen[:count]
            looked_at *= _FACTOR

    def _cosines(self, numpy: Any, vector: Vector) -> Any:
        wanted = numpy.frombuffer(vector.codes, dtype=numpy.int8).astype(numpy.float32)
        products = numpy.empty(self._count, dtype=numpy.float32)
        block = numpy.empty((_ROWS_AT_ONCE, vector.dimension), dtype=numpy.float32)
        for start in range(0, self._count, _ROWS_AT_ONCE):
            end = min(start + _ROWS_AT_ONCE, self._count)
            rows = block[: end - start]
            rows[...] = self._codes[start:end]
            numpy.dot(rows, wanted, out=products[start:end])
        return products / self._lengths[: self._count] / numpy.sqrt(wanted @ wanted)

    def _best(self, numpy: Any, cosines: Any, *, count: int) -> list[tuple[int, float]]:
        """Return so many keys with the largest cosines, the older record first where they agree."""
        keys = self._keys[: self._count]
        if count < self._count:
            least = numpy.partition(cosines, self._count - count)[self._count - count]
            chosen = cosines >= least
            keys, cosines = keys[chosen], cosines[chosen]
        order = numpy.lexsort((keys, -cosines))[:count]
        return list(zip(keys[order].tolist(), cosines[order].tolist(), strict=True))

    def _refresh(self, connection: sqlite3.Connection, dimension: int, numpy: Any) -> None:
        epoch = read_state(connection, "vector_epoch")
        if connection is not self._connection or epoch != self._epoch:
            self._connection, self._epoch = connection, epoch
            self._count = self._last_key = 0
            self._keys = numpy.empty(0, dtype=numpy.int64)
            self._codes = numpy.empty((0, dimension), dtype=numpy.int8)
            self._lengths = numpy.empty(0, dtype=numpy.float32)
        select = (
            "SELECT key, vector FROM memory_records INDEXED BY memory_vectors "
            "WHERE vector IS NOT NULL AND key > ? ORDER BY key LIMIT ?"
        )
        while rows := connection.execute(select, (self._last_key, _ROWS_READ_AT_ONCE)).fetchall():
            self._add(numpy, rows, dimension)

    def _add(self, numpy: Any, rows: Sequence[tuple[int, bytes]], dimension: int) -> None:
        start, end = self._count, self._count + len(rows)
        if end > len(self._keys):
            room = max(2 * len(self._keys), end)
            self._keys = _with_room(numpy, self._keys, room)
            self._codes = _with_room(numpy, self._codes, room)
            self._lengths = _with_room(numpy, self._lengths, room)
        joined = b"".join(codes for _, codes in rows)
        codes = numpy.frombuffer(joined, dtype=numpy.int8).reshape(-1, dimension)
        floats = codes.astype(numpy.float32)
        self._keys[start:end] = [key for key, _ in rows]
        self._codes[start:end] = codes
        self._lengths[start:end] = numpy.sqrt((floats * floats).sum(axis=1))
        self._count, self._last_key = end, int(rows[-1][0])


def cosines(vector: Vector, others: Sequence[Vector]) -> list[float]:
    """Return how alike each of the others is, in order.

    Raises:
        MissingExtraError: numpy is not installed.
    """
    if not others:
        return []
    numpy = load_numpy()
    codes = b"".join(other.codes for other in (vector, *others))
    rows = numpy.frombuffer(codes, dtype=numpy.int8).reshape(-1, vector.dimension).astype(float)
    products = rows[1:] @ rows[0]  # of whole numbers: the same on every machine
    lengths = numpy.sqrt((rows * rows).sum(axis=1))
    return [float(product) for product in products / (lengths[1:] * lengths[0])]


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


def _with_room(numpy: Any, array: Any, room: int) -> Any:
    larger = numpy.empty((room, *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def _allowed_keys(
    connection: sqlite3.Connection, keys: Sequence[int], filters: MemoryFilters
) -> set[int]:
    condition, values = conditions_of(filters)
    rows = connection.execute(
        "SELECT r.key FROM memory_records r "  # noqa: S608 – our own words
        f"WHERE r.key IN (SELECT value FROM json_each(?)) AND {condition}",
        (dumps(keys), *values),
    )
    return {key for (key,) in rows}
