"""The calls of a session that were answered, as its events tell of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from context_assembler.values.events import AssistantBody, CompactionBody, Provenance, SessionEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredCall:
    """A call of the session that was answered: the reply's event, and what that says of it.

    `fingerprint` is that of all that the call was sent: what a reply says behind a compaction of its
    own stands behind less.
    """

    event_id: str
    made_by: Provenance
    fingerprint: str
    at: datetime | None


def answered_calls(events: Iterable[SessionEvent]) -> tuple[AnsweredCall, ...]:
    """Return the calls whose prefix was recorded, in the order of the store."""
    return tuple(_read_calls(events))


def with_zone(moment: datetime | None) -> datetime | None:
    """Return a moment that can be compared with any other; one without a zone is taken for UTC."""
    if moment is None or moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=UTC)


def _read_calls(events: Iterable[SessionEvent]) -> Iterator[AnsweredCall]:
    compaction: SessionEvent | None = None
    for event in events:
        body = event.body
        sent = _fingerprint_of(event)
        if sent is not None and compaction is not None and _are_one_reply(compaction, event):
            sent = _fingerprint_of(compaction) or sent
        compaction = event if isinstance(body, CompactionBody) else None
        if sent is not None and isinstance(body, AssistantBody | CompactionBody) and body.made_by:
            yield AnsweredCall(
                event_id=event.id,
                made_by=body.made_by,
                fingerprint=sent,
                at=with_zone(event.created_at),
            )


def _fingerprint_of(event: SessionEvent) -> str | None:
    body = event.body
    if not isinstance(body, AssistantBody | CompactionBody) or body.made_by is None:
        return None
    return body.made_by.prefix_fingerprint


def _are_one_reply(compaction: SessionEvent, said: SessionEvent) -> bool:
    """Whether a provider wrote a compaction and went on behind it, in answer to one call."""
    bodies = compaction.body, said.body
    return (
        isinstance(bodies[0], CompactionBody)
        and isinstance(bodies[1], AssistantBody)
        and bodies[0].made_by is not None
        and bodies[1].made_by is not None
        and bool(bodies[0].native)
        and bodies[0].made_by.response_id == bodies[1].made_by.response_id
        and compaction.answers_seq == said.answers_seq
    )
