"""What the contract suites of memory run over: a row for every store, and for every other source.

`STORES` is for what keeps memories by itself (the whole `MemoryStore`); each runs both suites,
`test_memory_store.py` and `test_memory_source.py`. `SOURCES` is for what is only searched; a row
says as well how records come into it, and runs the second suite.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import pytest

from context_assembler.memory import PostgresMemoryStore, open_memory
from context_assembler.ports import MemorySource, MemoryStore
from context_assembler.values.memories.records import MemoryFilters, MemoryHit, MemoryRecord
from context_assembler.values.memories.vectors import Vector

AT: Final = datetime(2026, 5, 4, 9, 30, 0, 123_456, tzinfo=UTC)
DAY: Final = timedelta(days=1)
EAST: Final = Vector.pack("tiny", [1.0, 0.0])
NORTH: Final = Vector.pack("tiny", [0.0, 1.0])
NORTH_EAST: Final = Vector.pack("tiny", [1.0, 1.0])

PEARS: Final[Sequence[MemoryRecord]] = [
    MemoryRecord(
        id="a", text="a pear", namespace="shop", session_id="s1", created_at=AT, vector=EAST
    ),
    MemoryRecord(
        id="b",
        text="b pear",
        namespace="shop",
        author="Ada",
        kind="learnings",
        created_at=AT + DAY,
        vector=EAST,
    ),
    MemoryRecord(
        id="c",
        text="c pear",
        parent_id="doc",
        created_at=AT + 2 * DAY,
        importance=0.7,
        vector=EAST,
    ),
]
FILTERED: Final[Mapping[str, tuple[MemoryFilters, list[str]]]] = {
    "nothing": (MemoryFilters(), ["a", "b", "c"]),
    "a kind": (MemoryFilters(kinds=("learnings",)), ["b"]),
    "kinds": (MemoryFilters(kinds=("learnings", "memories")), ["a", "b", "c"]),
    "a kind that is not there": (MemoryFilters(kinds=("code",)), []),
    "a namespace": (MemoryFilters(namespaces=("shop",)), ["a", "b"]),
    "no namespace": (MemoryFilters(namespaces=("",)), ["c"]),
    "a session": (MemoryFilters(session_ids=("s1",)), ["a"]),
    "a parent": (MemoryFilters(parent_ids=("doc",)), ["c"]),
    "an author": (MemoryFilters(authors=("Ada",)), ["b"]),
    "since, itself included": (MemoryFilters(since=AT + DAY), ["b", "c"]),
    "until, itself excluded": (MemoryFilters(until=AT + DAY), ["a"]),
    "importance": (MemoryFilters(least_importance=0.6), ["c"]),
    "excluded ids": (MemoryFilters(excluded_ids=("a", "c")), ["b"]),
    "excluded sessions": (MemoryFilters(excluded_session_ids=("s1",)), ["b", "c"]),
    "several at once": (MemoryFilters(namespaces=("shop",), since=AT + DAY), ["b"]),
}
"""Filters, and the ids of the pears that they let through."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one test keeps memories; `request` finds the servers that all tests share.

    A row whose package or server is absent skips the test, with the reason.
    """

    folder: Path
    request: pytest.FixtureRequest


class Fill(Protocol):
    """Puts records into a source."""

    async def __call__(self, records: Sequence[MemoryRecord], /) -> object: ...


@dataclass(frozen=True, slots=True)
class FilledSource:
    """A source, and how records come into it; it is empty at first."""

    source: MemorySource
    fill: Fill


OpenStore: TypeAlias = Callable[[Place], MemoryStore]
OpenSource: TypeAlias = Callable[[Place], AbstractAsyncContextManager[FilledSource]]


def _open_in_memory(_place: Place) -> MemoryStore:
    return open_memory("memory:")


def _open_sqlite(place: Place) -> MemoryStore:
    return open_memory(f"sqlite:{place.folder / 'memory.db'}")


def _open_postgres(place: Place) -> MemoryStore:
    # A machine that is busy with other things must not let a test fail.
    return PostgresMemoryStore(place.request.getfixturevalue("postgres_url"), busy_seconds=60)


def _open_lancedb(place: Place) -> MemoryStore:
    pytest.importorskip("lancedb")
    return open_memory(f"lancedb:{place.folder / 'lance'}")


def _open_qdrant(place: Place) -> MemoryStore:
    pytest.importorskip("qdrant_client")
    return open_memory(f"qdrant:{place.folder / 'qdrant'}")


def _open_qdrant_server(place: Place) -> MemoryStore:
    return open_memory(f"qdrant:{place.request.getfixturevalue('qdrant_url')}")


STORES: Final[Mapping[str, OpenStore]] = {
    "memory": _open_in_memory,
    "sqlite": _open_sqlite,
    "postgresql": _open_postgres,
    "lancedb": _open_lancedb,
    "qdrant": _open_qdrant,
    "qdrant_server": _open_qdrant_server,
}

SOURCES: Final[Mapping[str, OpenSource]] = {}


@asynccontextmanager
async def open_source(name: str, place: Place) -> AsyncGenerator[FilledSource]:
    """Open the source of that row; a store is a source that is filled by remembering."""
    if name in SOURCES:
        async with SOURCES[name](place) as opened:
            yield opened
        return
    store = STORES[name](place)
    yield FilledSource(store, store.remember)
    await store.close()


def facts(*texts: str) -> list[MemoryRecord]:
    return [MemoryRecord(text=text) for text in texts]


def turns(*texts: str, session_id: str = "s") -> list[MemoryRecord]:
    return [MemoryRecord(text=text, kind="events", session_id=session_id) for text in texts]


def texts_of(found: Sequence[MemoryHit | MemoryRecord]) -> list[str]:
    return [hit.record.text if isinstance(hit, MemoryHit) else hit.text for hit in found]
