"""Sessions kept in this process, gone with it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Self
from uuid import uuid4

from context_assembler.errors import (
    ConcurrentAppendError,
    DuplicateEventError,
    UnknownSessionError,
)
from context_assembler.sessions.calibrations import InMemoryCalibrations
from context_assembler.sessions.rules import (
    MAX_NEAREST_IDS,
    check_event_ids,
    check_session,
    check_session_id,
    check_span,
    number_events,
    place_of,
    session_begun_by,
)
from context_assembler.values.calibration import Calibration, UsageObservation
from context_assembler.values.codec import (
    decode_event,
    decode_session,
    encode_event,
    encode_session,
)
from context_assembler.values.events import EventBatch, Session, SessionEvent, SessionHead
from context_assembler.values.given import check_type
from context_assembler.values.resting_counts import RestingCount


@dataclass(slots=True)
class _Log:
    session: Session
    events: list[SessionEvent] = field(default_factory=list[SessionEvent])
    ids: set[str] = field(default_factory=set[str])
    incarnation: str = field(default_factory=lambda: uuid4().hex)
    counts: dict[str, dict[int, RestingCount]] = field(
        default_factory=dict[str, dict[int, RestingCount]]
    )

    @property
    def head(self) -> SessionHead:
        return SessionHead(
            session=self.session, last_seq=len(self.events), incarnation=self.incarnation
        )


class InMemoryStore:
    """A session store without a file; usable from several threads.

    It keeps copies and `load` hands out copies: what is done to the metadata of those events changes
    nothing here.
    """

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._lock = Lock()
        self._calibrations = InMemoryCalibrations()
        self._writes = 0

    async def create(self, session: Session) -> None:
        """Keep a new session; replace the record of one that exists, its events untouched.

        Raises:
            InvalidParameterError: The session's id cannot be kept.
            EventFormatError: The record holds something that JSON cannot say.
        """
        kept = _copied(session)
        with self._lock:
            self._logs.setdefault(session.id, _Log(kept)).session = kept
            self._writes += 1

    async def begin(self, session: Session) -> None:
        """Keep a session, unless there is one of that id: that one stays as it is.

        Raises:
            InvalidParameterError: The session's id cannot be kept.
            EventFormatError: The record holds something that JSON cannot say.
        """
        kept = _copied(session)
        with self._lock:
            self._logs.setdefault(session.id, _Log(kept))
            self._writes += 1

    async def append(
        self, session_id: str, events: Sequence[SessionEvent], *, expected_seq: int | None = None
    ) -> list[SessionEvent]:
        """Append, and return the events with `id` and `seq` filled in.

        Raises:
            ConcurrentAppendError: `expected_seq` is given and is not the last sequence number.
            DuplicateEventError: The session, or `events` itself, has an event of that id already.
            InvalidParameterError: The session's id, or an event's, cannot be kept.
            EventFormatError: An event holds something that JSON cannot say.
        """
        check_session_id(session_id)
        check_event_ids(session_id, events)
        copies = [
            _copy_of(event, place_of(session_id, events, i)) for i, event in enumerate(events)
        ]
        with self._lock:
            log = self._logs.get(session_id) or _Log(session_begun_by(session_id, copies))
            last_seq = len(log.events)
            if expected_seq is not None and expected_seq != last_seq:
                raise ConcurrentAppendError(
                    session_id, expected_seq=expected_seq, actual_seq=last_seq
                )
            for event in copies:
                if event.id in log.ids:
                    raise DuplicateEventError(session_id, event_id=event.id)
            numbered = number_events(copies, last_seq=last_seq, taken_ids=log.ids)
            log.events.extend(numbered)
            log.ids.update(event.id for event in numbered)
            if numbered:
                self._logs[session_id] = log
                self._writes += 1
        return [
            replace(given, id=kept.id, seq=kept.seq)
            for given, kept in zip(events, numbered, strict=True)
        ]

    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        """Yield the events with a larger sequence number, oldest first.

        Raises:
            UnknownSessionError: There is no such session.
        """
        check_span(session_id, after_seq=after_seq)
        events = self._log(session_id).events
        position = max(after_seq, 0)
        while position < len(events):
            yield _copy_of(events[position], f"event {position + 1} of {session_id!r}")
            position += 1

    async def read_batch(
        self, session_id: str, *, after_seq: int = 0, until_seq: int | None = None
    ) -> EventBatch:
        """Return the events behind `after_seq`, up to and including `until_seq`.

        They are those that are kept, not copies: nothing of them may be changed.

        Raises:
            UnknownSessionError: There is no such session.
        """
        check_span(session_id, after_seq=after_seq, until_seq=until_seq)
        log = self._log(session_id)
        until = len(log.events) if until_seq is None else max(until_seq, 0)
        events = tuple(log.events[max(after_seq, 0) : until])
        return EventBatch(events=events, incarnation=log.incarnation)

    async def head(self, session_id: str) -> SessionHead:
        """Return the session's record and last sequence number.

        Raises:
            UnknownSessionError: There is no such session.
        """
        return self._log(session_id).head

    async def list_sessions(self) -> list[SessionHead]:
        """Return every session, most recently created last."""
        with self._lock:
            logs = list(self._logs.values())
        return [log.head for log in logs]

    async def delete(self, session_id: str) -> None:
        """Forget the session with all its events.

        Raises:
            UnknownSessionError: There is no such session.
        """
        self._log(session_id)
        with self._lock:
            self._logs.pop(session_id, None)
            self._writes += 1

    async def calibrations(self) -> Sequence[Calibration]:
        """Return what reported usage taught, by provider, model and shape of request."""
        return await self._calibrations.calibrations()

    async def observe_usage(self, seen: UsageObservation) -> Calibration:
        """Learn from one call's usage, and return what is known since."""
        learnt = await self._calibrations.observe_usage(seen)
        with self._lock:
            self._writes += 1
        return learnt

    def change_mark(self) -> int:
        """Return what stays the same while nobody writes."""
        return self._writes

    async def find_counts(self, session_id: str, *, counter: str) -> Mapping[int, RestingCount]:
        """Return what is kept of a counter, by the number of the message's first event."""
        check_session_id(session_id)
        check_type("counter", counter, str, such_as="the counter's name")
        with self._lock:
            log = self._logs.get(session_id)
            return {} if log is None else dict(log.counts.get(counter, {}))

    async def keep_counts(
        self,
        session_id: str,
        counts: Mapping[int, RestingCount],
        *,
        counter: str,
        incarnation: str,
    ) -> None:
        """Keep counts of this very incarnation of a session; nothing where it is not there."""
        check_session_id(session_id)
        check_type("counter", counter, str, such_as="the counter's name")
        check_type("counts", counts, Mapping, such_as="counts by the number of an event")
        with self._lock:
            log = self._logs.get(session_id)
            if log is not None and log.incarnation == incarnation:
                log.counts.setdefault(counter, {}).update(counts)

    async def close(self) -> None:
        """Do nothing: there is nothing to let go of, and the sessions stay."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _log(self, session_id: str) -> _Log:
        check_session_id(session_id)
        with self._lock:
            log = self._logs.get(session_id)
            if log is None:
                newest = list(self._logs)[-MAX_NEAREST_IDS:]
                raise UnknownSessionError(session_id, known=newest)
        return log


def _copy_of(event: SessionEvent, where: str) -> SessionEvent:
    return decode_event(encode_event(event, where=where), where=where)


def _copied(session: Session) -> Session:
    """Return the record as it is kept, once it is known that it can be."""
    check_session(session)
    return decode_session(encode_session(session), where=f"session {session.id!r}")
