"""Store URLs."""

from pathlib import Path
from typing import Any

import pytest

from context_assembler.errors import (
    ConfigurationError,
    InvalidParameterError,
    UnknownStoreSchemeError,
)
from context_assembler.sessions import InMemoryStore, SqliteStore, open_store

PATHS = {
    "a path relative to the current folder": ("sqlite:agent.db", Path("agent.db").absolute()),
    "a folder below it": ("sqlite:data/agent.db", Path("data/agent.db").absolute()),
    "an absolute path": ("sqlite:/var/lib/agent.db", Path("/var/lib/agent.db")),
    "an absolute path as a full URL": ("sqlite:///var/lib/agent.db", Path("/var/lib/agent.db")),
    "the home folder": ("sqlite:~/agent.db", Path.home() / "agent.db"),
    "signs that URLs would escape": ("sqlite:/a b%20c?d#e.db", Path("/a b%20c?d#e.db")),
    "any case of the scheme": ("SQLite:agent.db", Path("agent.db").absolute()),
}


@pytest.mark.parametrize(("url", "path"), PATHS.values(), ids=PATHS.keys())
def test_a_sqlite_url_names_a_file(url: str, path: Path) -> None:
    store = open_store(url)

    assert isinstance(store, SqliteStore)
    assert store.path == path


def test_a_path_is_a_sqlite_file(tmp_path: Path) -> None:
    store = open_store(tmp_path / "agent.db")

    assert isinstance(store, SqliteStore)
    assert store.path == tmp_path / "agent.db"


@pytest.mark.parametrize("url", ["memory:", "memory://", "sqlite::memory:"])
def test_a_store_in_memory_has_no_file(url: str) -> None:
    assert isinstance(open_store(url), InMemoryStore)


def test_a_store_is_returned_as_it_is() -> None:
    store = InMemoryStore()

    assert open_store(store) is store


@pytest.mark.parametrize("url", ["postgresql://host/db", "redis:x", "agent", "", "sqlite"])
def test_an_unknown_scheme_says_which_there_are(url: str) -> None:
    with pytest.raises(UnknownStoreSchemeError, match=r"memory:, sqlite:|'sqlite'"):
        open_store(url)


@pytest.mark.parametrize("url", ["sqlite:", "sqlite://", "sqlite://host/agent.db", "memory:x"])
def test_a_location_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Write '"):
        open_store(url)


def test_a_sqlite_store_wants_a_file() -> None:
    with pytest.raises(InvalidParameterError, match="InMemoryStore"):
        SqliteStore(":memory:")


def test_opening_touches_nothing(tmp_path: Path) -> None:
    open_store(f"sqlite:{tmp_path / 'missing' / 'agent.db'}")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["g.db", "./x.sqlite", "data/agent", "/var/x", "~/x", r"C:\x.DB"])
def test_a_path_in_place_of_a_url_is_recognised(path: str) -> None:
    with pytest.raises(UnknownStoreSchemeError) as caught:
        open_store(path)

    assert caught.value.remedy == f"Did you mean {'sqlite:' + path!r}?"


class Almost:
    """Has some of a store's methods."""

    async def create(self) -> None: ...

    async def load(self) -> None: ...


NO_STORES: dict[str, tuple[object, str]] = {
    "nothing": (None, "A NoneType is no session store"),
    "a dict": ({}, "A dict is no session store"),
    "a class": (InMemoryStore, "The class InMemoryStore is no session store"),
    "an object that lacks a method": (Almost(), r"An Almost is no session store: it has no append"),
}


@pytest.mark.parametrize(("given", "problem"), NO_STORES.values(), ids=NO_STORES.keys())
def test_what_is_no_store_is_refused_at_once(given: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{problem}.*Pass a URL such as"):
        open_store(given)
