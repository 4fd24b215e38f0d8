"""`SqliteStore` and `MemoryStore`: events as they are, and small columns that decisions are made on.

`SqlStore` is what they share with `postgres.PostgresStore`.

Whatever depends on one event alone is computed when that event is appended, and kept next to it:
kind, time, token counts by family; of older events in blocks of 256. A cold process reads those,
finds the cut, and reads the bodies of what it keeps.
"""

import os
import struct
from array import array
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import takewhile
from operator import index
from pathlib import Path
from sqlite3 import Connection, IntegrityError
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias, TypeVar

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
    JsonObject,
    Session,
    SessionEvent,
    SessionHead,
    Usage,
    body_of,
    dump_json,
    event_of,
    flaw_of,
    kind_of,
    link_of,
    load_json,
    mark_of,
    to_json,
)
from context_assembler.ports import StoredColumns, TokenFamily
from context_assembler.sessions.encryption import Plain
from context_assembler.sessions.files import Schema, SqliteFile

if TYPE_CHECKING:
    from context_assembler.sessions.postgres import PostgresTables

_T = TypeVar("_T")
_Columns: TypeAlias = "list[array[Any]]"

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
        CREATE UNIQUE INDEX events_by_id ON events ((key >> 32), id);
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
    table="sessions",
)
BLOCK: Final = 256
_SHARED: Final = "BBdIH"  # types of the columns in a block: kind, mark, created, answers, link
_COUNTS: Final = "II"  # tokens, reasoning
_OWN: Final = struct.Struct("<BIH")  # of one event
_OWN_COUNTS: Final = struct.Struct("<BII")
_NO_FAMILY: Final = 0xFF  # the number of one that has counted nothing in this file
_MOST_SEQ: Final = 0xFFFF_FFFF
_MOST_ID_CHARS: Final = 512
_FIRST_MOMENT, _LAST_MOMENT = -62_135_596_800.0, 253_402_300_799.0  # that are dates in UTC
_FLAWS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)
_MOST_HEADS: Final = 1_000
_LOCK: Final = "encryption"  # among the hashes of texts, for what only the key opens
_PAGE: Final = 200  # events that `load` reads at once
_MOST_RECENT: Final = 256  # rows of events that were appended here, to be read without SQLite
_MOST_RECENT_BYTES: Final = 65_536  # of those that were appended at once

# SQLite and PostgreSQL read these statements alike. Numbers are decimal: PostgreSQL knows others
# only since version 16. 16777215 leaves of a key the block, 4294967295 the sequence number.
_HEADS: Final = "SELECT key, incarnation, version, last_seq, created_at, record, id FROM sessions "
_HEAD: Final = f"{_HEADS} WHERE id = ?"
_PUT: Final = (
    "INSERT INTO sessions (id, incarnation, version, last_seq, record, created_at) "
    "VALUES (?, ?, 1, 0, ?, ?) ON CONFLICT (id) DO UPDATE SET version = sessions.version + 1, "
    "record = excluded.record, created_at = excluded.created_at WHERE ?"
)
_NEWEST: Final = (
    "(SELECT created_at FROM events WHERE events.key = (sessions.key << 32) + sessions.last_seq)"
)
_OLD: Final = (
    f"{_HEADS} WHERE coalesce(created_at, {_NEWEST}) < ?1 AND coalesce({_NEWEST}, created_at) < ?1 "
    "ORDER BY key"
)
_FAMILIES: Final = "SELECT key, number FROM families"
_LOOK_UP: Final = "SELECT key, CAST(last_seq AS BIGINT) FROM sessions WHERE id = ?"
# In these the first parameter is the key of a session.
_BLOCKS: Final = (
    "SELECT key & 16777215, data FROM blocks "
    "WHERE key BETWEEN (?1 << 32) + ?2 AND (?1 << 32) + (?2 | 16777215) ORDER BY key"
)
_TAIL: Final = (
    "SELECT kind, created_at, columns FROM events "
    "WHERE key > (?1 << 32) + ?2 AND key < (?1 + 1) << 32 ORDER BY key"
)
_EVENTS: Final = (
    "SELECT key & 4294967295, id, created_at, kind, body FROM events "
    "WHERE key > (?1 << 32) + ?2 AND key < (?1 + 1) << 32 ORDER BY key LIMIT ?3"
)
_BY_ID: Final = "SELECT id FROM events WHERE key >> 32 = ? AND id >= ? AND id < ?"
# In these both are keys of events.
_BODIES: Final = "SELECT key & 4294967295, body FROM events WHERE key BETWEEN ? AND ? ORDER BY key"
_IDS: Final = (
    "SELECT key & 4294967295, id, created_at FROM events WHERE key BETWEEN ? AND ? ORDER BY key"
)
_FACTORS: Final = (
    "SELECT answers_seq, factor FROM calls WHERE session = ? AND model = ? "
    "ORDER BY answers_seq, number"
)
_CALLS: Final = "SELECT body FROM calls WHERE session = ? AND reply_seq > ? ORDER BY reply_seq"
_LAST_CALL: Final = (
    "SELECT body FROM calls WHERE session = ? AND reply_seq <= ? ORDER BY reply_seq DESC LIMIT 1"
)
_DERIVED: Final = "SELECT seq, value FROM derived WHERE session = ? AND purpose = ? AND seq > ?"
# Of the first session ?1 into the second one ?2, up to the event ?3.
_FORKS: Final = """
    INSERT INTO events SELECT key + ((?2 - ?1) << 32), kind, id, created_at, columns, body
        FROM events WHERE key > ?1 << 32 AND key <= (?1 << 32) + ?3;
    INSERT INTO derived SELECT ?2, purpose, seq, value
        FROM derived WHERE session = ?1 AND seq BETWEEN 1 AND ?3;
    INSERT INTO calls (session, reply_seq, answers_seq, model, factor, body)
        SELECT ?2, reply_seq, answers_seq, model, factor, body
        FROM calls WHERE session = ?1 AND reply_seq <= ?3 ORDER BY number;
    UPDATE sessions SET last_seq = ?3 WHERE key = ?2
"""
# The first 16 characters stay: the nonce is made of them.
_REWOUND: Final = "UPDATE sessions SET incarnation = substr(incarnation, 1, 16) || ? WHERE key = ?"


class _Row(NamedTuple):
    """An event on its way into the tables."""

    event: SessionEvent
    kind: int
    body: Body
    raw: bytes


class SqlStore:
    """A session store in the tables of a database: what the core reads and writes, synchronously.

    For any other `SessionStore` the facade keeps a mirror in memory (`MemoryStore`) and loads into it
    what is new. Ranges of numbers are inclusive on both ends.

    `append_now` keeps one derived form by itself: for each event with the flag `SIGNED`, under the
    purpose `signed`, the list `[provider, model, account, prefix]` of who made it. With an event of
    type `rewind` the session's `incarnation` becomes another one; its nonce stays.

    Args:
        file: Lends connections to it.
        writers: How many threads write; 0: writing waits for nothing.

    Attributes:
        encryption: Of what it keeps besides columns; `open_store` sets it.
    """

    encryption: Plain = Plain()

    def __init__(self, file: "SqliteFile | PostgresTables", *, writers: int) -> None:
        self._file, self._writers = file, writers
        self.reading = file.reading
        self._families: dict[str, TokenFamily] = {}
        self._heads: dict[str, tuple[Any, SessionHead]] = {}
        # What never changes: the numbers of families, and by key the latest rows, as `_TAIL` and
        # `_BODIES` return them together.
        self._family_numbers: dict[str, int] = {}
        self._recent: dict[int, Any] = {}
        self._writer: tuple[int, Any] | None = None  # of which process, and its thread
        self._is_unlocked = False

    # ---- what the core reads and writes ----

    def look(self, session_id: str) -> SessionHead | None:
        """Return the session's record, last number and version; `None` if there is none."""
        with self._file.reading() as db:
            row = db.execute(_HEAD, (session_id,)).fetchone()
        if row is None:
            return None
        return self._head_of(session_id, row)

    def _head_of(self, session_id: str, row: Any) -> SessionHead:
        known = self._heads.get(session_id)
        if known is not None and known[0] == row:
            return known[1]
        with _decoding(f"The record of session {session_id!r}"):
            if known is not None and row[2] < known[0][2]:  # an older file took its place
                self._recent = {}
            key, incarnation, version, last_seq, created, record, _ = row
            if known is not None and known[0][:2] == row[:2] and known[0][4:] == row[4:]:
                session = known[1].session
            else:
                fields: JsonObject = {
                    "nonce": nonce_of(incarnation[:16]),
                    **self._read_json(record),
                }
                session = Session(id=session_id, created_at=_moment(created), **fields)
            head = SessionHead(
                session=session,
                last_seq=index(last_seq),
                version=f"{incarnation}-{key}-{version}",
                incarnation=incarnation,
            )
            if len(self._heads) > _MOST_HEADS:
                self._heads.clear()
            self._heads[session_id] = row, head
        return head

    def columns(
        self, session_id: str, family: TokenFamily, *, after_seq: int = 0, until_seq: int = 0
    ) -> StoredColumns:
        """Return the columns after a sequence number; events not counted yet are counted now.

        Args:
            until_seq: If it is given, later events need not be returned.
        """
        self._families[family.key] = family
        after_seq = max(after_seq, 0)
        number = self._family_numbers.get(family.key)
        recent = self._recent_rows(session_id, [(after_seq + 1, until_seq)])
        if recent and number is not None:
            shared, counts = _no_columns(0), _no_columns(number)
            _add_rows(shared, counts, recent, number)
        else:
            with self._file.reading() as db, _decoding(f"A column of session {session_id!r}"):
                key, last_seq = _find_session(db, session_id)
                number = _family_numbers(db).get(family.key, _NO_FAMILY)
                shared, counts = _stored(db, key, number, after_seq)
            if after_seq + len(shared[0]) < last_seq:
                raise _damaged(f"An event of session {session_id!r}", "it is not there")
        kinds, marks, *others = shared
        if len(counts[0]) < len(kinds):
            counts = self._count(session_id, family, after_seq)
        counts = [column[: len(kinds)] for column in counts]  # somebody may have appended meanwhile
        columns: list[Any] = [bytearray(kinds), bytearray(marks), *others, *counts]
        return StoredColumns(*columns)

    def bodies(self, session_id: str, spans: Sequence[tuple[int, int]]) -> list[Body]:
        """Return the bodies of ranges of sequence numbers, in order.

        Raises:
            EventFormatError: A body is damaged.
        """
        if recent := self._recent_rows(session_id, spans):
            return self._load_all([(0, raw) for *_, raw in recent], session_id)
        rows = self._spans(session_id, _BODIES, spans)
        last_seq = self._heads[session_id][1].last_seq if session_id in self._heads else 0
        told = {seq for first, last in spans for seq in range(first, min(last, last_seq) + 1)}
        if missing := told.difference([seq for seq, _ in rows]):
            raise _damaged(f"Event {min(missing)} of {session_id!r}", "it is not there")
        return self._load_all(rows, session_id)

    def rows(
        self, session_id: str, spans: Sequence[tuple[int, int]]
    ) -> list[tuple[int, str, float | None]]:
        """Return (seq, id, created as a POSIX time) of ranges of sequence numbers, in order."""
        return self._spans(session_id, _IDS, spans)

    def events(self, session_id: str, *, after_seq: int = 0, limit: int = -1) -> list[SessionEvent]:
        """Return the events after a sequence number, at most `limit` of them, oldest first.

        Raises:
            UnknownSessionError: There is no such session.
            EventFormatError: An event is damaged.
        """
        after_seq = min(max(after_seq, 0), _MOST_SEQ)
        rows = self._query(session_id, _EVENTS, after_seq, limit if limit >= 0 else _MOST_SEQ)
        bodies = self._load_all([(row[0], row[-1]) for row in rows], session_id)
        events: list[SessionEvent] = []
        for (seq, event_id, created, kind, _), body in zip(rows, bodies, strict=True):
            with _decoding(f"Event {seq} of {session_id!r}"):
                at = _moment(created)
                events.append(event_of(body, kind=kind, id=event_id, seq=seq, created_at=at))
        return events

    def factors(self, session_id: str, model: str) -> list[tuple[int, float]]:
        """Return (answers_seq, factor) of the model's recorded calls, oldest first."""
        with _decoding(f"A call of session {session_id!r}"):
            rows = self._query(session_id, _FACTORS, model)
            return [(index(seq), float(factor)) for seq, factor in rows]

    def calls(self, session_id: str, *, after_seq: int = 0) -> list[CallRow]:
        """Return the recorded calls whose reply has a larger number, oldest first."""
        with _decoding(f"A call of session {session_id!r}"):
            rows = self._query(session_id, _CALLS, after_seq)
            return [call_from_json(self._read_json(raw)) for (raw,) in rows]

    def last_call(self, session_id: str, *, until_seq: int = 0) -> CallRow | None:
        """Return the newest recorded call whose reply has no larger number, if one is given."""
        with _decoding(f"A call of session {session_id!r}"):
            found = self._query(session_id, _LAST_CALL, until_seq or _MOST_SEQ)
            return call_from_json(self._read_json(found[0][0])) if found else None

    def learned(self, key: str) -> Json:
        """Return what the newest call with `details["learned"]["key"] == key` learned, or `None`.

        The calls of all sessions count.
        """
        asked = "SELECT body FROM calls WHERE learned = ? ORDER BY number DESC LIMIT 1"
        with self._file.reading() as db, _decoding("The row of a call"):
            row = db.execute(asked, (key,)).fetchone()
            return None if row is None else self._read_json(row[0])["details"]["learned"]

    def text(self, digest: str) -> str | None:
        """Return a system prompt or tool list that a call row names by its hash."""
        with self._file.reading() as db, _decoding(f"The text {digest}"):
            row = db.execute("SELECT text FROM texts WHERE hash = ?", (digest,)).fetchone()
            opened = None if row is None else self.encryption.open(row[0])
            return None if opened is None else opened.decode("utf-8", "surrogatepass")

    def derived(self, session_id: str, purpose: str, *, after_seq: int = 0) -> dict[int, Json]:
        """Return what was computed once per event for a purpose, by sequence number."""
        with _decoding(f"What was derived of session {session_id!r}"):
            found = self._query(session_id, _DERIVED, purpose, after_seq)
            values = [self.encryption.open(raw) for _, raw in found]
            pairs = zip(found, load_json(b"[" + b",".join(values) + b"]"), strict=True)
            return {seq: value for (seq, _), value in pairs}

    def keep_derived(self, session_id: str, purpose: str, values: Mapping[int, Json]) -> None:
        """Keep such values; a store that cannot be written to does nothing."""
        lost = (StoreUnavailableError, UnknownSessionError)
        with suppress(*lost), self.writing(waits=False, is_durable=False) as db:
            key, _ = self._locked(db, session_id)
            sealed = {seq: self.encryption.seal(dump_json(held)) for seq, held in values.items()}
            rows = [(key, purpose, seq, value) for seq, value in sealed.items()]
            kept = "INSERT INTO derived VALUES (?, ?, ?, ?) ON CONFLICT (session, purpose, seq) "
            db.executemany(f"{kept} DO UPDATE SET value = excluded.value", rows)

    def create_now(self, session: Session, *, replaces: bool = True, incarnation: str = "") -> None:
        """Keep a new session; if it exists, replace its record, unless `replaces` is false.

        Args:
            incarnation: Of a new session, 16 characters; by default random.

        Raises:
            InvalidParameterError: Not every store can keep the session's id.
            EventFormatError: The record holds something that JSON cannot express.
        """
        _check_id("session_id", session.id)
        with self.writing() as db:
            self._put(db, session, replaces=replaces, incarnation=incarnation)

    def append_now(
        self,
        session_id: str,
        events: Sequence[SessionEvent],
        *,
        expected_seq: int | None = None,
        call: CallRow | None = None,
        texts: Mapping[str, str] | None = None,
        is_counted: bool = True,
    ) -> list[SessionEvent]:
        """Append in one transaction, with token counts for the families that are in use here.

        Until one is, they are those that most sessions are sent to.

        Args:
            expected_seq: The last number that the caller has seen.
            call: The row of the call that the last of the events answers.
            texts: System prompts and tool lists that the row names, by hash.
            is_counted: Whether to count tokens. If not, `keep_now` or the next call does.

        Raises:
            ConcurrentAppendError: `expected_seq` is given and is not the last sequence number.
            DuplicateEventError: The session, or `events` itself, has an event of that id already.
            InvalidParameterError: Not every store can keep the session's id, or an event's.
            EventFormatError: An event holds something that JSON cannot express.
        """
        from context_assembler.tokens import DEFAULT_FAMILIES, family_by_key

        _check_id("session_id", session_id)
        seal, rows = self.encryption.seal, _rows_of(events, session_id)
        pairs = [(row.kind, row.body) for row in rows]
        # Without the lock. What others count by is counted when they need it.
        families: Any = self._families or {key: family_by_key(key) for key in DEFAULT_FAMILIES}
        counted = {k: _counts(one, pairs) for k, one in families.items()} if is_counted else {}
        numbers = self._family_numbers
        with self.writing() as db:
            found = self._look_up(db, session_id)
            if found is None and rows:
                moments = (row.event.created_at for row in rows if row.event.created_at is not None)
                self._put(
                    db, Session(id=session_id, created_at=next(moments, None)), replaces=False
                )
                found = self._locked(db, session_id)  # another process may have been first
            key, last_seq = found or (0, 0)
            if expected_seq is not None and expected_seq != last_seq:
                raise ConcurrentAppendError(
                    session_id, expected_seq=expected_seq, actual_seq=last_seq
                )
            if not rows:
                return []
            if not numbers.keys() >= counted.keys():
                numbers = _family_numbers(db, counted)
            counts = {numbers[name]: columns for name, columns in counted.items()}
            wanted = [row.event.id or f"evt_{seq}" for seq, row in enumerate(rows, last_seq + 1)]
            near = [(key, event_id, f"{event_id}(") for event_id in wanted]  # with marks, too
            used = {name for (name,) in self._file.each(db, _BY_ID, near if last_seq else ())}
            stored, added = _insert_events(
                db, session_id, key, last_seq, rows, counted=counts, used=used, seal=seal
            )
            first = last_seq - last_seq % BLOCK
            if first + BLOCK <= stored[-1].seq:
                for number in counts:
                    _keep_blocks(db, key, number, first, _stored(db, key, number, first)[1])
                _keep_blocks(db, key, 0, first, _stored(db, key, _NO_FAMILY, first)[0])
            if call is not None:
                _insert_call(db, key, call, reply_seq=stored[-1].seq, seal=seal)
            self._keep_texts(db, texts or {})
            changed = "UPDATE sessions SET last_seq = ?, version = version + 1 WHERE key = ?"
            db.execute(changed, (last_seq + len(rows), key))
            if rewinds := [event.seq for event in stored if event.type == "rewind"]:
                db.execute(_REWOUND, (f"+{rewinds[-1]}", key))
        self._family_numbers = numbers
        if sum(len(row.raw) for row in rows) <= _MOST_RECENT_BYTES:
            self._recent = added if len(self._recent) > _MOST_RECENT else self._recent | added
        return stored

    def counts(self, session_id: str, until_seq: int) -> dict[str, _Columns]:
        """Return the token counts of the events up to a number, by the key of their family."""
        with self._file.reading() as db:
            key, _ = _find_session(db, session_id)
            numbers = _family_numbers(db).items()
            stored = {name: _stored(db, key, number, 0)[1] for name, number in numbers}
        return {name: [one[:until_seq] for one in columns] for name, columns in stored.items()}

    def keep_now(
        self,
        session_id: str,
        calls: Iterable[CallRow],
        texts: Mapping[str, str],
        counts: Mapping[str, _Columns] | None = None,
    ) -> None:
        """Keep what belongs to events that the session has already; see `append_now`.

        Args:
            counts: As `counts` of another store returned them.
        """
        with self.writing() as db:
            key, _ = self._locked(db, session_id)
            for call in calls:
                _insert_call(db, key, call, reply_seq=call.reply_seq, seal=self.encryption.seal)
            self._keep_texts(db, texts)
            numbers = _family_numbers(db, counts or ())
            for name, columns in (counts or {}).items():
                _keep_blocks(db, key, numbers[name], 0, columns)

    def fork_now(self, session_id: str, session: Session, *, at: int) -> None:
        """Begin a session with the events 1 to `at` of another one, in one transaction.

        They keep ids, columns and times; with them go the calls that they answered, and what was
        derived under their numbers. What such calls learned counts once: as the first session's.

        Raises:
            UnknownSessionError: There is no session to fork.
            InvalidParameterError: The id of `session` is taken, or not every store can keep it.
        """
        _check_id("session_id", session.id)
        with self.writing() as db:
            key, _ = self._locked(db, session_id)
            if self._look_up(db, session.id):
                raise taken(session.id)
            self._put(db, session, replaces=False)
            new, _ = _find_session(db, session.id)
            for statement in _FORKS.split(";"):
                db.execute(statement, (key, new, at))
            for number in (0, *_family_numbers(db).values()):
                columns = [column[:at] for column in _in_blocks(db, key, number, 0)]
                _keep_blocks(db, new, number, 0, columns)

    def delete_now(self, session_id: str) -> None:
        """Forget the session with all its events.

        Raises:
            UnknownSessionError: There is no such session.
        """
        with self.writing() as db:
            _delete(db, self._locked(db, session_id)[0])

    def prune_now(self, before: datetime, *, deletes: bool = False) -> list[SessionHead]:
        """Return the sessions to which nothing was added since a moment; delete them if asked.

        If the newest event has no time, the session counts from its creation; if nothing has, it
        stays, and so does one that somebody appends to meanwhile.
        """
        with self._file.reading() as db:
            rows = db.execute(_OLD, (_time_of(before),)).fetchall()
        heads = [self._head_of(row[-1], row) for row in rows]
        for head in [*heads] if deletes else ():
            with self.writing() as db:
                found = self._look_up(db, head.session.id)
                if found is not None and found[1] == head.last_seq:
                    _delete(db, found[0])
                else:
                    heads.remove(head)
        return heads

    # ---- what applications call ----

    async def create(self, session: Session) -> None:
        """Keep a new session; replace the record of one that exists, its events untouched."""
        await self.away(self.create_now, session)

    async def append(
        self, session_id: str, events: Sequence[SessionEvent], **row: Any
    ) -> list[SessionEvent]:
        """Append, and return the events with `id` and `seq` filled in; see `append_now`."""
        return await self.away(self.append_now, session_id, events, **row)

    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        """Yield the events with a larger sequence number, oldest first.

        Events that are appended meanwhile are yielded too.

        Raises:
            UnknownSessionError: There is no such session.
            EventFormatError: An event is damaged.
        """
        while page := await self.away(self.events, session_id, after_seq=after_seq, limit=_PAGE):
            for event in page:
                yield event
            after_seq = page[-1].seq

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
            rows = db.execute(f"{_HEADS} ORDER BY key").fetchall()
        return [self._head_of(row[-1], row) for row in rows]

    async def delete(self, session_id: str) -> None:
        """Forget the session with all its events.

        Raises:
            UnknownSessionError: There is no such session.
        """
        await self.away(self.delete_now, session_id)

    async def prune(self, before: datetime, *, deletes: bool = False) -> list[SessionHead]:
        """Return the sessions to which nothing was added since a moment; see `prune_now`."""
        return await self.away(self.prune_now, before, deletes=deletes)

    async def close(self) -> None:
        """Close files and connections, after the writes that wait; what is in memory stays."""
        if self._writer is not None:
            await self.away(self._file.close)
            self._writer[1].shutdown(wait=False)
            self._writer = None
        self._file.close()
        self._family_numbers, self._recent = {}, {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def away(self, act: Callable[..., _T], *given: Any, **named: Any) -> _T:
        """Run an action that waits for the disk in the thread that writes."""
        if not self._writers:
            return act(*given, **named)
        from asyncio import get_running_loop
        from concurrent.futures import ThreadPoolExecutor
        from functools import partial

        if self._writer is None or self._writer[0] != os.getpid():  # a fork takes no threads along
            pool = ThreadPoolExecutor(self._writers, thread_name_prefix="sessions")
            self._writer = os.getpid(), pool
        work = partial(act, *given, **named)
        return await get_running_loop().run_in_executor(self._writer[1], work)

    # ---- inside ----

    @contextmanager
    def writing(self, **how: bool) -> Generator[Any]:
        """Lend a connection in a transaction; a store that is encrypted takes nothing as text."""
        with self._file.writing(**how) as db:
            if not self._is_unlocked:
                row = db.execute("SELECT text FROM texts WHERE hash = ?", (_LOCK,)).fetchone()
                if row is not None:
                    self.encryption.open(row[0])
                elif (sealed := self.encryption.seal(b"")) != b"":
                    added = "INSERT INTO texts VALUES (?, ?) ON CONFLICT DO NOTHING"
                    db.execute(added, (_LOCK, sealed))
            yield db
        self._is_unlocked = True

    def _read_json(self, stored: bytes) -> Json:
        return load_json(self.encryption.open(stored))

    def _keep_texts(self, db: Any, texts: Mapping[str, str]) -> None:
        # As bytes: SQLite takes no lone surrogates.
        raws = {digest: text.encode("utf-8", "surrogatepass") for digest, text in texts.items()}
        rows = [(digest, self.encryption.seal(raws[digest])) for digest in sorted(raws)]
        db.executemany("INSERT INTO texts VALUES (?, ?) ON CONFLICT DO NOTHING", rows)

    def _put(self, db: Any, session: Session, *, replaces: bool, incarnation: str = "") -> None:
        """Insert the session, or replace the record of one that exists."""
        record = {"agent_id": session.agent_id, "defaults": session.defaults}
        record["metadata"] = session.metadata
        record |= {"nonce": session.nonce} if session.nonce else {}
        raw = dump_json(record, where=f"The record of session {session.id!r}")
        sealed, created = self.encryption.seal(raw), _time_of(session.created_at)
        incarnation = incarnation or os.urandom(8).hex()
        db.execute(_PUT, (session.id, incarnation, sealed, created, replaces))

    def _load_all(self, rows: Sequence[tuple[int, bytes]], session_id: str) -> list[Body]:
        """Return the bodies of (seq, body as stored)."""
        unseal = self.encryption.open
        with suppress(ValueError, TypeError):
            bodies: list[Body] = load_json(
                b"[" + b",".join([unseal(raw) for _, raw in rows]) + b"]"
            )
            if len(bodies) == len(rows) and not any(map(flaw_of, bodies)):
                return bodies
        for seq, raw in rows:
            with _decoding(f"Event {seq} of {session_id!r}"):
                if flaw := flaw_of(self._read_json(raw)):
                    raise ValueError(flaw)
        raise AssertionError("one of them is damaged")

    def _query(self, session_id: str, sql: str, *given: Any) -> list[Any]:
        """Return the rows of a statement whose first parameter is the session's key."""
        return self._read(session_id, lambda db, key: db.execute(sql, (key, *given)).fetchall())

    def _spans(self, session_id: str, sql: str, spans: Sequence[tuple[int, int]]) -> list[Any]:
        """Return the rows of a statement for ranges of sequence numbers."""

        def read(db: Connection, key: int) -> list[Any]:
            ends = [(key << 32 | max(first, 0), key << 32 | max(last, 0)) for first, last in spans]
            return self._file.each(db, sql, ends)

        return self._read(session_id, read)

    def _recent_rows(self, session_id: str, spans: Sequence[tuple[int, int]]) -> list[Any]:
        """Return the rows of ranges if all were appended here; the key is that of the last look."""
        rows: list[Any] = []
        base = self._heads[session_id][0][0] << 32 if session_id in self._heads else 0
        for first, last in spans:
            held = map(self._recent.get, range(base + first, base + last + 1))
            rows += takewhile(bool, held)
        return rows if len(rows) == sum(last - first + 1 for first, last in spans) else []

    def _read(self, session_id: str, read: Callable[[Connection, int], list[Any]]) -> list[Any]:
        """Return rows of the session with the key of the last look: none is used a second time."""
        with self._file.reading() as db:
            head = self._heads.get(session_id)
            return (read(db, head[0][0]) if head else []) or read(
                db, _find_session(db, session_id)[0]
            )

    def _count(self, session_id: str, family: TokenFamily, after_seq: int) -> _Columns:
        """Count what the family has not counted yet, and keep the counts if the store can."""
        with self._file.reading() as db:
            key, _ = _find_session(db, session_id)
            number = _family_numbers(db).get(family.key, _NO_FAMILY)
            shared, known = _stored(db, key, number, 0)
        counted = len(known[0])
        bodies = self.bodies(session_id, [(counted + 1, len(shared[0]))])
        more = _counts(family, zip(shared[0][counted:], bodies, strict=True))
        columns = [old + new for old, new in zip(known, more, strict=True)]
        with (
            suppress(StoreUnavailableError),
            self.writing(waits=False, is_durable=False) as db,
        ):
            if (self._look_up(db, session_id) or (0,))[0] == key:
                number = _family_numbers(db, [family.key])[family.key]
                _keep_blocks(db, key, number, 0, columns)
        return [column[after_seq:] for column in columns]

    def _look_up(self, db: Connection, session_id: str) -> tuple[int, int] | None:
        """Return the session's key and last sequence number; until the end nobody changes them."""
        found: tuple[int, int] | None = db.execute(
            _LOOK_UP + self._file.row_lock, (session_id,)
        ).fetchone()
        return found

    def _locked(self, db: Connection, session_id: str) -> tuple[int, int]:
        found = self._look_up(db, session_id)
        if found is None:
            raise _unknown(db, session_id)
        return found


class SqliteStore(SqlStore):
    """A session store in one file, for many threads and processes at once.

    Nothing is touched before the first call; reading alone never creates the file. After `close` the
    next call opens it again. A write that is cancelled while it waits for the disk may still have
    happened: all of it, or nothing.

    Args:
        path: The file; its folder must exist. `~` is the home folder, `:memory:` no file at all.
        busy_seconds: How long to wait for another process that writes.
    """

    def __init__(self, path: str | Path, *, busy_seconds: float = 10.0) -> None:
        self.path = None if str(path) == ":memory:" else Path(path).expanduser().absolute()
        file = SqliteFile(self.path, SCHEMA, busy_seconds=busy_seconds)
        super().__init__(file, writers=0 if self.path is None else 1)


class MemoryStore(SqliteStore):
    """A session store without a file, for many threads; its sessions are gone with the process."""

    def __init__(self) -> None:
        super().__init__(":memory:")


def call_from_json(value: Mapping[str, Json]) -> CallRow:
    """Return the call row that `to_json` was given."""
    usage, at, made = value.get("usage"), value.get("created_at"), dict[str, Any](value)
    made |= {"usage": usage and Usage(**usage), "created_at": at and datetime.fromisoformat(at)}
    return CallRow(**made)


# ---- sessions and events ----


def taken(session_id: str) -> InvalidParameterError:
    """Return the error of a new session whose id another one has."""
    rule, remedy = "must be the id of no session", "Choose another id, or delete that session."
    return InvalidParameterError("session_id", session_id, rule=rule, remedy=remedy)


def nonce_of(*secret: object, size: int = 3) -> str:
    """Return what the tags of a session's notes carry, made of what its texts cannot know."""
    return blake2b(repr(secret).encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def _find_session(db: Connection, session_id: str) -> tuple[int, int]:
    """Return the session's key and last sequence number."""
    found: tuple[int, int] | None = db.execute(_LOOK_UP, (session_id,)).fetchone()
    if found is None:
        raise _unknown(db, session_id)
    return found


def _unknown(db: Connection, session_id: str) -> UnknownSessionError:
    newest = db.execute("SELECT id FROM sessions ORDER BY key DESC LIMIT 2000")
    return UnknownSessionError(session_id, known=[known for (known,) in newest])


def _delete(db: Connection, key: int) -> None:
    ends = (key << 32, (key + 1) << 32)
    db.execute("DELETE FROM events WHERE key >= ? AND key < ?", ends)
    db.execute("DELETE FROM blocks WHERE key >= ? AND key < ?", ends)
    db.execute("DELETE FROM derived WHERE session = ?", (key,))
    db.execute("DELETE FROM calls WHERE session = ?", (key,))
    db.execute("DELETE FROM sessions WHERE key = ?", (key,))


def _rows_of(events: Sequence[SessionEvent], session_id: str) -> list[_Row]:
    rows: list[_Row] = []
    for at, event in enumerate(events, 1):
        if event.id:
            _check_id("event id", event.id)
        body, name = body_of(event), f" {event.id!r}" if event.id else ""
        among = f" (number {at} of {len(events)})" if len(events) > 1 else ""
        where = f"The {event.type} event{name}{among} for session {session_id!r}"
        kind = kind_of(event.type, body, is_pinned=event.is_pinned)
        rows.append(_Row(event, kind, body, dump_json(body, where=where)))
    return rows


def _insert_events(
    db: Connection,
    session_id: str,
    key: int,
    last_seq: int,
    rows: Sequence[_Row],
    *,
    counted: Mapping[int, _Columns],
    used: set[str],
    seal: Callable[[bytes], bytes],
) -> tuple[list[SessionEvent], dict[int, Any]]:
    """Insert the events with their numbers, ids and columns; return them, and what reads need."""
    given, stored = {row.event.id for row in rows}, list[SessionEvent]()
    added: dict[int, Any] = {}
    for at, row in enumerate(rows):
        seq, body = last_seq + at + 1, row.body
        columns = _OWN.pack(mark_of(row.kind, body), row.event.answers_seq, link_of(body))
        for number, counts in counted.items():
            columns += _OWN_COUNTS.pack(number, *(column[at] for column in counts))
        event_id = row.event.id or f"evt_{seq}"
        while not row.event.id and (event_id in given or event_id in used):
            event_id += "'"
        if event_id in used:
            raise DuplicateEventError(session_id, event_id=event_id)
        used.add(event_id)
        try:
            created = _time_of(row.event.created_at)
            values = (key << 32 | seq, row.kind, event_id, created, columns, seal(row.raw))
            db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", values)
        except IntegrityError as error:
            where, reason = f"The record of {session_id!r}", "it counts too few events"
            raise _damaged(where, reason) from error
        added[key << 32 | seq] = row.kind, created, columns, row.raw
        stored.append(replace(row.event, id=event_id, seq=seq))
        if row.kind & SIGNED:
            made_by = body.get("made_by", {})
            signer = [made_by.get(name) for name in ("provider", "model", "account", "prefix")]
            signed = (key, "signed", seq, seal(dump_json(signer)))
            db.execute("INSERT INTO derived VALUES (?, ?, ?, ?)", signed)
    return stored, added


def _insert_call(
    db: Connection, key: int, call: CallRow, *, reply_seq: int, seal: Callable[[bytes], bytes]
) -> None:
    learned = call.details.get("learned", {}).get("key")
    raw = dump_json({**to_json(call), "reply_seq": reply_seq}, where="The row of the call")
    db.execute(
        "INSERT INTO calls (session, reply_seq, answers_seq, model, factor, learned, body) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (key, reply_seq, call.answers_seq, call.model, call.factor, learned, seal(raw)),
    )


@contextmanager
def _decoding(where: str) -> Generator[None]:
    """Say of a damaged row where it stands, and what can be done."""
    try:
        yield
    except UnknownSessionError:
        raise
    except _FLAWS as error:
        raise _damaged(where, error.__cause__ or error) from error


def _damaged(where: str, error: BaseException | str) -> EventFormatError:
    kind = "" if error.__class__ in (str, ValueError) else f"{type(error).__name__}: "
    remedy = "Upgrade the package if a newer version wrote it; else restore a backup."
    return EventFormatError(where=where, reason=f"{kind}{error}", remedy=remedy)


def _time_of(moment: datetime | None) -> float | None:
    if moment is None:
        return None
    created = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return min(max(created, _FIRST_MOMENT), _LAST_MOMENT)


def _moment(created: float | None) -> datetime | None:
    return None if created is None else datetime.fromtimestamp(created, UTC)


def _check_id(name: str, given: str) -> None:
    has_bad = any(char == "\0" or "\ud800" <= char <= "\udfff" for char in given)
    if not given or len(given) > _MOST_ID_CHARS or has_bad:
        rule = f"must have 1 to {_MOST_ID_CHARS} characters, without NUL and unpaired surrogates"
        raise InvalidParameterError(name, given, rule=rule, remedy="Use another id.")


# ---- columns ----


def _family_numbers(db: Connection, used: Iterable[str] = ()) -> dict[str, int]:
    """Return the numbers of the families that the file knows, by their keys; `used` get one."""
    while True:
        numbers = dict(db.execute(_FAMILIES))
        lacking = next((key for key in used if key not in numbers), None)
        if lacking is None:
            return numbers
        # Another process may take that number first: then it is the next one's turn.
        added = "INSERT INTO families (number, key) VALUES (?, ?) ON CONFLICT DO NOTHING"
        db.execute(added, (len(numbers) + 1, lacking))


def _counts(family: TokenFamily, pairs: Iterable[tuple[int, Body]]) -> _Columns:
    tokens, reasoning = array("I"), array("I")
    count, count_reasoning = family.count_event, family.count_reasoning
    for kind, body in pairs:
        tokens.append(count(kind, body))
        reasoning.append(count_reasoning(body) if kind & (SIGNED | UNUSUAL) else 0)
    return [tokens, reasoning]


def _stored(db: Connection, key: int, number: int, after_seq: int) -> tuple[_Columns, _Columns]:
    """Return the shared columns and a family's after a sequence number; these can be fewer."""
    shared = _in_blocks(db, key, 0, after_seq)
    counts = _in_blocks(db, key, number, after_seq)
    if rows := db.execute(_TAIL, (key, after_seq + len(shared[0]))).fetchall():
        _add_rows(shared, counts, rows, number)
    return shared, counts


def _add_rows(shared: _Columns, counts: _Columns, rows: Sequence[Any], number: int) -> None:
    """Append what stands with events that are in no block."""
    kinds, moments, own, *_ = zip(*rows, strict=True)
    marks, answers, links = zip(*map(_OWN.unpack_from, own), strict=True)
    created = [moment or 0.0 for moment in moments]
    counted = len(counts[0]) - len(shared[0])  # of the rows, in a block that is not full
    for column, values in zip(shared, (kinds, marks, created, answers, links), strict=True):
        column.extend(values)
    for columns in own[counted:] if counted >= 0 else ():
        held = {family: rest for family, *rest in _OWN_COUNTS.iter_unpack(columns[_OWN.size :])}
        if number not in held:
            break
        for column, value in zip(counts, held[number], strict=True):
            column.append(value)


def _no_columns(number: int) -> _Columns:
    return [array(code) for code in (_COUNTS if number else _SHARED)]


def _in_blocks(db: Connection, key: int, number: int, after_seq: int) -> _Columns:
    """Return what blocks hold of a family, or of the shared columns, after a sequence number."""
    columns = _no_columns(number)
    first, skipped = divmod(after_seq, BLOCK)
    size = sum(column.itemsize for column in columns)
    for block, data in db.execute(_BLOCKS, (key, number << 24 | first)):
        if (block - first) * BLOCK != len(columns[0]):
            break  # some events in between are not counted
        count, at = len(data) // size, 0
        for column in columns:
            end = at + column.itemsize * count
            column.frombytes(data[at:end])
            at = end
    return [column[skipped:] for column in columns] if skipped else columns


def _keep_blocks(db: Connection, key: int, number: int, after_seq: int, columns: _Columns) -> None:
    """Write columns in blocks; the last one may be partial: what follows stands with its events."""
    base, count = key << 32 | number << 24 | after_seq // BLOCK, len(columns[0])
    for at in range(0, count, BLOCK):
        data = b"".join(column[at : at + BLOCK].tobytes() for column in columns)
        kept = (
            "INSERT INTO blocks VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET data = excluded.data"
        )
        db.execute(kept, (base + at // BLOCK, data))
