"""Asynchronous work: done for callers without an event loop, called off by its caller, or finished."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


def is_being_cancelled() -> bool:
    """Whether somebody cancels this very task, rather than that what it awaits ended so by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def close_all(*closes: Callable[[], Awaitable[object]]) -> None:
    """Close one after the other, each whatever became of those before it; then raise what did.

    Whoever is cancelled meanwhile leaves nothing open: the rest is closed before it ends.
    """
    async with AsyncExitStack() as closing:
        for close in reversed(closes):
            closing.push_async_callback(close)


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, in a thread of its own where this one has a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    outcome: list[T | BaseException] = []

    def run() -> None:
        try:
            outcome.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            outcome.append(error)

    thread = Thread(target=run, name="assemble_sync")
    thread.start()
    thread.join()
    [result] = outcome
    if isinstance(result, BaseException):
        raise result
    return result
