"""Memories in a PostgreSQL database that any number of machines may use at once."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from context_assembler.errors import UnknownMemoryError
from context_assembler.memory.asked_bounds import check_filters, check_retention
from context_assembler.memory.asked_counts import check_listing, check_record_count, check_search
from context_assembler.memory.asked_ids import asked_ids
from context_assembler.memory.asked_parts import check_store_parts
from context_assembler.memory.postgres_match import TermCounts
from context_assembler.memory.postgres_pool import ConnectionPools
from context_assembler.memory.postgres_schema import MIGRATIONS, migrate, read_version, writing
from context_assembler.memory.postgres_search import (
    NOTHING,
    find_neighbours,
    find_record,
    list_records,
    read_page,
    read_stats,
    search_records,
)
from context_assembler.memory.postgres_vectors import drop_vectors
from context_assembler.memory.postgres_writes import (
    forget_records,
    prune_records,
    remember_records,
    touch_records,
)
from context_assembler.memory.preparing import prepare_records
from context_assembler.ports import Clock
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

if TYPE_CHECKING:
    from psycopg import AsyncConnection


class PostgresMemoryStore:
    """A memory store in a PostgreSQL database.

    Nothing is touched before the first call; reading alone never creates or changes tables.
    After `close` the next call connects again. One process writes at a time, and the others wait
    for it; readers wait for none of them. Every event loop has connections of its own. A memory that is
    damaged, or of a newer version, raises `MemoryFormatError` where it is asked for.

    Args:
        url: `postgresql://user:password@host:port/database`, as libpq reads it; what is not there
            comes from libpq's environment variables, such as `PGPASSWORD`.
        name: What the source is called in reports.
        masks_secrets: Whether secrets are masked before a record is kept.
        finds_duplicates: Whether a record without an id is left out where its kind, namespace and
            text are there already; of turns of a conversation each is kept.
        clock: Seconds since 1970, for records without a time of their own.
        busy_seconds: How long to wait for who writes, or has locked the tables, or for a connection.
        max_connections: How many are open at most, for each event loop.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "memory",
        masks_secrets: bool = True,
        finds_duplicates: bool = True,
        clock: Clock = time.time,
        busy_seconds: float = 10.0,
        max_connections: int = 8,
    ) -> None:
        check_store_parts(name=name, clock=clock)
        self.name = name
        self._masks_secrets = masks_secrets
        self._finds_duplicates = finds_duplicates
        self._clock = clock
        self._busy_seconds = busy_seconds
        self._counts = TermCounts()
        self._version = 0
        self._pools = ConnectionPools(url, busy_seconds=busy_seconds, most=max_connections)

    @property
    def location(self) -> str:
        """The store's URL without its password."""
        return self._pools.location

    async def remember(self, records: Sequence[MemoryRecord]) -> list[Remembered]:
        """Keep all of the records, or none, and return what became of each, in order.

        A record without an id gets one. A record whose id is there already takes its place; the
        time of the first stays where the new one has none, and how often it was used.

        Raises:
            MemoryFormatError: A record holds something that JSON cannot say.
            VectorModelError: The store keeps vectors of another model.
            MissingExtraError: psycopg is not installed; or secrets are to be masked, and
                detect-secrets is not.
            MemoryUnavailableError: The server cannot be used, or has no pgvector for a vector.
        """
        if not records:
            return []
        now = self._now()
        # Made ready before the lock is taken: other writers wait for the server only.
        prepared = prepare_records(
            records,
            now=now,
            masks_secrets=self._masks_secrets,
            finds_duplicates=self._finds_duplicates,
        )
        async with self._writing() as connection:
            return await remember_records(connection, prepared, location=self.location)

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
        enough. With a vector those nearest to it are found as well. A memory that cannot be read is
        left out with a `DamagedMemoryWarning`.

        Raises:
            VectorModelError: The store keeps vectors of another model.
            MemoryFormatError: Nothing of what was found can be read.
            MissingExtraError: psycopg is not installed.
            MemoryUnavailableError: The server cannot be used.
        """
        check_search(query, limit=limit, filters=filters, vector=vector)
        async with self._reading() as connection:
            if connection is None:
                return []
            return await search_records(
                connection,
                query,
                limit=limit,
                filters=filters,
                vector=vector,
                counts=self._counts,
            )

    async def get(self, memory_id: str) -> MemoryRecord:
        """Return the record of that id.

        Raises:
            UnknownMemoryError: There is none.
            MemoryUnavailableError: The server cannot be used.
        """
        async with self._reading() as connection:
            if connection is None or not asked_ids([memory_id]):
                raise UnknownMemoryError(memory_id)
            return await find_record(connection, memory_id)

    async def list_records(
        self,
        *,
        order: MemoryOrder = "newest",
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
    ) -> list[MemoryRecord]:
        """Return at most `limit` records in that order; `last_accessed` leaves out the others.

        Raises:
            MemoryUnavailableError: The server cannot be used.
        """
        check_listing(order=order, limit=limit, filters=filters)
        async with self._reading() as connection:
            if connection is None:
                return []
            return await list_records(connection, order=order, limit=limit, filters=filters)

    async def neighbours(
        self, memory_ids: Sequence[str], *, before: int = 2, after: int = 2
    ) -> Mapping[str, tuple[MemoryRecord, ...]]:
        """Return by id what stands around each record in its session or parent, oldest first.

        The records themselves are left out, and ids that are not there.

        Raises:
            MemoryUnavailableError: The server cannot be used.
        """
        check_record_count("before", before)
        check_record_count("after", after)
        async with self._reading() as connection:
            if connection is None:
                return {}
            ids = asked_ids(memory_ids)
            return await find_neighbours(connection, ids, before=before, after=after)

    async def forget(self, memory_ids: Sequence[str]) -> list[str]:
        """Remove the records, and return the ids of those that were there.

        Raises:
            MemoryUnavailableError: The server cannot be used.
        """
        async with self._writing() as connection:
            return await forget_records(connection, asked_ids(memory_ids))

    async def touch(self, memory_ids: Sequence[str]) -> None:
        """Note that the records were used; ids that are not there are passed over.

        Raises:
            MemoryUnavailableError: The server cannot be used.
        """
        moment = self._now()
        async with self._writing() as connection:
            await touch_records(connection, asked_ids(memory_ids), moment=moment)

    async def prune(self, retention: Retention) -> list[str]:
        """Remove what the bounds do not cover, and return the ids, the oldest first.

        Raises:
            MemoryUnavailableError: The server cannot be used.
        """
        check_retention(retention)
        now = self._now()
        async with self._writing() as connection:
            return await prune_records(connection, retention, now=now)

    async def drop_vectors(self) -> None:
        """Forget every vector, so that those of another model can come.

        Raises:
            MemoryUnavailableError: The server cannot be used.
        """
        async with self._writing() as connection:
            await drop_vectors(connection)

    async def export(self, *, filters: MemoryFilters = NO_FILTERS) -> AsyncIterator[MemoryRecord]:
        """Yield the records in the order of storing; those that are stored meanwhile are seen too.

        Raises:
            MemoryFormatError: A row is damaged, or of a newer version.
            MemoryUnavailableError: The server cannot be used.
        """
        check_filters(filters)
        after_key = 0
        while True:
            async with self._reading() as connection:
                if connection is None:
                    return
                page = await read_page(connection, after_key=after_key, filters=filters)
            if not page:
                return
            for after_key, record in page:  # noqa: B007 – the last key is where to go on
                yield record

    async def stats(self) -> MemoryStats:
        """Return what the store holds.

        Raises:
            MemoryUnavailableError: The server cannot be used.
        """
        async with self._reading() as connection:
            return NOTHING if connection is None else await read_stats(connection)

    async def close(self) -> None:
        """Close the connections."""
        await self._pools.close()
        self._version = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @asynccontextmanager
    async def _reading(self) -> AsyncGenerator["AsyncConnection[Any] | None"]:
        """Lend a connection; `None` where the database holds no tables of ours yet."""
        async with self._pools.connection() as connection:
            if self._version == 0:
                self._version = await read_version(connection, location=self.location)
            yield connection if self._version > 0 else None

    @asynccontextmanager
    async def _writing(self) -> AsyncGenerator["AsyncConnection[Any]"]:
        async with self._pools.connection() as connection:
            if self._version < len(MIGRATIONS):
                await migrate(connection, location=self.location, seconds=self._busy_seconds)
                self._version = len(MIGRATIONS)
            async with writing(connection, seconds=self._busy_seconds):
                yield connection

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)
