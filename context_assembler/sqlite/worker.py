"""A thread with a SQLite connection, so that the event loop never waits for a disk."""

import asyncio
import os
import sqlite3
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

from context_assembler.sqlite.files import (
    explained_errors,
    open_for_reading,
    open_for_writing,
    open_in_memory,
)
from context_assembler.sqlite.schema import Schema

_Result = TypeVar("_Result")


class _Holder:
    """What is open, and in which process; outlives its worker for as long as closing takes."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self.connection: sqlite3.Connection | None = None
        self.file_identity: tuple[int, int] | None = None

    def close(self) -> None:
        # A connection that came here by fork belongs to the parent: closing it would drop its locks.
        if self.connection is not None and self.process_id == os.getpid():
            self.connection.close()
            self.connection = None


class SqliteWorker:
    """Runs one action after another on one connection, in one thread; both begin on first use.

    `open_connection` may return `None` for a file without tables: the action then sees an empty
    database, and the file is looked at again for the next one. Without a path the database is in
    memory: it is gone when the worker is closed, and a process that is forked begins with none.
    """

    def __init__(
        self,
        path: Path | None,
        schema: Schema,
        open_connection: Callable[[], sqlite3.Connection | None],
    ) -> None:
        self._path = path
        self._schema = schema
        self._open_connection = open_connection
        self._lock = Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._holder = _Holder()
        weakref.finalize(self, self._holder.close)

    async def run(self, act: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Return the action's result.

        Raises:
            StoreError: SQLite refused.
        """
        executor, holder = self._in_this_process()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(executor, self._act, holder, act)

    async def close(self) -> None:
        """Close the connection behind the actions that wait, and end the thread."""
        with self._lock:
            executor, self._executor = self._executor, None
            holder = self._holder
        if executor is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(executor, holder.close)
            executor.shutdown(wait=False)

    def _in_this_process(self) -> tuple[ThreadPoolExecutor, _Holder]:
        with self._lock:
            if self._holder.process_id != os.getpid():
                # After a fork: the thread stayed in the parent, and so must the connection.
                self._executor = None
                self._holder = _Holder()
                weakref.finalize(self, self._holder.close)
            if self._executor is None:
                name = self._schema.name
                self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
            return self._executor, self._holder

    def _act(self, holder: _Holder, act: Callable[[sqlite3.Connection], _Result]) -> _Result:
        with explained_errors(self._path, self._schema):
            if holder.file_identity != self._file_identity():
                holder.close()  # replaced or deleted: SQLite would go on with the file of before
            if holder.connection is None:
                holder.connection = self._open_connection()
                holder.file_identity = self._file_identity()
            if holder.connection is None:
                with closing(open_in_memory(self._schema)) as empty:
                    return act(empty)
            return act(holder.connection)

    def _file_identity(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


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
    return SqliteWorker(path, schema, writer), SqliteWorker(path, schema, reader)
