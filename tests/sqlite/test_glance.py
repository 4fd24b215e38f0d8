"""Glances: whether a SQLite file was written to, never wrong and never waiting."""

import multiprocessing
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest

from context_assembler.sqlite.glance import Glance


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE said (text)")
    return path


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("SELECT * FROM said").fetchall()
        yield connection


@pytest.fixture
def glance(path: Path, writer: sqlite3.Connection) -> Iterator[Glance]:
    glance = Glance(path)
    glance.open()
    yield glance
    glance.close()


def _write_from_elsewhere(path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO said VALUES ('elsewhere')")


def test_a_mark_stays_while_others_read_and_moves_when_they_write(
    glance: Glance, writer: sqlite3.Connection
) -> None:
    before = glance.mark()
    writer.execute("SELECT * FROM said").fetchall()
    unwritten = glance.mark()
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO said VALUES ('here')")
    uncommitted = glance.mark()
    writer.execute("COMMIT")

    assert before is not None
    assert before == unwritten == uncommitted != glance.mark()


def test_writing_in_another_process_moves_the_mark(path: Path, glance: Glance) -> None:
    before = glance.mark()
    other = multiprocessing.get_context("spawn").Process(
        target=_write_from_elsewhere, args=(str(path),)
    )
    other.start()
    other.join()

    assert other.exitcode == 0
    assert None not in {before, glance.mark()}
    assert before != glance.mark()


def test_nothing_is_known_before_it_is_opened_or_once_it_is_closed(path: Path) -> None:
    glance = Glance(path)
    unopened = glance.mark()
    glance.open()
    glance.close()

    assert unopened is None
    assert glance.mark() is None


def test_another_file_in_its_place_has_another_mark(
    tmp_path: Path, path: Path, glance: Glance
) -> None:
    before = glance.mark()
    shutil.copy(path, tmp_path / "backup.db")
    os.replace(tmp_path / "backup.db", path)  # noqa: PTH105 - what a restore does
    replaced = glance.mark()
    glance.open()

    assert before is not None
    assert replaced is None
    assert glance.mark() not in {None, before}


def test_nothing_is_known_of_a_file_that_is_gone_or_never_was(path: Path, glance: Glance) -> None:
    path.unlink()
    glance.open()
    never = Glance(path.with_name("never.db"))
    never.open()

    assert glance.mark() is None
    assert never.mark() is None


def test_nothing_is_known_of_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no database at all " * 100, encoding="utf-8")
    glance = Glance(path)
    glance.open()

    assert glance.mark() is None


def test_what_somebody_has_for_himself_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("CREATE TABLE said (text)")
        glance = Glance(path)
        glance.open()
        free = glance.mark()
        owner.execute("BEGIN EXCLUSIVE")
        locked = glance.mark()
        owner.execute("COMMIT")
        again = glance.mark()
        glance.close()

    assert free is not None
    assert locked is None
    assert again is not None


def _texts(connection: sqlite3.Connection) -> list[str]:
    return [text for (text,) in connection.execute("SELECT text FROM said")]


def test_what_was_written_is_read_at_once(glance: Glance, writer: sqlite3.Connection) -> None:
    empty = glance.read(_texts)
    writer.execute("INSERT INTO said VALUES ('here')")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO said VALUES ('not yet')")
    beside_a_writer = glance.read(_texts)
    writer.execute("ROLLBACK")

    assert empty == []
    assert beside_a_writer == ["here"]


def test_nothing_is_read_where_somebody_has_to_be_waited_for(glance: Glance, path: Path) -> None:
    def read_within(connection: sqlite3.Connection) -> list[object]:
        return [_texts(connection), glance.read(_texts), glance.mark()]

    assert glance.read(read_within) == [[], None, None]
    assert glance.read(_texts) == []

    path.rename(path.with_suffix(".moved"))
    assert glance.read(_texts) is None


def test_what_sqlite_refuses_is_left_to_others_and_what_is_wrong_is_told(glance: Glance) -> None:
    def look_for_nothing(connection: sqlite3.Connection) -> list[str]:
        connection.execute("SELECT * FROM nowhere")
        return []

    def find_nobody(_: sqlite3.Connection) -> list[str]:
        raise LookupError("nobody")

    assert glance.read(look_for_nothing) is None
    with pytest.raises(LookupError):
        glance.read(find_nobody)
    assert glance.read(_texts) == []


def test_a_fork_looks_for_itself(glance: Glance) -> None:
    before = glance.mark()
    reading, writing = os.pipe()
    if not (child := os.fork()):
        inherited = glance.mark()
        glance.open()
        os.write(writing, f"{inherited is None} {glance.mark() not in {None, before}}".encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(reading, 100) == b"True True"
    assert glance.mark() == before
    os.close(reading)
    os.close(writing)


def test_of_two_that_look_at_once_one_does_not_wait(
    glance: Glance, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    entered, leave = Event(), Event()

    look = glance._look

    def look_slowly() -> object:
        entered.set()
        leave.wait()
        return look()

    monkeypatch.setattr(glance, "_look", look_slowly)
    first = Thread(target=lambda: seen.append(glance.mark()))
    first.start()
    entered.wait()
    meanwhile = glance.mark()
    leave.set()
    first.join()

    assert meanwhile is None
    assert seen != [None]
