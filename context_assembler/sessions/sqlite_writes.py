"""What a SQLite session store tells its tables."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_urlsafe
from typing import Final

from context_assembler.errors import ConcurrentAppendError, DuplicateEventError
from context_assembler.sessions.rules import (
    generated_id,
    number_events,
    place_of,
    session_begun_by,
)
from context_assembler.sessions.sqlite_counts import forget_counts
from context_assembler.sessions.sqlite_rows import find_session
from context_assembler.sqlite.schema import transaction
from context_assembler.values.codec import FORMAT_VERSION, dump_event, dump_session
from context_assembler.values.events import Session, SessionEvent

_IDS_PER_QUERY: Final = 500
_MARK_BYTES: Final = 9  # by chance alike once in 10**21 times


def save_session(connection: sqlite3.Connection, session: Session) -> None:
    """Insert the session, or replace the record of one that exists."""
    with transaction(connection):
        _insert_session(connection, session)


def begin_session(connection: sqlite3.Connection, session: Session) -> None:
    """Insert the session, unless there is one of its id."""
    with transaction(connection):
        if _last_seq(connection, session.id) is None:
            _insert_session(connection, session)


def append_events(
    connection: sqlite3.Connection,
    session_id: str,
    events: Sequence[SessionEvent],
    *,
    expected_seq: int | None,
) -> list[SessionEvent]:
    """Number and insert the events in one transaction, and return them.

    Raises:
        ConcurrentAppendError: `expected_seq` is given and is not the last sequence number.
        DuplicateEventError: The session has an event of one of these ids.
    """
    # Encoded before the lock is taken: other writers wait for the disk only.
    bodies = [
        dump_event(replace(event, id="", seq=0), where=place_of(session_id, events, index))
        for index, event in enumerate(events)
    ]
    with transaction(connection):
        last_seq = _last_seq(connection, session_id)
        if expected_seq is not None and expected_seq != (last_seq or 0):
            raise ConcurrentAppendError(
                session_id, expected_seq=expected_seq, actual_seq=last_seq or 0
            )
        if not events:
            return []
        if last_seq is None:
            _insert_session(connection, session_begun_by(session_id, events))
        numbered = _number(connection, session_id, events, last_seq=last_seq or 0)
        _insert_events(connection, session_id, numbered, bodies)
    return numbered


def delete_session(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove the session with its events.

    Raises:
        UnknownSessionError: There is no such session.
    """
    with transaction(connection):
        forget_counts(connection, session_key=find_session(connection, session_id).key)
        connection.execute("DELETE FROM events WHERE session_id = ?", (session_id,))
        connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))


def _last_seq(connection: sqlite3.Connection, session_id: str) -> int | None:
    row = connection.execute("SELECT last_seq FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return None if row is None else int(row[0])


def _insert_session(connection: sqlite3.Connection, session: Session) -> None:
    connection.execute(
        """
        INSERT INTO sessions (id, last_seq, record, created_at, format_version)
        VALUES (?, 0, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET
            record = excluded.record,
            created_at = excluded.created_at,
            format_version = excluded.format_version
        """,
        (
            session.id,
            dump_session(session),
            None if session.created_at is None else session.created_at.isoformat(),
            FORMAT_VERSION,
        ),
    )


def _number(
    connection: sqlite3.Connection,
    session_id: str,
    events: Sequence[SessionEvent],
    *,
    last_seq: int,
) -> list[SessionEvent]:
    given = [event.id for event in events if event.id]
    wanted = [generated_id(last_seq + i) for i, event in enumerate(events, start=1) if not event.id]
    if repeated := _taken(connection, session_id, given):
        raise DuplicateEventError(session_id, event_id=min(repeated))
    taken = _taken(connection, session_id, wanted)
    while True:
        numbered = number_events(events, last_seq=last_seq, taken_ids=taken)
        clashes = _taken(connection, session_id, [event.id for event in numbered])
        if not clashes:
            return numbered
        taken |= clashes


def _taken(connection: sqlite3.Connection, session_id: str, event_ids: Sequence[str]) -> set[str]:
    taken: set[str] = set()
    for start in range(0, len(event_ids), _IDS_PER_QUERY):
        batch = event_ids[start : start + _IDS_PER_QUERY]
        marks = ", ".join("?" * len(batch))
        rows = connection.execute(
            f"SELECT id FROM events WHERE session_id = ? AND id IN ({marks})",  # noqa: S608 – question marks only
            (session_id, *batch),
        )
        taken.update(event_id for (event_id,) in rows)
    return taken


def _insert_events(
    connection: sqlite3.Connection,
    session_id: str,
    events: Sequence[SessionEvent],
    bodies: Sequence[bytes],
) -> None:
    mark = token_urlsafe(_MARK_BYTES)
    connection.executemany(
        """
        INSERT INTO events (session_id, seq, id, type, body, created_at, format_version, mark)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            (
                session_id,
                event.seq,
                event.id,
                event.type,
                body,
                None if event.created_at is None else event.created_at.isoformat(),
                FORMAT_VERSION,
                mark,
            )
            for event, body in zip(events, bodies, strict=True)
        ),
    )
    told = "UPDATE sessions SET last_seq = ?, last_mark = ? WHERE id = ?"
    connection.execute(told, (events[-1].seq, mark, session_id))
