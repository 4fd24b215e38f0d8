"""Sources of one's own: one that blocks costs its own time, once, and stops nobody else."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from threading import Event, get_ident
from typing import Any

import pytest

from context_assembler.errors import MemoryUnavailableError
from context_assembler.memory import (
    MemoryAssembler,
    MemoryHit,
    MemoryRecord,
    RecallSettings,
    Vector,
    open_memory,
)

PEAR = MemoryRecord(id="a", text="a pear is sweet")
SETTINGS = RecallSettings(seconds_per_source=1, seconds_in_all=2)
USER: ContextVar[str] = ContextVar("USER", default="nobody")


class Asked:
    """A source that does something before it answers."""

    def __init__(self, act: Callable[[], Awaitable[object]], name: str = "own") -> None:
        self.name, self.act, self.threads = name, act, list[int]()

    async def search(self, query: str, **options: Any) -> Sequence[MemoryHit]:
        _ = query, options
        self.threads.append(get_ident())
        await self.act()
        return [MemoryHit(PEAR, 0, bm25=1.0)]


async def test_a_source_that_blocks_its_thread_costs_its_own_time_once() -> None:
    gate, loop, begun, waits = Event(), asyncio.get_running_loop(), asyncio.Event(), list[float]()

    async def block() -> None:
        loop.call_soon_threadsafe(begun.set)
        gate.wait()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if waits.count(1) > 1 or seconds == 2:  # nobody's time ends but that of the first source
            await asyncio.Event().wait()
        await begun.wait()

    slow = Asked(block, "slow")
    async with open_memory("memory:") as store:
        await store.remember([PEAR])
        memory = MemoryAssembler([slow, store], settings=SETTINGS, sleep=sleep)

        first = await memory.assemble_context("pear")
        again = await memory.assemble_context("pear")
        gate.set()
        last = await memory.assemble_context("pear")
        while set(last.source_status.values()) & {"timed_out"}:
            last = await memory.assemble_context("pear")

    for context in (first, again):
        states = {name.partition("/")[0]: one for name, one in context.source_status.items()}
        assert states["slow"] == "timed_out"
        assert context.source_status["memory/memories"] == "ok"
        assert "a pear is sweet" in context.markdown
    assert "still blocks" in again.source_notes["slow/memories"]
    assert last.source_status["slow/memories"] == "ok"
    assert len(slow.threads) > 1


async def test_an_embedder_that_blocks_stops_nobody() -> None:
    gate, loop, begun = Event(), asyncio.get_running_loop(), asyncio.Event()

    class Slow:
        model, dimension = "slow", None

        async def embed(self, texts: Sequence[str], *, purpose: str = "record") -> list[Vector]:
            _ = texts, purpose
            loop.call_soon_threadsafe(begun.set)
            gate.wait()
            return []

        async def close(self) -> None:
            return None

    async def sleep(seconds: float) -> None:
        await (begun.wait() if seconds == 1 else asyncio.Event().wait())

    async with open_memory("memory:") as store:
        await store.remember([PEAR])
        slow: Any = Slow()
        settings = RecallSettings(seconds_per_source=1, seconds_in_all=2)
        memory = MemoryAssembler(store, settings=settings, sleep=sleep, embed=slow)
        context = await memory.assemble_context("pear")
    gate.set()

    assert "searched by words alone" in context.source_notes["embedding"]


async def test_what_belongs_to_the_callers_loop_or_thread_is_asked_there() -> None:
    lock, rows = asyncio.Lock(), sqlite3.connect(":memory:")

    async def locked() -> None:
        async with lock:
            await asyncio.sleep(0)

    async def hold() -> None:
        async with lock:
            await asyncio.sleep(0)

    async def read() -> None:
        rows.execute("SELECT 1")

    await asyncio.gather(hold(), hold(), hold())  # the lock is this loop's from now on
    future = asyncio.get_running_loop().create_future()
    future.set_result(None)

    async def awaited() -> None:
        waiting = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(waiting.set_result, None)
        await waiting

    for act in (read, locked, awaited):
        source = Asked(act)
        context = await MemoryAssembler(source).assemble_context("pear")
        assert "a pear is sweet" in context.markdown, act
    rows.close()


async def test_a_source_may_wait_for_what_the_callers_loop_sets() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        begun.set()
        await gate.wait()

    async def sleep(_seconds: float) -> None:
        await asyncio.Event().wait()

    memory = MemoryAssembler(Asked(wait), sleep=sleep)
    recalling = asyncio.ensure_future(memory.assemble_context("pear", context_types="memories"))
    await begun.wait()
    gate.set()

    assert "a pear is sweet" in (await recalling).markdown


async def test_a_source_sees_who_asks_and_keeps_its_thread() -> None:
    seen: list[str] = []

    async def look() -> None:
        seen.append(USER.get())

    source = Asked(look)
    memory = MemoryAssembler(source)
    for name in ("ada", "bob"):
        USER.set(name)
        await memory.assemble_context("pear", context_types="memories")

    assert list(dict.fromkeys(seen)) == ["ada", "bob"]
    assert len(set(source.threads)) == 1
    assert get_ident() not in source.threads


async def test_what_a_source_raises_is_told_and_it_is_asked_once() -> None:
    async def fail() -> None:
        raise ConnectionError("no route")

    source = Asked(fail)
    context = await MemoryAssembler(source).assemble_context("pear", context_types="memories")

    assert context.source_notes == {"memories": "ConnectionError: no route"}
    assert len(source.threads) == 1


@pytest.mark.parametrize("url", ["postgresql://user@{}/db?sslmode=disable", "qdrant:http://{}"])
async def test_a_server_that_is_down_is_asked_again_after_a_pause(url: str) -> None:
    pytest.importorskip("psycopg" if url.startswith("p") else "qdrant_client")
    calls, now = list[object](), [1_000.0]

    def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(writer)
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        async with open_memory(url.format(f"{host}:{port}"), clock=lambda: now[0]) as store:
            for act in (store.search("pear"), store.remember([PEAR]), store.stats()):
                with pytest.raises(MemoryUnavailableError, match="tried again after 10 seconds"):
                    await act
            context = await MemoryAssembler(store).assemble_context(
                "pear", context_types="memories"
            )
            once = len(calls)
            now[0] += 11
            with pytest.raises(MemoryUnavailableError):
                await store.search("pear")

    assert context.source_status == {"memories": "failed"}
    assert "tried again after 10 seconds" in context.source_notes["memories"]
    assert len(calls) > once > 0
    assert once <= 2
