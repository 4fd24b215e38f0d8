"""Where sessions are kept: in memory, in a SQLite file, on PostgreSQL, or in a store of your own.

    >>> store = open_store("sqlite:agent.db")

A store of your own has seven methods (`ports.SessionStore`); two, `load` and `head`, are enough to
assemble from.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from context_assembler.errors import ConfigurationError, UnknownStoreSchemeError, with_article
from context_assembler.ports import EventSource
from context_assembler.sessions.encryption import Encryption, encryption_from_environment
from context_assembler.sessions.files import path_of
from context_assembler.sessions.sqlite import MemoryStore, SqliteStore, SqlStore, taken

InMemoryStore = MemoryStore


def _open(url: str) -> SqliteStore:
    path = path_of(url)
    return MemoryStore() if path is None else SqliteStore(path)


def _open_postgres(url: str) -> SqlStore:
    from context_assembler.sessions.postgres import PostgresStore

    return PostgresStore(url)


SESSION_STORES: Final[Mapping[str, Callable[[str], SqlStore]]] = {
    "memory": _open,
    "sqlite": _open,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
}


def open_store(store: str | Path | EventSource, *, encryption: Encryption | None = None) -> Any:
    """Return the store that a URL names; a path is a SQLite file, a store is returned as it is.

    `memory:` keeps sessions in this process, `sqlite:agent.db` in a file of the current folder,
    `sqlite:///var/lib/agent.db` in one elsewhere, `postgresql://user@host/database` on a server.
    The path of a file is taken as written: `%20` stays `%20`.
    Three slashes before what can only be a path from the current folder are refused; four, as
    SQLAlchemy's users write them, are as good as three.

    Args:
        encryption: Of what is kept besides columns; by default with the keys in base64 that
            `CONTEXT_ASSEMBLER_SESSIONS_KEY` holds (`ID:KEY,ID:KEY`), without one there is none.

    Raises:
        UnknownStoreSchemeError: No bundled store has that scheme.
        ConfigurationError: The URL names no file, or the object is no store.
    """
    if isinstance(store, str | Path):
        scheme, colon, _ = str(store).partition(":")
        opener = SESSION_STORES.get(scheme.lower()) if colon else None
        if isinstance(store, str) and opener is None:
            raise UnknownStoreSchemeError(store, known=SESSION_STORES)
        opened = opener(store) if opener and isinstance(store, str) else SqliteStore(store)
        opened.encryption = encryption or encryption_from_environment()
        return opened
    if hasattr(store, "load") and hasattr(store, "head"):
        return store
    raise ConfigurationError(
        f"{with_article(type(store).__name__, begins_sentence=True)} is not a session store: "
        "it needs load() and head(), and append() to record.",
        remedy="Pass a URL such as 'memory:' or 'sqlite:agent.db', a Path, or an opened store.",
    )


__all__ = [
    "SESSION_STORES",
    "Encryption",
    "InMemoryStore",
    "MemoryStore",
    "SqlStore",
    "SqliteStore",
    "open_store",
    "taken",
]
