"""Memory files of an earlier version: read as they are, and brought up to date by writing."""

import sqlite3
from contextlib import closing
from pathlib import Path

from context_assembler.memory import SqliteMemoryStore
from context_assembler.memory.sqlite_schema import SCHEMA
from context_assembler.sqlite.schema import migrate, transaction
from context_assembler.values.memories.records import MemoryRecord


def make_old(path: Path) -> None:
    """Make a file as version 1 did: its index merges pieces whenever it likes."""
    with closing(sqlite3.connect(path, isolation_level=None)) as old, transaction(old):
        SCHEMA.migrations[0](old)
        SCHEMA.version.note(old, 1)


def merging_of(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT v FROM memory_words_config WHERE k = 'automerge'"
        ).fetchall()


async def test_an_older_file_merges_its_index_as_a_new_one_does(tmp_path: Path) -> None:
    make_old(tmp_path / "old.db")

    for name in ("old.db", "new.db"):
        async with SqliteMemoryStore(tmp_path / name) as store:
            await store.remember([MemoryRecord(text="the pear")])
            assert [hit.record.text for hit in await store.search("pear")] == ["the pear"]

    assert merging_of(tmp_path / "old.db") == merging_of(tmp_path / "new.db") == [(0,)]


async def test_reading_an_older_file_leaves_it_as_it_is(tmp_path: Path) -> None:
    make_old(tmp_path / "old.db")

    async with SqliteMemoryStore(tmp_path / "old.db") as store:
        assert await store.search("pear") == []

    assert merging_of(tmp_path / "old.db") == []


def test_what_an_older_file_holds_stays(tmp_path: Path) -> None:
    make_old(tmp_path / "old.db")
    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as connection:
        connection.execute("INSERT INTO memory_state VALUES ('vector_epoch', 7)")

        migrate(connection, SCHEMA)

        assert connection.execute("SELECT * FROM memory_state").fetchall() == [("vector_epoch", 7)]
        assert SCHEMA.version.read(connection) == len(SCHEMA.migrations)
