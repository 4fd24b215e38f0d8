"""Long work that waits for nothing, done where it holds nobody up."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from context_assembler.values.memories.records import MemoryRecord

T = TypeVar("T")

_MANY_CHARS: Final = 200_000  # which take some hundredths of a second
_COUNTED_CHARS: Final = 20_000  # of any one record: of longer texts hardly more is read


async def think(work: Callable[[], T], *, chars: int) -> T:
    """Return what the work returns; in a thread of its own where there are many characters to read."""
    return work() if chars < _MANY_CHARS else await asyncio.to_thread(work)


def chars_of(records: Iterable[MemoryRecord]) -> int:
    """Return how many characters of the records are read, at most."""
    return sum(min(len(record.text), _COUNTED_CHARS) for record in records)
