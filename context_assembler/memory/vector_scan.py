"""The vectors of a SQLite memory store, kept in memory to be compared with a query's."""

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from context_assembler.errors import MissingExtraError
from context_assembler.memory.sqlite_rows import conditions_of
from context_assembler.memory.sqlite_schema import read_state
from context_assembler.memory.sqlite_writes import check_model
from context_assembler.values.memories.records import NO_FILTERS, MemoryFilters
from context_assembler.values.memories.vectors import Vector

_BLOCK_ROWS: Final = 8_192


class VectorScan:
    """Compares every vector; what was loaded stays, and only what is added is read again.

    A float for each dimension: 51 MB for 100,000 vectors of 128.
    """

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._epoch: str | int | None = None
        self._last_key = 0
        self._blocks: list[tuple[Any, Any]] = []  # keys and unit vectors

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
        if not self._blocks:
            return []
        [wanted] = _unit_rows(numpy, vector.codes, vector.dimension)
        keys = numpy.concatenate([keys for keys, _ in self._blocks])
        cosines = numpy.concatenate([rows @ wanted for _, rows in self._blocks])
        allowed = _allowed_keys(connection, filters)
        if allowed is not None:
            chosen = numpy.isin(keys, numpy.array(allowed, dtype=numpy.int64))
            keys, cosines = keys[chosen], cosines[chosen]
        best = numpy.lexsort((keys, -cosines))[:count]
        return [(int(keys[i]), float(cosines[i])) for i in best]

    def _refresh(self, connection: sqlite3.Connection, dimension: int, numpy: Any) -> None:
        epoch = read_state(connection, "vector_epoch")
        if connection is not self._connection or epoch != self._epoch:
            self._connection, self._epoch = connection, epoch
            self._last_key = 0
            self._blocks = []
        select = (
            "SELECT key, vector FROM memory_records INDEXED BY memory_vectors "
            "WHERE vector IS NOT NULL AND key > ? ORDER BY key LIMIT ?"
        )
        while rows := connection.execute(select, (self._last_key, _BLOCK_ROWS)).fetchall():
            keys = numpy.array([key for key, _ in rows], dtype=numpy.int64)
            units = _unit_rows(numpy, b"".join(codes for _, codes in rows), dimension)
            if self._blocks and len(self._blocks[-1][0]) < _BLOCK_ROWS:
                last_keys, last_units = self._blocks.pop()
                keys = numpy.concatenate((last_keys, keys))
                units = numpy.concatenate((last_units, units))
            self._blocks.append((keys, units))
            self._last_key = int(keys[-1])


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


def _unit_rows(numpy: Any, codes: bytes, dimension: int) -> Any:
    rows = numpy.frombuffer(codes, dtype=numpy.int8).reshape(-1, dimension).astype(numpy.float32)
    return rows / numpy.sqrt((rows * rows).sum(axis=1, keepdims=True))


def _allowed_keys(connection: sqlite3.Connection, filters: MemoryFilters) -> list[int] | None:
    if filters == NO_FILTERS:
        return None
    condition, values = conditions_of(filters)
    rows = connection.execute(
        f"SELECT r.key FROM memory_records r WHERE r.vector IS NOT NULL AND {condition}",  # noqa: S608 – our own words
        values,
    )
    return [key for (key,) in rows]
