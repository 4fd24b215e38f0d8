"""The session stores that travel with the package, by the scheme of their URL."""

from collections.abc import Callable, Mapping
from typing import Final

from context_assembler.errors import ConfigurationError, UnknownStoreSchemeError
from context_assembler.ports import SessionStore
from context_assembler.sessions.in_memory import InMemoryStore
from context_assembler.sessions.sqlite import SqliteStore

__all__ = ["SESSION_STORES", "InMemoryStore", "SqliteStore", "open_store"]


def _open_memory(location: str) -> SessionStore:
    if location not in {"", "//"}:
        raise ConfigurationError(
            f"A store in memory has no location, but got {location!r}.",
            remedy="Write 'memory:', or 'sqlite:FILE' to keep sessions in a file.",
        )
    return InMemoryStore()


def _open_sqlite(location: str) -> SessionStore:
    if location == ":memory:":
        return InMemoryStore()  # gone with the process, like SQLite's own
    path = location.removeprefix("//")
    if not path or (path != location and not path.startswith("/")):
        raise ConfigurationError(
            f"'sqlite:{location}' names no file.",
            remedy="Write 'sqlite:agent.db', or 'sqlite:///absolute/path/agent.db'.",
        )
    return SqliteStore(path)


SESSION_STORES: Final[Mapping[str, Callable[[str], SessionStore]]] = {
    "memory": _open_memory,
    "sqlite": _open_sqlite,
}
"""What opens the location behind the colon; nothing is touched before the first use."""


def open_store(store: str | SessionStore) -> SessionStore:
    """Return the store that a URL names; a store is returned as it is.

    `memory:` keeps sessions in this process, `sqlite:agent.db` in a file of the current folder,
    `sqlite:///var/lib/agent.db` in one elsewhere. The path is taken as written: `%20` stays `%20`.

    Raises:
        UnknownStoreSchemeError: No bundled store has that scheme.
        ConfigurationError: The URL's location cannot be one.
    """
    if not isinstance(store, str):
        return store
    scheme, colon, location = store.partition(":")
    opener = SESSION_STORES.get(scheme.lower()) if colon else None
    if opener is None:
        raise UnknownStoreSchemeError(store, known=SESSION_STORES)
    return opener(location)
