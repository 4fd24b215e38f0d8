"""Memories from and to files of JSON Lines."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final, Literal, Protocol

from context_assembler.errors import AssemblyError, ConfigurationError, MemoryFormatError
from context_assembler.errors.files import remedy_for_file
from context_assembler.memory.asked_bounds import check_filters
from context_assembler.ports import MemoryStore
from context_assembler.values.given import check_method, check_path
from context_assembler.values.memories.codec import (
    read_memories,
    says_something,
    write_memories,
)
from context_assembler.values.memories.records import (
    NO_FILTERS,
    MemoryFilters,
    MemoryRecord,
    Remembered,
)
from context_assembler.values.texts.byte_order_marks import marked_encoding
from context_assembler.whole_files import settle, written_whole

_RECORDS_PER_BATCH: Final = 2_000


class Remembering(Protocol):
    """Whatever keeps records: a store, or a `MemoryAssembler`."""

    async def remember(self, records: list[MemoryRecord], /) -> list[Remembered]:
        """Keep all of the records, or none, and return what became of each, in order."""
        ...


async def export_memories(
    store: MemoryStore, file: str | Path | BinaryIO, *, filters: MemoryFilters = NO_FILTERS
) -> int:
    """Write the store's records to a file, one JSON object a line, and return how many.

    Records that say nothing are left out: they are never recalled, and no import takes them.
    Unless all could be written, a file that was there stays as it was.

    Args:
        file: Its path, or an open stream of bytes, such as `sys.stdout.buffer`.

    Raises:
        ConfigurationError: The file cannot be written.
        StoreError: The store cannot be read.
    """
    check_method(
        "store", store, "export", such_as="a memory store, such as open_memory('sqlite:…')"
    )
    check_filters(filters)
    if not isinstance(file, str | Path):
        check_method("file", file, "writelines", such_as="a path, or a stream of bytes")
        return await _export(store, file, filters)
    target = _place(file)
    with _explained(target, "written"), written_whole(target) as opened:
        written = await _export(store, opened, filters)
        await asyncio.to_thread(settle, opened)
    return written


async def import_memories(store: Remembering, file: str | Path | BinaryIO) -> list[Remembered]:
    """Keep the records of a file of JSON Lines, and return what became of each, in order.

    Every line is kept, or none: all are read before the store is asked to keep them at once. What
    it means to keep them at once is the store's own matter: Qdrant alone may end with a part.

    Args:
        store: What keeps them; a `MemoryAssembler` gives those without a vector one of its model.
        file: Its path, or an open stream of bytes, such as `sys.stdin.buffer`; it is read once.
            UTF-8, and UTF-16 or UTF-32 with a byte order mark.

    Raises:
        MemoryFormatError: A line is no memory, or of a newer version; the error names it.
        ConfigurationError: The file cannot be read.
        EmbeddingError: The assembler's model failed; nothing is kept.
        StoreError: The store cannot keep one of them.
    """
    check_method(
        "store", store, "remember", such_as="a memory store, such as open_memory('sqlite:…')"
    )
    if not isinstance(file, str | Path):
        check_method("file", file, "readline", such_as="a path, or a stream of bytes")
    records = await asyncio.to_thread(_read, file)
    return await store.remember(records)


async def _export(store: MemoryStore, file: BinaryIO, filters: MemoryFilters) -> int:
    written = 0
    waiting: list[MemoryRecord] = []
    async for record in store.export(filters=filters):
        if says_something(record):
            waiting.append(record)
        if len(waiting) == _RECORDS_PER_BATCH:
            await asyncio.to_thread(file.writelines, write_memories(waiting))
            written += len(waiting)
            waiting = []
    await asyncio.to_thread(file.writelines, write_memories(waiting))
    return written + len(waiting)


def _read(file: str | Path | BinaryIO) -> list[MemoryRecord]:
    if not isinstance(file, str | Path):
        return _read_stream(file, name=getattr(file, "name", "The memories"))
    source = _place(file)
    with _explained(source, "read"), source.open("rb") as opened:
        return _read_stream(opened, name=str(source))


def _read_stream(stream: BinaryIO, *, name: str) -> list[MemoryRecord]:
    lines = iter(stream)
    first = next(lines, b"")
    mark, encoding = marked_encoding(first)
    if encoding == "utf-8":
        return list(read_memories(chain([first.removeprefix(mark)], lines), name=name))
    # In other encodings a line does not end where the bytes of one do.
    content = b"".join((first, *lines)).removeprefix(mark)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        number = content[: error.start].decode(encoding).count("\n") + 1
        reason = f"not {encoding.upper()} ({error.reason})"
        raise MemoryFormatError(
            where=name, line=number, reason=reason, remedy="Write the file again, best as UTF-8."
        ) from None
    return list(read_memories(BytesIO(text.encode()), name=name))


def _place(path: str | Path) -> Path:
    check_path("file", path, such_as="a path such as 'memories.jsonl', or a stream of bytes")
    return Path(path).expanduser()


@contextmanager
def _explained(path: Path, act: Literal["read", "written"]) -> Generator[None]:
    try:
        yield
    except AssemblyError:
        raise
    except OSError as error:
        raise ConfigurationError(
            f"The file {str(path)!r} cannot be {act}: {error.strerror or error}.",
            remedy=remedy_for_file(error),
        ) from error
