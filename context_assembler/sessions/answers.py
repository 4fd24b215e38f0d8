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
_IN_ORDER: Final = "Yield every event with a number above after_seq once, oldest first"
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


async def read_loaded(
    store: SessionStore, session_id: str, *, after_seq: int, until_seq: int
) -> tuple[SessionEvent, ...]:
    """Return the events behind one up to another, both by number, that `load` of a store yields.

    Raises:
        ConfigurationError: It yields something else, an event behind a later one, or not all.
        UnknownSessionError: There is no such session.
    """
    events: list[SessionEvent] = []
    last_seq = after_seq
    async for event in checked_load(store.load(session_id, after_seq=after_seq), store=store):
        if not isinstance(event, SessionEvent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _wrong(store, "load", f"{type(event).__name__} among the events", remedy=_LOADED)
        if event.seq <= last_seq:
            raise _wrong(store, "load", f"event {event.seq} behind {last_seq}", remedy=_IN_ORDER)
        last_seq = event.seq
        if event.seq <= until_seq:
            events.append(event)
    if last_seq < until_seq:
        head = checked_head(await store.head(session_id), store=store)  # it may be gone meanwhile
        if head.last_seq >= until_seq:
            told = f"nothing behind event {last_seq}, where head() tells of {head.last_seq}"
            raise _wrong(store, "load", told, remedy=_IN_ORDER)
    return tuple(events)


def _is_list(given: object) -> TypeGuard[Sequence[object]]:
    return isinstance(given, list | tuple)


def _wrong(store: SessionStore, method: str, told: str, *, remedy: str) -> ConfigurationError:
    return ConfigurationError(
        f"{method}() of the session store {type(store).__name__} returned {told}.",
        remedy=f"{remedy}; {_PAGE}",
    )
