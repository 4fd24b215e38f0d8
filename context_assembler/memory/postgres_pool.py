"""Connections to a PostgreSQL server, a pool of them for each event loop."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit
from weakref import WeakKeyDictionary

from context_assembler.errors import MemoryUnavailableError, MissingExtraError
from context_assembler.memory.asked_parts import check_address, check_least_one, check_seconds
from context_assembler.memory.postgres_errors import explained

if TYPE_CHECKING:
    from psycopg import AsyncConnection, AsyncCursor
    from psycopg_pool import AsyncConnectionPool

_IDLE_SECONDS: Final = 300.0
_TRUSTED_SECONDS: Final = 1.0
_MOST_CONNECT_SECONDS: Final = 30
_MOST_MILLISECONDS: Final = 2**31 - 1  # that PostgreSQL counts a timeout in


class ConnectionPools:
    """Connections that are opened when they are needed, and stay for the next who needs one.

    A connection belongs to the event loop that it was opened in, and to the process: each has its
    own. Those of a loop that was closed, as `asyncio.run` does, are let go.

    Args:
        busy_seconds: How long to wait for a connection, and on it for others' locks.
        most: How many connections there are at most, for each loop.
    """

    def __init__(self, url: str, *, busy_seconds: float, most: int) -> None:
        check_address("url", url, such_as="'postgresql://user@host/database'")
        check_seconds("busy_seconds", busy_seconds)
        check_least_one("max_connections", most)
        self.location = location_of(url)
        self._url = url
        self._busy_seconds = busy_seconds
        self._most = most
        self._process_id = os.getpid()
        self._used_at: WeakKeyDictionary[AsyncConnection[Any], float] = WeakKeyDictionary()
        self._pool_by_loop: dict[asyncio.AbstractEventLoop, AsyncConnectionPool[Any]] = {}

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator["AsyncConnection[Any]"]:
        """Lend a connection that commits each statement by itself.

        Raises:
            MissingExtraError: psycopg is not installed.
            MemoryUnavailableError: The server cannot be reached, or refused what was asked inside.
        """
        psycopg, psycopg_pool = load_psycopg()
        with explained(psycopg, self.location):
            pool = await self._pool(psycopg)
            try:
                connection = await self._lend(pool)
            except psycopg_pool.PoolTimeout as error:
                await self._try_to_connect(psycopg)  # says why, unless all are lent
                raise MemoryUnavailableError(
                    self.location,
                    reason="all of the store's connections are in use",
                    remedy="Open it with more max_connections, or with a longer busy_seconds.",
                ) from error
            try:
                yield connection
            finally:
                self._used_at[connection] = time.monotonic()
                await pool.putconn(connection)

    async def close(self) -> None:
        """Close the connections of every loop; the next call opens new ones."""
        pools, self._pool_by_loop = self._pool_by_loop, {}
        if self._process_id != os.getpid():
            return
        here = asyncio.get_running_loop()
        for loop, pool in pools.items():
            if loop is here:
                await pool.close()
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(pool.close(), loop)
                await asyncio.wrap_future(closing)

    async def _pool(self, psycopg: Any) -> "AsyncConnectionPool[Any]":
        if self._process_id != os.getpid():
            self._process_id = os.getpid()
            # The sockets are the parent's: nothing may be said on them.
            self._pool_by_loop = {}
        loop = asyncio.get_running_loop()
        pool = self._pool_by_loop.get(loop)
        if pool is None:
            await self._try_to_connect(psycopg)
            self._pool_by_loop = {
                other: kept for other, kept in self._pool_by_loop.items() if not other.is_closed()
            }
            pool = self._pool_by_loop.setdefault(loop, self._new_pool())
        await pool.open()
        return pool

    def _new_pool(self) -> "AsyncConnectionPool[Any]":
        from psycopg_pool import AsyncConnectionPool  # noqa: PLC0415 – an extra

        return AsyncConnectionPool(
            self._url,
            kwargs={"autocommit": True, **self._patience()},
            min_size=0,
            max_size=self._most,
            max_idle=_IDLE_SECONDS,
            timeout=self._busy_seconds,
            configure=self._prepare,
            open=False,
        )

    async def _lend(self, pool: "AsyncConnectionPool[Any]") -> "AsyncConnection[Any]":
        """Return a connection that works, as far as that can be told.

        Once a server was started anew, all that nobody used since are broken. They are let go of one
        after the other, at once: the pool's own `check` waits twice as long behind each, until the
        time of who asks is over.
        """
        connection: AsyncConnection[Any]
        for _ in range(self._most):
            connection = await pool.getconn()
            try:
                if await self._works(connection):
                    return connection
            except BaseException:
                await pool.putconn(connection)
                raise
            await pool.putconn(connection)  # which opens another in its place
        connection = await pool.getconn()
        return connection

    async def _works(self, connection: "AsyncConnection[Any]") -> bool:
        """Ask the server, where nobody used the connection for a while."""
        psycopg, _ = load_psycopg()
        if time.monotonic() - self._used_at.get(connection, 0.0) <= _TRUSTED_SECONDS:
            return True
        try:
            await run(connection, "SELECT 1")
        except psycopg.Error:
            return False
        return True

    async def _prepare(self, connection: "AsyncConnection[Any]") -> None:
        # Compiling a query takes longer than any of ours does; and what is searched is mostly in
        # memory, where an index is worth it for a small table, too.
        await run(
            connection,
            "SELECT set_config('jit', 'off', false), set_config('random_page_cost', '1.1', false), "
            "set_config('TimeZone', 'UTC', false), "  # elsewhere the last year is not over in time
            "set_config('lock_timeout', %(wait)s, false)",
            {"wait": lock_timeout(self._busy_seconds)},
        )

    async def _try_to_connect(self, psycopg: Any) -> None:
        """Connect once and hang up: a pool would try again and again, and never say why."""
        connection = await psycopg.AsyncConnection.connect(self._url, **self._patience())
        await connection.close()

    def _patience(self) -> dict[str, Any]:
        if "connect_timeout" in self._url:
            return {}
        return {"connect_timeout": min(max(int(self._busy_seconds), 2), _MOST_CONNECT_SECONDS)}


async def run(
    connection: "AsyncConnection[Any]", statement: str, values: Mapping[str, object] | None = None
) -> "AsyncCursor[Any]":
    """Run a statement of our own words; whatever comes from outside is among the values."""
    return await connection.execute(statement.encode(), values)


def lock_timeout(seconds: float) -> str:
    """Return how the server is told to wait so long for a lock; zero would be for ever."""
    return f"{min(max(int(1_000 * seconds), 1), _MOST_MILLISECONDS)}ms"


def load_psycopg() -> tuple[Any, Any]:
    """Return the modules `psycopg` and `psycopg_pool`.

    Raises:
        MissingExtraError: One of them is not installed.
    """
    try:
        import psycopg  # noqa: PLC0415 – an extra
        import psycopg_pool  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("A memory store on PostgreSQL", extra="postgres") from error
    return psycopg, psycopg_pool


def location_of(url: str) -> str:
    """Return where the URL leads to, without its password."""
    with suppress(ValueError):  # not a URL, or no port that there can be
        parts = urlsplit(url)
        place = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
        hosts = parse_qs(parts.query).get("host", ())  # of a socket, its folder
        return f"postgresql://{place}{parts.path}{''.join(f'?host={host}' for host in hosts)}"
    return "postgresql:"
