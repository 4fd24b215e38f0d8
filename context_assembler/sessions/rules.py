"""What every session store asks of ids, and how it numbers events."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from context_assembler.errors import DuplicateEventError, InvalidParameterError
from context_assembler.values.events import Session, SessionEvent
from context_assembler.values.field_codecs import kind_of
from context_assembler.values.given import check_type, listed

MAX_ID_CHARS: Final = 512
MAX_NEAREST_IDS: Final = 2_000  # how many existing ids an unknown one is compared with

_ID_REMEDY: Final = f"Use 1 to {MAX_ID_CHARS} characters, without NUL and unpaired surrogates."


def check_session(session: Session) -> None:
    """Refuse what is no session, or has an id that not every store can keep.

    Raises:
        InvalidParameterError: It is none, or has.
    """
    check_type("session", session, Session, such_as="Session(id='…')")
    check_session_id(session.id)


def check_span(session_id: str, *, after_seq: object, until_seq: object = None) -> None:
    """Refuse to read events from no session, or between no numbers.

    Raises:
        InvalidParameterError: The id can be nobody's, or a number is none.
    """
    check_session_id(session_id)
    check_type("after_seq", after_seq, int, such_as="a sequence number; 0 for all")
    check_type("until_seq", until_seq, int, type(None), such_as="a sequence number, or None")


def check_session_id(session_id: str) -> None:
    """Refuse an id that not every store can keep.

    Raises:
        InvalidParameterError: It is not text, empty, too long, or holds characters without UTF-8.
    """
    _check_id("session_id", session_id)


def session_begun_by(session_id: str, events: Iterable[SessionEvent]) -> Session:
    """Return the record of a session that begins with these events: it is as old as they are."""
    moments = (event.created_at for event in events if event.created_at is not None)
    return Session(id=session_id, created_at=next(moments, None))


def check_event_ids(session_id: str, events: Sequence[SessionEvent]) -> None:
    """Refuse what are no events, ids that cannot be kept, or that come twice; an empty id is none yet.

    Raises:
        InvalidParameterError: Something is no event, or an id has characters that not every store can keep.
        DuplicateEventError: Two of the events have the same id.
    """
    check_type("events", events, Sequence, such_as="a list of events, such as [user_event('…')]")
    listed("events", events, SessionEvent, such_as="a list of events, such as [user_event('…')]")
    seen: set[str] = set()
    for event in events:
        if not event.id:
            continue
        _check_id("event id", event.id)
        if event.id in seen:
            raise DuplicateEventError(session_id, event_id=event.id)
        seen.add(event.id)


def number_events(
    events: Sequence[SessionEvent], *, last_seq: int, taken_ids: Collection[str]
) -> list[SessionEvent]:
    """Return the events with the sequence numbers after `last_seq`, each with an id.

    An event without id gets `evt_<seq>`, with as many primes behind it as it takes to be unique.
    """
    taken = {event.id for event in events if event.id} | set(taken_ids)
    numbered: list[SessionEvent] = []
    for seq, event in enumerate(events, start=last_seq + 1):
        event_id = event.id or _free_id(seq, taken)
        taken.add(event_id)
        numbered.append(replace(event, id=event_id, seq=seq))
    return numbered


def place_of(session_id: str, events: Sequence[SessionEvent], index: int) -> str:
    """Return what to call one of the events that are appended, in errors."""
    event = events[index]
    kind = kind_of(event.body) or "new"
    name = f" {event.id!r}" if event.id else ""
    among = f" (number {index + 1} of {len(events)})" if len(events) > 1 else ""
    return f"The {kind} event{name}{among} for session {session_id!r}"


def generated_id(seq: int) -> str:
    """Return the id that an event without one gets."""
    return f"evt_{seq}"


def _free_id(seq: int, taken: Collection[str]) -> str:
    event_id = generated_id(seq)
    while event_id in taken:
        event_id += "'"
    return event_id


def _check_id(name: str, given: object) -> None:
    rule = _broken_rule(given)
    if rule is not None:
        raise InvalidParameterError(name, given, rule=rule, remedy=_ID_REMEDY)


def _broken_rule(given: object) -> str | None:
    if not isinstance(given, str):
        return "must be text"
    if not given:
        return "must not be empty"
    if len(given) > MAX_ID_CHARS:
        return f"must not be longer than {MAX_ID_CHARS} characters"
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in given):
        return "must not hold NUL or unpaired surrogates"
    return None
