"""What of a transcript a session does not have yet."""

from collections.abc import Sequence

from context_assembler.errors import ConfigurationError
from context_assembler.values.events import SessionEvent
from context_assembler.values.standing import shift_covers


def events_behind(
    session_id: str, stored: Sequence[SessionEvent], given: Sequence[SessionEvent]
) -> list[SessionEvent]:
    """Return the transcript's events behind those that the session has already.

    Two events are the same that have one id or, where the transcript tells none, one content. Without
    ids only two sessions are taken to have some: one that is a beginning of the transcript, and one
    that ends with all of it.

    Raises:
        ConfigurationError: The session has some of the events by their ids, and others stand between
            or behind them.
    """
    for start in _starts(stored, given):
        shifted = shift_covers(given, by=stored[start].seq - 1)
        had = stored[start:]
        if all(map(_is_same, had, shifted)):
            return shifted[len(had) :]
    ids = {event.id for event in stored}
    if any(event.id in ids for event in given if event.id):
        raise ConfigurationError(
            f"Session {session_id!r} has some of these events, and others between or behind them.",
            remedy="Import the transcript as a session of its own, with --session.",
        )
    return shift_covers(given, by=stored[-1].seq if stored else 0)


def _starts(stored: Sequence[SessionEvent], given: Sequence[SessionEvent]) -> list[int]:
    """Return where in the session the transcript may begin."""
    if not stored or not given:
        return []
    if given[0].id:
        return [at for at, event in enumerate(stored) if event.id == given[0].id]
    return [max(0, len(stored) - len(given))]


def _is_same(stored: SessionEvent, given: SessionEvent) -> bool:
    if given.id:
        return stored.id == given.id
    return stored.body == given.body and stored.origin == given.origin
