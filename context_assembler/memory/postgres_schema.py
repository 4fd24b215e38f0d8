"""The tables of a memory store on PostgreSQL, and how older ones come up to date."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from context_assembler.errors import MemoryUnavailableError
from context_assembler.memory.postgres_pool import lock_timeout, run

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_LOCK: Final = 0x6D656D6F << 32  # ours among the locks of a database; a table's number is added
_UPGRADE: Final = "Upgrade the package: pip install --upgrade context-assembler"
_ELSEWHERE: Final = (
    "Give the URL of another database, or another schema in this one: "
    "postgresql://…?options=-csearch_path%3Dmemories"
)

# `key` is the order of storing and is never used twice. `line` is what records stand in a row in
# (their session or parent, hashed), `digest` the hash of what makes two records the same.
# `words` is what a record is found by: its own words as A, those beside it as D.
_VERSION_1: Final = (
    """
    CREATE TABLE memory_records (
        key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text COLLATE "C" NOT NULL UNIQUE,
        kind text COLLATE "C" NOT NULL,
        namespace text COLLATE "C" NOT NULL,
        session_id text COLLATE "C",
        parent_id text COLLATE "C",
        author text COLLATE "C",
        line bigint,
        digest bigint,
        text text NOT NULL,
        details json,
        created_at timestamptz NOT NULL,
        importance double precision NOT NULL,
        codes bytea,
        access_count bigint NOT NULL DEFAULT 0,
        last_access_at timestamptz,
        format_version integer NOT NULL,
        words tsvector NOT NULL
    ) WITH (fillfactor = 90)
    """,
    "CREATE INDEX memory_words ON memory_records USING gin (words)",
    "CREATE INDEX memory_lines ON memory_records (line, key) WHERE line IS NOT NULL",
    "CREATE INDEX memory_digests ON memory_records (digest) WHERE digest IS NOT NULL",
    "CREATE INDEX memory_times ON memory_records (created_at)",
    "CREATE INDEX memory_sessions ON memory_records (session_id) WHERE session_id IS NOT NULL",
    "CREATE TABLE memory_state (name text PRIMARY KEY, value text NOT NULL)",
)
MIGRATIONS: Final = (_VERSION_1,)
"""Each brings the tables from version *n* to *n + 1*; version 0 has none."""


async def read_version(connection: "AsyncConnection[Any]", *, location: str) -> int:
    """Return of which version the tables are; 0 where there are none.

    Raises:
        MemoryUnavailableError: They are of a newer version, or another program's.
    """
    cursor = await run(
        connection,
        "SELECT to_regclass('memory_versions') IS NOT NULL, "
        "to_regclass('memory_records') IS NOT NULL, current_setting('server_encoding'), "
        "(SELECT count(*) FROM pg_attribute WHERE attname = 'version' AND NOT attisdropped "
        "AND attrelid = to_regclass('memory_versions'))",
    )
    has_versions, has_records, encoding, has_column = await cursor.fetchone() or (0, 0, "", 0)
    if encoding != "UTF8":
        raise MemoryUnavailableError(
            location,
            reason=f"the database is encoded in {encoding}",
            remedy="Create it with: createdb --encoding=UTF8 --template=template0 NAME",
        )
    if not has_versions and not has_records:
        return 0
    if not (has_versions and has_records and has_column):
        raise MemoryUnavailableError(
            location, reason="it holds tables of another program", remedy=_ELSEWHERE
        )
    cursor = await run(connection, "SELECT coalesce(max(version), 0) FROM memory_versions")
    (version,) = await cursor.fetchone() or (0,)
    if version > len(MIGRATIONS):
        raise MemoryUnavailableError(
            location,
            reason=f"its tables are of version {version}, this package knows {len(MIGRATIONS)}",
            remedy=_UPGRADE,
        )
    return int(version)


async def migrate(connection: "AsyncConnection[Any]", *, location: str, seconds: float) -> None:
    """Apply the migrations that the database lacks, all or none, one process at a time.

    Raises:
        MemoryUnavailableError: The tables are of a newer version, or another program's.
    """
    async with connection.transaction():
        await _lock(connection, str(_LOCK), seconds=seconds)
        found = await read_version(connection, location=location)
        await run(
            connection,
            "CREATE TABLE IF NOT EXISTS memory_versions (version integer PRIMARY KEY)",
        )
        for version, statements in enumerate(MIGRATIONS[found:], start=found + 1):
            for statement in statements:
                await run(connection, statement)
            await run(
                connection, "INSERT INTO memory_versions VALUES (%(version)s)", {"version": version}
            )


@asynccontextmanager
async def writing(connection: "AsyncConnection[Any]", *, seconds: float) -> AsyncGenerator[None]:
    """Commit what is done inside, or nothing of it; nobody else writes meanwhile.

    Args:
        seconds: How long to wait for another process that writes.
    """
    # What needs no answer from the server does not wait for one.
    async with connection.pipeline(), connection.transaction():
        await _lock(connection, f"{_LOCK} + 'memory_records'::regclass::bigint", seconds=seconds)
        yield


async def read_state(connection: "AsyncConnection[Any]") -> dict[str, str]:
    """Return the settings of the store."""
    cursor = await run(connection, "SELECT name, value FROM memory_state")
    return {name: value async for name, value in cursor}


async def write_state(connection: "AsyncConnection[Any]", name: str, value: str) -> None:
    """Set a setting of the store."""
    await run(
        connection,
        "INSERT INTO memory_state VALUES (%(name)s, %(value)s) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        {"name": name, "value": value},
    )


async def _lock(connection: "AsyncConnection[Any]", key: str, *, seconds: float) -> None:
    # The lock goes with the transaction: after a commit whoever waits sees what was written.
    await run(
        connection,
        f"SELECT set_config('lock_timeout', %(wait)s, true), pg_advisory_xact_lock({key})",
        {"wait": lock_timeout(seconds)},
    )
