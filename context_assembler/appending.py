"""Single events put into the store of sessions."""

from collections.abc import Callable
from datetime import datetime

from context_assembler.errors import UnknownSessionError
from context_assembler.ports import BeginningStore, SessionStore, is_offered
from context_assembler.sessions import checked_appended
from context_assembler.values.events import (
    Content,
    ResultContent,
    Session,
    SessionEvent,
    tool_result_event,
    user_event,
)


class Appending:
    """Appends what users say and tools return; see `ContextAssembler.add_user`.

    Args:
        now: The clock behind the time stamps.
    """

    def __init__(self, store: SessionStore, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._begins = is_offered(store, "begin", instead_of=("create",))
        self._now = now

    async def say(
        self, session_id: str, content: Content, *, agent_id: str | None, is_pinned: bool
    ) -> SessionEvent:
        """Store what the user said; a session that does not exist begins with it.

        Args:
            agent_id: Whose session it becomes where it does not exist.
        """
        said = user_event(content, created_at=self._now(), is_pinned=is_pinned)
        if agent_id is not None:
            await self._begin(Session(id=session_id, agent_id=agent_id, created_at=said.created_at))
        return await self._append(session_id, said)

    async def answer(
        self,
        session_id: str,
        call_id: str,
        content: ResultContent,
        *,
        is_error: bool,
        tool_name: str | None,
    ) -> SessionEvent:
        """Store what a tool returned, in a session that exists.

        Raises:
            UnknownSessionError: There is no such session.
        """
        result = tool_result_event(
            call_id, content, is_error=is_error, tool_name=tool_name, created_at=self._now()
        )
        await self._store.head(session_id)
        return await self._append(session_id, result)

    async def _append(self, session_id: str, event: SessionEvent) -> SessionEvent:
        appended = await self._store.append(session_id, [event])
        [stored] = checked_appended(appended, count=1, store=self._store)
        return stored

    async def _begin(self, session: Session) -> None:
        """Create the session, unless it is there."""
        try:
            await self._store.head(session.id)
        except UnknownSessionError:
            if isinstance(self._store, BeginningStore) and self._begins:
                await self._store.begin(session)
            else:
                await self._store.create(session)
