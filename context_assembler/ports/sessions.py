"""The sockets of session stores: what each offers, and what it may offer beside."""

from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from context_assembler.values.calibration import Calibration, UsageObservation
from context_assembler.values.events import EventBatch, Session, SessionEvent, SessionHead
from context_assembler.values.resting_counts import RestingCount


class SessionStore(Protocol):
    """Keeps what happened in each session, in order.

    `append` is atomic and durable: after a crash all of `events` are there, or none.
    """

    async def create(self, session: Session) -> None:
        """Keep a new session; replace the record of one that exists, its events untouched."""
        ...

    async def append(
        self, session_id: str, events: Sequence[SessionEvent], *, expected_seq: int | None = None
    ) -> list[SessionEvent]:
        """Append, and return the events with `id` and `seq` filled in.

        A session that does not exist begins with its first event, and was created when that happened.

        Raises:
            ConcurrentAppendError: `expected_seq` is given and is not the last sequence number.
        """
        ...

    def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        """Yield the events with a larger sequence number, oldest first.

        Raises:
            UnknownSessionError: There is no such session.
        """
        ...

    async def head(self, session_id: str) -> SessionHead:
        """Return the session's record and last sequence number.

        Raises:
            UnknownSessionError: There is no such session.
        """
        ...

    async def list_sessions(self) -> list[SessionHead]:
        """Return every session, most recently created last."""
        ...

    async def delete(self, session_id: str) -> None:
        """Forget the session with all its events.

        Raises:
            UnknownSessionError: There is no such session.
        """
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...


@runtime_checkable
class BeginningStore(Protocol):
    """Begins a session that several want to begin at once; session stores may offer it as well."""

    async def begin(self, session: Session) -> None:
        """Keep a session, unless there is one of that id: that one stays as it is."""
        ...


@runtime_checkable
class BatchStore(Protocol):
    """Hands out many events of a session at once; session stores may offer it as well."""

    async def read_batch(
        self, session_id: str, *, after_seq: int = 0, until_seq: int | None = None
    ) -> EventBatch:
        """Return the events behind one number up to another, all of one incarnation."""
        ...


@runtime_checkable
class MarkedStore(Protocol):
    """Tells at once whether it was written to; session stores may offer it as well."""

    def change_mark(self) -> Hashable | None:
        """Return what stays the same while nobody writes; `None` where that is not known.

        It waits for nothing. What was read between two equal marks would be read again.
        """
        ...


@runtime_checkable
class CalibrationStore(Protocol):
    """Keeps what reported usage taught about token counts; session stores may offer it as well."""

    async def calibrations(self) -> Sequence[Calibration]:
        """Return all that is known, by provider, model and shape of request."""
        ...

    async def observe_usage(self, seen: UsageObservation) -> Calibration:
        """Learn from one call, and return what is known since.

        Atomic: of two processes that learn at once none is forgotten.
        """
        ...


@runtime_checkable
class CountStore(Protocol):
    """Keeps token counts beside the events; session stores may offer it as well.

    Counts are derived: they may be lost at any time, and nothing but the time of a call depends on
    them. They go with their session.
    """

    async def find_counts(self, session_id: str, *, counter: str) -> Mapping[int, RestingCount]:
        """Return what is kept of a counter, by the number of the message's first event.

        Args:
            counter: What tells its counts apart from those of any other counter, and of an older
                formula.
        """
        ...

    async def keep_counts(
        self,
        session_id: str,
        counts: Mapping[int, RestingCount],
        *,
        counter: str,
        incarnation: str,
    ) -> None:
        """Keep counts of this very incarnation of a session; nothing where it is not there any more.

        Nothing is waited for, and a store that was never written to stays as it is.
        """
        ...
