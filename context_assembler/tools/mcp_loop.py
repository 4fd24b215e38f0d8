"""An event loop in a thread of its own, for connections that outlive their users' loops."""

import asyncio
import atexit
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from threading import Lock, Thread, current_thread
from typing import Any, Final, TypeVar

_Result = TypeVar("_Result")

_EXIT_SECONDS: Final = 10.0


class LoopClosedError(RuntimeError):
    """Work was asked of a loop that is closing."""


class LoopThread:
    """A running event loop that any other loop can have work done in.

    Everything in it runs in one thread, so that what lives there needs no lock. It ends by `stop`,
    at the latest with the program.

    Args:
        name: The thread's name.
        before_end: Awaited in the loop, when it is to end.
    """

    def __init__(self, name: str, *, before_end: Callable[[], Awaitable[None]]) -> None:
        self._before_end = before_end
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._lock = Lock()
        self._is_stopping = False
        self._ended: Future[None] = Future()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        atexit.register(self._end_with_the_program)
        self._thread.start()

    async def run(self, work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Return what the work returns; cancelling the wait cancels the work.

        Raises:
            LoopClosedError: The loop is closing.
        """
        with self._lock:  # what is submitted before `stop` is begun before it
            if self._is_stopping:
                raise LoopClosedError
            submitted = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return await asyncio.wrap_future(submitted)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._is_stopping and task is not None and not task.cancelling():
                raise LoopClosedError from None  # not this caller was cancelled, but the work
            raise

    def stop(self) -> None:
        """Have the loop end, soon; from any thread."""
        with self._lock:
            if not self._is_stopping:
                self._is_stopping = True
                self._loop.call_soon_threadsafe(self._stop.set)

    async def ended(self) -> None:
        """Wait until the loop has ended."""
        await asyncio.shield(asyncio.wrap_future(self._ended))

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._until_stopped())
        finally:
            atexit.unregister(self._end_with_the_program)
            self._ended.set_result(None)

    async def _until_stopped(self) -> None:
        await self._stop.wait()
        await self._before_end()

    def _end_with_the_program(self) -> None:
        self.stop()
        if current_thread() is not self._thread:  # pragma: no branch - atexit runs elsewhere
            self._thread.join(_EXIT_SECONDS)
