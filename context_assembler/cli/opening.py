"""Opening the stores and files that a command line names."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from context_assembler.cli.screen import print_note
from context_assembler.errors import ConfigurationError, nearest
from context_assembler.ports import SessionStore
from context_assembler.sessions import SqliteStore, open_store
from context_assembler.values.events import SessionEvent
from context_assembler.values.parts import Json

_BYTE_ORDER_MARKS = {
    b"\xef\xbb\xbf": "utf-8-sig",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}


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
        _check_exists(store.path, url=_required(url))
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


def check_memory_exists(url: str) -> None:
    """Refuse a memory store whose file is not there; it would be empty.

    Raises:
        ConfigurationError: The file is not there.
    """
    scheme, _, location = url.partition(":")
    if scheme.lower() == "sqlite" and location:
        path = Path(location.removeprefix("//")).expanduser()
        _check_exists(path, url=url, filled_by="memory import FILE --memory")


def _check_exists(path: Path, *, url: str, filled_by: str = "import FILE --sessions") -> None:
    if path.exists() or not path.parent.is_dir():  # the store itself tells of a missing folder
        return
    scheme, _, location = url.partition(":")
    near = nearest(
        path.name, [other.name for other in path.parent.iterdir() if other.is_file()], count=1
    )
    meant = [str(Path(location).with_name(name)) for name in near]
    raise ConfigurationError(
        f"There is no file {location}.",
        remedy=f"Did you mean {f'{scheme}:{meant[0]}'!r}?"
        if meant
        else f"Correct its name, or fill it first: context-assembler {filled_by} {url}",
    )


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

    UTF-8, and UTF-16 with a byte order mark. A byte that is neither becomes U+FFFD, with a note.
    """
    return text_of(read_content(path), name=str(path))


def read_content(path: Path) -> bytes:
    """Return the bytes of a file, or of stdin where the path is `-`."""
    return sys.stdin.buffer.read() if path == Path("-") else path.read_bytes()


def text_of(content: bytes, *, name: str) -> str:
    """Return the text that bytes are, with a note where some are none.

    Args:
        name: What to call the bytes in the note.
    """
    marks = (encoding for mark, encoding in _BYTE_ORDER_MARKS.items() if content.startswith(mark))
    text = content.decode(next(marks, "utf-8"), errors="replace")
    broken = text.count("\ufffd") - content.count("\ufffd".encode())
    if broken > 0:
        print_note(f"{name}: {broken} byte(s) are not UTF-8 and were replaced by U+FFFD.")
    return text
