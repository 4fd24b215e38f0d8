"""What holds for SQLite files: processes, crashes, threads, forks, files in bad shape."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from context_assembler import (
    ContextAssembler,
    UnknownSessionError,
    user_event,
)
from context_assembler.errors import EventFormatError, StoreUnavailableError
from context_assembler.sessions import SqliteStore


async def said(store: SqliteStore, session_id: str = "trip") -> list[str]:
    return [event.text async for event in store.load(session_id)]


async def filled(path: Path, count: int = 3) -> SqliteStore:
    store = SqliteStore(path)
    await store.append("trip", [user_event(str(i)) for i in range(count)])
    return store


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ---- processes ----


async def test_the_loop_goes_on_while_a_writer_waits(tmp_path: Path) -> None:
    await (await filled(tmp_path / "agent.db")).close()
    store = SqliteStore(tmp_path / "agent.db", busy_seconds=30)
    with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(store.append("trip", [user_event("late")]))

        head = await store.head("trip")
        was_waiting = not waiting.done()
        other.execute("ROLLBACK")

    assert head.last_seq == 3
    assert was_waiting
    assert (await waiting)[0].seq == 4
    await store.close()


# ---- files ----


async def test_reading_creates_no_file(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "agent.db") as store:
        assert await store.list_sessions() == []
        with pytest.raises(UnknownSessionError, match="The store is empty"):
            await said(store)

    assert names_in(tmp_path) == []


async def test_reading_leaves_nothing_next_to_the_file(tmp_path: Path) -> None:
    await (await filled(tmp_path / "agent.db")).close()
    before = (tmp_path / "agent.db").read_bytes()

    async with SqliteStore(tmp_path / "agent.db") as store:
        assert len(await said(store)) == 3

    assert names_in(tmp_path) == ["agent.db"]
    assert (tmp_path / "agent.db").read_bytes() == before


async def test_an_empty_file_is_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "agent.db").touch()

    async with SqliteStore(tmp_path / "agent.db") as store:
        assert await store.list_sessions() == []
        await store.append("trip", [user_event("hi")])
        assert len(await store.list_sessions()) == 1


async def test_a_file_keeps_its_log_next_to_it_and_the_tables_of_others(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "agent.db")) as connection, connection:
        connection.execute("CREATE TABLE cars (name)")
    store = await filled(tmp_path / "agent.db")

    with closing(sqlite3.connect(tmp_path / "agent.db")) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}

    assert mode == "wal"
    assert {"cars", "sessions", "events", "blocks", "derived", "calls", "texts"} <= tables
    await store.close()


async def test_a_locked_file_is_waited_for_and_then_refused(tmp_path: Path) -> None:
    await (await filled(tmp_path / "agent.db")).close()
    store = SqliteStore(tmp_path / "agent.db", busy_seconds=0.05)
    with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreUnavailableError, match="another process holds its lock") as caught:
            await store.append("trip", [user_event("no")])
        read_meanwhile = await said(store)
        store.keep_derived("trip", "short", {1: "is not kept, and nobody waits for it"})
        other.execute("ROLLBACK")

    assert "busy_seconds" in caught.value.remedy
    assert read_meanwhile == ["0", "1", "2"]
    assert store.derived("trip", "short") == {}
    assert (await store.append("trip", [user_event("yes")]))[0].seq == 4
    await store.close()


async def test_a_file_locked_whole_is_refused_for_reading_too(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")
        store = SqliteStore(tmp_path / "agent.db", busy_seconds=0.05)

        with pytest.raises(StoreUnavailableError, match="another process holds its lock"):
            await store.append("trip", [user_event("no")])
        with pytest.raises(StoreUnavailableError, match="another process holds its lock"):
            await store.list_sessions()
        other.execute("ROLLBACK")

    await store.append("trip", [user_event("yes")])
    await store.close()


def _not_a_database(path: Path) -> None:
    path.write_bytes(b"this is a letter, no database\n" * 100)


def _newer(path: Path) -> None:
    asyncio.run(asyncio.run(filled(path)).close())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE context_assembler_versions SET version = 99")


def _of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE sessions (token TEXT)")


def _damaged(path: Path) -> None:
    asyncio.run(asyncio.run(filled(path, 500)).close())
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)


BAD_FILES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "not a database": (_not_a_database, "not a SQLite database", "another file"),
    "a folder": (Path.mkdir, "cannot be opened", "that it is a file"),
    "a newer version": (_newer, "version 99, this package knows 1", "--upgrade"),
    "another program's database": (
        _of_another_program,
        "another program",
        "another file or database",
    ),
    "damaged pages": (_damaged, "damaged", "recover"),
}


@pytest.mark.parametrize(("make", "reason", "remedy"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_file_in_bad_shape_is_refused_with_a_remedy(
    tmp_path: Path, make: Callable[[Path], None], reason: str, remedy: str
) -> None:
    make(tmp_path / "agent.db")
    store = SqliteStore(tmp_path / "agent.db", busy_seconds=0.05)

    for use in (store.append("trip", [user_event("hi")]), said(store)):
        with pytest.raises(StoreUnavailableError, match=reason) as caught:
            asyncio.run(use)
        assert remedy in caught.value.remedy
        assert str(tmp_path) in caught.value.location
    asyncio.run(store.close())


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "no" / "agent.db")

    with pytest.raises(StoreUnavailableError, match=r"folder .*no' does not exist"):
        await store.append("trip", [user_event("hi")])
    with pytest.raises(StoreUnavailableError, match="Create the folder first"):
        await store.list_sessions()
    await store.close()


def body(text: str) -> str:
    return f"UPDATE events SET body = CAST('{text}' AS BLOB)"


DAMAGE = {
    "a body that is no object": "UPDATE events SET body = x'5b5d' WHERE id = 'evt_2'",
    "a body that is text": "UPDATE events SET body = 'null' WHERE id = 'evt_2'",
    "a body that is a number": "UPDATE events SET body = 5 WHERE id = 'evt_2'",
    "a body without parts": "UPDATE events SET body = CAST('{}' AS BLOB) WHERE id = 'evt_2'",
    "parts that are text": body('{"parts":"x"}'),
    "a part that is a number": body('{"parts":[1]}'),
    "a part of no type": body('{"parts":[{}]}'),
    "a part of a new type": body('{"parts":[{"type":"z"}]}'),
    "a text without text": body('{"parts":[{"type":"text","text":5}]}'),
    "a result of no call": body('{"parts":[{"type":"tool_result"}]}'),
    "a maker that is text": body('{"parts":[],"made_by":"x"}'),
    "an event that is gone": "DELETE FROM events WHERE id = 'evt_2'",
    "the last event that is gone": "DELETE FROM events WHERE id = 'evt_3'",
    "a count that is too large": "UPDATE sessions SET last_seq = 99",
    "a count that is text": "UPDATE sessions SET last_seq = 'x'",
    "a kind that is text": "UPDATE events SET kind = 'x'",
    "a kind of no event": "UPDATE events SET kind = 300",
    "columns that are cut off": "UPDATE events SET columns = x'00'",
    "a time that is text": "UPDATE events SET created_at = 'yesterday'",
    "a time far away": "UPDATE events SET created_at = 1e300",
    "a record that is cut off": "UPDATE sessions SET record = x'7b'",
    "a record that is a list": "UPDATE sessions SET record = CAST('[]' AS BLOB)",
    "a record of a newer version": """UPDATE sessions SET record = CAST('{"z":1}' AS BLOB)""",
    "a session's time far away": "UPDATE sessions SET created_at = 1e300",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
async def test_damage_is_told_with_session_place_and_remedy(tmp_path: Path, damage: str) -> None:
    await (await filled(tmp_path / "agent.db")).close()
    with closing(sqlite3.connect(tmp_path / "agent.db")) as connection, connection:
        connection.execute(damage)
    assembler = ContextAssembler(f"sqlite:{tmp_path / 'agent.db'}")
    told = list[EventFormatError]()

    async def assemble() -> None:
        context = await assembler.assemble("trip", model="claude-haiku-4-5")
        context.to_anthropic()

    for act in (said(assembler.sessions), assembler.sessions.list_sessions(), assemble()):
        try:
            await act
        except EventFormatError as error:
            told.append(error)
    await assembler.close()

    assert told
    for one in told:
        assert "'trip'" in one.problem
        assert "restore a backup" in one.remedy


async def test_a_damaged_call_is_told(tmp_path: Path) -> None:
    store = await filled(tmp_path / "agent.db")
    for body in ("{", "[]", "{}", '{"z": 1}', "null", 5):
        with closing(sqlite3.connect(tmp_path / "agent.db")) as connection, connection:
            connection.execute("DELETE FROM calls")
            row = "INSERT INTO calls VALUES (1, 1, 2, 1, 'm', 1.0, NULL, ?)"
            connection.execute(row, (body.encode() if isinstance(body, str) else body,))

        with pytest.raises(EventFormatError, match="A call of session 'trip' cannot be decoded"):
            store.last_call("trip")
    await store.close()


async def test_tables_without_a_column_are_told(tmp_path: Path) -> None:
    await (await filled(tmp_path / "agent.db")).close()
    with closing(sqlite3.connect(tmp_path / "agent.db")) as connection, connection:
        connection.execute("ALTER TABLE events DROP COLUMN created_at")

    with pytest.raises(StoreUnavailableError, match=r"no such column.*Restore a backup"):
        await said(SqliteStore(tmp_path / "agent.db"))


def _delete(path: Path) -> None:
    path.unlink()


def _move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def _replace(path: Path) -> None:
    with closing(sqlite3.connect(path)) as one, closing(sqlite3.connect(f"{path}-other")) as other:
        one.execute("PRAGMA wal_checkpoint")
        one.backup(other)
        with other:
            other.execute("DELETE FROM events WHERE id > 'evt_1'")
            other.execute("UPDATE sessions SET last_seq = 1")
            other.execute("DELETE FROM blocks")
    for left in ("-wal", "-shm"):
        Path(f"{path}{left}").unlink()
    path.with_name("agent.db-other").replace(path)


@pytest.mark.parametrize("change", [_delete, _move, _replace])
async def test_a_file_that_goes_while_it_is_open_is_told(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "agent.db"
    store = await filled(path)
    await said(store)

    change(path)

    for use in (said(store), store.append("trip", [user_event("lost")]), store.head("trip")):
        with pytest.raises(StoreUnavailableError, match="deleted, moved or replaced") as caught:
            await use
        assert "close()" in caught.value.remedy
    await store.close()
    texts = await said(store) if path.exists() else []
    assert texts == (["0"] if change is _replace else [])
    await store.close()


async def test_a_file_that_comes_back_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    store = await filled(path)
    _move(path)
    with pytest.raises(StoreUnavailableError):
        await said(store)

    path.with_name("moved.db").rename(path)

    assert await said(store) == ["0", "1", "2"]
    await store.close()


DYING = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN IMMEDIATE")
db.execute("UPDATE events SET body = zeroblob(3000)")
db.execute("UPDATE sessions SET last_seq = 999")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("journal", ["DELETE", "PERSIST", "TRUNCATE", "WAL", "WAL without -shm"])
def test_what_a_killed_process_left_is_taken_back_by_the_next_reader(
    tmp_path: Path, journal: str
) -> None:
    path = tmp_path / "agent.db"
    asyncio.run(asyncio.run(filled(path, 400)).close())
    mode, _, without = journal.partition(" without ")
    subprocess.run([sys.executable, "-c", DYING, str(path), mode], check=False)
    if without:
        Path(f"{path}{without}").unlink()

    store = SqliteStore(path)
    assert asyncio.run(said(store)) == [str(number) for number in range(400)]
    assert asyncio.run(store.head("trip")).last_seq == 400
    asyncio.run(store.close())


def test_closing_what_was_never_opened_is_fine(tmp_path: Path) -> None:
    asyncio.run(SqliteStore(tmp_path / "agent.db").close())

    assert names_in(tmp_path) == []
