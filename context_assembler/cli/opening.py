"""Opening the stores and files that a command line names."""

import json
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import BinaryIO, TextIO

from context_assembler.cli.screen import print_note
from context_assembler.errors import ConfigurationError, nearest
from context_assembler.ports import SessionStore
from context_assembler.sessions import SqliteStore, open_store
from context_assembler.values.events import SessionEvent
from context_assembler.values.parts import Json
from context_assembler.values.texts.byte_order_marks import marked_encoding

_IN_MEMORY = ":memory:"
_IN_FOLDERS = frozenset({"lancedb", "qdrant"})


@asynccontextmanager
async def opened_store(
    url: str | None, *, creates: bool = False
) -> AsyncGenerator[SessionStore, None]:
    """Open the session store of that URL, and close it again.

    Args:
        creates: Whether the store may be a new one; else its file must be there.

    Raises:
        ConfigurationError: No store is named, or its file is not there.
    """
    store = open_store(_required(url))
    if not creates and isinstance(store, SqliteStore):
        place = _required(url).partition(":")[2]
        _check_exists(
            store.path,
            url=_required(url),
            place=place,
            filled_by="import FILE --sessions",
            table="sessions",
        )
    try:
        yield store
    finally:
        await store.close()


async def load_events(url: str | None, session_id: str) -> tuple[SessionEvent, ...]:
    """Return every event of a stored session, oldest first."""
    async with opened_store(url) as store:
        return tuple([event async for event in store.load(session_id)])


def _required(url: str | None) -> str:
    if not url:
        raise ConfigurationError(
            "No session store is given.",
            remedy="Pass --sessions sqlite:agent.db, or set CONTEXT_ASSEMBLER_SESSIONS.",
        )
    return url


def check_folder(folder: Path) -> None:
    """Refuse a folder of instruction files that is not there.

    Raises:
        ConfigurationError: There is none of that name.
    """
    if not folder.is_dir():
        raise ConfigurationError(
            f"{folder} is no folder.", remedy="Name the folder that AGENT.md lies in."
        )


def check_memory_exists(url: str) -> None:
    """Refuse a memory store whose file or folder is not there; it would be empty.

    Raises:
        ConfigurationError: It is not there.
    """
    scheme, _, location = url.partition(":")
    place = location if scheme.lower() == "sqlite" else location.partition("#")[0]
    is_folder = scheme.lower() in _IN_FOLDERS and "://" not in place
    if place not in {"", _IN_MEMORY} and (is_folder or scheme.lower() == "sqlite"):
        path = Path(place.removeprefix("//")).expanduser()
        filled_by = "memory import FILE --memory"
        _check_exists(
            path,
            url=url,
            place=place,
            filled_by=filled_by,
            table="memory_records",
            is_folder=is_folder,
        )


def _check_exists(
    path: Path, *, url: str, place: str, filled_by: str, table: str, is_folder: bool = False
) -> None:
    """Refuse a path that is not there.

    Args:
        place: What names it in the URL.
        filled_by: The command that would make it.
        table: What every file of such a store has.
    """
    if path.exists() or not path.parent.is_dir():  # the store itself tells of a missing folder
        return
    beside = [other.name for other in path.parent.iterdir() if other.is_dir() == is_folder]
    near = [n for n in nearest(path.name, beside) if _may_have(path.with_name(n), table)]
    meant = [url.replace(place, str(Path(place).with_name(name))) for name in near]
    raise ConfigurationError(
        f"There is no {'folder' if is_folder else 'file'} {place}.",
        remedy=f"Did you mean {meant[0]!r}?"
        if meant
        else f"Correct its name, or fill it first: context-assembler {filled_by} {url}",
    )


def _may_have(path: Path, table: str) -> bool:
    """Whether nothing shows that the file is that of another kind of store."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as file:
            names = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error:  # a folder, or no database
        return True
    return not names or table in names


def read_json(path: Path) -> Json:
    """Return the JSON in a file, or on stdin where the path is `-`."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{path} is not JSON: {error}.", remedy="Correct the file, or name another one."
        ) from error


def read_text(path: Path) -> str:
    """Return the text of a file, or of stdin where the path is `-`.

    UTF-8, and UTF-16 or UTF-32 with a byte order mark. A byte that is neither becomes U+FFFD, with a note.
    """
    return text_of(read_content(path), name=str(path))


def read_content(path: Path) -> bytes:
    """Return the bytes of a file, or of stdin where the path is `-`."""
    return standard_input().read() if path == Path("-") else path.read_bytes()


def standard_input() -> BinaryIO:
    """Return stdin, which is refused where it is closed."""
    stdin: TextIO | None = sys.stdin
    if stdin is None:
        raise ConfigurationError(
            "Stdin is closed.", remedy="Name a file, or send one: context-assembler … - < FILE"
        )
    return stdin.buffer


def text_of(content: bytes, *, name: str) -> str:
    """Return the text that bytes are, with a note where some are none.

    Args:
        name: What to call the bytes in the note.
    """
    mark, encoding = marked_encoding(content)
    text = content[len(mark) :].decode(encoding, errors="replace")
    broken = text.count("\ufffd") - content.count("\ufffd".encode())
    if broken > 0:
        print_note(f"{name}: {broken} byte(s) are not UTF-8 and were replaced by U+FFFD.")
    return text
