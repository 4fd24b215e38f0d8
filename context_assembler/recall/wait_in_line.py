"""Waiting for one's turn with a source that answers one after another."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Protocol, runtime_checkable

from context_assembler.ports import MemorySource
from context_assembler.recall.wait_until import wait_until


class _Line(Protocol):
    def here(self) -> asyncio.Semaphore: ...


@runtime_checkable
class _HasLine(Protocol):
    @property
    def recall_line(self) -> _Line: ...


@asynccontextmanager
async def turn_with(
    source: MemorySource, *, until: asyncio.Future[Any]
) -> AsyncGenerator[None, None]:
    """Let it be one's turn with the source inside; once the end has come nobody waits any more."""
    line = source.recall_line.here() if isinstance(source, _HasLine) else None
    if line is None:
        yield
        return
    taking = asyncio.ensure_future(line.acquire())
    try:
        await wait_until(taking, ends=(until,))
        yield
    finally:
        if taking.done() and not taking.cancelled():
            line.release()
