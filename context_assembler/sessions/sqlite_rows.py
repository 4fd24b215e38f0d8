"""What a SQLite session store asks and tells its tables."""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from secrets import token_urlsafe
from typing import Final, NamedTuple, TypeAlias

from context_assembler.errors import (
    ConcurrentAppendError,
    DuplicateEventError,
    UnknownSessionError,
)
from context_assembler.sessions.rules import (
    MAX_NEAREST_IDS,
    generated_id,
    number_events,
    place_of,
)
from context_assembler.sessions.sqlite_counts import forget_counts
from context_assembler.sqlite.schema import transaction
from context_assembler.values.codec import (
    FORMAT_VERSION,
    dump_event,
    dump_session,
    load_event,
    load_session,
)
from context_assembler.values.events import Session, SessionEvent, SessionHead

_IDS_PER_QUERY: Final = 500
_MARK_BYTES: Final = 9  # by chance alike once in 10**21 times
_MARK: Final = re.compile(r"\b((?:last_)?mark)\b")

_Parameters: TypeAlias = Sequence[str | int] | Mapping[str, str | int]


EventRow: TypeAlias = tuple[int, str, bytes]  # number, id, what `dump_event` wrote


class StoredRows(NamedTuple):
    """Rows of events, the incarnation of their session, and the marks of the first and the last."""

    incarnation: str
    rows: Sequence[EventRow]
    first_mark: str = ""
    last_mark: str = ""


class StoredSession(NamedTuple):
    """A row of `sessions`: `key` tells apart two sessions that had one id after each other."""

    key: int
    head: SessionHead


def save_session(connection: sqlite3.Connection, session: Session) -> None:
    """Insert the session, or replace the record of one that exists."""
    with transaction(connection):
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
            _insert_session(connection, Session(id=session_id))
        numbered = _number(connection, session_id, events, last_seq=last_seq or 0)
        _insert_events(connection, session_id, numbered, bodies)
    return numbered


def find_session(connection: sqlite3.Connection, session_id: str) -> StoredSession:
    """Return the session's row.

    Raises:
        UnknownSessionError: There is none; the error names the nearest of the newest ids.
    """
    row = _execute_with_marks(
        connection,
        "SELECT key, id, incarnation, record, last_seq, last_mark FROM sessions WHERE id = ?",
        (session_id,),
    ).fetchone()
    if row is not None:
        return _stored_session(row)
    newest = connection.execute(
        "SELECT id FROM sessions ORDER BY key DESC LIMIT ?", (MAX_NEAREST_IDS,)
    )
    raise UnknownSessionError(session_id, known=[known for (known,) in newest])


def find_sessions(connection: sqlite3.Connection) -> list[SessionHead]:
    """Return every session, most recently created last."""
    rows = _execute_with_marks(
        connection,
        "SELECT key, id, incarnation, record, last_seq, last_mark FROM sessions ORDER BY key",
    )
    return [_stored_session(row).head for row in rows]


def read_events(
    connection: sqlite3.Connection, session: StoredSession, *, after_seq: int, count: int
) -> list[SessionEvent]:
    """Return the next events of this very session; none once it was deleted."""
    session_id = session.head.session.id
    rows = connection.execute(
        """
        SELECT seq, id, body FROM events
        WHERE session_id = :id AND seq > :after_seq
          AND EXISTS (SELECT 1 FROM sessions WHERE id = :id AND key = :key)
        ORDER BY seq LIMIT :count
        """,
        {"id": session_id, "after_seq": after_seq, "key": session.key, "count": count},
    ).fetchall()
    return list(decode_rows(rows, session_id=session_id))


def read_rows(
    connection: sqlite3.Connection, session_id: str, *, after_seq: int, until_seq: int
) -> StoredRows:
    """Return the session's incarnation and the rows of a range of its events, both of one moment.

    Raises:
        UnknownSessionError: There is no such session.
    """
    # The session is found in the same statement: its events cannot be those of a later one.
    rows = _execute_with_marks(
        connection,
        """
        SELECT incarnation, mark, seq, events.id, body FROM sessions, events
        WHERE sessions.id = :id AND session_id = :id AND seq > :after_seq AND seq <= :until_seq
        ORDER BY seq
        """,
        {"id": session_id, "after_seq": after_seq, "until_seq": until_seq},
    ).fetchall()
    if not rows:
        return StoredRows(find_session(connection, session_id).head.incarnation, ())
    return StoredRows(
        incarnation=rows[0][0],
        rows=[(seq, event_id, body) for _, _, seq, event_id, body in rows],
        first_mark=rows[0][1],
        last_mark=rows[-1][1],
    )


def decode_rows(rows: Sequence[EventRow], *, session_id: str) -> tuple[SessionEvent, ...]:
    """Return the events that rows of the session hold.

    Raises:
        EventFormatError: An event cannot be decoded.
    """
    return tuple(
        load_event(
            body, where=f"event {seq} of {session_id!r}", beside={"id": event_id, "seq": seq}
        )
        for seq, event_id, body in rows
    )


def delete_session(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove the session with its events.

    Raises:
        UnknownSessionError: There is no such session.
    """
    with transaction(connection):
        forget_counts(connection, session_key=find_session(connection, session_id).key)
        connection.execute("DELETE FROM events WHERE session_id = ?", (session_id,))
        connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))


def _execute_with_marks(
    connection: sqlite3.Connection, sql: str, parameters: _Parameters = ()
) -> sqlite3.Cursor:
    """Execute a statement that asks for marks; where an older file has none, they are empty."""
    try:
        return connection.execute(sql, parameters)
    except sqlite3.OperationalError:
        without = _MARK.sub(r"'' AS \1", sql)
        return connection.execute(without, parameters)


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


def _stored_session(row: tuple[int, str, str, bytes, int, str]) -> StoredSession:
    key, session_id, incarnation, record, last_seq, last_mark = row
    session = load_session(record, where=f"session {session_id!r}")
    head = SessionHead(
        session=session, last_seq=last_seq, incarnation=incarnation, last_mark=last_mark
    )
    return StoredSession(key, head)
