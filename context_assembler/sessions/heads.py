"""Where a session stands, as a store told it."""

from context_assembler.errors import ConfigurationError
from context_assembler.ports import SessionStore
from context_assembler.values.events import Session, SessionHead


def checked_head(given: object, *, store: SessionStore) -> SessionHead:
    """Return what `head` of a store returned.

    Raises:
        ConfigurationError: It is not what a store must return there.
    """
    if not isinstance(given, SessionHead):
        told = type(given).__name__
    elif not isinstance(given.session, Session):  # pyright: ignore[reportUnnecessaryIsInstance]
        told = f"SessionHead(session={given.session!r}, …)"
    elif not isinstance(given.last_seq, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        told = f"SessionHead(last_seq={given.last_seq!r}, …)"
    else:
        return given
    raise ConfigurationError(
        f"head() of the session store {type(store).__name__} returned {told}.",
        remedy="Return SessionHead(session=Session(id='…'), last_seq=3, incarnation='…'), from "
        "context_assembler.sessions; docs/how-to/custom-session-store.md shows a store.",
    )
