"""Where sessions are kept: in a SQLite file, in memory, or in a store of your own.

    >>> store = open_store("sqlite:agent.db")

A store of your own has seven methods (`ports.SessionStore`); two, `load` and `head`, are enough to
assemble from.
"""

from pathlib import Path
from typing import Any, Final

from context_assembler.errors import ConfigurationError, UnknownStoreSchemeError, with_article
from context_assembler.ports import EventSource
from context_assembler.sessions.sqlite import MemoryStore, SqliteStore

InMemoryStore = MemoryStore


def _open_memory(location: str) -> MemoryStore:
    if location not in {"", "//"}:
        raise ConfigurationError(
            f"A store in memory has no location, but got {location!r}.",
            remedy="Write 'memory:', or 'sqlite:FILE' to keep sessions in a file.",
        )
    return MemoryStore()


def _open_sqlite(location: str) -> SqliteStore:
    if location == ":memory:":
        return MemoryStore()  # gone with the process, like SQLite's own
    path = location.removeprefix("//")
    if not path or (path != location and not path.startswith("/")):
        raise ConfigurationError(
            f"'sqlite:{location}' names no file.",
            remedy="Write 'sqlite:agent.db', or 'sqlite:///absolute/path/agent.db'.",
        )
    return SqliteStore(path)


SESSION_STORES: Final = {"memory": _open_memory, "sqlite": _open_sqlite}


def open_store(store: str | Path | EventSource) -> Any:
    """Return the store that a URL names; a path is a SQLite file, a store is returned as it is.

    `memory:` keeps sessions in this process, `sqlite:agent.db` in a file of the current folder,
    `sqlite:///var/lib/agent.db` in one elsewhere. The path is taken as written: `%20` stays `%20`.

    Raises:
        UnknownStoreSchemeError: No bundled store has that scheme.
        ConfigurationError: The URL's location cannot be one, or the object is no store.
    """
    if isinstance(store, Path):
        return SqliteStore(store)
    if isinstance(store, str):
        scheme, colon, location = store.partition(":")
        opener = SESSION_STORES.get(scheme.lower()) if colon else None
        if opener is None:
            raise UnknownStoreSchemeError(store, known=SESSION_STORES)
        return opener(location)
    if not isinstance(store, type) and hasattr(store, "load") and hasattr(store, "head"):
        return store
    what = with_article(type(store).__name__, begins_sentence=True)
    if isinstance(store, type):
        what = f"The class {store.__name__}"
    raise ConfigurationError(
        f"{what} is no session store: it needs load() and head(), and append() to record.",
        remedy="Pass a URL such as 'memory:' or 'sqlite:agent.db', a Path, or an opened store.",
    )


__all__ = ["SESSION_STORES", "InMemoryStore", "MemoryStore", "SqliteStore", "open_store"]
