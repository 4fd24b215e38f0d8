"""What a session store of your own is made from: heads, numbers for events, rows for values."""

from context_assembler.sessions.rules import (
    check_event_ids,
    check_session,
    check_session_id,
    number_events,
)
from context_assembler.values.codec import dump_event, dump_session, load_event, load_session
from context_assembler.values.events import EventBatch, Session, SessionEvent, SessionHead

__all__ = [
    "EventBatch",
    "Session",
    "SessionEvent",
    "SessionHead",
    "check_event_ids",
    "check_session",
    "check_session_id",
    "dump_event",
    "dump_session",
    "load_event",
    "load_session",
    "number_events",
]
