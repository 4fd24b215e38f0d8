"""Opening a SQLite file, and telling what is wrong with it."""

import sqlite3
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from context_assembler.sqlite.schema import Schema, has_table, migrate

_RETRY_SECONDS: Final = 0.02
# Two megabytes, as it is by default, do not hold what ids and digests are looked up in, nor the rows
# that searches read. It grows with what is used.
_CACHE_KIBIBYTES: Final = 16_000
_PRIMARY_CODE: Final = 0xFF  # an extended result code carries the primary one in its low byte


class _Trouble(NamedTuple):
    reason: str
    remedy: str


_TROUBLE_BY_CODE: Final[Mapping[int, _Trouble]] = {
    sqlite3.SQLITE_BUSY: _Trouble(
        "another process holds its lock",
        "Try again when that process is done, or open the store with a longer busy_seconds.",
    ),
    sqlite3.SQLITE_READONLY: _Trouble(
        "it is read-only", "Make the file and its folder writable, or write to a copy."
    ),
    sqlite3.SQLITE_READONLY_DBMOVED: _Trouble(
        "the file was moved or deleted while it was open",
        "Put it back, or close the store and open it again.",
    ),
    sqlite3.SQLITE_NOTADB: _Trouble(
        "the file is not a SQLite database", "Give the path of another file, or move this one away."
    ),
    sqlite3.SQLITE_CORRUPT: _Trouble(
        "the database is damaged",
        "Restore it from a backup, or save what can be read with: sqlite3 FILE .recover",
    ),
    sqlite3.SQLITE_FULL: _Trouble("the disk is full", "Free some space, then try again."),
    sqlite3.SQLITE_CANTOPEN: _Trouble(
        "the file cannot be opened", "Check that it is a file, and its permissions."
    ),
    sqlite3.SQLITE_PERM: _Trouble("access is denied", "Check the permissions of file and folder."),
    sqlite3.SQLITE_AUTH: _Trouble("access is denied", "Check the permissions of file and folder."),
}
_ELSE: Final = "Check the disk and the file's permissions."


class ConnectionAsItLies(sqlite3.Connection):
    """Reads a file that SQLite takes to stay as it is: good for one look, since others may write."""


@contextmanager
def explained_errors(path: Path | None, schema: Schema) -> Generator[None]:
    """Turn SQLite's errors into the schema's own; without a path the database is in memory."""
    try:
        yield
    except sqlite3.Error as error:
        # Errors raised by the module itself, such as use after closing, have no code.
        code = getattr(error, "sqlite_errorcode", 0)
        found = _TROUBLE_BY_CODE.get(code) or _TROUBLE_BY_CODE.get(code & _PRIMARY_CODE)
        reason, remedy = found or _Trouble(f"SQLite says: {error}", _ELSE)
        if path is not None:
            remedy += _relative_instead(path)
        raise schema.unavailable(str(path or ":memory:"), reason=reason, remedy=remedy) from error


def open_for_writing(path: Path, schema: Schema, *, busy_seconds: float) -> sqlite3.Connection:
    """Open the file, create it if need be, and bring its tables up to date.

    Raises:
        StoreError: The file cannot be used.
        sqlite3.Error: SQLite refused.
    """
    _check_place(path, schema)
    connection = _connect(path, "", busy_seconds=busy_seconds)
    try:
        _check_version(path, schema, connection)
        retry_while_busy(
            lambda: connection.execute("PRAGMA journal_mode = WAL"), seconds=busy_seconds
        )
        # FULL, not WAL's usual NORMAL: what was acknowledged must survive a power cut.
        connection.execute("PRAGMA synchronous = FULL")
        _enlarge_cache(connection)
        migrate(connection, schema)
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(
    path: Path, schema: Schema, *, busy_seconds: float
) -> sqlite3.Connection | None:
    """Open the file without ever changing it; `None` where it holds no tables of ours yet.

    A file on a medium where not even SQLite's companion files can be made is read as it lies.

    Raises:
        StoreError: The file cannot be used.
        sqlite3.Error: SQLite refused.
    """
    _check_place(path, schema)
    if not path.exists():
        return None
    try:
        return _ready(path, schema, _connect(path, "?mode=ro", busy_seconds=busy_seconds))
    except sqlite3.OperationalError as error:
        if not _may_be_read_as_it_lies(path, error):
            raise
    as_it_lies = _connect(
        path, "?mode=ro&immutable=1", busy_seconds=busy_seconds, factory=ConnectionAsItLies
    )
    return _ready(path, schema, as_it_lies)


def remove_empty_companions(path: Path) -> None:
    """Take away the companion files that reading leaves where nobody else has the file open.

    A reader has to make them, and may not remove them. What a log holds is left to who writes.
    Source: https://www.sqlite.org/wal.html#read_only_databases
    """
    with suppress(OSError, sqlite3.Error):
        if Path(f"{path}-wal").stat().st_size:
            return
        with closing(_connect(path, "?mode=rw", busy_seconds=0)) as last:
            last.execute("SELECT 1 FROM sqlite_schema").fetchone()  # closed as the last, it removes


def open_in_memory(schema: Schema) -> sqlite3.Connection:
    """Open an empty database in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    migrate(connection, schema)
    return connection


def retry_while_busy(
    act: Callable[[], object], *, seconds: float, pause: Callable[[float], None] = time.sleep
) -> None:
    """Repeat an action for which SQLite does not wait by itself.

    Switching to WAL needs the file for itself; of several processes that open a new file at once
    all but one are told `busy`, at once, whatever the timeout.
    Source: https://www.sqlite.org/wal.html#sometimes_queries_return_sqlite_busy_in_wal_mode
    """
    last_moment = time.monotonic() + seconds
    while True:
        try:
            act()
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() >= last_moment:
                raise
            pause(_RETRY_SECONDS)
        else:
            return


def _may_be_read_as_it_lies(path: Path, error: sqlite3.OperationalError) -> bool:
    """Whether SQLite only failed to make its companion files, and none hold anything."""
    code = error.sqlite_errorcode & _PRIMARY_CODE
    has_companions = any(Path(f"{path}{ending}").exists() for ending in ("-wal", "-journal"))
    return code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY} and not has_companions


def _ready(path: Path, schema: Schema, connection: sqlite3.Connection) -> sqlite3.Connection | None:
    try:
        version = _check_version(path, schema, connection)
        _enlarge_cache(connection)
    except BaseException:
        connection.close()
        raise
    if version > 0:
        return connection
    connection.close()
    return None


def _enlarge_cache(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIBIBYTES}")


def _connect(
    path: Path,
    query: str,
    *,
    busy_seconds: float,
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.as_uri()}{query}",
        uri=True,
        factory=factory,
        timeout=busy_seconds,
        isolation_level=None,  # transactions begin where the code says so
        check_same_thread=False,  # a store hands its connections to one thread at a time
    )


def _check_place(path: Path, schema: Schema) -> None:
    if not path.parent.is_dir():
        raise schema.unavailable(
            str(path),
            reason=f"the folder {str(path.parent)!r} does not exist",
            remedy="Create the folder first, or give another path." + _relative_instead(path),
        )
    if path.is_dir():
        raise schema.unavailable(
            str(path), reason="it is a folder", remedy="Give the path of a file in it."
        )


def _relative_instead(path: Path) -> str:
    """Return a question, where the path may be one slash too long: below the root, but also here."""
    relative = path.relative_to(path.anchor)
    if path.parent.is_relative_to(Path.cwd()) or not (Path.cwd() / relative).parent.is_dir():
        return ""
    return f" Did you mean 'sqlite:{relative.as_posix()}', relative to the current folder?"


def _check_version(path: Path, schema: Schema, connection: sqlite3.Connection) -> int:
    newest = len(schema.migrations)
    connection.execute("BEGIN")  # all looks see one moment: another process may be migrating
    version = schema.version.read(connection)
    found = [has_table(connection, name) for name in schema.tables]
    connection.execute("COMMIT")
    if not (all(found) if version > 0 else not any(found)):
        raise schema.unavailable(
            str(path),
            reason="it is the database of another program",
            remedy="Give the path of another file; a new one is created.",
        )
    if version > newest:
        raise schema.unavailable(
            str(path),
            reason=f"its tables are of version {version}, this package knows {newest}",
            remedy="Upgrade the package: pip install --upgrade context-assembler",
        )
    return version
