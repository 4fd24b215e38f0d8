"""`SqliteStore` and `MemoryStore`: events as they are, and small columns that decisions are made on.

Whatever depends on one event alone is computed when that event is appended, and kept next to it:
kind, time, token counts by family; of older events in blocks of 256. A cold process reads those,
finds the cut, and reads the bodies of what it keeps.
"""

import os
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection, IntegrityError
from struct import Struct
from typing import Any, Final, NamedTuple, Self, TypeVar

from context_assembler.errors import (
    ConcurrentAppendError,
    DuplicateEventError,
    EventFormatError,
    InvalidParameterError,
    StoreUnavailableError,
    UnknownSessionError,
)
from context_assembler.events import (
    SIGNED,
    UNUSUAL,
    Body,
    CallRow,
    Json,
    Session,
    SessionEvent,
    SessionHead,
    Usage,
    body_of,
    dump_json,
    event_of,
    kind_of,
    link_of,
    load_json,
    mark_of,
    to_json,
)
from context_assembler.ports import StoredColumns, TokenFamily
from context_assembler.sessions.files import Schema, SqliteFile

_T = TypeVar("_T")

# `events.key` is session << 32 | seq. `blocks.key` is session << 32 | family << 24 | block: family 0
# has the columns that are the same for every family, the others have their token counts. What is not
# in a block yet stands in `events.columns`: mark, answers_seq and link, then family, tokens and
# reasoning for each family that counted the event.
SCHEMA: Final = Schema(
    store="sessions",
    migrations=(
        """
        CREATE TABLE sessions (
            key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
            incarnation TEXT NOT NULL, version INTEGER NOT NULL, last_seq INTEGER NOT NULL,
            record BLOB NOT NULL, created_at REAL);
        CREATE TABLE events (
            key INTEGER PRIMARY KEY, kind INTEGER NOT NULL, id TEXT NOT NULL, created_at REAL,
            columns BLOB NOT NULL, body BLOB NOT NULL);
        CREATE UNIQUE INDEX events_by_id ON events (key >> 32, id);
        CREATE TABLE families (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
        CREATE TABLE blocks (key INTEGER PRIMARY KEY, data BLOB NOT NULL);
        CREATE TABLE derived (
            session INTEGER, purpose TEXT, seq INTEGER, value BLOB NOT NULL,
            PRIMARY KEY (session, purpose, seq)) WITHOUT ROWID;
        CREATE TABLE calls (
            number INTEGER PRIMARY KEY, session INTEGER NOT NULL, reply_seq INTEGER NOT NULL,
            answers_seq INTEGER NOT NULL, model TEXT NOT NULL, factor REAL NOT NULL, learned TEXT,
            body BLOB NOT NULL);
        CREATE INDEX calls_by_session ON calls (session, reply_seq);
        CREATE INDEX calls_by_learned ON calls (learned) WHERE learned IS NOT NULL;
        CREATE TABLE texts (hash TEXT PRIMARY KEY, text BLOB NOT NULL)
        """,
    ),
    tables=("sessions", "events", "blocks"),
)
BLOCK: Final = 256
_SHARED: Final = "BBdIH"  # types of the columns in a block: kind, mark, created, answers, link
_COUNTS: Final = "II"  # tokens, reasoning
_OWN: Final = Struct("<BIH")  # of one event
_OWN_COUNTS: Final = Struct("<BII")
_MOST_SEQ: Final = 0xFFFF_FFFF
_MOST_ID_CHARS: Final = 512
_MOST_HEADS: Final = 1_000
_PAGE: Final = 200  # events that `load` reads at once
_FEW_BYTES: Final = 16_000  # of events that are counted and written faster than a thread is asked

# In these statements @ is the key of the session whose id is the first parameter, and # stands for a
# span of its events.
_HEAD: Final = (
    "SELECT incarnation, version, last_seq, created_at, record FROM sessions WHERE id = ?"
)
_BLOCKS: Final = (
    "SELECT key & 0xFFFFFF, data FROM blocks WHERE key BETWEEN (@ << 32) + ?2 AND (@ << 32) + ?3"
)
_TAIL: Final = "SELECT key & 0xFFFFFFFF, kind, created_at, columns FROM events WHERE # LIMIT ?4"
_EVENTS: Final = "SELECT key & 0xFFFFFFFF, id, created_at, kind, body FROM events WHERE # LIMIT ?4"
_IDS: Final = "SELECT key & 0xFFFFFFFF, id, created_at FROM events WHERE #"
_FACTORS: Final = (
    "SELECT answers_seq, factor FROM calls WHERE session = @ AND model = ?2 "
    "ORDER BY answers_seq, number"
)
_CALLS: Final = "SELECT body FROM calls WHERE session = @ AND reply_seq > ?2 ORDER BY reply_seq"
_LAST_CALL: Final = "SELECT body FROM calls WHERE session = @ ORDER BY reply_seq DESC LIMIT 1"
_DERIVED: Final = "SELECT seq, value FROM derived WHERE session = @ AND purpose = ?2 AND seq > ?3"


def _sql(statement: str) -> str:
    span = "key BETWEEN (@ << 32) + ?2 AND (@ << 32) + ?3"
    return statement.replace("#", span).replace("@", "(SELECT key FROM sessions WHERE id = ?1)")


class _Row(NamedTuple):
    """An event on its way into the tables."""

    event: SessionEvent
    kind: int
    created: float | None
    body: Body
    raw: bytes


class SqliteStore:
    """A session store in one file, for many threads and processes at once.

    Nothing is touched before the first call; reading alone never creates the file. After `close` the
    next call opens it again. A write that is cancelled while it waits for the disk may still have
    happened: all of it, or nothing.

    Args:
        path: The file; its folder must exist. `~` is the home folder.
        busy_seconds: How long to wait for another process that writes.
    """

    def __init__(self, path: str | Path, *, busy_seconds: float = 10.0) -> None:
        if str(path) == ":memory:" or "\0" in str(path):
            remedy = "For sessions in memory use InMemoryStore(), or the URL 'memory:'."
            raise InvalidParameterError("path", path, rule="must name a file", remedy=remedy)
        self.path: Path | None = Path(path).expanduser().absolute()
        self._begin(busy_seconds)

    def _begin(self, busy_seconds: float) -> None:
        self._file = SqliteFile(self.path, SCHEMA, busy_seconds=busy_seconds)
        self._families: dict[str, TokenFamily] = {}
        self._numbers: dict[str, int] = {}
        self._numbers_of = 0  # which of the files that took the path's place
        self._heads: dict[str, tuple[tuple[Any, ...], SessionHead | None]] = {}
        self._writer: tuple[int, Any] | None = None  # of which process, and its thread

    # ---- what the core reads and writes ----

    def look(self, session_id: str) -> SessionHead | None:
        """Return the session's record, last number and version; `None` if there is none."""
        with self._file.reading() as db:
            row = db.execute(_HEAD, (session_id,)).fetchone()
        if row is None:
            return None
        row = (*row, self._file.replaced)
        known, head = self._heads.get(session_id, ((), None))
        if known == row:
            return head
        incarnation, version, last_seq, created, record, replaced = row
        if head is not None and known[3:5] == row[3:5]:
            session = head.session
        else:
            session = Session(id=session_id, created_at=_moment(created), **load_json(record))
        incarnation = f"{incarnation}-{replaced}"
        head = SessionHead(
            session=session,
            last_seq=last_seq,
            version=f"{incarnation}-{version}",
            incarnation=incarnation,
        )
        if len(self._heads) > _MOST_HEADS:
            self._heads.clear()
        self._heads[session_id] = row, head
        return head

    def columns(self, session_id: str, family: TokenFamily, *, after_seq: int = 0) -> StoredColumns:
        """Return the columns after a sequence number; events not counted yet are counted now."""
        self._families[family.key] = family
        with self._file.reading(looks=False) as db:
            number = self._number(db, family.key)
            shared, counts = _stored(db, session_id, number, after_seq)
        kinds, marks, *others = shared
        if len(counts[0]) < len(kinds):
            counts = self._count(session_id, family, after_seq)
        counts = [column[: len(kinds)] for column in counts]  # somebody may have appended meanwhile
        columns: list[Any] = [bytearray(kinds), bytearray(marks), *others, *counts]
        return StoredColumns(**dict(zip(StoredColumns.__slots__, columns, strict=True)))

    def bodies(self, session_id: str, spans: Sequence[tuple[int, int]]) -> list[Body]:
        """Return the bodies of ranges of sequence numbers, in order.

        Raises:
            EventFormatError: A body is damaged.
        """
        bodies: list[Body] = []
        for first, last in spans:
            rows = self._query(session_id, "SELECT body FROM events WHERE #", max(first, 1), last)
            bodies += _load_all([raw for (raw,) in rows], session_id, first)
        return bodies

    def rows(
        self, session_id: str, spans: Sequence[tuple[int, int]]
    ) -> list[tuple[int, str, float | None]]:
        """Return (seq, id, created as a POSIX time) of ranges of sequence numbers, in order."""
        return [
            row
            for first, last in spans
            for row in self._query(session_id, _IDS, max(first, 1), last)
        ]

    def events(self, session_id: str, *, after_seq: int = 0, limit: int = -1) -> list[SessionEvent]:
        """Return the events after a sequence number, at most `limit` of them, oldest first.

        Raises:
            UnknownSessionError: There is no such session.
            EventFormatError: An event is damaged.
        """
        first = min(max(after_seq, 0), _MOST_SEQ) + 1
        rows = self._query(session_id, _EVENTS, first, _MOST_SEQ, limit)
        bodies = _load_all([row[-1] for row in rows], session_id, first)
        return [
            event_of(body, kind=kind, id=event_id, seq=seq, created_at=_moment(created))
            for (seq, event_id, created, kind, _), body in zip(rows, bodies, strict=True)
        ]

    def factors(self, session_id: str, model: str) -> list[tuple[int, float]]:
        """Return (answers_seq, factor) of the model's recorded calls, oldest first."""
        return self._query(session_id, _FACTORS, model)

    def calls(self, session_id: str, *, after_seq: int = 0) -> list[CallRow]:
        """Return the recorded calls whose reply has a larger number, oldest first."""
        return [
            call_from_json(load_json(raw)) for (raw,) in self._query(session_id, _CALLS, after_seq)
        ]

    def last_call(self, session_id: str) -> CallRow | None:
        """Return the newest recorded call."""
        found = self._query(session_id, _LAST_CALL)
        return call_from_json(load_json(found[0][0])) if found else None

    def learned(self, key: str) -> Json:
        """Return what the newest call with `details["learned"]["key"] == key` learned, or `None`."""
        asked = "SELECT body FROM calls WHERE learned = ? ORDER BY number DESC LIMIT 1"
        with self._file.reading(looks=False) as db:
            row = db.execute(asked, (key,)).fetchone()
        return None if row is None else load_json(row[0])["details"]["learned"]

    def text(self, digest: str) -> str | None:
        """Return a system prompt or tool list that a call row names by its hash."""
        with self._file.reading(looks=False) as db:
            row = db.execute("SELECT text FROM texts WHERE hash = ?", (digest,)).fetchone()
        return None if row is None else row[0].decode("utf-8", "surrogatepass")

    def derived(self, session_id: str, purpose: str, *, after_seq: int = 0) -> dict[int, Json]:
        """Return what was computed once per event for a purpose, by sequence number."""
        found = self._query(session_id, _DERIVED, purpose, after_seq)
        values = load_json(b"[" + b",".join([raw for _, raw in found]) + b"]")
        return {seq: value for (seq, _), value in zip(found, values, strict=True)}

    def keep_derived(self, session_id: str, purpose: str, values: Mapping[int, Json]) -> None:
        """Keep such values; a store that cannot be written to passes over it."""
        raw = [(purpose, seq, dump_json(value)) for seq, value in values.items()]
        lost = (StoreUnavailableError, UnknownSessionError)
        with suppress(*lost), self._file.writing(is_durable=False) as db:
            key, _ = _find(db, session_id)
            rows = [(key, *row) for row in raw]
            db.executemany("INSERT OR REPLACE INTO derived VALUES (?, ?, ?, ?)", rows)

    def create_now(self, session: Session, *, replaces: bool = True) -> None:
        """Keep a new session; replace the record of one that exists, unless told not to.

        Raises:
            InvalidParameterError: Not every store can keep the session's id.
            EventFormatError: The record holds something that JSON cannot express.
        """
        _check_id("session_id", session.id)
        with self._file.writing() as db:
            _put(db, session, replaces=replaces)

    def append_now(
        self, session_id: str, events: Sequence[SessionEvent], **row: Any
    ) -> list[SessionEvent]:
        """Append in one transaction, with columns for every family that the file knows.

        Args:
            row: `expected_seq`, the last number that the caller has seen; `call`, the row of the call
                that the last of the events answers; `texts`, system prompts and tool lists that the
                row names, by hash.

        Raises:
            ConcurrentAppendError: `expected_seq` is given and is not the last sequence number.
            DuplicateEventError: The session, or `events` itself, has an event of that id already.
            InvalidParameterError: Not every store can keep the session's id, or an event's.
            EventFormatError: An event holds something that JSON cannot express.
        """
        return self._append(session_id, _rows_of(events, session_id), **row)

    def _append(
        self,
        session_id: str,
        rows: "Sequence[_Row]",
        *,
        expected_seq: int | None = None,
        call: CallRow | None = None,
        texts: Mapping[str, str] | None = None,
        is_durable: bool = True,
    ) -> list[SessionEvent]:
        from context_assembler.tokens import DEFAULT_FAMILIES

        _check_id("session_id", session_id)
        pairs = [(row.kind, row.body) for row in rows]
        with self._file.reading() as db:  # counted before the lock is taken
            self._number(db, DEFAULT_FAMILIES[0])
        numbers = self._numbers or {key: n for n, key in enumerate(DEFAULT_FAMILIES, 1)}
        replaced = self._file.replaced
        counted: dict[int, list[array[int]]] = {}
        for key, number in numbers.items():
            if (family := self._family(key)) is not None:
                counted[number] = _counts(family, pairs)
        with self._file.writing(is_durable=is_durable) as db:
            if replaced != self._file.replaced:
                counted = {}
            found = _look_up(db, session_id)
            session, last_seq = found or (0, 0)
            if expected_seq is not None and expected_seq != last_seq:
                raise ConcurrentAppendError(
                    session_id, expected_seq=expected_seq, actual_seq=last_seq
                )
            if not rows:
                return []
            if found is None:
                moments = (row.event.created_at for row in rows if row.event.created_at is not None)
                _put(db, Session(id=session_id, created_at=next(moments, None)), replaces=False)
                session, _ = _find(db, session_id)
            stored = _insert_events(db, session_id, session, last_seq, rows, counted=counted)
            first = last_seq - last_seq % BLOCK
            if first + BLOCK <= stored[-1].seq:
                for number in (*counted, 0):
                    shared, counts = _stored(db, session_id, number, first)
                    _keep_blocks(db, session, number, first, counts if number else shared)
            if call is not None:
                _insert_call(db, session, replace(call, reply_seq=stored[-1].seq))
            for digest, text in (texts or {}).items():  # as bytes: SQLite takes no lone surrogates
                raw = text.encode("utf-8", "surrogatepass")
                db.execute("INSERT OR IGNORE INTO texts VALUES (?, ?)", (digest, raw))
            changed = "UPDATE sessions SET last_seq = ?, version = version + 1 WHERE key = ?"
            db.execute(changed, (last_seq + len(rows), session))
        return stored

    def delete_now(self, session_id: str) -> None:
        """Forget the session with all its events.

        Raises:
            UnknownSessionError: There is no such session.
        """
        with self._file.writing() as db:
            key, _ = _find(db, session_id)
            ends = (key << 32, (key + 1) << 32)
            db.execute("DELETE FROM events WHERE key >= ? AND key < ?", ends)
            db.execute("DELETE FROM blocks WHERE key >= ? AND key < ?", ends)
            db.execute("DELETE FROM derived WHERE session = ?", (key,))
            db.execute("DELETE FROM calls WHERE session = ?", (key,))
            db.execute("DELETE FROM sessions WHERE key = ?", (key,))

    # ---- what applications call ----

    async def create(self, session: Session) -> None:
        """Keep a new session; replace the record of one that exists, its events untouched."""
        await self.away(self.create_now, session)

    async def append(
        self, session_id: str, events: Sequence[SessionEvent], **row: Any
    ) -> list[SessionEvent]:
        """Append, and return the events with `id` and `seq` filled in; see `append_now`."""
        rows = _rows_of(events, session_id)
        if self._file.is_logged and sum(len(one.raw) for one in rows) < _FEW_BYTES:
            try:
                stored = self._append(session_id, rows, is_durable=False, **row)
            except StoreUnavailableError:
                pass  # somebody else writes: the thread can wait for them
            else:
                await self.away(self._file.sync, self._file.moment())
                return stored
        return await self.away(self._append, session_id, rows, **row)

    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        """Yield the events with a larger sequence number, oldest first.

        Events that are appended meanwhile are yielded too; it ends if the session is deleted.

        Raises:
            UnknownSessionError: There is no such session.
            EventFormatError: An event is damaged.
        """
        head = await self.head(session_id)
        now: SessionHead | None = head
        while now and now.incarnation == head.incarnation and after_seq < now.last_seq:
            page = await self.away(self.events, session_id, after_seq=after_seq, limit=_PAGE)
            for event in page:
                yield event
            after_seq = page[-1].seq
            now = self.look(session_id)

    async def head(self, session_id: str) -> SessionHead:
        """Return the session's record and last sequence number.

        Raises:
            UnknownSessionError: There is no such session; the error names the nearest ids.
        """
        head = self.look(session_id)
        if head is None:
            with self._file.reading() as db:
                raise _unknown(db, session_id)
        return head

    async def list_sessions(self) -> list[SessionHead]:
        """Return every session, most recently created last."""
        with self._file.reading() as db:
            ids = [name for (name,) in db.execute("SELECT id FROM sessions ORDER BY key")]
        return [head for head in map(self.look, ids) if head is not None]

    async def delete(self, session_id: str) -> None:
        """Forget the session with all its events.

        Raises:
            UnknownSessionError: There is no such session.
        """
        await self.away(self.delete_now, session_id)

    async def close(self) -> None:
        """Close the file, after the writes that wait; what is in memory stays."""
        if self._writer is not None:
            await self.away(self._file.close)
            self._writer[1].shutdown(wait=False)
            self._writer = None
        self._file.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def away(self, act: Callable[..., _T], *given: Any, **named: Any) -> _T:
        """Run an action that waits for the disk in the thread that writes."""
        if self.path is None:
            return act(*given, **named)
        from asyncio import get_running_loop
        from concurrent.futures import ThreadPoolExecutor
        from functools import partial

        if self._writer is None or self._writer[0] != os.getpid():  # a fork takes no threads along
            self._writer = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="sessions")
        work = partial(act, *given, **named)
        return await get_running_loop().run_in_executor(self._writer[1], work)

    # ---- inside ----

    def _query(self, session_id: str, sql: str, *given: Any) -> list[Any]:
        """Return the rows of a statement whose first parameter is the session's id."""
        with self._file.reading(looks=False) as db:
            rows = db.execute(_sql(sql), (session_id, *given)).fetchall()
            if not rows:
                _find(db, session_id)
            return rows

    def _number(self, db: Connection, key: str) -> int:
        """Return a family's number in the file; 255 if it has counted no session."""
        if key not in self._numbers or self._numbers_of != self._file.replaced:
            self._numbers = dict(db.execute("SELECT key, number FROM families").fetchall())
            self._numbers_of = self._file.replaced
        return self._numbers.get(key, 255)

    def _family(self, key: str) -> TokenFamily | None:
        """Return a family by its key; of one that is not known here counts are made when needed."""
        if key not in self._families:
            from context_assembler.tokens import family_by_key

            family = family_by_key(key)
            if family is None:
                return None
            self._families[key] = family
        return self._families[key]

    def _count(self, session_id: str, family: TokenFamily, after_seq: int) -> "list[array[int]]":
        """Count what the family has not counted yet, and keep the counts if the store can."""
        with self._file.reading() as db:
            key, _ = _find(db, session_id)
            number = self._number(db, family.key)
            shared, known = _stored(db, session_id, number, 0)
        counted = len(known[0])
        kinds = shared[0][counted:]
        bodies = self.bodies(session_id, [(counted + 1, len(shared[0]))])
        more = _counts(family, zip(kinds, bodies, strict=True))
        columns = [old + new for old, new in zip(known, more, strict=True)]
        with suppress(StoreUnavailableError), self._file.writing(is_durable=False) as db:
            if (_look_up(db, session_id) or (0,))[0] == key:
                db.execute("INSERT OR IGNORE INTO families (key) VALUES (?)", (family.key,))
                number = self._number(db, family.key)
                _keep_blocks(db, key, number, 0, columns, is_partial=True)
        return [column[max(after_seq, 0) :] for column in columns]


class MemoryStore(SqliteStore):
    """A session store without a file, for many threads; its sessions are gone with the process."""

    def __init__(self) -> None:
        self.path = None
        self._begin(0.0)


def call_from_json(value: Mapping[str, Json]) -> CallRow:
    """Return the call row that `to_json` was given."""
    usage, at, made = value.get("usage"), value.get("created_at"), dict[str, Any](value)
    made |= {"usage": usage and Usage(**usage), "created_at": at and datetime.fromisoformat(at)}
    return CallRow(**made)


# ---- sessions and events ----


def _look_up(db: Connection, session_id: str) -> tuple[int, int] | None:
    """Return the session's key and last sequence number."""
    found: tuple[int, int] | None = db.execute(
        "SELECT key, last_seq FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    return found


def _find(db: Connection, session_id: str) -> tuple[int, int]:
    found = _look_up(db, session_id)
    if found is None:
        raise _unknown(db, session_id)
    return found


def _unknown(db: Connection, session_id: str) -> UnknownSessionError:
    newest = db.execute("SELECT id FROM sessions ORDER BY key DESC LIMIT 2000")
    return UnknownSessionError(session_id, known=[known for (known,) in newest])


def _put(db: Connection, session: Session, *, replaces: bool) -> None:
    """Insert the session, or replace the record of one that exists."""
    from context_assembler.tokens import DEFAULT_FAMILIES

    families = [(key,) for key in DEFAULT_FAMILIES]
    db.executemany("INSERT OR IGNORE INTO families (key) VALUES (?)", families)
    record = {"agent_id": session.agent_id, "defaults": session.defaults}
    record["metadata"] = session.metadata
    raw = dump_json(record, where=f"The record of session {session.id!r}")
    db.execute(
        "INSERT INTO sessions (id, incarnation, version, last_seq, record, created_at) "
        "VALUES (?, ?, 1, 0, ?, ?) ON CONFLICT (id) DO UPDATE SET version = version + 1, "
        "record = excluded.record, created_at = excluded.created_at WHERE ?",
        (session.id, os.urandom(8).hex(), raw, _time_of(session.created_at), replaces),
    )


def _rows_of(events: Sequence[SessionEvent], session_id: str) -> list[_Row]:
    rows: list[_Row] = []
    for at, event in enumerate(events, 1):
        if event.id:
            _check_id("event id", event.id)
        body, name = body_of(event), f" {event.id!r}" if event.id else ""
        among = f" (number {at} of {len(events)})" if len(events) > 1 else ""
        raw = dump_json(
            body, where=f"The {event.type} event{name}{among} for session {session_id!r}"
        )
        kind = kind_of(event.type, body, is_pinned=event.is_pinned)
        rows.append(_Row(event, kind, _time_of(event.created_at), body, raw))
    return rows


def _insert_events(
    db: Connection,
    session_id: str,
    key: int,
    last_seq: int,
    rows: Sequence[_Row],
    *,
    counted: "Mapping[int, Sequence[array[int]]]",
) -> list[SessionEvent]:
    """Insert the events with their numbers, ids and columns, and return them."""
    given, stored = {row.event.id for row in rows}, list[SessionEvent]()
    for at, row in enumerate(rows):
        seq, body = last_seq + at + 1, row.body
        event_id = row.event.id or f"evt_{seq}"
        columns = _OWN.pack(mark_of(row.kind, body), row.event.answers_seq, link_of(body))
        for number, counts in counted.items():
            columns += _OWN_COUNTS.pack(number, *(column[at] for column in counts))
        while True:
            try:
                if row.event.id or event_id not in given:
                    values = (key << 32 | seq, row.kind, event_id, row.created, columns, row.raw)
                    db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", values)
                    break
            except IntegrityError as error:
                if row.event.id:
                    raise DuplicateEventError(session_id, event_id=event_id) from error
            event_id += "'"
        stored.append(replace(row.event, id=event_id, seq=seq))
        if row.kind & SIGNED:
            made_by = body.get("made_by", {})
            signer = [made_by.get(name) for name in ("provider", "model", "account", "prefix")]
            signed = (key, "signed", seq, dump_json(signer))
            db.execute("INSERT INTO derived VALUES (?, ?, ?, ?)", signed)
    return stored


def _insert_call(db: Connection, key: int, call: CallRow) -> None:
    learned = call.details.get("learned", {}).get("key")
    raw = dump_json(to_json(call), where="The row of the call")
    db.execute(
        "INSERT INTO calls (session, reply_seq, answers_seq, model, factor, learned, body) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (key, call.reply_seq, call.answers_seq, call.model, call.factor, learned, raw),
    )


def _load_all(rows: Sequence[bytes], session_id: str, first_seq: int) -> list[Body]:
    with suppress(ValueError):
        bodies: list[Body] = load_json(b"[" + b",".join(rows) + b"]")
        return bodies
    for seq, raw in enumerate(rows, first_seq):
        try:
            load_json(raw)
        except ValueError as error:
            where = f"Event {seq} of {session_id!r}"
            remedy = "Upgrade the package if a newer version wrote it; else restore a backup."
            raise EventFormatError(where=where, reason=str(error), remedy=remedy) from error
    raise AssertionError("one of them is damaged")


def _time_of(moment: datetime | None) -> float | None:
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _moment(created: float | None) -> datetime | None:
    return None if created is None else datetime.fromtimestamp(created, UTC)


def _check_id(name: str, given: str) -> None:
    has_bad = any(char == "\0" or "\ud800" <= char <= "\udfff" for char in given)
    if not given or len(given) > _MOST_ID_CHARS or has_bad:
        rule = f"must have 1 to {_MOST_ID_CHARS} characters, without NUL and unpaired surrogates"
        raise InvalidParameterError(name, given, rule=rule, remedy="Use another id.")


# ---- columns ----


def _counts(family: TokenFamily, pairs: Iterable[tuple[int, Body]]) -> "list[array[int]]":
    tokens, reasoning = array("I"), array("I")
    count, count_reasoning = family.count_event, family.count_reasoning
    for kind, body in pairs:
        tokens.append(count(kind, body))
        reasoning.append(count_reasoning(body) if kind & (SIGNED | UNUSUAL) else 0)
    return [tokens, reasoning]


def _stored(
    db: Connection, session_id: str, number: int, after_seq: int
) -> "tuple[list[array[Any]], list[array[int]]]":
    """Return the shared columns and a family's after a sequence number; these can be fewer."""
    after_seq = max(after_seq, 0)
    shared, counts = _no_columns(0), _no_columns(number)
    if after_seq:  # as a rule there are few events, and none of them is in a block
        rows = db.execute(_sql(_TAIL), (session_id, after_seq + 1, _MOST_SEQ, BLOCK)).fetchall()
        _add_tail(rows, number, shared, counts, after_seq)
        if len(rows) < BLOCK and len(counts[0]) == len(shared[0]):
            return shared, counts
    shared = _read_blocks(db, session_id, 0, after_seq)
    counts = _read_blocks(db, session_id, number, after_seq) if number else counts
    span = (session_id, after_seq + len(shared[0]) + 1, _MOST_SEQ, -1)
    _add_tail(db.execute(_sql(_TAIL), span), number, shared, counts, after_seq)
    return shared, counts


def _no_columns(number: int) -> "list[array[Any]]":
    return [array(code) for code in (_COUNTS if number else _SHARED)]


def _add_tail(
    rows: Iterable[tuple[int, int, float | None, bytes]],
    number: int,
    shared: "Sequence[array[Any]]",
    counts: "Sequence[array[int]]",
    after_seq: int,
) -> None:
    """Add events with columns of their own to those before them, as far as they follow."""
    for seq, kind, created, columns in rows:
        mark, answers, link = _OWN.unpack_from(columns)
        row = (kind, mark, created or 0.0, answers, link)
        for column, value in zip(shared, row, strict=True):
            column.append(value)
        for at in range(_OWN.size, len(columns), _OWN_COUNTS.size):
            family, *tokens = _OWN_COUNTS.unpack_from(columns, at)
            if family == number and seq == after_seq + len(counts[0]) + 1:
                for column, value in zip(counts, tokens, strict=True):
                    column.append(value)


def _read_blocks(
    db: Connection, session_id: str, number: int, after_seq: int
) -> "list[array[Any]]":
    """Return what blocks hold of a family, or of the shared columns, after a sequence number."""
    first, skipped = divmod(after_seq, BLOCK)
    columns, base = _no_columns(number), number << 24
    size = sum(column.itemsize for column in columns)
    for block, data in db.execute(_sql(_BLOCKS), (session_id, base + first, base + 0xFF_FFFF)):
        if (block - first) * BLOCK != len(columns[0]):
            break  # some events in between are not counted
        count, at = len(data) // size, 0
        for column in columns:
            end = at + column.itemsize * count
            column.frombytes(data[at:end])
            at = end
    return [column[skipped:] for column in columns] if skipped else columns


def _keep_blocks(
    db: Connection,
    key: int,
    number: int,
    after_seq: int,
    columns: "Sequence[array[Any]]",
    *,
    is_partial: bool = False,
) -> None:
    """Write columns in blocks; the last block is written if it is full, or may be partial."""
    base, count = key << 32 | number << 24 | after_seq // BLOCK, len(columns[0])
    for at in range(0, count if is_partial else count - count % BLOCK, BLOCK):
        data = b"".join(column[at : at + BLOCK].tobytes() for column in columns)
        db.execute("INSERT OR REPLACE INTO blocks VALUES (?, ?)", (base + at // BLOCK, data))
