"""Waiting for others no longer than there is time."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from context_assembler.recall.ask_sources import Sleep
from context_assembler.recall.wait_until import wait_until
from context_assembler.values.recall_settings import RecallSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """How long one of the others has, and all of them together.

    Attributes:
        all_over: Done when the time of all is over.
    """

    seconds: float
    all_over: asyncio.Future[object]
    sleep: Sleep

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns.

        Raises:
            TimeoutError: It took too long, and was cancelled.
            RuntimeError: It ended as cancelled by itself: whoever cancels the caller ends the wait.
        """
        working = asyncio.ensure_future(work)
        late = asyncio.ensure_future(self.sleep(self.seconds))
        try:
            await wait_until(working, ends=(late, self.all_over))
            if not working.done():
                raise TimeoutError("it took too long")
            if working.cancelled():
                raise RuntimeError("its own work was cancelled")
            return working.result()
        finally:
            late.cancel()


@asynccontextmanager
async def deadline_of(settings: RecallSettings, *, sleep: Sleep) -> AsyncGenerator[Deadline, None]:
    """Let the time that the settings give begin."""
    all_over = asyncio.ensure_future(sleep(settings.seconds_in_all))
    try:
        yield Deadline(seconds=settings.seconds_per_source, all_over=all_over, sleep=sleep)
    finally:
        all_over.cancel()
