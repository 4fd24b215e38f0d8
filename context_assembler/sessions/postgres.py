"""`PostgresStore`: sessions on a PostgreSQL server that any number of machines may use at once.

The rows are those of `SqliteStore`, and so are the statements; what differs is who waits for whom: a
write locks the row of its session, and nothing else.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import lru_cache
from importlib import import_module
from itertools import count
from re import sub
from typing import Any, Final

from context_assembler.errors import MissingExtraError, StoreError, without_parts
from context_assembler.sessions.files import Schema, SqliteFile
from context_assembler.sessions.sqlite import SCHEMA as SQLITE_SCHEMA
from context_assembler.sessions.sqlite import SqlStore

SCHEMA: Final = Schema(
    store="sessions",
    migrations=(
        """
        CREATE TABLE sessions (
            key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text COLLATE "C" NOT NULL UNIQUE, incarnation text NOT NULL, version bigint NOT NULL,
            last_seq bigint NOT NULL, record bytea NOT NULL, created_at double precision);
        CREATE TABLE events (
            key bigint PRIMARY KEY, kind smallint NOT NULL, id text COLLATE "C" NOT NULL,
            created_at double precision, columns bytea NOT NULL, body bytea NOT NULL);
        CREATE UNIQUE INDEX events_by_id ON events ((key >> 32), id);
        CREATE TABLE families (number smallint PRIMARY KEY, key text COLLATE "C" NOT NULL UNIQUE);
        CREATE TABLE blocks (key bigint PRIMARY KEY, data bytea NOT NULL);
        CREATE TABLE derived (
            session bigint, purpose text COLLATE "C", seq bigint, value bytea NOT NULL,
            PRIMARY KEY (session, purpose, seq));
        CREATE TABLE calls (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session bigint NOT NULL,
            reply_seq bigint NOT NULL, answers_seq bigint NOT NULL, model text NOT NULL,
            factor double precision NOT NULL, learned text COLLATE "C", body bytea NOT NULL);
        CREATE INDEX calls_by_session ON calls (session, reply_seq);
        CREATE INDEX calls_by_learned ON calls (learned, number) WHERE learned IS NOT NULL;
        CREATE TABLE texts (hash text COLLATE "C" PRIMARY KEY, text bytea NOT NULL)
        """,
    ),
    table="sessions",
)
PLACE: Final = "context_assembler"  # the schema of the tables, if the URL names none
_WRITERS: Final = 8
_MOST_IDLE: Final = 8
_CONNECT_SECONDS: Final = 10
_LOCK: Final = 0x73657373  # ours among the locks of a database
# Compiling a query takes longer than any of ours does, and most of what is read is in memory.
_SETTINGS: Final = {"jit": "off", "random_page_cost": "1.1", "lock_timeout": "10s"}
_SET: Final = "SELECT set_config(?, ?, false)"
_HASTY: Final = "SELECT set_config('lock_timeout', '20ms', true)"
_NOT_DURABLE: Final = "SELECT set_config('synchronous_commit', 'off', true)"
_HAS_TABLE: Final = "SELECT to_regclass(?) IS NOT NULL"
_VERSION: Final = "SELECT version FROM context_assembler_versions WHERE store = ?"
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
        super().__init__(PostgresServer(url, SCHEMA), writers=writers)


class _Link:
    """A connection that takes the statements that SQLite takes."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.version = 0

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self.raw.execute(_numbered(sql), values)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with self.raw.cursor() as cursor:
            cursor.executemany(_numbered(sql), rows)


@lru_cache
def _numbered(sql: str) -> str:
    """Return the statement with `$1` for `?` and `?1`."""
    numbers = count(1)
    return sub(r"\?(\d*)", lambda found: f"${found[1] or next(numbers)}", sql)


class PostgresServer:
    """A database on a server, lent like a `SqliteFile`: a connection to each that uses it at once."""

    row_lock = " FOR NO KEY UPDATE"

    def __init__(self, url: str, schema: Schema) -> None:
        self.url, self.schema = url, schema
        self._idle, self._process_id = list[_Link](), os.getpid()
        self._empty = SqliteFile(None, SQLITE_SCHEMA, busy_seconds=0)

    def each(self, db: Any, sql: str, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return what a statement finds for each row of values, all asked at once."""
        with db.raw.pipeline():
            cursors = [db.execute(sql, row) for row in rows]
            return [found for cursor in cursors for found in cursor]

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
        with (
            self._lent(creates=True) as db,
            db.raw.pipeline() if waits else nullcontext(),  # psycopg logs what fails inside
            db.raw.transaction(),
        ):
            for statement in ([] if waits else [_HASTY]) + ([] if is_durable else [_NOT_DURABLE]):
                db.execute(statement)
            yield db

    def close(self) -> None:
        """Close the connections that nobody uses; the others are closed after their use."""
        idle, self._idle = self._idle, []
        for link in idle:
            link.raw.close()

    @contextmanager
    def _lent(self, *, creates: bool) -> Generator[Any]:
        psycopg = _psycopg()
        if self._process_id != os.getpid():
            _INHERITED.append(self._idle)
            self._idle, self._process_id = [], os.getpid()
        home = self._idle
        try:
            link = self._take(psycopg)
            with ExitStack() as after:
                after.callback(self._put_back, link, home, psycopg)
                if link.version < len(self.schema.migrations):
                    self._prepare(link, creates=creates)
                if link.version:
                    yield link
                else:
                    yield after.enter_context(self._empty.reading())
        except psycopg.Error as error:
            raise self._trouble(psycopg, error) from None

    def _take(self, psycopg: Any) -> _Link:
        while self._idle:
            link = self._idle.pop()
            if _is_open(psycopg, link.raw):
                return link
            link.raw.close()
        is_told = "connect_timeout" in self.url or "PGCONNECT_TIMEOUT" in os.environ
        more: Any = {} if is_told else {"connect_timeout": _CONNECT_SECONDS}
        raw = psycopg.connect(
            self.url,
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
            client_encoding="utf8",
            **more,
        )
        # Whole numbers are of one size, whatever their value: the server computes keys with them.
        raw.adapters.register_dumper(int, psycopg.types.numeric.Int8Dumper)
        link = _Link(raw)
        own = {} if "search_path" in self.url else {"search_path": PLACE}
        self.each(link, _SET, [*(_SETTINGS | own).items()])
        return link

    def _put_back(self, link: _Link, home: list[_Link], psycopg: Any) -> None:
        is_idle = link.raw.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if is_idle and home is self._idle and len(home) < _MOST_IDLE:
            home.append(link)
        else:
            link.raw.close()

    def _prepare(self, link: _Link, *, creates: bool) -> None:
        """Find out the version of the tables; if it writes, apply the migrations that they lack."""
        store, migrations, table, _ = self.schema
        with link.raw.transaction():
            if creates:  # one process at a time
                link.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
                if "search_path" not in self.url:
                    [found] = link.execute("SELECT to_regnamespace(?) IS NULL", (PLACE,)).fetchone()
                    if found:
                        link.execute(f"CREATE SCHEMA {PLACE}")
            names = ("context_assembler_versions", table)
            (has_versions,), (has_table,) = self.each(link, _HAS_TABLE, [(one,) for one in names])
            found = link.execute(_VERSION, (store,)).fetchone() if has_versions else None
            version, known = found[0] if found else 0, len(migrations)
            if not version and has_table:
                raise self._unavailable(
                    f"it has a table {table!r} of another program",
                    "Give another database, or end the URL with ?options=-csearch_path%3DSCHEMA",
                )
            if version > known:
                raise self._unavailable(
                    f"its tables are of version {version}, this package knows {known}",
                    "Upgrade the package: pip install --upgrade context-assembler",
                )
            if creates and version < known:
                scripts = [step for step in migrations[version:] if isinstance(step, str)]
                for statement in ";".join(scripts).split(";"):
                    link.execute(statement)
                link.execute(
                    "CREATE TABLE IF NOT EXISTS context_assembler_versions "
                    '(store text COLLATE "C" PRIMARY KEY, version integer NOT NULL)'
                )
                link.execute(
                    "INSERT INTO context_assembler_versions VALUES (?, ?) "
                    "ON CONFLICT (store) DO UPDATE SET version = excluded.version",
                    (store, known),
                )
                version = known
        link.version = version

    def _trouble(self, psycopg: Any, error: Exception) -> StoreError:
        # libpq names the part of a URL that it cannot read: a password, if `%` is not `%25`.
        said = without_parts(" ".join(str(error).split()), self.url)
        remedy = "Look into the server's log."
        if "percent-encoded" in said:
            remedy = "Write %25 for % in the URL, %40 for @ and %2F for / in user and password."
        elif isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.DeadlockDetected):
            remedy = "Another process holds the session: try again."
        elif isinstance(error, psycopg.OperationalError):
            remedy = "Check that the server runs, and host, port, user, password and database."
        return self._unavailable(f"PostgreSQL says: {said}", remedy)

    def _unavailable(self, reason: str, remedy: str) -> StoreError:
        return self.schema.unavailable(self.url, reason=reason, remedy=remedy)


def _psycopg() -> Any:
    try:
        return import_module("psycopg")
    except ImportError as error:
        raise MissingExtraError("A session store on PostgreSQL", extra="postgres") from error


def _is_open(psycopg: Any, raw: Any) -> bool:
    """Return whether the server has not closed an idle connection; nothing is sent."""
    try:
        raw.pgconn.consume_input()  # what it said last
        raw.pgconn.consume_input()  # the end
    except psycopg.OperationalError:
        return False
    return not raw.closed
