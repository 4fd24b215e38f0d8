"""SQLite files that many threads and processes use at once: opening, migrating, forking."""

import os
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Lock, RLock, local
from typing import Final, NamedTuple
from weakref import WeakSet, finalize

from context_assembler.errors import StoreError, StoreUnavailableError

_RETRY_SECONDS: Final = 0.002
_CACHE_KIBIBYTES: Final = 4_000
_CHECKPOINT: Final = 100  # moments after which a log is written back, before SQLite does it
_PRIMARY_CODE: Final = 0xFF  # an extended result code carries the primary one in its low byte
_FORK_SECONDS: Final = 30.0

_PLACE: Final = "Check that it is a file, and the permissions of file and folder."
_TROUBLES: Final[Mapping[int, tuple[str, str]]] = {
    sqlite3.SQLITE_BUSY: ("another process holds its lock", "Try again, or raise busy_seconds."),
    sqlite3.SQLITE_READONLY: ("it is read-only", "Make file and folder writable, or use a copy."),
    sqlite3.SQLITE_NOTADB: ("the file is not a SQLite database", "Give the path of another file."),
    sqlite3.SQLITE_CORRUPT: (
        "the database is damaged",
        "Restore it, or try: sqlite3 FILE .recover",
    ),
    sqlite3.SQLITE_FULL: ("the disk is full", "Free some space, then try again."),
    sqlite3.SQLITE_CANTOPEN: ("the file cannot be opened", _PLACE),
    sqlite3.SQLITE_PERM: ("access is denied", _PLACE),
}


class Schema(NamedTuple):
    """The tables of one kind of store; stores of several kinds may share a file.

    Attributes:
        store: The name under which the file keeps the version of these tables.
        migrations: SQL scripts; each brings a file from version *n* to *n + 1*. Version 0 has no
            tables.
        tables: The tables that every version has.
        unavailable: The error for a file that cannot be used.
    """

    store: str
    migrations: Sequence[str]
    tables: Sequence[str]
    unavailable: Callable[..., StoreError] = StoreUnavailableError


class _Slot:
    """The connection of one thread, and the lock of whoever is inside SQLite with it."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.lock = Lock()
        self.db: sqlite3.Connection | None = None
        self.process_id = 0
        self.identity: tuple[int, int] | None = None
        self.is_for_one_look = False
        self.is_durable: bool | None = None

    def close(self) -> None:
        db, self.db = self.db, None
        if db is None:
            return
        if self.process_id == os.getpid():
            db.close()
        else:  # to close it would release locks of the process that opened it
            _INHERITED.append(db)

    def __del__(self) -> None:
        self.close()


class SqliteFile:
    """A SQLite file with one connection per thread; without a path, one database in memory.

    Nothing is touched before the first use. Reading never creates or changes the file. After
    `close` the next use opens it again.

    Args:
        busy_seconds: How long to wait for another process that writes.

    Attributes:
        replaced: How often another file took the path's place while this one was in use.
        is_logged: Whether what is written goes to a log first (WAL), as far as is known.
    """

    def __init__(self, path: Path | None, schema: Schema, *, busy_seconds: float) -> None:
        self.path = path
        self.schema = schema
        self.replaced = 0
        self.is_logged = False
        self._moments, self._synced = count(1), 0
        self._busy_seconds = busy_seconds
        self._identity: tuple[int, int] | None = None
        self._local = local()
        self._slots: WeakSet[_Slot] = WeakSet()
        self._shared = self._new_slot() if path is None else None
        finalize(self, _close_all, self._slots)

    @contextmanager
    def reading(self, *, looks: bool = True) -> Generator[sqlite3.Connection, None, None]:
        """Lend the thread's connection; an empty database if the file has no tables yet.

        Args:
            looks: Whether to look if the file is still the same; needless right after a look.
        """
        slot = self._slot()
        with slot.lock:
            try:
                is_current = slot.identity == self._identity and slot.process_id == os.getpid()
                known = slot.db if is_current and not looks else None
                yield known or self._ready(slot, creates=False)
            except sqlite3.Error as error:
                raise self._explained(error) from error
            finally:
                if slot.is_for_one_look:
                    slot.close()

    @contextmanager
    def writing(self, *, is_durable: bool = True) -> Generator[sqlite3.Connection, None, None]:
        """Lend the connection in a transaction: all that is done inside is kept, or nothing.

        Args:
            is_durable: Whether to wait for the disk, and for others who write. What is not durable
                can be lost in a power cut, as a whole.
        """
        slot = self._slot()
        with slot.lock:
            try:
                db = self._ready(slot, creates=True)
                # FULL, not WAL's usual NORMAL: what was acknowledged must survive a power cut.
                if slot.is_durable is not is_durable:
                    db.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
                    slot.is_durable = is_durable
                with self._transaction(db, busy_seconds=self._busy_seconds if is_durable else 0.0):
                    yield db
            except sqlite3.Error as error:
                raise self._explained(error) from error

    def moment(self) -> int:
        """Return a number that is larger than any before."""
        return next(self._moments)

    def sync(self, moment: int) -> None:
        """Wait until the disk has what was written before a moment, in a file that is logged.

        Whoever writes without waiting for the disk, and then calls this, loses nothing: writing itself
        takes no longer than others may have to wait.
        """
        if self._synced >= moment:
            return
        now = self.moment()
        try:
            log = os.open(f"{self.path}-wal", os.O_RDWR)
            try:
                os.fsync(log)
            finally:
                os.close(log)
        except FileNotFoundError:
            pass  # what was in the log is in the file itself, for which SQLite has waited
        except OSError as error:
            raise self._unavailable(str(error), "Check the disk.") from error
        self._synced = now
        if now % _CHECKPOINT == 0:  # here nobody waits for it
            with self.reading() as db:
                db.execute("PRAGMA wal_checkpoint")

    def close(self) -> None:
        """Close the connections of all threads; what is in memory stays."""
        if self.path is not None:
            _close_all(self._slots)

    def _slot(self) -> _Slot:
        slot: _Slot | None = self._shared or getattr(self._local, "slot", None)
        if slot is None:
            slot = self._local.slot = self._new_slot()
        return slot

    def _new_slot(self) -> _Slot:
        slot = _Slot(self.path)
        with _GATE:
            self._slots.add(slot)
            _SLOTS.add(slot)
        return slot

    def _ready(self, slot: _Slot, *, creates: bool) -> sqlite3.Connection:
        """Return the thread's connection to the file that is there at this moment."""
        identity = _identity_of(self.path)
        is_current = slot.identity == identity and slot.process_id == os.getpid()
        if slot.db is not None and (is_current or self.path is None):
            return slot.db
        slot.close()  # replaced, deleted or inherited: SQLite would go on with the file of before
        slot.process_id, slot.is_for_one_look = os.getpid(), False
        db = None if self.path is None else self._open(self.path, slot, creates=creates)
        if db is None:
            db = self._connect(":memory:")
            slot.is_for_one_look = self.path is not None  # there is no file yet
            self._migrate(db)
        slot.db, slot.identity, slot.is_durable = db, _identity_of(self.path), None
        if slot.identity != self._identity:
            self.replaced += self._identity is not None
            self._identity = slot.identity
        return db

    def _open(self, path: Path, slot: _Slot, *, creates: bool) -> sqlite3.Connection | None:
        """Open the file; `None` if it has no tables yet, and none are to be created."""
        if not path.parent.is_dir():
            raise self._unavailable(
                f"the folder {str(path.parent)!r} does not exist",
                "Create the folder first, or give another path.",
            )
        if path.is_dir():
            raise self._unavailable("it is a folder", "Give the path of a file in it.")
        if not creates and not path.exists():
            return None
        # Not mode=ro: whoever opens a file in WAL mode read-only leaves companion files behind.
        # Source: https://www.sqlite.org/wal.html#read_only_databases (read 2026-11-29)
        mode = "rwc" if creates else "rw"
        try:
            return self._checked(self._connect(f"{path.as_uri()}?mode={mode}"), creates=creates)
        except sqlite3.OperationalError as error:
            code = error.sqlite_errorcode & _PRIMARY_CODE
            is_unwritable = code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            has_log = any(os.path.exists(f"{path}{end}") for end in ("-wal", "-journal"))
            if creates or not is_unwritable or has_log:
                raise
        # No companion file can be made there: the file is read as it is, for one look, since
        # others may write to it.
        slot.is_for_one_look = True
        return self._checked(self._connect(f"{path.as_uri()}?mode=ro&immutable=1"), creates=False)

    def _connect(self, uri: str) -> sqlite3.Connection:
        # Transactions begin where the code says so, and the lock of the slot keeps threads apart.
        return sqlite3.connect(
            uri,
            uri=True,
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
        )

    def _checked(self, db: sqlite3.Connection, *, creates: bool) -> sqlite3.Connection | None:
        """Return the connection with its tables up to date; `None`: there are none yet."""
        try:
            version = self._version(db)
            if not version and not creates:
                db.close()
                return None
            db.execute(f"PRAGMA cache_size = -{_CACHE_KIBIBYTES}")
            if version < len(self.schema.migrations):
                self._migrate(db)
            with suppress(sqlite3.OperationalError):  # somebody is reading: another time
                asked = f"PRAGMA journal_mode{' = WAL' if creates else ''}"
                self.is_logged = db.execute(asked).fetchone() == ("wal",)
        except BaseException:
            db.close()
            raise
        return db

    def _version(self, db: sqlite3.Connection) -> int:
        """Return the version of the tables; 0 if there are none.

        Raises:
            StoreError: The tables are another program's, or of a newer version.
        """
        store, migrations, tables, _ = self.schema
        db.execute("BEGIN")  # all looks see one moment: another process may be migrating
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
        found = None
        if "context_assembler_versions" in names:
            asked = "SELECT version FROM context_assembler_versions WHERE store = ?"
            found = db.execute(asked, (store,)).fetchone()
        db.execute("COMMIT")
        version = int(found[0]) if found else 0
        if not (names.issuperset(tables) if version else names.isdisjoint(tables)):
            raise self._unavailable(
                "it is the database of another program",
                "Give the path of another file; a new one is created.",
            )
        if version > len(migrations):
            raise self._unavailable(
                f"its tables are of version {version}, this package knows {len(migrations)}",
                "Upgrade the package: pip install --upgrade context-assembler",
            )
        return version

    def _migrate(self, db: sqlite3.Connection) -> None:
        """Apply the migrations that the file lacks, all or none, one process at a time."""
        store, migrations, *_ = self.schema
        with self._transaction(db, busy_seconds=self._busy_seconds):
            # The version is read under the lock: another process may have migrated meanwhile.
            db.execute(
                "CREATE TABLE IF NOT EXISTS context_assembler_versions "
                "(store TEXT PRIMARY KEY, version INTEGER NOT NULL)"
            )
            asked = "SELECT version FROM context_assembler_versions WHERE store = ?"
            found = db.execute(asked, (store,)).fetchone()
            for script in migrations[found[0] if found else 0 :]:
                for statement in script.split(";"):
                    db.execute(statement)
            row = (store, len(migrations))
            db.execute("INSERT OR REPLACE INTO context_assembler_versions VALUES (?, ?)", row)

    @contextmanager
    def _transaction(
        self, db: sqlite3.Connection, *, busy_seconds: float
    ) -> Generator[None, None, None]:
        last_moment = time.monotonic() + busy_seconds
        # SQLite's own waiting is as rare as every 100 ms: others who write all the time starve it.
        db.execute("PRAGMA busy_timeout = 0")
        while not db.in_transaction:
            try:
                # IMMEDIATE takes the write lock at once: what is read cannot change before use.
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                is_busy = error.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() >= last_moment:
                    raise
                time.sleep(_RETRY_SECONDS)
        db.execute(f"PRAGMA busy_timeout = {int(self._busy_seconds * 1000)}")
        try:
            yield
            db.execute("COMMIT")
        finally:
            if db.in_transaction:  # some errors, such as a full disk, end it by themselves
                db.execute("ROLLBACK")

    def _explained(self, error: sqlite3.Error) -> StoreError:
        # Errors raised by the module itself, such as use after closing, have no code.
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        otherwise = f"SQLite says: {error}", "Check the disk and the file's permissions."
        return self._unavailable(*_TROUBLES.get(code, otherwise))

    def _unavailable(self, reason: str, remedy: str) -> StoreError:
        where = str(self.path or ":memory:")
        return self.schema.unavailable(where, reason=reason, remedy=remedy)


def _identity_of(path: Path | None) -> tuple[int, int] | None:
    try:
        found = os.stat(path or "")
    except OSError:
        return None
    return found.st_dev, found.st_ino


# ---- forks ----
#
# A child inherits what SQLite keeps in memory about the locks of a file, but not the locks: it
# would corrupt the file. So all connections are closed before a fork; each side opens its own.
# Source: https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_across_a_fork_
# (read 2026-11-29)

_GATE: Final = RLock()  # a finalizer may run while this very thread holds it
_SLOTS: Final[WeakSet[_Slot]] = WeakSet()
_HELD: Final[list[Lock]] = []
_INHERITED: Final[list[sqlite3.Connection]] = []  # from a fork that Python was not told of


def _close_all(slots: WeakSet[_Slot]) -> None:
    with _GATE:
        found = list(slots)
    for slot in found:
        with slot.lock:
            slot.close()


def _before_fork() -> None:
    _GATE.acquire()
    for slot in list(_SLOTS):
        if slot.lock.acquire(timeout=_FORK_SECONDS):
            _HELD.append(slot.lock)
            if slot.path is not None:
                slot.close()


def _after_fork() -> None:
    for lock in _HELD:
        lock.release()
    _HELD.clear()
    _GATE.release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
