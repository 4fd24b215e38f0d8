"""Sessions in one SQLite file that several processes may use at once."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

from context_assembler.errors import InvalidParameterError
from context_assembler.sessions.rules import (
    check_event_ids,
    check_session,
    check_session_id,
    check_span,
)
from context_assembler.sessions.sqlite_calibrations import find_calibrations, observe_usage
from context_assembler.sessions.sqlite_counts import find_counts, find_few_counts, keep_counts
from context_assembler.sessions.sqlite_rows import (
    Span,
    StoredSession,
    decode_rows,
    find_session,
    find_sessions,
    read_events,
    read_few_rows,
    read_rows,
)
from context_assembler.sessions.sqlite_schema import SCHEMA
from context_assembler.sessions.sqlite_writes import (
    append_events,
    begin_session,
    delete_session,
    save_session,
)
from context_assembler.sqlite.glance import Glance
from context_assembler.sqlite.held import FileIdentity, identify_file
from context_assembler.sqlite.worker import make_workers
from context_assembler.sync import close_all
from context_assembler.values.calibration import Calibration, UsageObservation
from context_assembler.values.events import EventBatch, Session, SessionEvent, SessionHead
from context_assembler.values.given import check_path
from context_assembler.values.resting_counts import RestingCount

_EVENTS_PER_BATCH: Final = 200
_ROWS_AT_ONCE: Final = 64  # that are decoded in well under the time of a tick
_LARGEST_INTEGER: Final = 2**63 - 1  # that SQLite knows


class SqliteStore:
    """A session store in one file.

    Nothing is touched before the first call; reading alone never creates or changes the file.
    After `close` the next call opens it again. Writing and reading have a thread and a connection
    each, so that readers do not wait for writers. A call that is cancelled while it writes may
    still have written: all of its events, or none.

    Args:
        path: The file; its folder must exist. `~` is the home folder.
        busy_seconds: How long to wait for another process that writes.
    """

    def __init__(self, path: str | Path, *, busy_seconds: float = 10.0) -> None:
        if str(path) == ":memory:":
            raise InvalidParameterError(
                "path",
                path,
                rule="must name a file",
                remedy="For sessions in memory use InMemoryStore(), or the URL 'memory:'.",
            )
        if "\0" in str(path):
            raise InvalidParameterError(
                "path", path, rule="must name a file", remedy="No file's name holds a NUL."
            )
        check_path("path", path, such_as="a path, such as 'agent.db'")
        self.path: Path = Path(path).expanduser().absolute()
        self._busy_seconds = busy_seconds
        self._writer, self._reader = make_workers(self.path, SCHEMA, busy_seconds=busy_seconds)
        self._glance = Glance(self.path)
        self._current_file: FileIdentity | None = None  # whose tables are the newest

    async def create(self, session: Session) -> None:
        """Keep a new session; replace the record of one that exists, its events untouched.

        Raises:
            InvalidParameterError: The session's id cannot be kept.
            EventFormatError: The record holds something that JSON cannot say.
            StoreUnavailableError: The file cannot be used.
        """
        check_session(session)
        await self._writer.run(partial(save_session, session=session))

    async def begin(self, session: Session) -> None:
        """Keep a session, unless there is one of that id: that one stays as it is.

        Raises:
            InvalidParameterError: The session's id cannot be kept.
            EventFormatError: The record holds something that JSON cannot say.
            StoreUnavailableError: The file cannot be used.
        """
        check_session(session)
        await self._writer.run(partial(begin_session, session=session))

    async def append(
        self, session_id: str, events: Sequence[SessionEvent], *, expected_seq: int | None = None
    ) -> list[SessionEvent]:
        """Append, and return the events with `id` and `seq` filled in.

        Raises:
            ConcurrentAppendError: `expected_seq` is given and is not the last sequence number.
            DuplicateEventError: The session, or `events` itself, has an event of that id already.
            InvalidParameterError: The session's id, or an event's, cannot be kept.
            EventFormatError: An event holds something that JSON cannot say.
            StoreUnavailableError: The file cannot be used.
        """
        check_session_id(session_id)
        check_event_ids(session_id, events)
        return await self._writer.run(
            partial(append_events, session_id=session_id, events=events, expected_seq=expected_seq)
        )

    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        """Yield the events with a larger sequence number, oldest first.

        Events that are appended meanwhile are seen too; once the session is deleted, it ends.

        Raises:
            UnknownSessionError: There is no such session.
            EventFormatError: An event cannot be decoded.
            StoreUnavailableError: The file cannot be used.
        """
        check_span(session_id, after_seq=after_seq)
        session = await self._reader.run(partial(find_session, session_id=session_id))
        read_next = partial(read_events, session=session, count=_EVENTS_PER_BATCH)
        after_seq = min(after_seq, _LARGEST_INTEGER)
        while batch := await self._reader.run(partial(read_next, after_seq=after_seq)):
            for event in batch:
                yield event
            after_seq = batch[-1].seq

    async def read_batch(
        self, session_id: str, *, after_seq: int = 0, until_seq: int | None = None
    ) -> EventBatch:
        """Return the events behind `after_seq`, up to and including `until_seq`, in one statement.

        Raises:
            UnknownSessionError: There is no such session.
            EventFormatError: An event cannot be decoded.
            StoreUnavailableError: The file cannot be used.
        """
        check_span(session_id, after_seq=after_seq, until_seq=until_seq)
        asked = Span(
            session_id,
            after_seq=min(after_seq, _LARGEST_INTEGER),
            until_seq=_LARGEST_INTEGER if until_seq is None else min(until_seq, _LARGEST_INTEGER),
        )
        found = self._glance.read(partial(read_few_rows, asked=asked))
        if found is None:
            found = await self._reader.run(partial(read_rows, asked=asked))
        decode = partial(decode_rows, found.rows, session_id=session_id)
        # Neither the event loop nor other sessions' readers wait while a long history is decoded.
        is_long = len(found.rows) > _ROWS_AT_ONCE
        return EventBatch(
            events=await asyncio.to_thread(decode) if is_long else decode(),
            incarnation=found.incarnation,
            stored_bytes=sum(len(body) for _, _, body in found.rows),
            first_mark=found.first_mark,
            last_mark=found.last_mark,
            mark_before=found.mark_before,
        )

    async def head(self, session_id: str) -> SessionHead:
        """Return the session's record and last sequence number.

        Raises:
            UnknownSessionError: There is no such session.
            StoreUnavailableError: The file cannot be used.
        """
        check_session_id(session_id)
        find = partial(find_session, session_id=session_id)
        found = self._glance.read(find)
        if found is None:
            found = await self._reader.run(partial(self._first, find))
        return found.head

    def change_mark(self) -> Hashable | None:
        """Return what stays the same while no connection of any process writes to the file.

        `None` where that cannot be told at once: before the first look, while the file is locked.
        """
        return self._glance.mark()

    async def list_sessions(self) -> list[SessionHead]:
        """Return every session, most recently created last.

        Raises:
            StoreUnavailableError: The file cannot be used.
        """
        return await self._reader.run(find_sessions)

    async def delete(self, session_id: str) -> None:
        """Forget the session with all its events.

        Raises:
            UnknownSessionError: There is no such session.
            StoreUnavailableError: The file cannot be used.
        """
        check_session_id(session_id)
        await self._writer.run(partial(delete_session, session_id=session_id))

    async def calibrations(self) -> Sequence[Calibration]:
        """Return what reported usage taught, by provider, model and shape of request.

        Raises:
            StoreUnavailableError: The file cannot be used.
        """
        found = self._glance.read(find_calibrations)
        return await self._reader.run(find_calibrations) if found is None else found

    async def observe_usage(self, seen: UsageObservation) -> Calibration:
        """Learn from one call's usage, and return what is known since.

        Raises:
            StoreUnavailableError: The file cannot be used.
        """
        return await self._writer.run(partial(observe_usage, seen=seen))

    async def find_counts(self, session_id: str, *, counter: str) -> Mapping[int, RestingCount]:
        """Return what is kept of a counter, by the number of the message's first event.

        Raises:
            StoreUnavailableError: The file cannot be used.
        """
        found = self._glance.read(partial(find_few_counts, session_id=session_id, counter=counter))
        if found is not None:
            return found
        return await self._reader.run(partial(find_counts, session_id=session_id, counter=counter))

    async def keep_counts(
        self,
        session_id: str,
        counts: Mapping[int, RestingCount],
        *,
        counter: str,
        incarnation: str,
    ) -> None:
        """Keep counts of this very incarnation of a session, in a file that has a place for them.

        Raises:
            StoreUnavailableError: The file cannot be written, or somebody else is writing.
        """
        file = identify_file(self.path)
        if self._current_file != file or file is None:
            if not await self._reader.run(SCHEMA.is_newest):
                return  # the next event brings it up to date; to assemble changes no older file
            self._current_file = file
        keep = partial(
            keep_counts,
            session_id=session_id,
            counts=counts,
            counter=counter,
            incarnation=incarnation,
            busy_seconds=self._busy_seconds,
        )
        await self._writer.run(keep)

    async def close(self) -> None:
        """Close the file and end both threads."""
        self._glance.close()
        # The last connection to close folds the log into the file, and a reader may not.
        await close_all(self._reader.close, self._writer.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _first(
        self, find: Callable[[sqlite3.Connection], StoredSession], connection: sqlite3.Connection
    ) -> StoredSession:
        """Find a session where waiting for a disk is no harm; later ones are found at a glance."""
        self._glance.open()
        return find(connection)
