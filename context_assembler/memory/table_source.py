"""A source of memories over a table that somebody else made and fills."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Final, Protocol, Self

from context_assembler.errors import ConfigurationError, MemoryFormatError
from context_assembler.memory.asked_counts import check_search
from context_assembler.memory.asked_parts import check_parts
from context_assembler.memory.field_names import FieldNames, tests_on
from context_assembler.memory.row_search import rank_rows
from context_assembler.memory.row_tables import take_first
from context_assembler.memory.rows import Row, RowTest, VectorModel
from context_assembler.ports import Embed
from context_assembler.ports.asking import ask_embedder
from context_assembler.values.given import check_type
from context_assembler.values.memories.records import (
    NO_FILTERS,
    MemoryFilters,
    MemoryHit,
    MemoryRecord,
)
from context_assembler.values.memories.vectors import Vector

_READERS: Final = 4


class OwnTable(Protocol):
    """A table of one's own in an engine; its functions wait, so they run in threads.

    A row has an `id`, a `place` and a `record`, or the error of one that cannot be read.
    """

    @property
    def is_shared(self) -> bool:
        """Whether several threads may read at once."""
        ...

    def load(self) -> None:
        """Import the engine's package, which may take seconds; nothing else is touched."""
        ...

    def dimension(self) -> int | None:
        """Return how many numbers a vector has; `None` where there are none, or no table yet."""
        ...

    def find_by_words(
        self, query: str, tests: Sequence[RowTest], *, limit: int
    ) -> list[tuple[Row, float]]:
        """Return the rows that hold any of the words, best first; none without such an index."""
        ...

    def find_by_vector(
        self, vector: Vector, tests: Sequence[RowTest], *, limit: int
    ) -> list[tuple[Row, float]]:
        """Return the rows whose vectors lie nearest, best first, with more for the nearer."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


class TableSource:
    """Recalls from a table of one's own, and writes nothing (`open_lancedb_table`, for one).

    Args:
        table: Where the rows are.
        fields: Which of their fields is which of a memory's.
        embed: Gives a query that has no vector one, in the space that the table's vectors are in.
        vector_model: The name of that space, where the vectors of queries come from elsewhere.
    """

    def __init__(
        self,
        table: OwnTable,
        *,
        name: str,
        fields: FieldNames,
        embed: Embed | None,
        vector_model: str | None,
    ) -> None:
        check_parts(name=name, embed=embed)
        self.name = name
        self._table = table
        self._fields = fields
        self._embed = embed
        self._model = vector_model if embed is None else embed.model
        self._lock = Lock()
        self._reader: ThreadPoolExecutor | None = None

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
        vector: Vector | None = None,
    ) -> list[MemoryHit]:
        """Return at most `limit` records that fit, best first; none where nothing fits.

        A row whose fields cannot be what `fields` says is left out, with a `DamagedMemoryWarning`.

        Raises:
            VectorModelError: The table's vectors are of another model or dimension.
            EmbeddingError: The embedding model cannot be used.
            MemoryFormatError: Of none of the rows the fields can be what `fields` says.
            MissingExtraError: A package that is needed is not installed.
            MemoryUnavailableError: The engine cannot be used.
        """
        check_search(query, limit=limit, filters=filters, vector=vector)
        if vector is None and self._embed is not None and query.strip():
            [vector] = await ask_embedder(self._embed, [query], purpose="query")
        tests = tests_on(filters, self._fields)
        if tests is None or not limit:
            return []
        return await asyncio.get_running_loop().run_in_executor(
            self._executor(), partial(self._search, query, tests, limit=limit, vector=vector)
        )

    async def close(self) -> None:
        """Let go of files and connections, and end the threads; the next call begins anew."""
        await asyncio.get_running_loop().run_in_executor(self._executor(), self._table.close)
        with self._lock:
            executor, self._reader = self._reader, None
        if executor is not None:
            executor.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        await asyncio.get_running_loop().run_in_executor(self._executor(), self._table.load)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _search(
        self, query: str, tests: Sequence[RowTest], *, limit: int, vector: Vector | None
    ) -> list[MemoryHit]:
        if vector is not None:
            self._check(vector)
        by_words = take_first(
            lambda count: self._table.find_by_words(query, tests, limit=count), limit
        )
        by_vector: list[tuple[Row, float]] = []
        if vector is not None:
            by_vector = take_first(
                lambda count: self._table.find_by_vector(vector, tests, limit=count), limit
            )
        return rank_rows(by_words, by_vector, limit=limit, vector=vector, read=_record_of)

    def _check(self, vector: Vector) -> None:
        dimension = self._table.dimension()
        if dimension is not None:
            VectorModel(self._model or vector.model, dimension).check(vector)

    def _executor(self) -> ThreadPoolExecutor:
        with self._lock:
            readers = _READERS if self._table.is_shared else 1
            self._reader = self._reader or ThreadPoolExecutor(readers)
            return self._reader


def check_vector_settings(
    fields: FieldNames, *, embed: Embed | None, vector_model: str | None
) -> None:
    """Refuse vectors of which nobody says what they are of.

    Raises:
        ConfigurationError: It is not told which model the vectors are of.
        InvalidParameterError: One of them is of another type than it must be.
    """
    check_type("fields", fields, FieldNames, such_as="FieldNames(text='body')")
    check_parts(name="", embed=embed)
    check_type("vector_model", vector_model, str, type(None), such_as="the model's name, or None")
    if fields.vector is not None and embed is None and not vector_model:
        raise ConfigurationError(
            f"Nobody says which embedding model the vectors in {fields.vector!r} are of.",
            remedy="Pass embed=…, or vector_model='…' where queries come with vectors.",
        )


def _record_of(row: Row) -> MemoryRecord:
    record: MemoryRecord | MemoryFormatError = row["record"]
    if isinstance(record, MemoryFormatError):
        raise record
    return record
