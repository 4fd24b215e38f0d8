"""Memories from and to files of JSON Lines."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from context_assembler.errors import ConfigurationError
from context_assembler.ports import MemoryStore
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

_RECORDS_PER_BATCH: Final = 2_000


async def export_memories(
    store: MemoryStore, path: str | Path, *, filters: MemoryFilters = NO_FILTERS
) -> int:
    """Write the store's records to a file, one JSON object a line, and return how many.

    Records that say nothing are left out: they are never recalled, and no import takes them.

    Raises:
        ConfigurationError: The file cannot be written.
        StoreError: The store cannot be read.
    """
    written = 0
    waiting: list[MemoryRecord] = []
    target = _place(path)
    await asyncio.to_thread(_write, target, [], mode="wb")
    async for record in store.export(filters=filters):
        if says_something(record):
            waiting.append(record)
        if len(waiting) == _RECORDS_PER_BATCH:
            await asyncio.to_thread(_write, target, waiting, mode="ab")
            written += len(waiting)
            waiting = []
    await asyncio.to_thread(_write, target, waiting, mode="ab")
    return written + len(waiting)


async def import_memories(store: MemoryStore, path: str | Path) -> list[Remembered]:
    """Keep the records of a file of JSON Lines, and return what became of each, in order.

    Nothing is kept unless every line can be read.

    Raises:
        MemoryFormatError: A line is no memory, or of a newer version; the error names it.
        InvalidContextTypeError: A line's kind does not exist.
        ConfigurationError: The file cannot be read.
        StoreError: The store cannot keep one of them; the batches before are kept.
    """
    source = _place(path)
    await asyncio.to_thread(_check_all, source)
    outcomes: list[Remembered] = []
    records = _read(source)
    while batch := await asyncio.to_thread(lambda: list(islice(records, _RECORDS_PER_BATCH))):
        outcomes += await store.remember(batch)
    return outcomes


def _place(path: str | Path) -> Path:
    return Path(path).expanduser()


def _check_all(path: Path) -> None:
    for _ in _read(path):
        pass


def _read(path: Path) -> Iterator[MemoryRecord]:
    try:
        with path.open("rb") as lines:
            yield from read_memories(lines, name=str(path))
    except OSError as error:
        raise _unusable(path, "read", error) from error


def _write(path: Path, records: list[MemoryRecord], *, mode: str) -> None:
    try:
        with path.open(mode) as file:
            file.writelines(write_memories(records))
    except OSError as error:
        raise _unusable(path, "written", error) from error


def _unusable(path: Path, act: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"The file {str(path)!r} cannot be {act}: {error.strerror}.",
        remedy="Check the path and its permissions.",
    )
