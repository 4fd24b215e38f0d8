"""What holds for the SQLite store beyond the contract: processes, crashes, files in bad shape."""

import asyncio
import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_assembler.errors import (
    ConcurrentAppendError,
    EventFormatError,
    InvalidParameterError,
    StoreUnavailableError,
    UnknownSessionError,
)
from context_assembler.sessions import (
    InMemoryCalibrations,
    InMemoryStore,
    SqliteStore,
    calibrations_of,
)
from context_assembler.sessions.sqlite_rows import find_session
from context_assembler.sessions.sqlite_schema import SCHEMA
from context_assembler.sqlite.files import explained_errors
from context_assembler.sqlite.schema import migrate
from context_assembler.values.calibration import UsageObservation
from context_assembler.values.codec import FORMAT_VERSION, dump_event, dump_session
from context_assembler.values.events import Session, SessionEvent, UserBody, user_event
from context_assembler.values.parts import Text
from context_assembler.values.resting_counts import RestingCount

REPOSITORY = Path(__file__).parents[2]


async def load(store: SqliteStore, session_id: str = "trip") -> list[SessionEvent]:
    return [event async for event in store.load(session_id)]


def texts(events: list[SessionEvent]) -> list[str]:
    found: list[str] = []
    for event in events:
        assert isinstance(event.body, UserBody)
        assert isinstance(event.body.parts[0], Text)
        found.append(event.body.parts[0].text)
    return found


async def filled(path: Path, count: int = 3) -> SqliteStore:
    store = SqliteStore(path)
    await store.append("trip", [user_event(str(i)) for i in range(count)])
    return store


def start(module: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.sessions.{module}", *map(str, arguments)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def remove(path: Path) -> None:
    path.unlink()


def make_read_only(folder: Path) -> None:
    (folder / "agent.db").chmod(0o444)
    folder.chmod(0o555)


async def test_sessions_survive_closing_and_opening(tmp_path: Path) -> None:
    first = await filled(tmp_path / "agent.db")
    await first.close()

    async with SqliteStore(tmp_path / "agent.db") as second:
        assert texts(await load(second)) == ["0", "1", "2"]


async def test_two_stores_over_one_file_see_each_other_at_once(tmp_path: Path) -> None:
    one, two = SqliteStore(tmp_path / "agent.db"), SqliteStore(tmp_path / "agent.db")

    with pytest.raises(UnknownSessionError):
        await two.head("trip")
    await one.append("trip", [user_event("a")])
    await two.append("trip", [user_event("b")])
    with pytest.raises(ConcurrentAppendError):
        await one.append("trip", [user_event("c")], expected_seq=1)

    assert texts(await load(one)) == ["a", "b"]
    await one.close()
    await two.close()


async def test_reading_creates_no_file(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "agent.db") as store:
        assert await store.list_sessions() == []
        with pytest.raises(UnknownSessionError, match="The store is empty"):
            await load(store)

    assert names_in(tmp_path) == []


async def test_an_empty_file_is_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "agent.db").touch()

    async with SqliteStore(tmp_path / "agent.db") as store:
        assert await store.list_sessions() == []
        await store.append("trip", [user_event("hi")])
        assert len(await store.list_sessions()) == 1


async def test_rows_tell_what_they_are_without_our_code(tmp_path: Path) -> None:
    store = await filled(tmp_path / "agent.db", 1)
    await store.close()

    with closing(sqlite3.connect(tmp_path / "agent.db")) as connection:
        rows = connection.execute(
            "SELECT session_id, seq, id, type, created_at, format_version FROM events"
        ).fetchall()
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()

    assert rows == [("trip", 1, "evt_1", "user", None, FORMAT_VERSION)]
    assert mode == "wal"


def test_many_processes_append_to_a_new_file_at_once(tmp_path: Path) -> None:
    writers = [start("append_in_process", tmp_path / "agent.db", n, 10, 3) for n in range(4)]
    for writer in writers:
        _, complaint = writer.communicate(timeout=90)
        assert (writer.returncode, complaint) == (0, "")

    async def read() -> list[SessionEvent]:
        async with SqliteStore(tmp_path / "agent.db") as store:
            return await load(store, "shared")

    events = asyncio.run(read())
    said = texts(events)
    assert [event.seq for event in events] == list(range(1, 121))
    assert said[::3] == said[1::3] == said[2::3]
    assert sorted(said[::3]) == sorted(f"{w}:{n}" for w in range(4) for n in range(1, 11))
    for writer_number in range(4):
        own = [int(text.split(":")[1]) for text in said[::3] if text[0] == str(writer_number)]
        assert own == sorted(own)


@pytest.mark.parametrize("acknowledged", [1, 4, 9])
def test_a_killed_process_leaves_all_of_an_append_or_nothing(
    tmp_path: Path, acknowledged: int
) -> None:
    writer = start("append_in_process", tmp_path / "agent.db", "w", 0, 50)
    assert writer.stdout is not None
    for _ in range(acknowledged):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=60)

    async def read() -> list[SessionEvent]:
        async with SqliteStore(tmp_path / "agent.db") as store:
            found = await load(store, "shared")
            await store.append("shared", [user_event("after")], expected_seq=len(found))
            return found

    said = texts(asyncio.run(read()))
    appends = len(said) // 50
    assert len(said) % 50 == 0
    assert appends >= acknowledged
    assert said == [f"w:{n}" for n in range(1, appends + 1) for _ in range(50)]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may look into; pytest's own is closed to them."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


async def test_a_file_without_write_permission_can_still_be_read(open_folder: Path) -> None:
    store = await filled(open_folder / "agent.db")
    await store.close()
    make_read_only(open_folder)

    reader = start("read_without_rights", open_folder / "agent.db")
    shown, complaint = reader.communicate(timeout=60)

    assert complaint == ""
    assert shown.splitlines()[0] == "3"
    assert "cannot be used" in shown
    assert "it is read-only. Make the file and its folder writable" in shown


async def test_a_locked_file_is_waited_for_and_then_refused(tmp_path: Path) -> None:
    await (await filled(tmp_path / "agent.db")).close()
    store = SqliteStore(tmp_path / "agent.db", busy_seconds=0.05)
    with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreUnavailableError, match="another process holds its lock") as caught:
            await store.append("trip", [user_event("no")])
        read_meanwhile = texts(await load(store))
        other.execute("ROLLBACK")

    assert "busy_seconds" in caught.value.remedy
    assert read_meanwhile == ["0", "1", "2"]
    assert (await store.append("trip", [user_event("yes")]))[0].seq == 4
    await store.close()


async def test_a_file_locked_whole_is_refused_for_opening_too(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("INSERT INTO t VALUES (1)")
        store = SqliteStore(tmp_path / "agent.db", busy_seconds=0.05)

        with pytest.raises(StoreUnavailableError, match="another process holds its lock"):
            await store.append("trip", [user_event("no")])
        with pytest.raises(StoreUnavailableError, match="another process holds its lock"):
            await store.list_sessions()
        other.execute("ROLLBACK")

    await store.append("trip", [user_event("yes")])
    await store.close()


async def test_opening_waits_for_a_reader_that_is_in_the_way_of_wal(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN")
        other.execute("SELECT * FROM t").fetchall()
        store = SqliteStore(path, busy_seconds=0.1)

        with pytest.raises(StoreUnavailableError, match="another process holds its lock"):
            await store.append("trip", [user_event("no")])

    await store.append("trip", [user_event("yes")])
    await store.close()


def _not_a_database(path: Path) -> None:
    path.write_bytes(b"this is a letter, no database\n" * 100)


def _folder(path: Path) -> None:
    path.mkdir()


def _versions(path: Path, version: object, *tables: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE schema_version (version)")
        connection.execute("INSERT INTO schema_version VALUES (?)", (version,))
        for table in tables:
            connection.execute(f"CREATE TABLE {table} (id TEXT)")


def _newer_schema(path: Path) -> None:
    _versions(path, 99, "sessions", "events")


def _other_versions(path: Path) -> None:
    _versions(path, "1.4.0", "cars")


def _other_sessions(path: Path) -> None:
    _versions(path, 6, "sessions", "messages")


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE sessions (token TEXT)")


BAD_FILES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "not a database": (_not_a_database, "not a SQLite database", "another file"),
    "a folder": (_folder, "it is a folder", "a file in it"),
    "a newer schema": (_newer_schema, "version 99, this package knows 4", "--upgrade"),
    "another program's database": (_foreign, "another program", "another file"),
    "another program's versions": (_other_versions, "another program", "another file"),
    "another program's sessions": (_other_sessions, "another program", "another file"),
}


@pytest.mark.parametrize(("make", "reason", "remedy"), BAD_FILES.values(), ids=BAD_FILES.keys())
async def test_a_file_in_bad_shape_is_refused_with_a_remedy(
    tmp_path: Path, make: Callable[[Path], None], reason: str, remedy: str
) -> None:
    make(tmp_path / "agent.db")
    async with SqliteStore(tmp_path / "agent.db", busy_seconds=0.05) as store:
        with pytest.raises(StoreUnavailableError, match=reason) as writing:
            await store.append("trip", [user_event("hi")])
        with pytest.raises(StoreUnavailableError, match=reason) as reading:
            await load(store)

    assert remedy in writing.value.remedy
    assert remedy in reading.value.remedy
    assert str(tmp_path) in writing.value.location


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "no" / "agent.db")

    with pytest.raises(StoreUnavailableError, match=r"folder .*no' does not exist"):
        await store.append("trip", [user_event("hi")])
    with pytest.raises(StoreUnavailableError, match="Create the folder first"):
        await store.list_sessions()
    await store.close()


async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    await (await filled(path, 500)).close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)

    async with SqliteStore(path) as store:
        with pytest.raises(StoreUnavailableError, match="damaged"):
            await load(store)


async def test_a_full_disk_is_told_and_leaves_nothing_behind(tmp_path: Path) -> None:
    store = await filled(tmp_path / "agent.db")

    def shrink(connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")

    await store._writer.run(shrink)
    with pytest.raises(StoreUnavailableError, match="the disk is full"):
        await store.append("trip", [user_event("x" * 100_000)])

    assert (await store.head("trip")).last_seq == 3
    await store.close()


async def test_a_file_that_was_deleted_or_replaced_is_noticed(tmp_path: Path) -> None:
    store = await filled(tmp_path / "agent.db")
    assert len(await load(store)) == 3

    remove(tmp_path / "agent.db")
    with pytest.raises(UnknownSessionError):
        await load(store)
    assert (await store.append("trip", [user_event("anew")]))[0].seq == 1

    async with SqliteStore(tmp_path / "agent.db") as other:
        assert texts(await load(other)) == ["anew"]
    await store.close()


async def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    store = await filled(tmp_path / "agent.db")
    await store.close()
    with closing(sqlite3.connect(tmp_path / "agent.db")) as connection, connection:
        connection.execute("UPDATE events SET body = x'7b' WHERE seq = 2")

    with pytest.raises(EventFormatError, match="event 2 of 'trip' cannot be decoded"):
        await load(store)
    await store.close()


async def test_an_error_without_a_code_is_explained_too(tmp_path: Path) -> None:
    store = await filled(tmp_path / "agent.db")

    def close_behind_its_back(connection: sqlite3.Connection) -> None:
        connection.close()

    await store._writer.run(close_behind_its_back)
    with pytest.raises(StoreUnavailableError, match="SQLite says"):
        await store.append("trip", [user_event("hi")])
    await store.close()


async def test_the_loop_goes_on_while_a_writer_waits(tmp_path: Path) -> None:
    await (await filled(tmp_path / "agent.db")).close()
    store = SqliteStore(tmp_path / "agent.db", busy_seconds=30)
    with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(store.append("trip", [user_event("late")]))

        read_meanwhile = texts(await load(store))
        was_waiting = not waiting.done()
        other.execute("ROLLBACK")

    assert read_meanwhile == ["0", "1", "2"]
    assert was_waiting
    assert (await waiting)[0].seq == 4
    await store.close()


def test_one_store_serves_several_loops_after_each_other(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "agent.db")

    for number in range(3):
        kept = asyncio.run(store.append("trip", [user_event("hi")]))
        assert kept[0].seq == number + 1
    asyncio.run(store.close())


async def test_a_store_that_is_forgotten_open_makes_no_noise(tmp_path: Path) -> None:
    store = await filled(tmp_path / "agent.db")

    del store
    gc.collect()

    async with SqliteStore(tmp_path / "agent.db") as other:
        assert len(await load(other)) == 3


def test_closing_what_was_never_opened_is_fine(tmp_path: Path) -> None:
    asyncio.run(SqliteStore(tmp_path / "agent.db").close())

    assert list(tmp_path.iterdir()) == []


def test_a_store_goes_on_in_a_forked_process(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "agent.db")
    asyncio.run(store.append("trip", [user_event("parent")]))

    child = os.fork()
    if child == 0:
        status = 1
        try:
            kept = asyncio.run(store.append("trip", [user_event("child")]))
            status = 0 if kept[0].seq == 2 else 2
        finally:
            os._exit(status)
    _, outcome = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(outcome) == 0
    assert asyncio.run(store.append("trip", [user_event("parent")]))[0].seq == 3
    asyncio.run(store.close())


OLDER_FILES = {
    "version 1: sessions and events": (1, ""),
    "version 2: and calibrations": (
        2,
        """
        CREATE TABLE calibrations (
            provider TEXT NOT NULL, model TEXT NOT NULL, shape TEXT NOT NULL, counter TEXT NOT NULL,
            factor REAL NOT NULL, observations INTEGER NOT NULL, refused INTEGER NOT NULL,
            recent TEXT NOT NULL, PRIMARY KEY (provider, model, shape)
        );
        INSERT INTO schema_version VALUES (2);
        """,
    ),
    "version 3: and counts": (
        3,
        """
        CREATE TABLE calibrations (
            provider TEXT NOT NULL, model TEXT NOT NULL, shape TEXT NOT NULL, counter TEXT NOT NULL,
            factor REAL NOT NULL, observations INTEGER NOT NULL, refused INTEGER NOT NULL,
            recent TEXT NOT NULL, PRIMARY KEY (provider, model, shape)
        );
        CREATE TABLE message_counts (
            session_key INTEGER NOT NULL, counter TEXT NOT NULL, seq INTEGER NOT NULL,
            parts INTEGER NOT NULL, tokens INTEGER NOT NULL,
            PRIMARY KEY (session_key, counter, seq)
        ) WITHOUT ROWID;
        INSERT INTO schema_version VALUES (2);
        INSERT INTO schema_version VALUES (3);
        """,
    ),
}
FIRST_TABLES = """
    CREATE TABLE sessions (
        key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
        incarnation TEXT NOT NULL DEFAULT (lower(hex(randomblob(8)))), last_seq INTEGER NOT NULL,
        record BLOB NOT NULL, created_at TEXT, format_version INTEGER NOT NULL
    );
    CREATE TABLE events (
        session_id TEXT NOT NULL, seq INTEGER NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL,
        body BLOB NOT NULL, created_at TEXT, format_version INTEGER NOT NULL,
        PRIMARY KEY (session_id, seq), UNIQUE (session_id, id)
    );
    CREATE TABLE schema_version (version INTEGER NOT NULL PRIMARY KEY);
    INSERT INTO schema_version VALUES (1);
"""


def write_older(path: Path, more: str) -> None:
    """Write a file as an older version would, with one session in it."""
    record = dump_session(Session(id="trip"))
    body = dump_event(user_event("from before"), where="event 1")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(FIRST_TABLES + more)
        connection.execute(
            "INSERT INTO sessions (id, last_seq, record, format_version) VALUES ('trip', 1, ?, ?)",
            (record, FORMAT_VERSION),
        )
        connection.execute(
            "INSERT INTO events VALUES ('trip', 1, 'evt_1', 'user', ?, NULL, ?)",
            (body, FORMAT_VERSION),
        )


def noted_versions(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        (user_version,) = connection.execute("PRAGMA user_version").fetchone()
        assert user_version == 0  # that number is not ours
        rows = connection.execute("SELECT version FROM schema_version ORDER BY version")
        return [version for (version,) in rows]


@pytest.mark.parametrize(("version", "more"), OLDER_FILES.values(), ids=OLDER_FILES.keys())
async def test_an_older_file_is_read_as_it_lies_and_migrated_by_the_first_write(
    tmp_path: Path, version: int, more: str
) -> None:
    path = tmp_path / "agent.db"
    write_older(path, more)

    async with SqliteStore(path) as store:
        assert texts(await load(store)) == ["from before"]
        assert texts(list((await store.read_batch("trip")).events)) == ["from before"]
        assert [head.last_seq for head in await store.list_sessions()] == [1]
        before = noted_versions(path)
        await store.append("trip", [user_event("now")], expected_seq=1)
        assert texts(await load(store)) == ["from before", "now"]

    assert before == list(range(1, version + 1))
    assert noted_versions(path) == [1, 2, 3, 4]


async def test_a_new_file_notes_every_version(tmp_path: Path) -> None:
    await (await filled(tmp_path / "agent.db")).close()

    assert noted_versions(tmp_path / "agent.db") == [1, 2, 3, 4]


def test_an_older_file_comes_up_to_date_step_by_step() -> None:
    def add_column(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE events ADD COLUMN note TEXT")

    newer = replace(SCHEMA, migrations=(*SCHEMA.migrations, add_column))
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, SCHEMA)
        migrate(connection, newer)
        migrate(connection, newer)

        assert newer.version.read(connection) == 5
        connection.execute("SELECT note FROM events")


def test_a_step_that_fails_leaves_the_file_as_it_was() -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE half (x)")
        connection.execute("SELECT no_such_column FROM half")

    def succeed(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE half (x)")

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, SCHEMA)

        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, replace(SCHEMA, migrations=(*SCHEMA.migrations, fail)))

        assert SCHEMA.version.read(connection) == 4
        migrate(connection, replace(SCHEMA, migrations=(*SCHEMA.migrations, succeed)))


def test_the_last_of_two_processes_to_close_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"

    async def use() -> None:
        store = await filled(path)
        await load(store)
        other = start("append_in_process", path, "w", 3, 5)
        _, errors = await asyncio.to_thread(other.communicate, timeout=60)
        assert errors == ""
        assert len(await load(store, "shared")) == 15
        await store.close()

    asyncio.run(use())

    assert names_in(tmp_path) == ["agent.db"]


async def test_a_slash_too_many_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "no such folder").mkdir()

    with pytest.raises(
        StoreUnavailableError, match="the folder '/no such folder' does not exist"
    ) as caught:
        await SqliteStore("/no such folder/agent.db").append("trip", [user_event("hi")])

    question = "Did you mean 'sqlite:no such folder/agent.db', relative to the current folder?"
    assert caught.value.remedy.endswith(question)


def test_a_file_below_the_root_that_cannot_be_opened_may_be_meant_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with (
        pytest.raises(StoreUnavailableError) as caught,
        explained_errors(Path("/agent.db"), SCHEMA),
    ):
        sqlite3.connect(tmp_path / "none" / "agent.db")

    assert "Did you mean 'sqlite:agent.db'" in caught.value.remedy


def seen() -> UsageObservation:
    return UsageObservation(
        provider="p", model="m", shape="tools", counter="c", counted_tokens=900, reported_tokens=990
    )


async def test_what_usage_taught_outlives_the_process(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "agent.db") as store:
        learned = await store.observe_usage(seen())

    async with SqliteStore(tmp_path / "agent.db") as again:
        assert await again.calibrations() == [learned]


async def test_a_file_from_before_calibrations_is_read_as_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, replace(SCHEMA, migrations=SCHEMA.migrations[:1]))

    async with SqliteStore(path) as store:
        assert await store.calibrations() == []
        await store.observe_usage(seen())
        assert len(await store.calibrations()) == 1


def test_a_store_without_calibrations_has_them_kept_in_the_process() -> None:
    class Bare:
        """Has none of a store's methods, and none for calibrations."""

    bare: Any = Bare()
    own = InMemoryStore()

    assert isinstance(calibrations_of(bare), InMemoryCalibrations)
    assert calibrations_of(own) is own


async def test_damaged_ratios_are_none(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with SqliteStore(path) as store:
        await store.observe_usage(seen())
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE calibrations SET recent = '7'")

    async with SqliteStore(path) as store:
        [known] = await store.calibrations()

    assert known.recent == ()


# ---- counts at rest ----


@pytest.mark.parametrize(("version", "more"), OLDER_FILES.values(), ids=OLDER_FILES.keys())
async def test_counts_do_not_bring_an_older_file_up_to_date(
    tmp_path: Path, version: int, more: str
) -> None:
    path = tmp_path / "agent.db"
    write_older(path, more)

    async with SqliteStore(path) as store:
        incarnation = (await store.head("trip")).incarnation
        counts = {1: RestingCount(1, 7)}
        await store.keep_counts("trip", counts, counter="c", incarnation=incarnation)
        assert await store.find_counts("trip", counter="c") == {}
        assert noted_versions(path) == list(range(1, version + 1))

        await store.append("trip", [user_event("now")])
        await store.keep_counts("trip", counts, counter="c", incarnation=incarnation)
        assert await store.find_counts("trip", counter="c") == counts


async def test_counts_wait_for_nobody(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with await filled(path) as store:
        head = (await store.list_sessions())[0]
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailableError):
                await store.keep_counts(
                    head.session.id,
                    {1: RestingCount(1, 7)},
                    counter="c",
                    incarnation=head.incarnation,
                )
            other.execute("ROLLBACK")

        await store.append(head.session.id, [user_event("goes on")])


async def test_counts_go_with_their_session(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with await filled(path) as store:
        head = (await store.list_sessions())[0]
        await store.keep_counts(
            head.session.id, {1: RestingCount(1, 7)}, counter="c", incarnation=head.incarnation
        )
        await store.delete(head.session.id)

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM message_counts").fetchall() == []


def test_a_path_that_no_file_can_have_is_refused_at_once() -> None:
    with pytest.raises(InvalidParameterError, match="holds a NUL"):
        SqliteStore("agent\0.db")


@pytest.mark.parametrize(
    "sizes",
    [[1] * 3, [1] * 100, [1, 20_000, 1], [20_000] * 70, [16_000] * 64],
    ids=["few", "many", "a long one", "many long ones", "as much as is read at once"],
)
async def test_what_is_read_at_a_glance_is_what_a_thread_reads(
    tmp_path: Path, sizes: list[int]
) -> None:
    async with SqliteStore(tmp_path / "s.db") as store, SqliteStore(tmp_path / "s.db") as other:
        await store.append("trip", [user_event("x" * size) for size in sizes])
        waiting = await other.read_batch("trip")  # nothing was looked at yet
        await store.head("trip")

        for after_seq in (0, 1, len(sizes) - 1):
            found = await store.read_batch("trip", after_seq=after_seq, until_seq=len(sizes))
            assert found.events == waiting.events[after_seq:]
            assert found.incarnation == waiting.incarnation
            assert {found.first_mark, found.last_mark} == {waiting.last_mark}


@pytest.mark.parametrize("number", [0, 1, 200, 201, 1_000])
async def test_counts_are_found_whole_however_many_there_are(tmp_path: Path, number: int) -> None:
    counts = {seq: RestingCount(1, seq * 7) for seq in range(1, number + 1)}
    async with SqliteStore(tmp_path / "s.db") as store:
        await store.append("trip", [user_event("Hello")])
        incarnation = (await store.head("trip")).incarnation
        await store.keep_counts("trip", counts, counter="c", incarnation=incarnation)

        assert await store.find_counts("trip", counter="c") == counts


def test_a_busy_file_is_not_taken_for_one_without_marks(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as owner,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other,
    ):
        migrate(owner, SCHEMA)
        other.execute("SELECT * FROM sessions").fetchall()
        owner.execute("BEGIN EXCLUSIVE")

        with pytest.raises(sqlite3.OperationalError, match="locked"):
            find_session(other, "trip")


@pytest.mark.parametrize("version", range(1, len(SCHEMA.migrations)))
async def test_older_tables_that_a_backup_brings_back_are_brought_up_to_date(
    tmp_path: Path, version: int
) -> None:
    older = replace(SCHEMA, migrations=SCHEMA.migrations[:version])
    with closing(sqlite3.connect(tmp_path / "backup.db", isolation_level=None)) as backup:
        migrate(backup, older)
        async with SqliteStore(tmp_path / "s.db") as store:
            await store.append("trip", [user_event("hello")])
            assert (await store.head("trip")).last_seq == 1
            with closing(sqlite3.connect(tmp_path / "s.db")) as live:
                backup.backup(live)

            await store.append("trip", [user_event("from anew")])

            assert texts(await load(store)) == ["from anew"]
            assert (await store.head("trip")).last_mark
