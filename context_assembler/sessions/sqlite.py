"""`SqliteStore` and `MemoryStore`: events as they are, and small columns that decisions are made on.

Whatever depends on one event alone is computed when that event is appended, and kept next to it in
blocks of 256 events: kind, time, token counts by family. A cold process reads those, finds the cut,
and reads the bodies of what it keeps.
"""

import os
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection
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
    load_json,
    mark_of,
    to_json,
)
from context_assembler.ports import StoredColumns, TokenFamily
from context_assembler.sessions.files import Schema, SqliteFile

_T = TypeVar("_T")

# `events.key` is session << 32 | seq. `blocks.key` is session << 32 | family << 24 | block: of family
# 0 are the columns that are the same for every family, of the others the token counts.
SCHEMA: Final = Schema(
    store="sessions",
    migrations=(
        """
        CREATE TABLE sessions (
            key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
            incarnation TEXT NOT NULL, version INTEGER NOT NULL, last_seq INTEGER NOT NULL,
            families TEXT NOT NULL, record BLOB NOT NULL, created_at REAL);
        CREATE TABLE events (
            key INTEGER PRIMARY KEY, kind INTEGER NOT NULL, id TEXT NOT NULL, created_at REAL,
            body BLOB NOT NULL);
        CREATE UNIQUE INDEX events_by_id ON events (key >> 32, id);
        CREATE TABLE families (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);
        CREATE TABLE blocks (key INTEGER PRIMARY KEY, data BLOB NOT NULL);
        CREATE TABLE derived (
            session INTEGER NOT NULL, purpose TEXT NOT NULL, seq INTEGER NOT NULL,
            value BLOB NOT NULL, PRIMARY KEY (session, purpose, seq)) WITHOUT ROWID;
        CREATE TABLE calls (
            number INTEGER PRIMARY KEY, session INTEGER NOT NULL, reply_seq INTEGER NOT NULL,
            answers_seq INTEGER NOT NULL, model TEXT NOT NULL, factor REAL NOT NULL, learned TEXT,
            body BLOB NOT NULL);
        CREATE INDEX calls_by_session ON calls (session, reply_seq);
        CREATE INDEX calls_by_learned ON calls (learned) WHERE learned IS NOT NULL;
        CREATE TABLE texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL)
        """,
    ),
    tables=("sessions", "events", "blocks"),
)
BLOCK: Final = 256
_SHARED: Final = "BBdI"  # types of the columns in a block: kind, mark, created, answers_seq
_COUNTS: Final = "II"  # tokens, reasoning
_MOST_SEQ: Final = 0xFFFF_FFFF
_MAX_ID_CHARS: Final = 512
_PAGE: Final = 200  # events that `load` reads at once
_MOST_HEADS: Final = 1_000

_LIST_HEADS: Final = (
    "SELECT id, incarnation, version, last_seq, record, created_at FROM sessions ORDER BY key"
)
_ONE_HEAD: Final = (
    "SELECT id, incarnation, version, last_seq, record, created_at FROM sessions WHERE id = ?"
)
_NEWEST_IDS: Final = "SELECT id FROM sessions ORDER BY key DESC LIMIT 2000"
_EVENTS: Final = """
    SELECT key & 0xFFFFFFFF, kind, id, created_at, body FROM events
    JOIN (SELECT key << 32 AS base FROM sessions WHERE id = ?)
    WHERE key > base + ? AND key <= base + 0xFFFFFFFF ORDER BY key LIMIT ?"""
_CALLS: Final = "SELECT body FROM calls WHERE session = ? AND reply_seq > ? ORDER BY reply_seq"
_LAST_CALL: Final = (
    "SELECT body FROM calls WHERE session = ? ORDER BY reply_seq DESC, number DESC LIMIT 1"
)


class _Row(NamedTuple):
    """An event on its way into the tables."""

    kind: int
    mark: int
    created: float
    answers: int
    body: Body
    raw: bytes


class _Found(NamedTuple):
    """A session's row."""

    key: int
    incarnation: str
    version: int
    last_seq: int
    families: str


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
            if "\0" in str(path):
                remedy = "No file's name holds a NUL."
            raise InvalidParameterError("path", path, rule="must name a file", remedy=remedy)
        self.path: Path | None = Path(path).expanduser().absolute()
        self._begin(SqliteFile(self.path, SCHEMA, busy_seconds=busy_seconds))

    def _begin(self, file: SqliteFile) -> None:
        self._file = file
        self._families: dict[str, TokenFamily] = {}
        self._heads: dict[str, tuple[tuple[Any, ...], int, SessionHead]] = {}
        self._writer: tuple[int, Any] | None = None  # of which process, and its thread

    # ---- what the core reads and writes ----

    def look(self, session_id: str) -> SessionHead | None:
        """Return the session's record, last number and version; `None` if there is none."""
        with self._file.reading() as db:
            row = db.execute(_ONE_HEAD, (session_id,)).fetchone()
        return None if row is None else self._head(row)

    def columns(self, session_id: str, family: TokenFamily, *, after_seq: int = 0) -> StoredColumns:
        """Return the columns after a sequence number; events not counted yet are counted now."""
        self._families[family.key] = family
        with self._file.reading() as db:
            found = self._find(db, session_id)
            number = _number_of(db, family.key)
            kinds, marks, created, answers = _read(db, found.key, 0, after_seq)
            tokens, reasoning = _read(db, found.key, number, after_seq)
        count = len(kinds)
        if len(tokens) < count:
            tokens, reasoning = self._count(session_id, family, after_seq)
        return StoredColumns(
            kinds=bytearray(kinds),
            marks=bytearray(marks),
            created=created,
            answers=answers,
            tokens=tokens[:count],  # somebody may have appended meanwhile
            reasoning=reasoning[:count],
        )

    def bodies(self, session_id: str, spans: Sequence[tuple[int, int]]) -> list[Body]:
        """Return the bodies of ranges of sequence numbers, in order.

        Raises:
            EventFormatError: A body is damaged.
        """
        bodies: list[Body] = []
        with self._file.reading() as db:
            key = self._find(db, session_id).key << 32
            for first, last in spans:
                asked = "SELECT body FROM events WHERE key BETWEEN ? AND ?"
                rows = db.execute(asked, (key + max(first, 1), key + last)).fetchall()
                bodies += _load_all([raw for (raw,) in rows], session_id, first)
        return bodies

    def rows(
        self, session_id: str, spans: Sequence[tuple[int, int]]
    ) -> list[tuple[int, str, float | None]]:
        """Return (seq, id, created as a POSIX time) of ranges of sequence numbers, in order."""
        rows: list[tuple[int, str, float | None]] = []
        with self._file.reading() as db:
            key = self._find(db, session_id).key << 32
            for first, last in spans:
                asked = (
                    "SELECT key & 0xFFFFFFFF, id, created_at FROM events WHERE key BETWEEN ? AND ?"
                )
                rows += db.execute(asked, (key + max(first, 1), key + last))
        return rows

    def events(self, session_id: str, *, after_seq: int = 0, limit: int = -1) -> list[SessionEvent]:
        """Return the events after a sequence number, oldest first; none of an unknown session."""
        with self._file.reading() as db:
            given = (session_id, min(max(after_seq, 0), _MOST_SEQ), limit)
            rows = db.execute(_EVENTS, given).fetchall()
        first = rows[0][0] if rows else 0
        bodies = _load_all([row[-1] for row in rows], session_id, first)
        return [
            event_of(body, kind=kind, id=event_id, seq=seq, created_at=_moment(created))
            for (seq, kind, event_id, created, _), body in zip(rows, bodies, strict=True)
        ]

    def factors(self, session_id: str, model: str) -> list[tuple[int, float]]:
        """Return (answers_seq, factor) of the model's recorded calls, oldest first.

        Empty if every factor is 1.
        """
        with self._file.reading() as db:
            key = self._find(db, session_id).key
            asked = (
                "SELECT answers_seq, factor FROM calls WHERE session = ? AND model = ? "
                "ORDER BY reply_seq"
            )
            found = db.execute(asked, (key, model)).fetchall()
        return found if any(factor != 1.0 for _, factor in found) else []

    def calls(self, session_id: str, *, after_seq: int = 0) -> list[CallRow]:
        """Return the recorded calls whose reply has a larger number, oldest first."""
        with self._file.reading() as db:
            rows = db.execute(_CALLS, (self._find(db, session_id).key, after_seq)).fetchall()
        return [call_from_json(load_json(raw)) for (raw,) in rows]

    def last_call(self, session_id: str) -> CallRow | None:
        """Return the newest recorded call."""
        with self._file.reading() as db:
            row = db.execute(_LAST_CALL, (self._find(db, session_id).key,)).fetchone()
        return None if row is None else call_from_json(load_json(row[0]))

    def learned(self, key: str) -> Json:
        """Return what the newest call with `details["learned"]["key"] == key` learned, or `None`."""
        asked = "SELECT body FROM calls WHERE learned = ? ORDER BY number DESC LIMIT 1"
        with self._file.reading() as db:
            row = db.execute(asked, (key,)).fetchone()
        return None if row is None else load_json(row[0])["details"]["learned"]

    def text(self, digest: str) -> str | None:
        """Return a system prompt or tool list that a call row names by its hash."""
        with self._file.reading() as db:
            row = db.execute("SELECT text FROM texts WHERE hash = ?", (digest,)).fetchone()
        return None if row is None else row[0]

    def derived(self, session_id: str, purpose: str, *, after_seq: int = 0) -> dict[int, Json]:
        """Return what was computed once per event for a purpose, by sequence number."""
        with self._file.reading() as db:
            key = self._find(db, session_id).key
            asked = "SELECT seq, value FROM derived WHERE session = ? AND purpose = ? AND seq > ?"
            found = db.execute(asked, (key, purpose, after_seq)).fetchall()
        values = load_json(b"[" + b",".join([raw for _, raw in found]) + b"]")
        return {seq: value for (seq, _), value in zip(found, values, strict=True)}

    def keep_derived(self, session_id: str, purpose: str, values: Mapping[int, Json]) -> None:
        """Keep such values; a store that cannot be written to passes over it."""
        raw = [(seq, dump_json(value)) for seq, value in values.items()]
        with suppress(StoreUnavailableError), self._file.writing(is_durable=False) as db:
            if found := self._look_up(db, session_id):
                rows = ((found.key, purpose, *row) for row in raw)
                db.executemany("INSERT OR REPLACE INTO derived VALUES (?, ?, ?, ?)", rows)

    def create_now(self, session: Session, *, replaces: bool = True) -> None:
        """Keep a new session; replace the record of one that exists, unless told not to.

        Raises:
            InvalidParameterError: Not every store can keep the session's id.
            EventFormatError: The record holds something that JSON cannot express.
        """
        _check_id("session_id", session.id)
        record = _dump_record(session)
        with self._file.writing() as db:
            found = self._look_up(db, session.id)
            if found is None:
                self._insert(db, session, record)
            elif replaces:
                changed = "SET record = ?, created_at = ?, version = version + 1 WHERE key = ?"
                row = (record, _time_of(session.created_at), found.key)
                db.execute(f"UPDATE sessions {changed}", row)

    def append_now(
        self,
        session_id: str,
        events: Sequence[SessionEvent],
        *,
        expected_seq: int | None = None,
        call: CallRow | None = None,
        texts: Mapping[str, str] | None = None,
        session: Session | None = None,
    ) -> list[SessionEvent]:
        """Append in one transaction, with columns for every family that the session has.

        Args:
            call: The row of the call that the last of the events answers.
            texts: By hash, system prompts and tool lists that the row names.
            session: The record of the session that begins with these events, if there is none yet.

        Raises:
            ConcurrentAppendError: `expected_seq` is given and is not the last sequence number.
            DuplicateEventError: The session, or `events` itself, has an event of that id already.
            InvalidParameterError: Not every store can keep the session's id, or an event's.
            EventFormatError: An event holds something that JSON cannot express.
        """
        _check_id("session_id", session_id)
        rows = [_row_of(event, session_id, events) for event in events]
        with self._file.reading() as db:  # counted before the lock is taken
            found = self._look_up(db, session_id)
            families = self._families_of(db, found)
        pairs = [(row.kind, row.body) for row in rows]
        counts = {number: _counts(family, pairs) for number, family in families.items()}
        with self._file.writing() as db:
            found = self._look_up(db, session_id)
            last_seq = found.last_seq if found else 0
            if expected_seq is not None and expected_seq != last_seq:
                raise ConcurrentAppendError(
                    session_id, expected_seq=expected_seq, actual_seq=last_seq
                )
            if not events:
                return []
            if found is None:
                moments = (event.created_at for event in events if event.created_at is not None)
                begun = session or Session(id=session_id, created_at=next(moments, None))
                found = self._insert(db, begun, _dump_record(begun))
            stored = _insert_events(db, session_id, found, events, rows)
            for number, columns in {0: _shared(rows), **counts}.items():
                _extend(db, found.key, number, last_seq, columns)
            if call is not None:
                _insert_call(db, found.key, replace(call, reply_seq=stored[-1].seq))
            db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", (texts or {}).items())
            changed = "UPDATE sessions SET last_seq = ?, version = version + 1 WHERE key = ?"
            db.execute(changed, (last_seq + len(rows), found.key))
        return stored

    def delete_now(self, session_id: str) -> None:
        """Forget the session with all its events.

        Raises:
            UnknownSessionError: There is no such session.
        """
        with self._file.writing() as db:
            key = self._find(db, session_id).key
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
        self, session_id: str, events: Sequence[SessionEvent], *, expected_seq: int | None = None
    ) -> list[SessionEvent]:
        """Append, and return the events with `id` and `seq` filled in; see `append_now`."""
        return await self.away(self.append_now, session_id, events, expected_seq=expected_seq)

    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        """Yield the events with a larger sequence number, oldest first.

        Events that are appended meanwhile are yielded too; it ends if the session is deleted.

        Raises:
            UnknownSessionError: There is no such session.
            EventFormatError: An event is damaged.
        """
        head = await self.head(session_id)
        while True:
            now = self.look(session_id)
            if now is None or now.incarnation != head.incarnation or now.last_seq <= after_seq:
                return
            page = await self.away(self.events, session_id, after_seq=after_seq, limit=_PAGE)
            for event in page:
                yield event
            after_seq = page[-1].seq if page else _MOST_SEQ

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
            return [self._head(row) for row in db.execute(_LIST_HEADS)]

    async def delete(self, session_id: str) -> None:
        """Forget the session with all its events.

        Raises:
            UnknownSessionError: There is no such session.
        """
        await self.away(self.delete_now, session_id)

    async def close(self) -> None:
        """Close the file, after the writes that wait."""
        writer, self._writer = self._writer, None
        if writer is not None and writer[0] == os.getpid():
            import asyncio

            closed = asyncio.get_running_loop().run_in_executor(writer[1], self._file.close)
            writer[1].shutdown(wait=False)
            await closed
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
        from functools import partial

        if self._writer is None or self._writer[0] != os.getpid():
            from concurrent.futures import ThreadPoolExecutor

            self._writer = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="sessions")
        work = partial(act, *given, **named)
        return await get_running_loop().run_in_executor(self._writer[1], work)

    # ---- inside ----

    def _find(self, db: Connection, session_id: str) -> _Found:
        found = self._look_up(db, session_id)
        if found is None:
            raise _unknown(db, session_id)
        return found

    def _look_up(self, db: Connection, session_id: str) -> _Found | None:
        asked = "SELECT key, incarnation, version, last_seq, families FROM sessions WHERE id = ?"
        row = db.execute(asked, (session_id,)).fetchone()
        return None if row is None else _Found(*row)

    def _head(self, row: tuple[Any, ...]) -> SessionHead:
        session_id, incarnation, version, last_seq, record, created = row
        before = self._heads.get(session_id)
        if before is not None and before[:2] == (row, self._file.replaced):
            return before[2]
        if self._file.replaced:
            incarnation = f"{incarnation}.{self._file.replaced}"
        try:
            session = Session(id=session_id, created_at=_moment(created), **load_json(record))
        except (ValueError, TypeError) as error:
            raise _damaged(f"Session {session_id!r}", error) from error
        if len(self._heads) > _MOST_HEADS:
            self._heads.clear()
        version = f"{incarnation}-{version}"
        head = SessionHead(
            session=session, last_seq=last_seq, version=version, incarnation=incarnation
        )
        self._heads[session_id] = row, self._file.replaced, head
        return head

    def _insert(self, db: Connection, session: Session, record: bytes) -> _Found:
        from context_assembler.tokens import DEFAULT_FAMILIES

        if not db.execute("SELECT 1 FROM families").fetchone():
            db.executemany(
                "INSERT INTO families (key) VALUES (?)", [(k,) for k in DEFAULT_FAMILIES]
            )
        numbers = [n for (n,) in db.execute("SELECT number FROM families ORDER BY number")]
        families = ",".join(map(str, numbers))
        incarnation = os.urandom(8).hex()
        row = (session.id, incarnation, families, record, _time_of(session.created_at))
        added = db.execute(
            "INSERT INTO sessions (id, incarnation, version, last_seq, families, record, "
            "created_at) VALUES (?, ?, 1, 0, ?, ?, ?)",
            row,
        )
        assert added.lastrowid is not None
        return _Found(added.lastrowid, incarnation, 1, 0, families)

    def _families_of(self, db: Connection, found: _Found | None) -> dict[int, TokenFamily]:
        """Return the families that a session is counted by, as far as they are known here."""
        from context_assembler.tokens import DEFAULT_FAMILIES, family_by_key

        known = dict(db.execute("SELECT number, key FROM families").fetchall())
        known = known or dict(enumerate(DEFAULT_FAMILIES, 1))
        own = known if found is None else [int(number) for number in found.families.split(",")]
        families: dict[int, TokenFamily] = {}
        for number in own:
            key = known[number]
            family = self._families.get(key) or family_by_key(key)
            if family is not None:  # else it is counted when somebody needs it
                families[number] = self._families[key] = family
        return families

    def _count(self, session_id: str, family: TokenFamily, after_seq: int) -> "list[array[int]]":
        """Count what the family has not counted yet, and keep the counts if the store can."""
        with self._file.reading() as db:
            found = self._find(db, session_id)
            number = _number_of(db, family.key)
            known = _read(db, found.key, number, 0)
            counted = len(known[0])
            kinds = _read(db, found.key, 0, counted)[0]
        bodies = self.bodies(session_id, [(counted + 1, counted + len(kinds))])
        more = _counts(family, zip(kinds, bodies, strict=True))
        with suppress(StoreUnavailableError), self._file.writing(is_durable=False) as db:
            now = self._look_up(db, session_id)
            if now is not None and now.key == found.key:
                db.execute("INSERT OR IGNORE INTO families (key) VALUES (?)", (family.key,))
                number = _number_of(db, family.key)
                numbers = sorted({*now.families.split(","), str(number)})
                changed = "UPDATE sessions SET families = ? WHERE key = ?"
                db.execute(changed, (",".join(numbers), found.key))
                _extend(db, found.key, number, counted, more)
        return [(old + new)[max(after_seq, 0) :] for old, new in zip(known, more, strict=True)]


class MemoryStore(SqliteStore):
    """A session store without a file, for many threads; its sessions are gone with the process."""

    def __init__(self) -> None:
        self.path = None
        self._begin(SqliteFile(None, SCHEMA, busy_seconds=10.0))


def call_from_json(value: Mapping[str, Json]) -> CallRow:
    """Return the call row that `to_json` was given."""
    usage, created = value.get("usage"), value.get("created_at")
    return CallRow(
        **{
            **value,
            "usage": Usage(**usage) if usage else None,
            "created_at": datetime.fromisoformat(created) if created else None,
        }
    )


def _row_of(event: SessionEvent, session_id: str, events: Sequence[SessionEvent]) -> _Row:
    if event.id:
        _check_id("event id", event.id)
    body = body_of(event)
    name = f" {event.id!r}" if event.id else ""
    among = f" (number {events.index(event) + 1} of {len(events)})" if len(events) > 1 else ""
    raw = dump_json(body, where=f"The {event.type} event{name}{among} for session {session_id!r}")
    kind = kind_of(event.type, body, is_pinned=event.is_pinned)
    created = _time_of(event.created_at) or 0.0
    return _Row(kind, mark_of(kind, body), created, event.answers_seq, body, raw)


def _counts(family: TokenFamily, pairs: Iterable[tuple[int, Body]]) -> "list[array[int]]":
    tokens, reasoning = array("I"), array("I")
    count, count_reasoning = family.count_event, family.count_reasoning
    for kind, body in pairs:
        tokens.append(count(kind, body))
        reasoning.append(count_reasoning(body) if kind & (SIGNED | UNUSUAL) else 0)
    return [tokens, reasoning]


def _shared(rows: Sequence[_Row]) -> "list[array[Any]]":
    columns = zip(*((row.kind, row.mark, row.created, row.answers) for row in rows), strict=True)
    return [array(code, column) for code, column in zip(_SHARED, columns, strict=True)]


def _insert_events(
    db: Connection,
    session_id: str,
    found: _Found,
    events: Sequence[SessionEvent],
    rows: Sequence[_Row],
) -> list[SessionEvent]:
    """Insert the events with their numbers and ids, and return them."""
    taken: set[str] = set()
    for event_id in (event.id for event in events if event.id):
        if event_id in taken or _has_id(db, found.key, event_id):
            raise DuplicateEventError(session_id, event_id=event_id)
        taken.add(event_id)
    stored: list[SessionEvent] = []
    for seq, event in enumerate(events, found.last_seq + 1):
        event_id = event.id or f"evt_{seq}"
        while not event.id and (event_id in taken or _has_id(db, found.key, event_id)):
            event_id += "'"
        taken.add(event_id)
        stored.append(replace(event, id=event_id, seq=seq))
    base = found.key << 32
    db.executemany(
        "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
        [
            (base + event.seq, row.kind, event.id, _time_of(event.created_at), row.raw)
            for event, row in zip(stored, rows, strict=True)
        ],
    )
    signed = [
        (found.key, "signed", event.seq, dump_json(_signer(event)))
        for event, row in zip(stored, rows, strict=True)
        if row.kind & SIGNED
    ]
    db.executemany("INSERT OR REPLACE INTO derived VALUES (?, ?, ?, ?)", signed)
    return stored


def _signer(event: SessionEvent) -> list[str | None]:
    made_by = event.made_by
    if made_by is None:
        return [None] * 4
    return [made_by.provider, made_by.model, made_by.account, made_by.prefix]


def _unknown(db: Connection, session_id: str) -> UnknownSessionError:
    known = [known for (known,) in db.execute(_NEWEST_IDS)]
    return UnknownSessionError(session_id, known=known)


def _has_id(db: Connection, key: int, event_id: str) -> bool:
    asked = "SELECT 1 FROM events WHERE key >> 32 = ? AND id = ?"
    return db.execute(asked, (key, event_id)).fetchone() is not None


def _insert_call(db: Connection, key: int, call: CallRow) -> None:
    learned = call.details.get("learned")
    db.execute(
        "INSERT INTO calls (session, reply_seq, answers_seq, model, factor, learned, body) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            key,
            call.reply_seq,
            call.answers_seq,
            call.model,
            call.factor,
            learned["key"] if learned else None,
            dump_json(to_json(call), where="The row of the call"),
        ),
    )


# ---- blocks ----


def _number_of(db: Connection, key: str) -> int:
    """Return the family's number; 255 if it has counted no session of the file."""
    row = db.execute("SELECT number FROM families WHERE key = ?", (key,)).fetchone()
    return row[0] if row else 255


def _read(db: Connection, session: int, family: int, after_seq: int) -> "list[array[Any]]":
    """Return the columns of a family, or the shared ones, after a sequence number."""
    first, skipped = divmod(max(after_seq, 0), BLOCK)
    columns = [array(code) for code in (_COUNTS if family else _SHARED)]
    size = sum(column.itemsize for column in columns)
    base = session << 32 | family << 24
    asked = "SELECT data FROM blocks WHERE key BETWEEN ? AND ? ORDER BY key"
    for (data,) in db.execute(asked, (base + first, base + 0xFF_FFFF)):
        count, at = len(data) // size, 0
        for column in columns:
            end = at + column.itemsize * count
            column.frombytes(data[at:end])
            at = end
    return [column[skipped:] for column in columns] if skipped else columns


def _extend(
    db: Connection, session: int, family: int, last_seq: int, more: "Sequence[array[Any]]"
) -> None:
    """Append to the columns of a family; nothing if it has not counted what is before."""
    first = max(0, last_seq - 1) // BLOCK
    columns = _read(db, session, family, first * BLOCK)
    if len(columns[0]) != last_seq - first * BLOCK:
        return
    columns = [old + new for old, new in zip(columns, more, strict=True)]
    base = session << 32 | family << 24
    for start in range(0, len(columns[0]), BLOCK):
        data = b"".join(column[start : start + BLOCK].tobytes() for column in columns)
        row = (base + first + start // BLOCK, data)
        db.execute("INSERT OR REPLACE INTO blocks VALUES (?, ?)", row)


# ---- rows ----


def _load_all(rows: Sequence[bytes], session_id: str, first_seq: int) -> list[Body]:
    with suppress(ValueError):
        bodies: list[Body] = load_json(b"[" + b",".join(rows) + b"]")
        return bodies
    for seq, raw in enumerate(rows, first_seq):
        try:
            load_json(raw)
        except ValueError as error:
            raise _damaged(f"Event {seq} of {session_id!r}", error) from error
    raise AssertionError("one of them is damaged")


def _damaged(where: str, error: Exception) -> EventFormatError:
    return EventFormatError(
        where=where,
        reason=str(error),
        remedy="Upgrade the package if a newer version wrote it; else restore a backup.",
    )


def _dump_record(session: Session) -> bytes:
    record = {"agent_id": session.agent_id, "defaults": session.defaults}
    where = f"The record of session {session.id!r}"
    return dump_json({**record, "metadata": session.metadata}, where=where)


def _time_of(moment: datetime | None) -> float | None:
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _moment(created: float | None) -> datetime | None:
    return None if created is None else datetime.fromtimestamp(created, UTC)


def _check_id(name: str, given: str) -> None:
    has_bad = any(char == "\0" or "\ud800" <= char <= "\udfff" for char in given)
    if not given or len(given) > _MAX_ID_CHARS or has_bad:
        rule = f"must have 1 to {_MAX_ID_CHARS} characters, without NUL and unpaired surrogates"
        raise InvalidParameterError(name, given, rule=rule, remedy="Use another id.")
