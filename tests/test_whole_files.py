"""Writing a file as a whole: what is there at every moment, and where it is written."""

import os
from pathlib import Path

import pytest

from context_assembler.errors import ConfigurationError
from context_assembler.memory import MemoryRecord, SqliteMemoryStore, export_memories
from context_assembler.whole_files import written_whole


def write(path: Path, content: bytes = b"new") -> None:
    with written_whole(path) as file:
        file.write(content)


def test_what_was_there_is_there_until_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    with written_whole(path) as file:
        file.write(b"new")
        file.flush()
        meanwhile = path.read_bytes()

    assert (meanwhile, path.read_bytes()) == (b"old", b"new")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt()])
def test_what_was_there_stays_where_writing_fails(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail() -> None:
        with written_whole(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(type(error)):
        fail()

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o600)
    link.symlink_to(path)

    write(link)

    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_keeps_nothing_is_written_as_it_is(tmp_path: Path) -> None:
    write(Path(os.devnull))

    assert not Path(os.devnull).is_file()
    with pytest.raises(IsADirectoryError):
        write(tmp_path)


def test_a_pipe_is_written_to_by_its_name() -> None:
    reading, writing = os.pipe()

    write(Path(f"/dev/fd/{writing}"))

    assert os.read(reading, 9) == b"new"
    os.close(reading)
    os.close(writing)


def test_the_file_that_was_asked_for_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no" / "file"

    with pytest.raises(FileNotFoundError) as caught:
        write(path)

    assert caught.value.filename == str(path)


async def test_no_database_is_written_over(tmp_path: Path) -> None:
    path, link = tmp_path / "memory.db", tmp_path / "link.jsonl"
    async with SqliteMemoryStore(path) as store:
        await store.remember([MemoryRecord(text="a zebra")])
        link.symlink_to(path)

        for target in (path, link):
            with pytest.raises(ConfigurationError, match="a database is there"):
                await export_memories(store, target)

        assert [record.text async for record in store.export()] == ["a zebra"]
    assert path.read_bytes().startswith(b"SQLite format 3")
