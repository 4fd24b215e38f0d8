"""A thread with a SQLite connection, so that the event loop never waits for a disk."""

import asyncio
import contextlib
import sqlite3
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from context_assembler.errors import StoreError
from context_assembler.sqlite.files import (
    ConnectionAsItLies,
    explained_errors,
    open_for_reading,
    open_for_writing,
    open_in_memory,
    remove_empty_companions,
)
from context_assembler.sqlite.forks import new_lock
from context_assembler.sqlite.held import HeldConnection, identify_file
from context_assembler.sqlite.schema import Schema

_Result = TypeVar("_Result")


class SqliteWorker:
    """Runs one action after another on one connection, in one thread; both begin on first use.

    `open_connection` may return `None` for a file without tables: the action then sees an empty
    database, and the file is looked at again for the next one. Without a path the database is in
    memory: it is gone when the worker is closed, and a process that is forked begins with none.

    Args:
        tidy_up: What is to be done with the file behind the last action.
    """

    def __init__(
        self,
        path: Path | None,
        schema: Schema,
        open_connection: Callable[[], sqlite3.Connection | None],
        *,
        tidy_up: Callable[[Path], object] | None = None,
    ) -> None:
        self._path = path
        self._schema = schema
        self._open_connection = open_connection
        self._tidy_up = tidy_up
        self._lock = new_lock()
        self._executor: ThreadPoolExecutor | None = None
        self._holder = self._begin()

    async def run(self, act: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Return the action's result.

        Raises:
            StoreError: SQLite refused.
        """
        # Told by the thread itself: a future of the executor would wake up the loop 0.1 ms later.
        answer = asyncio.get_running_loop().create_future()
        with self._lock:
            executor, holder = self._in_this_process()
            executor.submit(_answer, answer, partial(self._act, holder, act))
        result: _Result = await answer
        return result

    async def close(self) -> None:
        """Close the connection behind the actions that wait, and end the thread.

        Whoever stops waiting for it does not stop it.
        """
        closed = asyncio.get_running_loop().create_future()
        with self._lock:
            executor, self._executor = self._executor, None
            if executor is None:
                return
            executor.submit(
                _answer, closed, partial(self._let_go, self._holder), is_wanted_anyway=True
            )
            executor.shutdown(wait=False)
            # An action that comes meanwhile has a thread of its own, so a connection of its own too.
            self._holder = self._begin()
        await closed

    def _let_go(self, holder: HeldConnection) -> None:
        with holder.in_use, explained_errors(self._path, self._schema):
            was_open = holder.connection is not None
            holder.close()
            if was_open and self._tidy_up is not None and self._path is not None:
                self._tidy_up(self._path)

    def _begin(self) -> HeldConnection:
        holder = HeldConnection()
        weakref.finalize(self, holder.close)
        return holder

    def _in_this_process(self) -> tuple[ThreadPoolExecutor, HeldConnection]:
        if not self._holder.is_ours:
            # After a fork: the thread stayed in the parent, and so must the connection.
            self._executor = None
            self._holder = self._begin()
        if self._executor is None:
            name = self._schema.name
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        return self._executor, self._holder

    def _act(self, holder: HeldConnection, act: Callable[[sqlite3.Connection], _Result]) -> _Result:
        with holder.in_use, explained_errors(self._path, self._schema):
            try:
                return self._act_on(holder, act)
            except sqlite3.OperationalError as error:
                code = getattr(error, "sqlite_errorcode", 0)
                if code != sqlite3.SQLITE_ERROR or not self._is_opened_anew(holder):
                    raise
                return self._act_on(holder, act)

    def _is_opened_anew(self, holder: HeldConnection) -> bool:
        """Open the file anew, which brings older tables of a backup up to date; whether that can be."""
        if self._path is None:
            return False
        try:
            opened = self._open_connection()
        except StoreError:
            return False
        holder.close()
        holder.connection = opened
        holder.file_identity = identify_file(self._path)
        return True

    def _act_on(
        self, holder: HeldConnection, act: Callable[[sqlite3.Connection], _Result]
    ) -> _Result:
        if holder.file_identity != identify_file(self._path):
            holder.close()  # replaced or deleted: SQLite would go on with the file of before
        if holder.connection is None:
            holder.connection = self._open_connection()
            holder.file_identity = identify_file(self._path)
        if holder.connection is None:
            with contextlib.closing(open_in_memory(self._schema)) as empty:
                return act(empty)
        try:
            return act(holder.connection)
        finally:
            if isinstance(holder.connection, ConnectionAsItLies):
                holder.close()


def _answer(
    answer: asyncio.Future[_Result], work: Callable[[], _Result], *, is_wanted_anyway: bool = False
) -> None:
    if answer.cancelled() and not is_wanted_anyway:  # before it began
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
        _tell(answer, partial(answer.set_exception, error))
    else:
        _tell(answer, partial(answer.set_result, result))


def _tell(answer: asyncio.Future[_Result], settle: Callable[[], None]) -> None:
    def settle_once() -> None:
        if not answer.done():  # nobody gave up waiting
            settle()

    with contextlib.suppress(RuntimeError):  # the loop is closed
        answer.get_loop().call_soon_threadsafe(settle_once)


def make_workers(
    path: Path | None, schema: Schema, *, busy_seconds: float
) -> tuple[SqliteWorker, SqliteWorker]:
    """Return who writes and who reads; in memory there is one connection for both.

    Args:
        busy_seconds: How long to wait for another process that writes.
    """
    if path is None:
        worker = SqliteWorker(None, schema, partial(open_in_memory, schema))
        return worker, worker
    writer = partial(open_for_writing, path, schema, busy_seconds=busy_seconds)
    reader = partial(open_for_reading, path, schema, busy_seconds=busy_seconds)
    return (
        SqliteWorker(path, schema, writer),
        SqliteWorker(path, schema, reader, tidy_up=remove_empty_companions),
    )
