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
_SHARED_BYTES, _COUNT_BYTES = 14, 8  # of one event in a block
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
            shared = _read_blocks(db, _block(found, 0), after_seq, _SHARED_BYTES)
            number = _number_of(db, family.key)
            counts = _read_blocks(db, _block(found, number), after_seq, _COUNT_BYTES)
        made = StoredColumns(
            kinds=bytearray(),
            marks=bytearray(),
            created=array("d"),
            answers=array("I"),
            tokens=array("I"),
            reasoning=array("I"),
        )
        for data in shared:
            count = len(data) // _SHARED_BYTES
            made.kinds += data[:count]
            made.marks += data[count : 2 * count]
            made.created.frombytes(data[2 * count : 10 * count])
            made.answers.frombytes(data[10 * count :])
        for data in counts:
            half = len(data) // 2
            made.tokens.frombytes(data[:half])
            made.reasoning.frombytes(data[half:])
        skipped = max(0, after_seq) % BLOCK
        if skipped:
            for name in ("kinds", "marks", "created", "answers", "tokens", "reasoning"):
                del getattr(made, name)[:skipped]
        del made.tokens[len(made.kinds) :], made.reasoning[len(made.kinds) :]  # appended meanwhile
        if len(made.tokens) < len(made.kinds):
            self._count(session_id, family, made, after_seq=max(0, after_seq))
        return made

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
        rows = [_row_of(event, session_id, events, i) for i, event in enumerate(events)]
        with self._file.reading() as db:  # counted before the lock is taken
            found = self._look_up(db, session_id)
            families = self._families_of(db, found)
        counts = {number: _counts(family, rows) for number, family in families.items() if family}
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
            _extend_blocks(db, found, 0, _shared(rows))
            for number, counted in counts.items():
                _extend_blocks(db, found, number, counted)
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

    def _families_of(self, db: Connection, found: _Found | None) -> dict[int, TokenFamily | None]:
        """Return the families that a session is counted by; `None` for one that nobody knows here."""
        from context_assembler.tokens import DEFAULT_FAMILIES, family_by_key

        known = db.execute("SELECT number, key FROM families ORDER BY number").fetchall()
        known = known or list(enumerate(DEFAULT_FAMILIES, 1))
        if found is not None:
            own = set(found.families.split(","))
            known = [row for row in known if str(row[0]) in own]
        for _, key in known:
            if key not in self._families and (family := family_by_key(key)):
                self._families[key] = family
        return {number: self._families.get(key) for number, key in known}

    def _count(
        self, session_id: str, family: TokenFamily, made: StoredColumns, *, after_seq: int
    ) -> None:
        """Count the events that the family has not counted yet, and keep the counts if possible."""
        with self._file.reading() as db:
            found = self._find(db, session_id)
            number = _number_of(db, family.key)
            counted = (
                db.execute(
                    "SELECT coalesce(sum(length(data)), 0) FROM blocks WHERE key BETWEEN ? AND ?",
                    (_block(found, number), _block(found, number) + (1 << 24) - 1),
                ).fetchone()[0]
                // _COUNT_BYTES
                if number
                else 0
            )
        last_seq = after_seq + len(made.kinds)
        bodies = self.bodies(session_id, [(counted + 1, last_seq)])
        with self._file.reading() as db:
            kinds = b"".join(
                data[: len(data) // _SHARED_BYTES]
                for data in _read_blocks(db, _block(found, 0), counted, _SHARED_BYTES)
            )[counted % BLOCK :]
        rows = [_Row(kind, 0, 0.0, 0, body, b"") for kind, body in zip(kinds, bodies, strict=True)]
        tokens, reasoning = _counts(family, rows)
        missing = len(made.kinds) - len(made.tokens)
        made.tokens += tokens[len(tokens) - missing :]
        made.reasoning += reasoning[len(reasoning) - missing :]
        with suppress(StoreUnavailableError), self._file.writing(is_durable=False) as db:
            now = self._look_up(db, session_id)
            if now is None or now.key != found.key:
                return
            if not number:
                db.execute("INSERT OR IGNORE INTO families (key) VALUES (?)", (family.key,))
                number = _number_of(db, family.key)
            if str(number) not in now.families.split(","):
                families = f"{now.families},{number}"
                db.execute("UPDATE sessions SET families = ? WHERE key = ?", (families, now.key))
            _extend_blocks(db, now._replace(last_seq=counted), number, (tokens, reasoning))


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


def _row_of(
    event: SessionEvent, session_id: str, events: Sequence[SessionEvent], index: int
) -> _Row:
    if event.id:
        _check_id("event id", event.id)
    body = body_of(event)
    name = f" {event.id!r}" if event.id else ""
    among = f" (number {index + 1} of {len(events)})" if len(events) > 1 else ""
    where = f"The {event.type} event{name}{among} for session {session_id!r}"
    raw = dump_json(body, where=where)
    kind = kind_of(event.type, body, is_pinned=event.is_pinned)
    created = _time_of(event.created_at) or 0.0
    return _Row(kind, mark_of(kind, body), created, event.answers_seq, body, raw)


def _counts(family: TokenFamily, rows: Iterable[_Row]) -> tuple["array[int]", "array[int]"]:
    tokens, reasoning = array("I"), array("I")
    count, count_reasoning = family.count_event, family.count_reasoning
    for row in rows:
        tokens.append(count(row.kind, row.body))
        is_thinking = row.kind & (SIGNED | UNUSUAL)
        reasoning.append(count_reasoning(row.body) if is_thinking else 0)
    return tokens, reasoning


def _shared(rows: Sequence[_Row]) -> tuple["array[Any]", ...]:
    return (
        array("B", [row.kind for row in rows]),
        array("B", [row.mark for row in rows]),
        array("d", [row.created for row in rows]),
        array("I", [row.answers for row in rows]),
    )


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


def _block(found: _Found, family: int) -> int:
    return found.key << 32 | family << 24


def _number_of(db: Connection, key: str) -> int:
    """Return the family's number; 0 if no session of the file was counted by it."""
    row = db.execute("SELECT number FROM families WHERE key = ?", (key,)).fetchone()
    return row[0] if row else 0


def _read_blocks(db: Connection, first: int, after_seq: int, size: int) -> list[bytes]:
    """Return the blocks of one column from that of a sequence number on."""
    if size == _COUNT_BYTES and not first >> 24 & 0xFF:
        return []
    ends = (first + max(after_seq, 0) // BLOCK, first + (1 << 24) - 1)
    asked = "SELECT data FROM blocks WHERE key BETWEEN ? AND ? ORDER BY key"
    return [data for (data,) in db.execute(asked, ends)]


def _extend_blocks(
    db: Connection, found: _Found, family: int, columns: Sequence["array[Any]"]
) -> None:
    """Append to the columns of a family; a family that was not counted so far stays as it is."""
    size = sum(column.itemsize for column in columns)
    block, seq = _block(found, family), found.last_seq
    done, count = 0, len(columns[0])
    while done < count:
        key, inside = block + seq // BLOCK, seq % BLOCK
        row = db.execute("SELECT data FROM blocks WHERE key = ?", (key,)).fetchone()
        before = row[0] if row else b""
        if len(before) != inside * size or (
            inside == 0 and seq and not _is_full(db, key - 1, size)
        ):
            return
        new, data, at = min(count - done, BLOCK - inside), b"", 0
        for column in columns:
            width = column.itemsize * inside
            data += before[at : at + width] + column[done : done + new].tobytes()
            at += width
        db.execute("INSERT OR REPLACE INTO blocks VALUES (?, ?)", (key, data))
        done, seq = done + new, seq + new


def _is_full(db: Connection, key: int, size: int) -> bool:
    row = db.execute("SELECT length(data) FROM blocks WHERE key = ?", (key,)).fetchone()
    return row is not None and row[0] == BLOCK * size


# ---- rows ----


def _load_all(rows: Sequence[bytes], session_id: str, first_seq: int) -> list[Body]:
    try:
        bodies: list[Body] = load_json(b"[" + b",".join(rows) + b"]")
        if len(bodies) == len(rows):
            return bodies
    except ValueError:
        pass
    for seq, raw in enumerate(rows, first_seq):
        try:
            load_json(raw)
        except ValueError as error:
            raise _damaged(f"Event {seq} of {session_id!r}", error) from error
    raise _damaged(f"An event of {session_id!r}", ValueError("its JSON is not one object"))


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
    rule = None
    if not given:
        rule = "must not be empty"
    elif len(given) > _MAX_ID_CHARS:
        rule = f"must not be longer than {_MAX_ID_CHARS} characters"
    elif any(char == "\0" or "\ud800" <= char <= "\udfff" for char in given):
        rule = "must not hold NUL or unpaired surrogates"
    if rule:
        remedy = f"Use 1 to {_MAX_ID_CHARS} characters, without NUL and unpaired surrogates."
        raise InvalidParameterError(name, given, rule=rule, remedy=remedy)
