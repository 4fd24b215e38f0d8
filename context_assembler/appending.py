"""Single events put into the store of sessions."""

from datetime import datetime

from context_assembler.errors import UnknownSessionError
from context_assembler.ports import SessionStore
from context_assembler.values.events import Content, Session, SessionEvent, user_event


async def append_said(
    store: SessionStore, session_id: str, content: Content, *, agent_id: str | None, now: datetime
) -> SessionEvent:
    """Store what the user said; a session that does not exist begins with it.

    Args:
        agent_id: Whose session it becomes where it does not exist.
    """
    if agent_id is not None:
        await _begin(store, Session(id=session_id, agent_id=agent_id, created_at=now))
    [event] = await store.append(session_id, [user_event(content, created_at=now)])
    return event


async def append_to_known(
    store: SessionStore, session_id: str, event: SessionEvent
) -> SessionEvent:
    """Store an event of a session that exists.

    Raises:
        UnknownSessionError: There is no such session.
    """
    await store.head(session_id)
    [stored] = await store.append(session_id, [event])
    return stored


async def _begin(store: SessionStore, session: Session) -> None:
    """Create the session, unless it is there."""
    try:
        await store.head(session.id)
    except UnknownSessionError:
        await store.create(session)
