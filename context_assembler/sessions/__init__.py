"""The session stores that travel with the package, by the scheme of their URL.

What a store of your own is made from stands here as well.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from context_assembler.errors import ConfigurationError, UnknownStoreSchemeError
from context_assembler.errors.base import with_article
from context_assembler.on_demand import names_on_demand
from context_assembler.ports import SessionStore

if TYPE_CHECKING:
    from context_assembler.sessions.answers import (
        checked_appended,
        checked_head,
        checked_load,
    )
    from context_assembler.sessions.calibrations import InMemoryCalibrations, calibrations_of
    from context_assembler.sessions.counts_at_rest import CountsAtRest
    from context_assembler.sessions.in_memory import InMemoryStore
    from context_assembler.sessions.kept_events import KeptEvents, KeptLog
    from context_assembler.sessions.own_stores import (
        EventBatch,
        Session,
        SessionEvent,
        SessionHead,
        check_event_ids,
        check_session,
        check_session_id,
        dump_event,
        dump_session,
        load_event,
        load_session,
        number_events,
    )
    from context_assembler.sessions.sqlite import SqliteStore
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "answers": "checked_appended checked_head checked_load",
            "calibrations": "InMemoryCalibrations calibrations_of",
            "counts_at_rest": "CountsAtRest",
            "in_memory": "InMemoryStore",
            "kept_events": "KeptEvents KeptLog",
            "own_stores": (
                "EventBatch Session SessionEvent SessionHead check_event_ids check_session "
                "check_session_id dump_event dump_session load_event load_session number_events"
            ),
            "sqlite": "SqliteStore",
        },
    )

__all__ = [
    "SESSION_STORES",
    "CountsAtRest",
    "EventBatch",
    "InMemoryCalibrations",
    "InMemoryStore",
    "KeptEvents",
    "KeptLog",
    "Session",
    "SessionEvent",
    "SessionHead",
    "SqliteStore",
    "calibrations_of",
    "check_event_ids",
    "check_session",
    "check_session_id",
    "checked_appended",
    "checked_head",
    "checked_load",
    "dump_event",
    "dump_session",
    "load_event",
    "load_session",
    "number_events",
    "open_store",
]


# A process has one store as a rule: what the others are made of is not loaded for it.
def _new_in_memory() -> SessionStore:
    from context_assembler.sessions.in_memory import InMemoryStore  # noqa: PLC0415

    return InMemoryStore()


def _new_sqlite(path: str | Path) -> SessionStore:
    from context_assembler.sessions.sqlite import SqliteStore  # noqa: PLC0415

    return SqliteStore(path)


def _open_memory(location: str) -> SessionStore:
    if location not in {"", "//"}:
        raise ConfigurationError(
            f"A store in memory has no location, but got {location!r}.",
            remedy="Write 'memory:', or 'sqlite:FILE' to keep sessions in a file.",
        )
    return _new_in_memory()


def _open_sqlite(location: str) -> SessionStore:
    if location == ":memory:":
        return _new_in_memory()  # gone with the process, like SQLite's own
    path = location.removeprefix("//")
    if not path or (path != location and not path.startswith("/")):
        raise ConfigurationError(
            f"'sqlite:{location}' names no file.",
            remedy="Write 'sqlite:agent.db', or 'sqlite:///absolute/path/agent.db'.",
        )
    return _new_sqlite(path)


SESSION_STORES: Final[Mapping[str, Callable[[str], SessionStore]]] = {
    "memory": _open_memory,
    "sqlite": _open_sqlite,
}
"""What opens the location behind the colon; nothing is touched before the first use."""


def open_store(store: str | Path | SessionStore) -> SessionStore:
    """Return the store that a URL names; a store is returned as it is, a path is a SQLite file.

    `memory:` keeps sessions in this process, `sqlite:agent.db` in a file of the current folder,
    `sqlite:///var/lib/agent.db` in one elsewhere. The path is taken as written: `%20` stays `%20`.

    Raises:
        UnknownStoreSchemeError: No bundled store has that scheme.
        ConfigurationError: The URL's location cannot be one, or what is given is no store.
    """
    if isinstance(store, Path):
        return _new_sqlite(store)
    if not isinstance(store, str):
        _check_store(store)
        return store
    scheme, colon, location = store.partition(":")
    opener = SESSION_STORES.get(scheme.lower()) if colon else None
    if opener is None:
        raise UnknownStoreSchemeError(store, known=SESSION_STORES)
    return opener(location)


def _check_store(given: object) -> None:
    is_class = isinstance(given, type)
    missing = [name for name in _METHODS if not callable(getattr(given, name, None))]
    if not missing and not is_class:
        return
    lacks = (
        "" if len(missing) == len(_METHODS) else f": it has no {missing[0]}()" if missing else ""
    )
    what = with_article(type(given).__name__, begins_sentence=True)
    if isinstance(given, type):
        what = f"The class {given.__name__}"
    raise ConfigurationError(
        f"{what} is no session store{lacks}.",
        remedy="Pass a URL such as 'memory:' or 'sqlite:agent.db', a Path, or an opened store.",
    )


_METHODS: Final = ("create", "append", "load", "head")
