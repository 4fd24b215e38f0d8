"""Memories in one SQLite file that several processes may use at once, or in memory."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Self

from context_assembler.errors import UnknownMemoryError
from context_assembler.memory.asked_bounds import check_filters, check_retention
from context_assembler.memory.asked_counts import check_listing, check_record_count, check_search
from context_assembler.memory.asked_ids import asked_ids
from context_assembler.memory.sqlite_rows import to_stamp
from context_assembler.memory.sqlite_schema import SCHEMA
from context_assembler.memory.sqlite_search import (
    Recollection,
    find_kinds,
    find_neighbours,
    find_record,
    list_records,
    read_page,
    search_records,
)
from context_assembler.memory.sqlite_stats import read_stats
from context_assembler.memory.sqlite_writes import (
    drop_vectors,
    forget_records,
    optimize_index,
    prepare_and_remember,
    prune_records,
    touch_records,
)
from context_assembler.ports import Clock
from context_assembler.sqlite.line import Line
from context_assembler.sqlite.worker import make_workers
from context_assembler.sync import close_all
from context_assembler.values.given import check_callable, check_path, check_type
from context_assembler.values.memories.kinds import MemoryKind
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
_RECALLS_AT_ONCE: Final = 4  # while one of them thinks, another one reads


class SqliteMemoryStore:
    """A memory store in one file.

    Nothing is touched before the first call; reading alone never creates or changes the file.
    After `close` the next call opens it again. Writing and reading have a thread and a connection
    each, so that readers do not wait for writers.

    Args:
        path: The file; its folder must exist. `~` is the home folder. `None` keeps everything in
            memory, gone when the store is closed.
        name: What the source is called in reports.
        masks_secrets: Whether secrets are masked before a record is kept.
        finds_duplicates: Whether a record without an id is left out where its kind, namespace and
            text are there already; of turns of a conversation each is kept.
        clock: Seconds since 1970, for records without a time of their own.
        busy_seconds: How long to wait for another process that writes.
    """

    def __init__(
        self,
        path: str | Path | None,
        *,
        name: str = "memory",
        masks_secrets: bool = True,
        finds_duplicates: bool = True,
        clock: Clock = time.time,
        busy_seconds: float = 10.0,
    ) -> None:
        if path is None or str(path) == ":memory:":
            path = None
        else:
            check_path("path", path, such_as="a path such as 'memory.db', or None to keep no file")
        check_callable("clock", clock, such_as="a function that returns seconds since 1970")
        check_type("busy_seconds", busy_seconds, int, float, such_as="a number of seconds")
        self.name = name
        self.path = None if path is None else Path(path).expanduser().absolute()
        self._clock = clock
        self._keep = partial(
            prepare_and_remember,
            clock=clock,
            masks_secrets=masks_secrets,
            finds_duplicates=finds_duplicates,
        )
        self._recollection = Recollection()
        self.recall_line = Line(at_once=_RECALLS_AT_ONCE)  # what a recall holds while it asks
        self._writer, self._reader = make_workers(self.path, SCHEMA, busy_seconds=busy_seconds)

    async def remember(self, records: Sequence[MemoryRecord]) -> list[Remembered]:
        """Keep all of the records, or none, and return what became of each, in order.

        A record without an id gets one. A record whose id is there already takes its place; the
        time of the first stays where the new one has none, and how often it was used.

        Raises:
            MemoryFormatError: A record holds something that JSON cannot say.
            VectorModelError: The store keeps vectors of another model.
            MissingExtraError: Secrets are to be masked, and detect-secrets is not installed.
            MemoryUnavailableError: The file cannot be used.
        """
        if not records:
            return []
        return await self._writer.run(partial(self._keep, records=records))

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
        enough. With a vector those nearest to it are found as well.

        A memory that cannot be read is left out, with a `DamagedMemoryWarning`.

        Raises:
            VectorModelError: The store keeps vectors of another model.
            MemoryFormatError: Nothing of what was found can be read.
            MissingExtraError: There is a vector, and numpy is not installed.
            MemoryUnavailableError: The file cannot be used.
        """
        check_search(query, limit=limit, filters=filters, vector=vector)
        return await self._reader.run(
            partial(
                search_records,
                query=query,
                limit=limit,
                filters=filters,
                vector=vector,
                recollection=self._recollection,
            )
        )

    async def present_kinds(self, *, filters: MemoryFilters = NO_FILTERS) -> frozenset[MemoryKind]:
        """Return the kinds of which there may be records that the filters allow.

        There are surely none of the others; known at once for as long as nothing is written.

        Raises:
            MemoryUnavailableError: The file cannot be used.
        """
        check_filters(filters)
        return await self._reader.run(
            partial(find_kinds, filters=filters, recollection=self._recollection)
        )

    async def get(self, memory_id: str) -> MemoryRecord:
        """Return the record of that id.

        Raises:
            UnknownMemoryError: There is none.
            MemoryFormatError: It is damaged, or of a newer version.
            MemoryUnavailableError: The file cannot be used.
        """
        if not asked_ids([memory_id]):
            raise UnknownMemoryError(memory_id)
        return await self._reader.run(partial(find_record, memory_id=memory_id))

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
            MemoryUnavailableError: The file cannot be used.
        """
        check_listing(order=order, limit=limit, filters=filters)
        return await self._reader.run(
            partial(list_records, order=order, limit=limit, filters=filters)
        )

    async def neighbours(
        self, memory_ids: Sequence[str], *, before: int = 2, after: int = 2
    ) -> Mapping[str, tuple[MemoryRecord, ...]]:
        """Return by id what stands around each record in its session or parent, oldest first.

        The records themselves are left out, and ids that are not there.

        Raises:
            MemoryFormatError: One of them is damaged, or of a newer version.
            MemoryUnavailableError: The file cannot be used.
        """
        check_record_count("before", before)
        check_record_count("after", after)
        ids = asked_ids(memory_ids)
        return await self._reader.run(
            partial(find_neighbours, memory_ids=ids, before=before, after=after)
        )

    async def forget(self, memory_ids: Sequence[str]) -> list[str]:
        """Remove the records, and return the ids of those that were there.

        Raises:
            MemoryUnavailableError: The file cannot be used.
        """
        ids = asked_ids(memory_ids)
        return await self._writer.run(partial(forget_records, memory_ids=ids))

    async def touch(self, memory_ids: Sequence[str]) -> None:
        """Note that the records were used; ids that are not there are passed over.

        Raises:
            MemoryUnavailableError: The file cannot be used.
        """
        ids, stamp = asked_ids(memory_ids), to_stamp(self._now())
        await self._writer.run(partial(touch_records, memory_ids=ids, stamp=stamp))

    async def prune(self, retention: Retention) -> list[str]:
        """Remove what the bounds do not cover, and return the ids, the oldest first.

        Raises:
            MemoryUnavailableError: The file cannot be used.
        """
        check_retention(retention)
        now_stamp = to_stamp(self._now())
        return await self._writer.run(
            partial(prune_records, retention=retention, now_stamp=now_stamp)
        )

    async def drop_vectors(self) -> None:
        """Forget every vector, so that those of another model can come.

        Raises:
            MemoryUnavailableError: The file cannot be used.
        """
        await self._writer.run(drop_vectors)

    async def optimize(self) -> None:
        """Merge what many batches left of the full-text index into one piece.

        After an import in many batches searches are faster, and so are the records that come one by
        one behind it. It takes half a second for 100,000 records, in which no other process can
        write; readers go on. Every two-hundredth time the index is made anew, which takes some seconds.
        Fifty records or more at once that are an eighth of the store are merged by themselves.

        Raises:
            MemoryUnavailableError: The file cannot be used.
        """
        await self._writer.run(optimize_index)

    async def export(self, *, filters: MemoryFilters = NO_FILTERS) -> AsyncIterator[MemoryRecord]:
        """Yield the records in the order of storing; those that are stored meanwhile are seen too.

        Raises:
            MemoryFormatError: A row is damaged, or of a newer version.
            MemoryUnavailableError: The file cannot be used.
        """
        check_filters(filters)
        after_key = 0
        read_next = partial(read_page, count=_RECORDS_PER_PAGE, filters=filters)
        while page := await self._reader.run(partial(read_next, after_key=after_key)):
            for after_key, record in page:  # noqa: B007 – the last key is where to go on
                yield record

    async def stats(self) -> MemoryStats:
        """Return what the store holds.

        Raises:
            MemoryUnavailableError: The file cannot be used.
        """
        return await self._reader.run(read_stats)

    async def close(self) -> None:
        """Close the file and end the threads."""
        # The last connection to close folds the log into the file, and a reader may not.
        await close_all(self._reader.close, self._writer.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)
