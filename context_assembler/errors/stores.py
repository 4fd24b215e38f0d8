"""Errors of session stores."""

from collections.abc import Collection
from typing import Literal

from context_assembler.errors.base import AssemblyError, did_you_mean
from context_assembler.errors.credentials import without_credentials


class UnknownSessionError(AssemblyError, LookupError):
    """The store holds no session of that id."""

    def __init__(self, session_id: str, *, known: Collection[str]) -> None:
        otherwise = (
            "Create it with add_user() or import a transcript first."
            if known
            else "The store is empty: create the session with add_user() or import a transcript."
        )
        super().__init__(
            f"There is no session {session_id!r}.",
            remedy=did_you_mean(session_id, known, otherwise=otherwise),
        )
        self.session_id = session_id


class StoreError(AssemblyError):
    """A store of sessions or memories refused."""


class ConcurrentAppendError(StoreError):
    """Somebody else appended since the caller last looked."""

    def __init__(self, session_id: str, *, expected_seq: int, actual_seq: int) -> None:
        super().__init__(
            f"Session {session_id!r} is at event {actual_seq}, not {expected_seq}.",
            remedy="Load the events after your last one, decide again, and append again.",
        )
        self.session_id = session_id
        self.expected_seq = expected_seq
        self.actual_seq = actual_seq


class DuplicateEventError(StoreError, ValueError):
    """An event was given an id that the session has already."""

    def __init__(self, session_id: str, *, event_id: str) -> None:
        super().__init__(
            f"Session {session_id!r} has an event {event_id!r} already.",
            remedy="Leave the id empty to have one given, or load the session: it may be there.",
        )
        self.session_id = session_id
        self.event_id = event_id


class StoreUnavailableError(StoreError, OSError):
    """The store's file or server cannot be used.

    Neither `location` nor `reason` tells what a URL holds secret.
    """

    def __init__(self, location: str, *, reason: str, remedy: str) -> None:
        location, reason = without_credentials(location), without_credentials(reason)
        super().__init__(f"The session store {location!r} cannot be used: {reason}.", remedy=remedy)
        self.location = location
        self.reason = reason


class EventFormatError(StoreError, ValueError):
    """A stored event that this version cannot decode, or an event that cannot be stored."""

    def __init__(
        self, *, where: str, reason: str, remedy: str, act: Literal["decoded", "stored"] = "decoded"
    ) -> None:
        super().__init__(f"{where} cannot be {act}: {reason}.", remedy=remedy)
        self.where = where
        self.reason = reason
