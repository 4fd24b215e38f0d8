"""What a SQLite session store asks its tables."""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from context_assembler.errors import UnknownSessionError
from context_assembler.sessions.rules import MAX_NEAREST_IDS
from context_assembler.values.codec import load_event, load_session
from context_assembler.values.events import SessionEvent, SessionHead

_FEW_ROWS: Final = 64
_SHORT_BYTES: Final = 16 * 1024
_ANY_BYTES: Final = 2**62
_MARK: Final = re.compile(r"\b((?:last_)?mark)\b")

_Parameters: TypeAlias = Sequence[str | int] | Mapping[str, str | int]


EventRow: TypeAlias = tuple[int, str, bytes]  # number, id, what `dump_event` wrote


class StoredRows(NamedTuple):
    """Rows of events, the incarnation of their session, and marks: of the first, the last, and before."""

    incarnation: str
    rows: Sequence[EventRow]
    first_mark: str = ""
    last_mark: str = ""
    mark_before: str = ""


class Span(NamedTuple):
    """Events of a session, behind one number up to and including another."""

    session_id: str
    after_seq: int
    until_seq: int


class StoredSession(NamedTuple):
    """A row of `sessions`: `key` tells apart two sessions that had one id after each other."""

    key: int
    head: SessionHead


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
    connection: sqlite3.Connection, asked: Span, *, most_bytes: int = _ANY_BYTES
) -> StoredRows:
    """Return the session's incarnation and the rows of its events, both of one moment.

    Args:
        most_bytes: Bodies above that are not read: an empty one stands for each of them.

    Raises:
        UnknownSessionError: There is no such session.
    """
    # The session is found in the same statement: its events cannot be those of a later one.
    rows = _execute_with_marks(
        connection,
        """
        SELECT incarnation, mark, seq, events.id,
            CASE WHEN length(body) <= :most_bytes THEN body ELSE x'' END,
            (SELECT mark FROM events WHERE session_id = :id AND seq = :after_seq)
        FROM sessions, events
        WHERE sessions.id = :id AND session_id = :id AND seq > :after_seq AND seq <= :until_seq
        ORDER BY seq
        """,
        {
            "id": asked.session_id,
            "after_seq": asked.after_seq,
            "until_seq": asked.until_seq,
            "most_bytes": most_bytes,
        },
    ).fetchall()
    if not rows:
        return StoredRows(find_session(connection, asked.session_id).head.incarnation, ())
    return StoredRows(
        incarnation=rows[0][0],
        rows=[(seq, event_id, body) for _, _, seq, event_id, body, _ in rows],
        first_mark=rows[0][1],
        last_mark=rows[-1][1],
        mark_before=rows[0][5] or "",
    )


def read_few_rows(connection: sqlite3.Connection, asked: Span) -> StoredRows | None:
    """Return what `read_rows` does where that takes microseconds; `None`: there may be much to read."""
    if asked.until_seq - asked.after_seq > _FEW_ROWS:
        return None
    found = read_rows(connection, asked, most_bytes=_SHORT_BYTES)
    is_whole = all(body for _, _, body in found.rows)
    return found if found.rows and is_whole else None


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


def _execute_with_marks(
    connection: sqlite3.Connection, sql: str, parameters: _Parameters = ()
) -> sqlite3.Cursor:
    """Execute a statement that asks for marks; where an older file has none, they are empty."""
    try:
        return connection.execute(sql, parameters)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:  # nothing is wrong with the statement
            raise
        without = _MARK.sub(r"'' AS \1", sql)
        return connection.execute(without, parameters)


def _stored_session(row: tuple[int, str, str, bytes, int, str]) -> StoredSession:
    key, session_id, incarnation, record, last_seq, last_mark = row
    session = load_session(record, where=f"session {session_id!r}")
    head = SessionHead(
        session=session, last_seq=last_seq, incarnation=incarnation, last_mark=last_mark
    )
    return StoredSession(key, head)
