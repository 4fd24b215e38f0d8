"""Events kept between steps are those of the store, whatever happens to the store."""

import gc
import shutil
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler import AssemblerConfig, ContextAssembler
from context_assembler.errors import UnknownSessionError
from context_assembler.ports import SessionStore
from context_assembler.sessions import InMemoryStore, KeptEvents, SqliteStore
from context_assembler.values.events import EventBatch, Session, SessionEvent, user_event
from context_assembler.values.parts import Base64Source, Image


class PlainStore:
    """A store of a user's own, that offers nothing but the port and says what is read of it."""

    def __init__(self) -> None:
        self._store = InMemoryStore()
        self.read_seqs: list[int] = []
        self.create = self._store.create
        self.append = self._store.append
        self.head = self._store.head
        self.list_sessions = self._store.list_sessions
        self.delete = self._store.delete
        self.close = self._store.close

    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        async for event in self._store.load(session_id, after_seq=after_seq):
            self.read_seqs.append(event.seq)
            yield event


class BatchedStore(InMemoryStore):
    """A store that says what is read of it, every event as if it took 1,000 bytes.

    `meanwhile` is what somebody else does once, while a reader waits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.read_seqs: list[int] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def read_batch(
        self, session_id: str, *, after_seq: int = 0, until_seq: int | None = None
    ) -> EventBatch:
        batch = await super().read_batch(session_id, after_seq=after_seq, until_seq=until_seq)
        self.read_seqs += [event.seq for event in batch.events]
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return replace(batch, stored_bytes=1_000 * len(batch.events))


STORES = {"a plain store": PlainStore, "a store with batches": BatchedStore}
every_store = pytest.mark.parametrize("kind", STORES.values(), ids=STORES.keys())


async def fill(store: SessionStore, session_id: str, *texts: str) -> None:
    await store.append(session_id, [user_event(text) for text in texts])


def texts(events: Sequence[SessionEvent]) -> list[str]:
    return [event.text for event in events]


@every_store
async def test_a_step_reads_the_last_event_and_what_is_new(
    kind: type[PlainStore | BatchedStore],
) -> None:
    store = kind()
    kept = KeptEvents(store)
    await fill(store, "trip", "a", "b", "c")
    before = await kept.load("trip", until_seq=3)
    store.read_seqs.clear()
    await fill(store, "trip", "d")

    log = await kept.load("trip", until_seq=4)

    assert texts(log.events) == ["a", "b", "c", "d"]
    assert store.read_seqs == [3, 4]
    assert all(one is other for one, other in zip(log.events, before.events, strict=False))


@every_store
async def test_later_events_are_not_among_those_asked_for(
    kind: type[PlainStore | BatchedStore],
) -> None:
    store = kind()
    kept = KeptEvents(store)
    await fill(store, "trip", "a", "b", "c")

    assert texts((await kept.load("trip", until_seq=2)).events) == ["a", "b"]
    assert texts((await kept.load("trip", until_seq=3)).events) == ["a", "b", "c"]
    assert texts((await kept.load("trip", until_seq=1)).events) == ["a"]
    assert texts((await kept.load("trip", until_seq=0)).events) == []
    assert texts((await kept.load("trip", until_seq=3)).events) == ["a", "b", "c"]


@every_store
async def test_a_session_begun_again_is_read_anew(kind: type[PlainStore | BatchedStore]) -> None:
    store = kind()
    kept = KeptEvents(store)
    await fill(store, "trip", "a", "b")
    first = await kept.load("trip", until_seq=2)
    await store.delete("trip")
    await fill(store, "trip", "x", "b")

    second = await kept.load("trip", until_seq=2)

    assert texts(second.events) == ["x", "b"]
    assert second.derived is not first.derived


async def test_a_store_restored_from_a_backup_is_read_anew(tmp_path: Path) -> None:
    file, backup = tmp_path / "agent.db", tmp_path / "backup.db"
    async with SqliteStore(file) as store:
        await fill(store, "trip", "a", "b")
    shutil.copy(file, backup)
    store = SqliteStore(file)
    kept = KeptEvents(store)
    await fill(store, "trip", "lost", "as well")
    await kept.load("trip", until_seq=4)
    await store.close()
    shutil.copy(backup, file)
    await fill(store, "trip", "found", "again")

    log = await kept.load("trip", until_seq=4)

    assert texts(log.events) == ["a", "b", "found", "again"]
    await store.close()


async def test_nothing_is_kept_of_a_session_that_does_not_exist() -> None:
    kept = KeptEvents(InMemoryStore())

    with pytest.raises(UnknownSessionError):
        await kept.load("trip", until_seq=3)


async def test_what_was_derived_goes_with_the_events() -> None:
    store = BatchedStore()
    kept = KeptEvents(store)
    await fill(store, "trip", "a")
    first = await kept.load("trip", until_seq=1)
    first.derived["history"] = "worked out"

    assert (await kept.load("trip", until_seq=1)).derived == {"history": "worked out"}
    kept.forget("trip")
    assert (await kept.load("trip", until_seq=1)).derived == {}
    first.derived["history"] = "worked out"
    kept.forget()
    assert (await kept.load("trip", until_seq=1)).derived == {}


async def test_of_two_readers_the_one_that_saw_more_is_kept() -> None:
    store = BatchedStore()
    kept = KeptEvents(store)
    await fill(store, "trip", "a")
    await kept.load("trip", until_seq=1)
    await fill(store, "trip", "b", "c")
    store.meanwhile = partial(kept.load, "trip", until_seq=3)

    slow = await kept.load("trip", until_seq=2)
    store.read_seqs.clear()

    assert texts(slow.events) == ["a", "b"]
    assert texts((await kept.load("trip", until_seq=3)).events) == ["a", "b", "c"]
    assert store.read_seqs == [3]


async def test_the_sessions_read_longest_ago_are_forgotten_first() -> None:
    store = BatchedStore()
    kept = KeptEvents(store, max_bytes=10_000)
    for name in ("one", "two", "three"):
        await fill(store, name, "a")
        await kept.load(name, until_seq=1)
    store.read_seqs.clear()

    first = [await kept.load(name, until_seq=1) for name in ("two", "three")]

    again = [await kept.load(name, until_seq=1) for name in ("two", "three")]
    assert all(one.derived is other.derived for one, other in zip(first, again, strict=True))
    assert (await kept.load("one", until_seq=1)).derived == {}


async def test_a_session_that_is_too_large_pushes_nothing_out() -> None:
    store = BatchedStore()
    kept = KeptEvents(store, max_bytes=10_000)
    await fill(store, "small", "a")
    await fill(store, "large", *("b" for _ in range(50)))
    small = await kept.load("small", until_seq=1)

    large = await kept.load("large", until_seq=50)

    assert len(large.events) == 50
    assert (await kept.load("large", until_seq=50)).derived is not large.derived
    assert (await kept.load("small", until_seq=1)).derived is small.derived


@settings(deadline=None)
@given(
    moves=st.lists(
        st.tuples(st.sampled_from(["one", "two"]), st.integers(0, 3), st.integers(0, 2)),
        max_size=12,
    ),
    max_bytes=st.sampled_from([0, 9_000, 10**9]),
)
async def test_what_is_loaded_is_what_the_store_holds(
    moves: list[tuple[str, int, int]], max_bytes: int
) -> None:
    store = BatchedStore()
    kept = KeptEvents(store, max_bytes=max_bytes)
    for name, new_count, ahead in moves:
        await fill(store, name, *(str(number) for number in range(new_count + 1)))
        until_seq = max(0, (await store.head(name)).last_seq - ahead)

        log = await kept.load(name, until_seq=until_seq)

        stored = [event async for event in store.load(name) if event.seq <= until_seq]
        assert list(log.events) == stored


class Redacting(InMemoryStore):
    """A store that tells its events in other words than those it keeps."""

    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        async for event in super().load(session_id, after_seq=after_seq):
            yield replace(event, is_pinned=True)


async def test_a_store_that_loads_in_its_own_way_is_asked_in_that_way() -> None:
    store = Redacting()
    await store.create(Session(id="s"))
    await store.append("s", [user_event("a"), user_event("b")])

    log = await KeptEvents(store).load("s", until_seq=2)

    assert [event.is_pinned for event in log.events] == [True, True]


@pytest.mark.parametrize("media_chars", [0, 300_000])
async def test_many_live_sessions_stay_below_the_configured_limit(
    tmp_path: Path, media_chars: int
) -> None:
    config = AssemblerConfig(folder=tmp_path, cache={"max_mb": 4})
    picture = Image(source=Base64Source(media_type="image/png", data="A" * media_chars))
    async with ContextAssembler(sessions=f"sqlite:///{tmp_path}/s.db", config=config) as assembler:
        for number in range(60):
            events = [user_event(f"Say {n} for {number}.") for n in range(100)]
            pictures = [user_event(picture)] if media_chars else []
            await assembler.sessions.append(str(number), [*pictures, *events])
        await assembler.assemble("0", model="claude-opus-5-5")

        tracemalloc.start()
        try:
            for number in range(60):
                await assembler.assemble(str(number), model="claude-opus-5-5")
            gc.collect()
            kept_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert 256 * 1024 < kept_bytes < 4 * 1024 * 1024
