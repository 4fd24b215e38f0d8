"""What a session store answered, held against what it must answer."""

from collections.abc import AsyncIterable, Sequence
from inspect import iscoroutine
from typing import Any, Final, TypeGuard

from context_assembler.errors import ConfigurationError
from context_assembler.ports import SessionStore
from context_assembler.values.events import Session, SessionEvent, SessionHead

_PAGE: Final = "docs/how-to/custom-session-store.md shows a store."
_HEAD: Final = (
    "Return SessionHead(session=Session(id='…'), last_seq=3, incarnation='…'), from "
    "context_assembler.sessions"
)
_APPENDED: Final = "Return a list of the events with id and seq, as number_events() makes it"
_LOADED: Final = "Write it as an asynchronous generator, which yields the events"


def checked_head(given: object, *, store: SessionStore) -> SessionHead:
    """Return what `head` of a store returned.

    Raises:
        ConfigurationError: It is not what a store must return there.
    """
    if not isinstance(given, SessionHead):
        raise _wrong(store, "head", type(given).__name__, remedy=_HEAD)
    if not isinstance(given.session, Session):  # pyright: ignore[reportUnnecessaryIsInstance]
        told = f"SessionHead(session={given.session!r}, …)"
        raise _wrong(store, "head", told, remedy=_HEAD)
    if not isinstance(given.last_seq, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        told = f"SessionHead(last_seq={given.last_seq!r}, …)"
        raise _wrong(store, "head", told, remedy=_HEAD)
    return given


def checked_appended(given: object, *, count: int, store: SessionStore) -> list[SessionEvent]:
    """Return what `append` of a store returned for so many events.

    Raises:
        ConfigurationError: It is not what a store must return there.
    """
    if not _is_list(given):
        raise _wrong(store, "append", type(given).__name__, remedy=_APPENDED)
    events = [event for event in given if isinstance(event, SessionEvent) and event.id]
    if len(events) != count or len(given) != count:
        told = f"{len(given)} values, {len(events)} of them events with an id, for {count} events"
        raise _wrong(store, "append", told, remedy=_APPENDED)
    return events


def checked_load(given: Any, *, store: SessionStore) -> AsyncIterable[SessionEvent]:
    """Return what `load` of a store returned.

    Raises:
        ConfigurationError: Events cannot be read from it one by one.
    """
    if hasattr(given, "__aiter__"):
        events: AsyncIterable[SessionEvent] = given
        return events
    if iscoroutine(given):
        given.close()  # nobody waits for it
    raise _wrong(store, "load", type(given).__name__, remedy=_LOADED)


def _is_list(given: object) -> TypeGuard[Sequence[object]]:
    return isinstance(given, list | tuple)


def _wrong(store: SessionStore, method: str, told: str, *, remedy: str) -> ConfigurationError:
    return ConfigurationError(
        f"{method}() of the session store {type(store).__name__} returned {told}.",
        remedy=f"{remedy}; {_PAGE}",
    )
