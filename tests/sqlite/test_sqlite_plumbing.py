"""Opening shared SQLite files: waiting, migrating, read-only places, forks."""

import asyncio
import gc
import multiprocessing
import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from context_assembler.errors import MemoryUnavailableError, StoreError
from context_assembler.memory import SqliteMemoryStore
from context_assembler.memory.sqlite_schema import SCHEMA
from context_assembler.sessions import SqliteStore
from context_assembler.sessions.sqlite_schema import SCHEMA as SESSION_SCHEMA
from context_assembler.sqlite.files import (
    ConnectionAsItLies,
    explained_errors,
    open_for_reading,
    open_for_writing,
    open_in_memory,
    retry_while_busy,
)
from context_assembler.sqlite.schema import USER_VERSION, Schema, migrate, transaction
from context_assembler.sqlite.worker import SqliteWorker, make_workers
from context_assembler.values.events import user_event
from context_assembler.values.memories.records import MemoryRecord

SCHEMAS = {"memories": SCHEMA, "sessions": SESSION_SCHEMA}
NEWEST = len(SCHEMA.migrations)


def _add_column(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE memory_records ADD COLUMN extra TEXT")


def _fail(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE half_way (x)")
    raise RuntimeError("no")


def following(*steps: Callable[[sqlite3.Connection], object]) -> Schema:
    return replace(SCHEMA, migrations=(*SCHEMA.migrations, *steps))


def test_an_older_file_comes_up_to_date_and_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    asyncio.run(_remember(path, "a zebra"))
    newer = following(_add_column)

    with closing(open_for_reading(path, newer, busy_seconds=1) or open_in_memory(SCHEMA)) as old:
        assert USER_VERSION.read(old) == NEWEST
    with closing(open_for_writing(path, newer, busy_seconds=1)) as connection:
        rows = connection.execute("SELECT text, extra FROM memory_records").fetchall()

    assert rows == [("a zebra", None)]
    with pytest.raises(StoreError, match=f"version {NEWEST + 1}, this package knows {NEWEST}"):
        open_for_writing(path, SCHEMA, busy_seconds=1)


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    open_for_writing(path, SCHEMA, busy_seconds=1).close()

    with pytest.raises(RuntimeError):
        open_for_writing(path, following(_add_column, _fail), busy_seconds=1)

    with closing(open_for_writing(path, SCHEMA, busy_seconds=1)) as connection:
        assert USER_VERSION.read(connection) == NEWEST
        migrate(connection, SCHEMA)


def test_a_transaction_that_sqlite_ended_by_itself_is_not_ended_again() -> None:
    def end_and_fail(connection: sqlite3.Connection) -> None:
        with transaction(connection):
            connection.execute("ROLLBACK")
            raise RuntimeError("full")

    with closing(open_in_memory(SCHEMA)) as connection:
        with pytest.raises(RuntimeError, match="full"):
            end_and_fail(connection)

        assert not connection.in_transaction


async def _remember(path: Path, text: str) -> None:
    async with SqliteMemoryStore(path) as store:
        await store.remember([MemoryRecord(text=text)])


def test_busy_files_are_tried_again_until_time_is_up() -> None:
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    answers: list[Exception | None] = [busy, busy, None]
    pauses: list[float] = []

    def act() -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    retry_while_busy(act, seconds=60, pause=pauses.append)
    answers.append(busy)
    with pytest.raises(sqlite3.OperationalError):
        retry_while_busy(act, seconds=0)

    assert len(pauses) == 2


async def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    async with SqliteMemoryStore(tmp_path / "no" / "memory.db") as store:
        with pytest.raises(MemoryUnavailableError, match=r"no' does not exist") as caught:
            await store.remember([MemoryRecord(text="a")])

    assert "Create the folder" in caught.value.remedy


async def test_an_empty_file_is_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "memory.db").touch()

    async with SqliteMemoryStore(tmp_path / "memory.db") as store:
        assert await store.search("a") == []


async def test_a_file_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with SqliteMemoryStore(path) as store:
        await store.remember([MemoryRecord(text="a zebra")])
        assert len(await store.search("zebra")) == 1
        path.unlink()

        assert await store.search("zebra") == []
        await store.remember([MemoryRecord(text="an okapi")])
        assert len(await store.search("okapi")) == 1


def test_a_file_on_a_medium_without_room_for_companions_is_read_as_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.db"
    asyncio.run(_remember(path, "a zebra"))
    real_connect = sqlite3.connect
    refusal = sqlite3.OperationalError("unable to open database file")
    refusal.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN

    def connect(database: str, **settings: object) -> sqlite3.Connection:
        if "immutable" not in database:
            raise refusal
        return real_connect(database, **settings)  # type: ignore[arg-type, call-overload, no-any-return, unused-ignore]  # passed through

    monkeypatch.setattr(sqlite3, "connect", connect)
    opened = open_for_reading(path, SCHEMA, busy_seconds=1)
    assert opened is not None
    with closing(opened) as connection:
        assert USER_VERSION.read(connection) == NEWEST
    (tmp_path / "memory.db-journal").touch()
    with pytest.raises(sqlite3.OperationalError):
        open_for_reading(path, SCHEMA, busy_seconds=1)


async def test_a_file_that_is_read_as_it_lies_is_looked_at_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"

    async def write(text: str) -> None:
        async with SqliteStore(path) as store:  # closed: everything is in the file itself
            await store.append("trip", [user_event(text)])

    def open_as_it_lies() -> sqlite3.Connection:
        uri = f"{path.as_uri()}?mode=ro&immutable=1"
        return sqlite3.connect(uri, uri=True, factory=ConnectionAsItLies, check_same_thread=False)

    def count(connection: sqlite3.Connection) -> int:
        found: int = connection.execute("SELECT count(*) FROM events").fetchone()[0]
        return found

    reader = SqliteWorker(path, SESSION_SCHEMA, open_as_it_lies)
    counts: list[int] = []
    for text in ("hello", "and", "so on"):
        await write(text)
        counts.append(await reader.run(count))
    await reader.close()

    assert counts == [1, 2, 3]


def test_an_error_without_a_code_is_explained_in_memory_too() -> None:
    said = "':memory:' cannot be used: SQLite says"
    with pytest.raises(MemoryUnavailableError, match=said), explained_errors(None, SCHEMA):
        raise sqlite3.ProgrammingError("closed")


async def test_another_process_number_means_another_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteMemoryStore(tmp_path / "memory.db")
    await store.remember([MemoryRecord(text="a zebra")])
    own = os.getpid()

    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    await store.remember([MemoryRecord(text="another zebra")])

    assert len(await store.search("zebra")) == 2
    await store.close()


def test_a_store_goes_on_in_a_forked_process(tmp_path: Path) -> None:
    store = SqliteMemoryStore(tmp_path / "memory.db")
    asyncio.run(store.remember([MemoryRecord(text="a zebra")]))
    context = multiprocessing.get_context("fork")

    async def go_on() -> None:
        await store.remember([MemoryRecord(text="a zebra from the child")])
        assert len(await store.search("zebra")) == 2
        await store.close()

    child = context.Process(target=lambda: asyncio.run(go_on()))
    child.start()
    child.join(60)

    assert child.exitcode == 0
    assert len(asyncio.run(store.search("child"))) == 1
    asyncio.run(store.close())


async def test_a_worker_that_is_forgotten_open_closes_its_file(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    opened: list[sqlite3.Connection] = []

    def open_it() -> sqlite3.Connection:
        opened.append(open_for_writing(path, SCHEMA, busy_seconds=1))
        return opened[-1]

    worker = SqliteWorker(path, SCHEMA, open_it)
    assert await worker.run(USER_VERSION.read) == NEWEST
    del worker
    gc.collect()

    with pytest.raises(sqlite3.ProgrammingError):
        opened[0].execute("SELECT 1")


async def test_whoever_stops_waiting_stops_nothing_that_has_begun() -> None:
    _, worker = make_workers(None, SCHEMA, busy_seconds=1)
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def act(_: sqlite3.Connection, *, name: str) -> None:
        begun.set()
        may_end.wait()
        done.append(name)

    first, second = (
        asyncio.ensure_future(worker.run(partial(act, name=name))) for name in ("first", "second")
    )
    await asyncio.to_thread(begun.wait)
    first.cancel()
    second.cancel()
    stopped = await asyncio.gather(first, second, return_exceptions=True)
    may_end.set()
    await worker.close()

    assert [type(outcome) for outcome in stopped] == [asyncio.CancelledError] * 2
    assert done == ["first"]


def test_an_answer_for_which_no_loop_is_left_is_let_go(tmp_path: Path) -> None:
    _, worker = make_workers(None, SCHEMA, busy_seconds=1)
    begun, may_end = threading.Event(), threading.Event()
    failures: list[object] = []

    def act(_: sqlite3.Connection) -> None:
        begun.set()
        may_end.wait()

    async def leave() -> None:
        left_alone = asyncio.ensure_future(worker.run(act))
        await asyncio.to_thread(begun.wait)
        assert not left_alone.done()

    async def come_back() -> str:
        return await worker.run(lambda _: "here")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading, "excepthook", failures.append)
        asyncio.run(leave())
        may_end.set()
        assert asyncio.run(come_back()) == "here"
    asyncio.run(worker.close())

    assert not failures


async def test_sessions_and_memories_may_begin_one_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with SqliteMemoryStore(path) as memories, SqliteStore(path) as sessions:
        await asyncio.gather(
            memories.remember([MemoryRecord(text="a zebra")]),
            sessions.append("trip", [user_event("hi")]),
        )

        assert len(await memories.search("zebra")) == 1
        assert (await sessions.head("trip")).last_seq == 1


async def test_sessions_come_to_a_file_of_memories(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    await _remember(path, "a zebra")

    async with SqliteStore(path) as sessions:
        assert await sessions.list_sessions() == []
        await sessions.append("trip", [user_event("hi")])

    async with SqliteMemoryStore(path) as memories, SqliteStore(path) as sessions:
        assert len(await memories.search("zebra")) == 1
        assert (await sessions.head("trip")).last_seq == 1


def _all_of(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_the_file_of_another_program_is_left_as_it_was(tmp_path: Path, schema: Schema) -> None:
    path = tmp_path / "cars.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE schema_version (version INTEGER)")
        connection.execute("INSERT INTO schema_version VALUES (1)")
        connection.execute("PRAGMA user_version = 1")
    before = _all_of(path)

    with pytest.raises(StoreError, match="another program"):
        open_for_writing(path, schema, busy_seconds=1)

    assert _all_of(path) == before


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_slash_too_many_is_asked_about_in_both_families(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: Schema
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "no such folder").mkdir()

    with pytest.raises(StoreError) as caught:
        open_for_writing(Path("/no such folder/a.db"), schema, busy_seconds=1)

    question = "Did you mean 'sqlite:no such folder/a.db', relative to the current folder?"
    assert caught.value.remedy.endswith(question)


@pytest.mark.parametrize("place", ["file", "memory"])
async def test_what_comes_while_it_closes_has_a_connection_of_its_own(
    tmp_path: Path, place: str
) -> None:
    path = tmp_path / "agent.db" if place == "file" else None
    _, worker = make_workers(path, SESSION_SCHEMA, busy_seconds=1)
    seen: list[tuple[sqlite3.Connection, int]] = []
    is_acting, may_end = threading.Event(), threading.Event()

    def act(connection: sqlite3.Connection, *, waits: bool) -> None:
        seen.append((connection, threading.get_ident()))
        is_acting.set()
        if waits:
            may_end.wait()
        connection.execute("SELECT * FROM sessions").fetchall()

    if path is not None:
        open_for_writing(path, SESSION_SCHEMA, busy_seconds=1).close()
    first = asyncio.create_task(worker.run(partial(act, waits=True)))
    await asyncio.to_thread(is_acting.wait)
    closing = asyncio.create_task(worker.close())
    await asyncio.sleep(0)
    await worker.run(partial(act, waits=False))
    may_end.set()
    await asyncio.gather(first, closing)
    await worker.run(partial(act, waits=False))
    await worker.close()

    (one, its_thread), (other, other_thread), (still, _) = seen
    assert one is not other
    assert its_thread != other_thread
    assert still is other


def test_threads_that_use_and_close_a_store_at_once_all_get_answers(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "agent.db")

    async def say_and_close(number: int) -> int:
        await store.append("trip", [user_event(f"{number}")])
        closing = asyncio.create_task(store.close())
        head = await store.head("trip")
        await closing
        return head.last_seq

    with ThreadPoolExecutor(max_workers=4) as pool:
        steps = [pool.submit(asyncio.run, say_and_close(number)) for number in range(40)]
        seen: list[int] = [step.result() for step in steps]

    assert len(seen) == 40
    assert max(seen) == 40
    asyncio.run(store.close())


def _times_of(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


async def read_everything(folder: Path) -> None:
    async with (
        SqliteStore(folder / "agent.db") as sessions,
        SqliteMemoryStore(folder / "memory.db") as memories,
    ):
        assert await sessions.list_sessions()
        assert (await memories.stats()).records == 1


async def test_reading_leaves_a_folder_as_it_was(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "agent.db") as sessions:
        await sessions.append("s", [user_event("hello")])
    async with SqliteMemoryStore(tmp_path / "memory.db") as memories:
        await memories.remember([MemoryRecord(text="tea")])
    before = _times_of(tmp_path)

    await read_everything(tmp_path)

    assert _times_of(tmp_path) == before


async def test_who_still_has_the_file_open_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with SqliteMemoryStore(path) as writer, SqliteMemoryStore(path) as other:
        await writer.remember([MemoryRecord(text="tea")])
        async with SqliteMemoryStore(path) as reader:
            await reader.stats()
        await writer.remember([MemoryRecord(text="coffee")])

        assert (await other.stats()).records == 2
