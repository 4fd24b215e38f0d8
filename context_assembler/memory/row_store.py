"""A memory store over a table of another engine."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Final, Self, TypeVar

from context_assembler.errors import UnknownMemoryError
from context_assembler.memory.asked_bounds import check_filters, check_retention
from context_assembler.memory.asked_counts import check_listing, check_record_count, check_search
from context_assembler.memory.asked_ids import asked_ids
from context_assembler.memory.asked_parts import check_store_parts
from context_assembler.memory.preparing import PreparedRecord, prepare_records
from context_assembler.memory.row_search import (
    Bookmark,
    find_beside,
    find_record,
    list_rows,
    read_page,
    read_stats,
    search_rows,
)
from context_assembler.memory.row_tables import RowTable
from context_assembler.memory.row_writes import (
    forget_rows,
    prune_rows,
    remember_rows,
    touch_rows,
)
from context_assembler.memory.rows import to_stamp
from context_assembler.ports import Clock, Embed
from context_assembler.ports.asking import ask_embedder
from context_assembler.values.memories.records import (
    NO_FILTERS,
    MemoryFilters,
    MemoryHit,
    MemoryOrder,
    MemoryRecord,
    MemoryStats,
    Remembered,
    Retention,
)
from context_assembler.values.memories.vectors import Vector

_RECORDS_PER_PAGE: Final = 500
_Result = TypeVar("_Result")


class RowMemoryStore:
    """A memory store whose rows another engine keeps: `open_lancedb`, `open_qdrant`.

    It finds by words and vectors as the store in SQLite does, by the same words. Nothing is
    touched before the first call, and reading creates nothing. The engine works in threads, so
    that the event loop never waits for it; writers of one store wait for each other.

    Args:
        table: Where the rows are.
        name: What the source is called in reports.
        embed: Gives records and queries that have no vector one.
        masks_secrets: Whether secrets are masked before a record is kept.
        finds_duplicates: Whether a record without an id is left out where its kind, namespace and
            text are there already; of turns of a conversation each is kept.
        clock: Seconds since 1970, for records without a time of their own.
    """

    def __init__(
        self,
        table: RowTable,
        *,
        name: str = "memory",
        embed: Embed | None = None,
        masks_secrets: bool = True,
        finds_duplicates: bool = True,
        clock: Clock = time.time,
    ) -> None:
        check_store_parts(name=name, clock=clock, embed=embed)
        self.name = name
        self._table = table
        self._embed = embed
        self._masks_secrets = masks_secrets
        self._finds_duplicates = finds_duplicates
        self._clock = clock
        self._place = 0
        self._lock = Lock()
        self._writer: ThreadPoolExecutor | None = None
        self._reader: ThreadPoolExecutor | None = None

    async def remember(self, records: Sequence[MemoryRecord]) -> list[Remembered]:
        """Keep the records, and return what became of each, in order.

        A record without an id gets one. A record whose id is there already takes its place; the
        time of the first stays where the new one has none, and how often it was used.

        Raises:
            MemoryFormatError: A record holds something that JSON cannot say; nothing is kept.
            VectorModelError: The store keeps vectors of another model; nothing is kept.
            EmbeddingError: The embedding model cannot be used; nothing is kept.
            MissingExtraError: A package that is needed is not installed.
            MemoryUnavailableError: The engine cannot be used.
        """
        if not records:
            return []
        prepared = await self._write(partial(self._prepare, records))
        return await self._write(partial(self._keep, await self._with_vectors(prepared)))

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
        vector: Vector | None = None,
    ) -> list[MemoryHit]:
        """Return at most `limit` records that fit, best first; none where nothing fits.

        Any text is a query: of its words those that say something are looked for, any of them is
        enough. With a vector those nearest to it are found as well; where none is given, a store
        that embeds makes one of the query.

        A memory that cannot be read is left out, with a `DamagedMemoryWarning`.

        Raises:
            VectorModelError: The store keeps vectors of another model.
            MemoryFormatError: Nothing of what was found can be read.
            EmbeddingError: The embedding model cannot be used.
            MissingExtraError: A package that is needed is not installed.
            MemoryUnavailableError: The engine cannot be used.
        """
        check_search(query, limit=limit, filters=filters, vector=vector)
        if vector is None and self._embed is not None and query.strip():
            [vector] = await ask_embedder(self._embed, [query], purpose="query")
        return await self._read(
            partial(search_rows, self._table, query, limit=limit, filters=filters, vector=vector)
        )

    async def get(self, memory_id: str) -> MemoryRecord:
        """Return the record of that id.

        Raises:
            UnknownMemoryError: There is none.
            MemoryFormatError: It is damaged, or of a newer version.
            MemoryUnavailableError: The engine cannot be used.
        """
        if not asked_ids([memory_id]):
            raise UnknownMemoryError(memory_id)
        return await self._read(partial(find_record, self._table, memory_id))

    async def list_records(
        self,
        *,
        order: MemoryOrder = "newest",
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
    ) -> list[MemoryRecord]:
        """Return at most `limit` records in that order; `last_accessed` leaves out the others.

        Raises:
            MemoryFormatError: One of them is damaged, or of a newer version.
            MemoryUnavailableError: The engine cannot be used.
        """
        check_listing(order=order, limit=limit, filters=filters)
        return await self._read(
            partial(list_rows, self._table, order=order, limit=limit, filters=filters)
        )

    async def neighbours(
        self, memory_ids: Sequence[str], *, before: int = 2, after: int = 2
    ) -> Mapping[str, tuple[MemoryRecord, ...]]:
        """Return by id what stands around each record in its session or parent, oldest first.

        The records themselves are left out, and ids that are not there.

        Raises:
            MemoryFormatError: One of them is damaged, or of a newer version.
            MemoryUnavailableError: The engine cannot be used.
        """
        check_record_count("before", before)
        check_record_count("after", after)
        ids = asked_ids(memory_ids)
        return await self._read(partial(find_beside, self._table, ids, before=before, after=after))

    async def forget(self, memory_ids: Sequence[str]) -> list[str]:
        """Remove the records, and return the ids of those that were there."""
        return await self._write(partial(forget_rows, self._table, asked_ids(memory_ids)))

    async def touch(self, memory_ids: Sequence[str]) -> None:
        """Note that the records were used; ids that are not there are passed over."""
        ids, stamp = asked_ids(memory_ids), to_stamp(self._now())
        await self._write(partial(touch_rows, self._table, ids, stamp=stamp))

    async def prune(self, retention: Retention) -> list[str]:
        """Remove what the bounds do not cover, and return the ids, the oldest first."""
        check_retention(retention)
        now_stamp = to_stamp(self._now())
        return await self._write(partial(prune_rows, self._table, retention, now_stamp=now_stamp))

    async def drop_vectors(self) -> None:
        """Forget every vector, so that those of another model can come."""
        await self._write(self._table.drop_vectors)

    async def export(self, *, filters: MemoryFilters = NO_FILTERS) -> AsyncIterator[MemoryRecord]:
        """Yield the records in the order of storing; those that are stored meanwhile are seen too.

        Raises:
            MemoryFormatError: A row is damaged, or of a newer version.
        """
        check_filters(filters)
        after = Bookmark()
        read_next = partial(read_page, self._table, count=_RECORDS_PER_PAGE, filters=filters)
        while True:
            records, after = await self._read(partial(read_next, after))
            if not records:
                return
            for record in records:
                yield record

    async def stats(self) -> MemoryStats:
        """Return what the store holds."""
        return await self._read(partial(read_stats, self._table))

    async def close(self) -> None:
        """Let go of files and connections, and end the threads; the next call begins anew."""
        await self._write(self._table.close)
        with self._lock:
            executors = (self._writer, self._reader)
            self._writer = self._reader = None
        for executor in executors:
            if executor is not None:
                executor.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        # What is asked next has a deadline, which seconds of importing would use up.
        await self._write(self._table.load)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _prepare(self, records: Sequence[MemoryRecord]) -> list[PreparedRecord]:
        now = self._now()
        return prepare_records(
            records,
            now=now,
            masks_secrets=self._masks_secrets,
            finds_duplicates=self._finds_duplicates,
        )

    async def _with_vectors(self, prepared: Sequence[PreparedRecord]) -> list[PreparedRecord]:
        """Embed what has no vector; the model sees no text whose secrets are not masked yet."""
        bare = [record for record in prepared if record.record.vector is None]
        if self._embed is None or not bare:
            return list(prepared)
        vectors = iter(await ask_embedder(self._embed, [record.text for record in bare]))
        return [
            replace(record, record=replace(record.record, vector=next(vectors)))
            if record.record.vector is None
            else record
            for record in prepared
        ]

    def _keep(self, prepared: Sequence[PreparedRecord]) -> list[Remembered]:
        # One place for each record, however many are stored within a microsecond.
        place = max(self._place + 1, to_stamp(datetime.now(UTC)))
        self._place = place + len(prepared)
        return remember_rows(self._table, prepared, place=place)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    async def _write(self, act: Callable[[], _Result]) -> _Result:
        with self._lock:
            self._writer = self._writer or ThreadPoolExecutor(1)
            executor = self._writer
        return await asyncio.get_running_loop().run_in_executor(executor, act)

    async def _read(self, act: Callable[[], _Result]) -> _Result:
        if not self._table.readers:
            return await self._write(act)
        with self._lock:
            self._reader = self._reader or ThreadPoolExecutor(self._table.readers)
            executor = self._reader
        return await asyncio.get_running_loop().run_in_executor(executor, act)
