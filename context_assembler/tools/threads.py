"""Calls foreign functions that block, without blocking the event loop."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

_Result = TypeVar("_Result")


async def call_in_thread(act: Callable[[], _Result]) -> _Result:
    """Return the function's result.

    Its thread is a daemon of its own: of a function that never returns, the wait can be cancelled,
    and neither the loop's closing nor the program's end waits for it, as they would for a pool's.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_Result] = loop.create_future()
    context = contextvars.copy_context()

    def settle(deliver: Callable[[], None]) -> None:
        if not answer.done():  # or else nobody waits any more
            deliver()

    def run() -> None:
        try:
            deliver = partial(answer.set_result, context.run(act))
        except StopIteration as stop:  # which no future can carry
            deliver = partial(answer.set_exception, RuntimeError(f"it raised {stop!r}"))
        except BaseException as error:  # noqa: BLE001 - handed on to whoever waits
            deliver = partial(answer.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, deliver)

    threading.Thread(target=run, name="list-tools", daemon=True).start()
    return await answer
