"""Where sessions are kept: in a SQLite file, in memory, or in a store of your own.

    >>> store = open_store("sqlite:agent.db")

A store of your own has seven methods (`ports.SessionStore`); two, `load` and `head`, are enough to
assemble from.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from context_assembler.errors import ConfigurationError, UnknownStoreSchemeError, with_article
from context_assembler.ports import EventSource

if TYPE_CHECKING:
    from context_assembler.sessions.mirror import Mirror
    from context_assembler.sessions.sqlite import MemoryStore, SqliteStore

    InMemoryStore = MemoryStore

_HOMES: Final = {
    "InMemoryStore": ("sqlite", "MemoryStore"),
    "MemoryStore": ("sqlite", "MemoryStore"),
    "Mirror": ("mirror", "Mirror"),
    "SqliteStore": ("sqlite", "SqliteStore"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, own_name = _HOMES[name]
    value = getattr(import_module(f"{__name__}.{module}"), own_name)
    globals()[name] = value
    return value


def _open_memory(location: str) -> EventSource:
    if location not in {"", "//"}:
        raise ConfigurationError(
            f"A store in memory has no location, but got {location!r}.",
            remedy="Write 'memory:', or 'sqlite:FILE' to keep sessions in a file.",
        )
    from context_assembler.sessions.sqlite import MemoryStore

    return MemoryStore()


def _open_sqlite(location: str) -> EventSource:
    if location == ":memory:":
        return _open_memory("")  # gone with the process, like SQLite's own
    path = location.removeprefix("//")
    if not path or (path != location and not path.startswith("/")):
        raise ConfigurationError(
            f"'sqlite:{location}' names no file.",
            remedy="Write 'sqlite:agent.db', or 'sqlite:///absolute/path/agent.db'.",
        )
    from context_assembler.sessions.sqlite import SqliteStore

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
        return _open_sqlite(str(store))
    if isinstance(store, str):
        scheme, colon, location = store.partition(":")
        opener = SESSION_STORES.get(scheme.lower()) if colon else None
        if opener is None:
            raise UnknownStoreSchemeError(store, known=SESSION_STORES)
        return opener(location)
    missing = [name for name in ("load", "head") if not callable(getattr(store, name, None))]
    if missing or isinstance(store, type):
        what = with_article(type(store).__name__, begins_sentence=True)
        if isinstance(store, type):
            what = f"The class {store.__name__}"
        lacks = f": it has no {missing[0]}()" if len(missing) == 1 else ""
        raise ConfigurationError(
            f"{what} is no session store{lacks}.",
            remedy="Pass a URL such as 'memory:' or 'sqlite:agent.db', a Path, or an opened store.",
        )
    return store


__all__ = [
    "SESSION_STORES",
    "InMemoryStore",
    "MemoryStore",
    "Mirror",
    "SqliteStore",
    "open_store",
]
