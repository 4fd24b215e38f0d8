"""The sockets of memory: what recall needs of a source, and what a store offers beside."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol, Self, runtime_checkable

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


@runtime_checkable
class MemorySource(Protocol):
    """Somewhere memories are found."""

    @property
    def name(self) -> str:
        """What the source is called in reports."""
        ...

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
        vector: Vector | None = None,
    ) -> Sequence[MemoryHit]:
        """Return at most `limit` records that fit, best first; none where nothing fits.

        Any text is a query, and the same question to the same records gets the same answer.

        Args:
            vector: Where the query lies in the space of the model that the source keeps vectors of.
        """
        ...


class MemoryStore(MemorySource, Protocol):
    """Keeps memories.

    `remember` is atomic and durable: after a crash all of `records` are there, or none.
    """

    async def remember(self, records: Sequence[MemoryRecord]) -> list[Remembered]:
        """Keep the records, and return what became of each, in order.

        A record without an id gets one; a record whose id is there already takes its place.
        """
        ...

    async def get(self, memory_id: str) -> MemoryRecord:
        """Return the record of that id.

        Raises:
            UnknownMemoryError: There is none.
        """
        ...

    async def list_records(
        self,
        *,
        order: MemoryOrder = "newest",
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
    ) -> Sequence[MemoryRecord]:
        """Return at most `limit` records in that order; `last_accessed` leaves out the others."""
        ...

    async def neighbours(
        self, memory_ids: Sequence[str], *, before: int = 2, after: int = 2
    ) -> Mapping[str, tuple[MemoryRecord, ...]]:
        """Return by id what stands around each record in its session or parent, oldest first.

        The records themselves are left out, and ids that are not there.
        """
        ...

    async def forget(self, memory_ids: Sequence[str]) -> list[str]:
        """Remove the records, and return the ids of those that were there."""
        ...

    async def touch(self, memory_ids: Sequence[str]) -> None:
        """Note that the records were used; ids that are not there are passed over."""
        ...

    async def prune(self, retention: Retention) -> list[str]:
        """Remove what the bounds do not cover, and return the ids, the oldest first."""
        ...

    def export(self, *, filters: MemoryFilters = NO_FILTERS) -> AsyncIterator[MemoryRecord]:
        """Yield the records in the order of storing."""
        ...

    async def stats(self) -> MemoryStats:
        """Return what the store holds."""
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...


class OpenedMemoryStore(MemoryStore, Protocol):
    """A memory store that whoever opened it from a URL closes, at the latest by `async with`."""

    async def drop_vectors(self) -> None:
        """Forget every vector, so that those of another model can come."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exception: object) -> None: ...
