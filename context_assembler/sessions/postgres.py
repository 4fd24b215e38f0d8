"""`PostgresStore`: sessions on a PostgreSQL server that any number of machines may use at once.

The rows are those of `SqliteStore`, and so are the statements; what differs is who waits for whom: a
write locks the row of its session, and nothing else.
"""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from importlib import import_module
from itertools import count
from re import sub
from typing import Any, Final

from context_assembler.errors import MissingExtraError, StoreError, without_parts
from context_assembler.sessions.files import KEEP_VERSION, VERSION, VERSIONS, SqliteFile
from context_assembler.sessions.sqlite import SCHEMA, SqlStore

_IDENTITY: Final = "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
_WORDS: Final = {  # of SQLite's tables
    "INTEGER PRIMARY KEY AUTOINCREMENT": _IDENTITY,
    "number INTEGER PRIMARY KEY, session": f"number {_IDENTITY}, session",
    "INTEGER": "bigint",
    "REAL": "double precision",
    "TEXT": 'text COLLATE "C"',
    "BLOB": "bytea",
    " WITHOUT ROWID": "",
    "(learned)": "(learned, number)",
}
PLACE: Final = "context_assembler"  # the schema of the tables, if the URL names none
_WRITERS: Final = 8
_MOST_IDLE: Final = 8
_CONNECT_SECONDS: Final = 10
_LOCK: Final = 0x73657373  # ours among the locks of a database
# Compiling a query takes longer than any of ours does, and most of what is read is in memory.
_SETTINGS: Final = {"jit": "off", "random_page_cost": "1.1", "lock_timeout": "10s"}
_REMEDIES: Final = {  # by a word of what the server or its library says
    "percent-encoded": "Write %25 for % in the URL, %40 for @ and %2F for / in user and password."
}
_CHECK: Final = (
    "Check that the server runs and is not locked, and host, port, user, password and database in "
    "the URL."
)
_BUSY: Final = "Another process holds the session: try again."
_GRANT: Final = (
    "Have an owner create the schema and write once, and grant USAGE on it, and SELECT, INSERT, "
    "UPDATE and DELETE on its tables."
)
_SESSION_REMEDIES: Final = {"lock timeout": _BUSY, "deadlock": _BUSY, "denied": _GRANT}
_SET: Final = "SELECT set_config(?, ?, false)"
_HASTY: Final = "SELECT set_config('lock_timeout', '20ms', true)"
_NOT_DURABLE: Final = "SELECT set_config('synchronous_commit', 'off', true)"
_HAS_TABLE: Final = "SELECT to_regclass(?) IS NOT NULL"
_INHERITED: Final = list[object]()  # of the process that forked, whose sockets they are


class PostgresStore(SqlStore):
    """A session store on a server, for many threads, processes and machines at once.

    Nothing is touched before the first call; the first write creates the tables, in the schema
    `context_assembler` unless the URL sets a `search_path`. A thread that reads or writes has a
    connection to itself, and leaves it to the next one; a child of a fork opens its own. After
    `close` the next call connects again, and so it does after the server was restarted.

    Args:
        url: `postgresql://user@host/database`; what it leaves open libpq's environment says.
        writers: How many sessions this process writes to at the same time.
    """

    def __init__(self, url: str, *, writers: int = _WRITERS) -> None:
        self.path = None
        super().__init__(PostgresTables(url), writers=writers)


class Link:
    """A connection that takes the statements that SQLite takes."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.version = 0  # of the tables, once somebody looked

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self.raw.execute(_numbered(sql), values)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with self.raw.cursor() as cursor:
            cursor.executemany(_numbered(sql), rows)

    def each(self, sql: str, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Return what a statement finds for each row of values, all asked at once."""
        with nullcontext() if self.raw.pgconn.pipeline_status else self.raw.pipeline():
            cursors = [self.execute(sql, row) for row in rows]
            return [found for cursor in cursors for found in cursor]


def _translated(scripts: Sequence[Any]) -> str:
    """Return SQLite's scripts as PostgreSQL reads them."""
    script = ";".join(scripts)
    for word, other in _WORDS.items():
        script = script.replace(word, other)
    return script


@lru_cache
def _numbered(sql: str) -> str:
    """Return the statement with `$1` for `?` and `?1`."""
    numbers = count(1)
    return sub(r"\?(\d*)", lambda found: f"${found[1] or next(numbers)}", sql)


class PostgresServer:
    """Connections to a database on a server: one for each that uses it at the same time.

    Args:
        what: What needs it, for the error if psycopg is not installed.
        unavailable: The error for a server that cannot be used.
        down: How its reason begins if nobody can connect.
        remedies: What to do, by a word of what the server says.
    """

    def __init__(
        self,
        url: str,
        what: str,
        unavailable: Callable[..., StoreError],
        *,
        down: str = "",
        remedies: Mapping[str, str] = _REMEDIES,
    ) -> None:
        self.url, self.unavailable = url, unavailable
        self._what, self._down, self._remedies = what, down, _REMEDIES | {**remedies}
        self._idle, self._process_id = list[Link](), os.getpid()

    @contextmanager
    def lent(self) -> Generator[Link]:
        """Lend a connection, and say what is wrong with the server if something is."""
        try:
            psycopg: Any = import_module("psycopg")
        except ImportError as error:
            raise MissingExtraError(self._what, extra="postgres") from error
        if self._process_id != os.getpid():
            _INHERITED.append(self._idle)
            self._idle, self._process_id = [], os.getpid()
        home, down = self._idle, self._down
        try:
            link = self._take(psycopg)
            down = ""
            try:
                yield link
            finally:
                is_idle = link.raw.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
                if is_idle and home is self._idle and len(home) < _MOST_IDLE:
                    home.append(link)
                else:
                    link.raw.close()
        except psycopg.Error as error:
            # libpq names the part of a URL that it cannot read: a password, if `%` is not `%25`.
            said = without_parts(" ".join(str(error).split()), self.url)
            remedy = next((fix for word, fix in self._remedies.items() if word in said), "")
            if not remedy and isinstance(error, psycopg.OperationalError):
                remedy = _CHECK
            remedy = remedy or "Look into the server's log."
            raise self.unavailable(
                self.url, reason=f"{down}PostgreSQL says: {said}", remedy=remedy
            ) from None

    def close(self) -> None:
        """Close the connections that nobody uses; the others are closed after their use."""
        idle, self._idle = self._idle, []
        for link in idle:
            link.raw.close()

    def _take(self, psycopg: Any) -> Link:
        while self._idle:
            raw = (link := self._idle.pop()).raw
            with suppress(psycopg.OperationalError):  # the server ended it: nothing is sent to see
                raw.pgconn.consume_input()  # what it said last
                raw.pgconn.consume_input()  # the end
                return link
            raw.close()
        is_told = "connect_timeout" in self.url or "PGCONNECT_TIMEOUT" in os.environ
        more: Any = {} if is_told else {"connect_timeout": _CONNECT_SECONDS}
        more |= {"autocommit": True, "client_encoding": "utf8"}
        raw = psycopg.connect(self.url, cursor_factory=psycopg.RawCursor, **more)
        # Whole numbers are of one size, whatever their value: the server computes keys with them.
        raw.adapters.register_dumper(int, psycopg.types.numeric.Int8Dumper)
        link = Link(raw)
        link.each(_SET, [*_SETTINGS.items()])
        return link


class PostgresTables:
    """The tables of a session store on a server, lent like those of a `SqliteFile`."""

    row_lock = " FOR NO KEY UPDATE"

    def __init__(self, url: str) -> None:
        self._server = PostgresServer(
            url, "A session store on PostgreSQL", SCHEMA.unavailable, remedies=_SESSION_REMEDIES
        )
        self._has_place = "search_path" in url
        self._empty = SqliteFile(None, SCHEMA, busy_seconds=0)
        self.close = self._server.close

    def each(self, db: Any, sql: str, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return what a statement finds for each row of values."""
        return db.each(sql, rows) if isinstance(db, Link) else self._empty.each(db, sql, rows)

    def reading(self) -> AbstractContextManager[Any]:
        """Lend a connection; an empty database if there are no tables yet."""
        return self._lent(creates=False)

    @contextmanager
    def writing(self, *, waits: bool = True, is_durable: bool = True) -> Generator[Any]:
        """Lend a connection in a transaction: all that is done inside is kept, or nothing.

        Args:
            waits: Whether to wait for others who write to the same rows.
            is_durable: Whether to wait for the server's disk. What is not on it can be lost in a
                power cut, as a whole.
        """
        first = ["BEGIN"] + ([] if waits else [_HASTY]) + ([] if is_durable else [_NOT_DURABLE])
        with self._lent(creates=True) as db:
            try:
                # What is sent waits for no answer, unless one is read; psycopg logs what fails then.
                with db.raw.pipeline() if waits else nullcontext():
                    for statement in first:
                        db.execute(statement)
                    yield db
                    db.execute("COMMIT")
            finally:
                db.raw.rollback()  # nothing, after a commit

    @contextmanager
    def _lent(self, *, creates: bool) -> Generator[Any]:
        with self._server.lent() as link:
            if link.version < len(SCHEMA.migrations):
                self._prepare(link, creates=creates)
            if link.version:
                yield link
                return
        with self._empty.reading() as empty:
            yield empty

    def _prepare(self, link: Link, *, creates: bool) -> None:
        """Find out the version of the tables; if it writes, apply the migrations that they lack."""
        if not self._has_place:
            link.execute(_SET, ("search_path", PLACE))
        with link.raw.transaction():
            if creates:  # one process at a time
                link.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
                [lacks] = link.execute("SELECT to_regnamespace(?) IS NULL", (PLACE,)).fetchone()
                if lacks and not self._has_place:
                    link.execute(f"CREATE SCHEMA {PLACE}")
            # With the schema's name: what a user has no right to is not taken for nothing.
            place = "" if self._has_place else f"{PLACE}."
            names = ("context_assembler_versions", SCHEMA.table)
            (has_versions,), (has_table,) = link.each(_HAS_TABLE, [(place + n,) for n in names])
            found = link.execute(VERSION, (SCHEMA.store,)).fetchone() if has_versions else None
            version = found[0] if found else 0
            lacking = SCHEMA.lacking(self._server.url, version, has_table=has_table)
            if creates and lacking:
                for statement in _translated(lacking).split(";"):
                    link.execute(statement)
                link.execute(VERSIONS)
                version += len(lacking)
                link.execute(KEEP_VERSION, (SCHEMA.store, version))
        link.version = version
