"""Replies that a session holds already, found by the id that their provider gave them."""

from collections.abc import Hashable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from context_assembler.recording.answered_call import AnsweredCall
from context_assembler.sessions import KeptLog
from context_assembler.values.codec import encode_event
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    Provenance,
    SessionEvent,
    SystemBody,
    UserBody,
)
from context_assembler.values.parts import JsonObject

_KEY: Final = "recorded replies"


def find_recorded(answered: AnsweredCall, log: KeptLog) -> list[SessionEvent]:
    """Return what was stored of this very reply, the notes before it included; empty: nothing was.

    It is the same where it answers the same moment of the session, and its provider's id, all it says
    and its usage are the same. Some servers, and doubles in tests, give all of their replies one id.
    """
    response_id = answered.reply.response_id
    places = [] if response_id is None else _places_of(response_id, log)
    if not places:
        return []
    told = _told_by(answered.events())
    for place in reversed(places):
        group = _group_that_ends_at(place, log.events)
        is_answer = group[-1].answers_seq == answered.context.metadata.last_seq
        if is_answer and _told_by(group) == told:
            return group
    return []


@dataclass(slots=True)
class _Index:
    """The places of all events of a reply among a session's events, as far as they were seen."""

    seen: int = 0
    places: dict[str, list[int]] = field(default_factory=dict[str, list[int]])


def _places_of(response_id: str, log: KeptLog) -> list[int]:
    """Return where events of a reply with that id stand; what is new since the last time is read."""
    index = _index_among(log.derived)
    for place, event in enumerate(log.events[index.seen :], start=index.seen):
        made_by = _made_by(event)
        if made_by is not None and made_by.response_id is not None:
            index.places.setdefault(made_by.response_id, []).append(place)
    index.seen = len(log.events)
    return [place for place in index.places.get(response_id, ()) if place < len(log.events)]


def _index_among(derived: MutableMapping[Hashable, Any]) -> _Index:
    index: _Index = derived.setdefault(_KEY, _Index())
    return index


def _group_that_ends_at(place: int, events: Sequence[SessionEvent]) -> list[SessionEvent]:
    """Return an event of a reply with what the same `record` stored before it."""
    last, first = events[place], place
    while first > 0 and _is_of_one_answer(events[first - 1], last):
        first -= 1
    return list(events[first : place + 1])


def _is_of_one_answer(event: SessionEvent, last: SessionEvent) -> bool:
    """Whether an event is a note that the call of a reply was sent, or an earlier part of the reply."""
    if isinstance(event.body, UserBody | SystemBody):
        return event.body.note is not None and 0 < event.answers_seq <= last.answers_seq
    made_by, made_last = _made_by(event), _made_by(last)
    if made_by is None or made_last is None or event.answers_seq != last.answers_seq:
        return False
    is_earlier_part = made_by.stop_reason is None and made_by.usage is None
    return is_earlier_part and made_by.response_id == made_last.response_id


def _told_by(events: Sequence[SessionEvent]) -> list[JsonObject]:
    """Return what a reply's events say, without what says where they stand."""
    return [encode_event(_bare(event)) for event in events if _made_by(event) is not None]


def _bare(event: SessionEvent) -> SessionEvent:
    body, made_by = event.body, _made_by(event)
    if made_by is not None:
        made_by = replace(made_by, account=None, prefix_fingerprint=None, token_factor=None)
    if isinstance(body, CompactionBody):
        body = replace(body, first_seq=0, last_seq=0, excluded_ids=(), made_by=made_by)
    elif isinstance(body, AssistantBody):
        body = replace(body, made_by=made_by)
    return SessionEvent(body=body, metadata={"reply_model": event.metadata.get("reply_model")})


def _made_by(event: SessionEvent) -> Provenance | None:
    body = event.body
    return body.made_by if isinstance(body, AssistantBody | CompactionBody) else None
