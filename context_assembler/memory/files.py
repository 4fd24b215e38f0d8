"""Memories from and to files of JSON Lines, and what a store no longer needs."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import partial as partial_of
from pathlib import Path
from typing import BinaryIO, Final

from context_assembler.memory.assembler import MemoryAssembler
from context_assembler.memory.imports import load_memories
from context_assembler.memory.records import (
    NO_FILTERS,
    MemoryFilters,
    MemoryRecord,
    Remembered,
    refuse,
    says_something,
    unusable_file,
    write_memories,
)
from context_assembler.memory.stores import MemoryStore

LEAST_WORTH: Final = 0.05


async def export_memories(
    store: MemoryStore, file: str | Path | BinaryIO, *, filters: MemoryFilters = NO_FILTERS
) -> int:
    """Write the store's records to a file, one JSON object a line, and return how many.

    Records that say nothing are left out. Unless all could be written, a file that was there stays
    as it was.

    Args:
        file: Its path, or an open stream of bytes, such as `sys.stdout.buffer`.

    Raises:
        ConfigurationError: The file cannot be written.
        StoreError: The store cannot be read.
    """
    written = 0
    with written_whole(file) if isinstance(file, str | Path) else nullcontext(file) as opened:
        async for record in store.export(filters=filters):
            if says_something(record):
                opened.writelines(write_memories([record]))
                written += 1
    return written


async def import_memories(
    store: MemoryStore | MemoryAssembler,
    file: str | Path | BinaryIO,
    *,
    namespace: str = "",
    partial: bool = False,
) -> list[Remembered]:
    """Keep the memories of a file or folder, and return what became of each, in order.

    Everything is read before the store is asked to keep it at once: all of it is kept, or none.

    Args:
        store: What keeps them; a `MemoryAssembler` gives those without a vector one of its model.
        file: As in `load_memories`, which also says what could not be read.
        namespace: Whose the memories are that do not say so.
        partial: Whether a file is read of which more than a tenth cannot be read.

    Raises:
        MemoryFormatError: The format is unknown, or more than a tenth cannot be read.
        ConfigurationError: The file cannot be read.
        StoreError: The store cannot keep one of them.
    """
    read = partial_of(load_memories, file, namespace=namespace, partial=partial)
    return await store.remember((await asyncio.to_thread(read)).records)


# ---- fading ----


def worth_of(record: MemoryRecord, *, half_life_days: float, now: datetime) -> float:
    """Return a record's importance, halved for each half-life since it was made or last used."""
    used = record.last_used_at
    age_days = max((now - used) / timedelta(days=1), 0.0) if used else 0.0
    return float(record.importance * 0.5 ** (age_days / half_life_days))


async def find_faded(
    store: MemoryStore,
    *,
    half_life_days: float,
    now: datetime,
    least_worth: float = LEAST_WORTH,
    filters: MemoryFilters = NO_FILTERS,
) -> list[MemoryRecord]:
    """Return the records that are worth less than the least, in the order of storing.

    A record is worth its importance when it is made, and again when it is used (`touch`); half of
    that after each half-life. What is made or used ahead of `now` has not faded. To forget them,
    pass `store.forget` the ids of each namespace.

    Raises:
        InvalidParameterError: The half-life is not positive.
        StoreError: The store cannot be read.
    """
    if half_life_days <= 0:
        refuse("half_life_days", half_life_days, "must be positive", "Pass days, as 30.")
    return [
        record
        async for record in store.export(filters=filters)
        if worth_of(record, half_life_days=half_life_days, now=now) < least_worth
    ]


@contextmanager
def written_whole(path: str | Path) -> Generator[BinaryIO]:
    """Open a file that at every moment holds what it held before, or all that is written inside.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    target = Path(path).expanduser()
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as opened:
            yield opened
        part.replace(target)
    except OSError as error:
        raise unusable_file(target, "written", error) from error
    finally:
        part.unlink(missing_ok=True)
