"""SQLite files that many threads and processes use at once: opening, migrating, forking."""

import atexit
import os
import re
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Lock, RLock, local
from typing import Any, Final, NamedTuple
from weakref import WeakSet, finalize

from context_assembler.errors import ConfigurationError, StoreError, StoreUnavailableError

_PLACE: Final = "Check that it is a file, and the permissions of file and folder."
_TROUBLES: Final[Mapping[int, tuple[str, str]]] = {
    sqlite3.SQLITE_BUSY: ("another process holds its lock", "Try again, or raise busy_seconds."),
    sqlite3.SQLITE_READONLY: ("it is read-only", "Make file and folder writable, or use a copy."),
    sqlite3.SQLITE_NOTADB: ("the file is not a SQLite database", "Give the path of another file."),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged", "Restore it, or try: sqlite3 FILE .recover"),
    sqlite3.SQLITE_FULL: ("the disk is full", "Free some space, then try again."),
    sqlite3.SQLITE_CANTOPEN: ("the file cannot be opened", _PLACE),
    sqlite3.SQLITE_PERM: ("access is denied", _PLACE),
}
VERSION: Final = "SELECT CAST(version AS INTEGER) FROM context_assembler_versions WHERE store = ?"
VERSIONS: Final = (
    "CREATE TABLE IF NOT EXISTS context_assembler_versions "
    "(store TEXT PRIMARY KEY, version INTEGER NOT NULL)"
)
KEEP_VERSION: Final = (
    "INSERT INTO context_assembler_versions VALUES (?, ?) "
    "ON CONFLICT (store) DO UPDATE SET version = excluded.version"
)


class Schema(NamedTuple):
    """The tables of one kind of store; stores of several kinds may share a file.

    Attributes:
        store: The name under which the file keeps the version of these tables.
        migrations: SQL scripts, or functions; each brings a file from version *n* to *n + 1*. Version
            0 has no tables.
        table: One of the first script: another program's database may have a table of that name.
        unavailable: The error for a file that cannot be used.
    """

    store: str
    migrations: Sequence[str | Callable[[sqlite3.Connection], None]]
    table: str
    unavailable: Callable[..., StoreError] = StoreUnavailableError

    def lacking(
        self, location: str, version: int, *, has_table: bool
    ) -> Sequence[str | Callable[[sqlite3.Connection], None]]:
        """Return the migrations that tables of a version lack.

        Raises:
            StoreError: The tables are another program's, or of a newer version.
        """
        if not version and has_table:
            reason = f"it has a table {self.table!r} of another program"
            remedy = "Give another file or database, or another schema in the URL of a server: "
            remedy += "?options=-csearch_path%3DSCHEMA"
            raise self.unavailable(location, reason=reason, remedy=remedy)
        if version > len(self.migrations):
            reason = f"its tables are of version {version}, this package knows "
            reason += str(len(self.migrations))
            remedy = "Upgrade the package: pip install --upgrade context-assembler"
            raise self.unavailable(location, reason=reason, remedy=remedy)
        return self.migrations[version:]


class _Slot:
    """The connection of one thread, and the lock of whoever is inside SQLite with it."""

    def __init__(self, owner: object) -> None:
        self.owner_id = id(owner)
        self.lock = Lock()
        self.db: sqlite3.Connection | None = None
        self.process_id = 0
        with _GATE:
            _SLOTS.add(self)

    def close(self) -> None:
        db, self.db = self.db, None
        if db is not None and self.process_id == os.getpid():
            db.close()
        elif db is not None:  # to close it would release locks of the process that opened it
            _INHERITED.append(db)

    def __del__(self) -> None:
        self.close()


class _Here(local):
    """The slot of the thread that looks."""

    def __init__(self, owner: object) -> None:
        self.slot = _Slot(owner)


class SqliteFile:
    """A SQLite file with one connection per thread; without a path, one database in memory.

    Nothing is touched before the first use. Reading never creates or changes the file. After
    `close` the next use opens it again.

    Args:
        busy_seconds: How long to wait for another process that writes.
    """

    def __init__(self, path: Path | None, schema: Schema, *, busy_seconds: float) -> None:
        self.path, self.schema = path, schema
        self._location = str(path or ":memory:")
        self._busy_ms = int(busy_seconds * 1000)
        self._memory: sqlite3.Connection | None = None
        self._known: tuple[float, ...] | None = None  # the file that is open
        self._here: _Here | _Slot = _Here(self) if path else _Slot(self)

    row_lock = ""  # whoever writes has the whole file

    def each(self, db: sqlite3.Connection, sql: str, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return what a statement finds for each row of values."""
        return [found for row in rows for found in db.execute(sql, row)]

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Lend the thread's connection; an empty database if the file has no tables yet."""
        return self._lent(creates=False)

    @contextmanager
    def writing(
        self, *, waits: bool = True, is_durable: bool = True
    ) -> Generator[sqlite3.Connection]:
        """Lend the connection in a transaction: all that is done inside is kept, or nothing.

        Args:
            waits: Whether to wait for others who write.
            is_durable: Whether to wait for the disk, too, without the file's lock. What is not on
                the disk can be lost in a power cut, as a whole.
        """
        with self._lent(creates=True) as db, self._transaction(db, waits=waits):
            yield db
        # Without a log SQLite has waited for the file itself.
        if is_durable and self.path is not None:
            with suppress(FileNotFoundError), open(f"{self.path}-wal", "rb+", buffering=0) as log:
                os.fsync(log)

    def close(self) -> None:
        """Close the connections of all threads; what is in memory stays."""
        self._known = None
        _close_all(id(self))

    @contextmanager
    def _lent(self, *, creates: bool) -> Generator[sqlite3.Connection]:
        slot = self._here if isinstance(self._here, _Slot) else self._here.slot
        with slot.lock:
            try:
                yield self._ready(slot, creates=creates) or self._in_memory()
            except sqlite3.Error as error:
                # Errors raised by the module itself, such as use after closing, have no code. An
                # extended code carries the primary one in its low byte.
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                otherwise = f"SQLite says: {error}", "Restore a backup, or check the disk."
                raise self._unavailable(*_TROUBLES.get(code, otherwise)) from error

    def _ready(self, slot: _Slot, *, creates: bool) -> sqlite3.Connection | None:
        """Return the thread's connection to the file; `None` if it has no tables yet."""
        if self.path is None:
            return None
        if self._known is not None and self._known != _identity(self.path):
            # What is written to it is in no folder, and what is read is not what others see.
            raise self._unavailable(
                "the file was deleted, moved or replaced while it was open",
                "Put it back; or remove what is left of it (-wal, -shm) and call close(): "
                "the next call opens what is there then.",
            )
        if slot.db is None or slot.process_id != os.getpid():
            slot.close()
            slot.process_id = os.getpid()
            slot.db = self._open(self.path, creates=creates)
            self._known = _identity(self.path) if slot.db is not None else self._known
        return slot.db

    def _in_memory(self) -> sqlite3.Connection:
        """Return a database in memory: the store without a path, or what is read of no file."""
        if self._memory is None:
            db = self._connect(":memory:")
            self._migrate(db)
            finalize(self, db.close)
            self._memory = db
        return self._memory

    def _open(self, path: Path, *, creates: bool) -> sqlite3.Connection | None:
        """Open the file; `None` if it has no tables yet, and none are to be created."""
        if not path.parent.is_dir():
            raise self._unavailable(
                f"the folder {str(path.parent)!r} does not exist",
                "Create the folder first, or give another path.",
            )
        if not creates and not path.exists():
            return None
        # Not mode=ro: whoever opens a file in WAL mode read-only leaves companion files behind.
        # Source: https://www.sqlite.org/wal.html#read_only_databases (read 2026-11-29)
        db = self._connect(f"{path.as_uri()}?mode={'rwc' if creates else 'rw'}")
        try:
            version, lacking = self._version(db)
            if not version and not creates:
                db.close()
                return None
            if not version:  # it takes a lock, and a file with tables stays as it is
                db.execute("PRAGMA auto_vacuum = FULL")
            if lacking:
                self._migrate(db)
            db.execute("PRAGMA cache_size = -4000")  # KiB
            db.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
            if creates:
                with suppress(sqlite3.OperationalError):  # somebody is reading: another time
                    db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")  # `writing` waits by itself
        except BaseException:
            db.close()
            raise
        return db

    def _connect(self, uri: str) -> sqlite3.Connection:
        # Transactions begin where the code says so, and the lock of the slot keeps threads apart.
        return sqlite3.connect(
            uri,
            uri=True,
            timeout=self._busy_ms / 1000,
            isolation_level=None,
            check_same_thread=False,
        )

    def _version(
        self, db: sqlite3.Connection
    ) -> tuple[int, Sequence[str | Callable[[sqlite3.Connection], None]]]:
        """Return the version of the tables, 0 if there are none, and the migrations they lack."""
        # In this order: another process may be migrating.
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
        has_versions = "context_assembler_versions" in names
        found = db.execute(VERSION, (self.schema.store,)).fetchone() if has_versions else None
        version, has_table = found[0] if found else 0, self.schema.table in names
        return version, self.schema.lacking(self._location, version, has_table=has_table)

    def _migrate(self, db: sqlite3.Connection) -> None:
        """Apply the migrations that the file lacks, all or none, one process at a time."""
        with self._transaction(db):
            # The version is read under the lock: another process may have migrated meanwhile.
            _, lacking = self._version(db)
            for step in lacking:
                if callable(step):
                    step(db)
                else:
                    for statement in step.split(";"):
                        db.execute(statement)
            db.execute(VERSIONS)
            db.execute(KEEP_VERSION, (self.schema.store, len(self.schema.migrations)))

    @contextmanager
    def _transaction(self, db: sqlite3.Connection, *, waits: bool = True) -> Generator[None]:
        try:
            if not waits:
                db.execute("PRAGMA busy_timeout = 0")
            # IMMEDIATE takes the write lock at once: what is read cannot change before use.
            db.execute("BEGIN IMMEDIATE")
        finally:
            if not waits:
                db.execute(f"PRAGMA busy_timeout = {self._busy_ms}")
        try:
            yield
            db.execute("COMMIT")
        finally:
            if db.in_transaction:  # some errors, such as a full disk, end it by themselves
                db.execute("ROLLBACK")

    def _unavailable(self, reason: str, remedy: str) -> StoreError:
        return self.schema.unavailable(self._location, reason=reason, remedy=remedy)


def _identity(path: Path) -> tuple[float, ...] | None:
    """Return what tells a file from another one of its name; `None` if there is none."""
    try:
        return os.stat(path)[1:3]  # its number, and the disk's
    except OSError:
        return None


def path_of(url: str) -> Path | None:
    """Return the file that a store's URL names; `None`: a database in memory.

    Raises:
        ConfigurationError: It names none, or not for certain.
    """
    scheme, _, location = url.partition(":")
    path = location.removeprefix("//")
    if scheme.lower() == "memory" or path.lstrip("/") == ":memory:":
        return None  # gone with the process, like SQLite's own
    if not path.strip("/") or (path != location and not path.startswith("/")):
        raise ConfigurationError(
            f"{url!r} names no file.",
            remedy="Write 'sqlite:FILE', or 'sqlite:///absolute/path/FILE'.",
        )
    relative = path.lstrip("/")
    file = Path(f"/{relative}" if path[0] == "/" else path).expanduser().absolute()
    # SQLAlchemy takes what stands behind three slashes for a path from the current folder.
    # https://docs.sqlalchemy.org/en/20/core/engines.html#sqlite (read 2026-11-30)
    is_unlikely = file.parent == file.parent.parent or not file.parent.is_dir()
    if path != location and path[1] != "/" and is_unlikely and Path(relative).parent.is_dir():
        raise ConfigurationError(
            f"{url!r} is {str(file)!r} here, but {relative!r} in this folder to SQLAlchemy.",
            remedy=f"Write 'sqlite:{relative}' for this folder's, else 'sqlite:///{file}'.",
        )
    if re.search(r"\?\w+=", path) and not file.exists():
        raise ConfigurationError(
            f"{url!r} has parameters, which the URL of a file cannot have.",
            remedy="Open it as SqliteStore(path, busy_seconds=…), or leave them out.",
        )
    return file


# ---- forks ----
#
# A child inherits what SQLite keeps in memory about the locks of a file, but not the locks: it
# would corrupt the file. So all connections are closed before a fork; each side opens its own.
# Source: https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_across_a_fork_
# (read 2026-11-29)

_GATE: Final = RLock()  # a finalizer may run while this very thread holds it
_SLOTS: Final[WeakSet[_Slot]] = WeakSet()
_HELD: Final[list[_Slot]] = []
_INHERITED: Final[list[sqlite3.Connection]] = []  # from a fork that Python was not told of


def _close_all(owner_id: int | None = None) -> None:
    with _GATE:
        found = [slot for slot in _SLOTS if owner_id in (None, slot.owner_id)]
    for slot in found:
        with slot.lock:
            slot.close()


def _before_fork() -> None:
    _GATE.acquire()
    _HELD.extend(_SLOTS)
    for slot in _HELD:
        slot.lock.acquire()
        slot.close()


def _after_fork() -> None:
    for slot in _HELD:
        slot.lock.release()
    _HELD.clear()
    _GATE.release()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
