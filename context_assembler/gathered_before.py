"""What was gathered for a call before, as far as nothing that it came from has changed."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from threading import Lock
from typing import Any, Final, NamedTuple

from context_assembler.gathered import Gathered
from context_assembler.gathering import Gathering
from context_assembler.ports import MarkedStore, SessionStore, is_offered
from context_assembler.sessions import checked_head
from context_assembler.stages.resolve_defaults.settling import ask_plainly

_MAX_KEPT: Final = 256


class Before(NamedTuple):
    """What was gathered for a call behind this mark, for the session with this record, as printed."""

    mark: Hashable | None
    session: str
    gathered: Gathered


class GatheredBefore:
    """Gathers for calls, and asks nobody twice who would say the same.

    Where nothing was written since the same call was made, nobody is asked at all: that is known of
    stores that tell it at once. Where the session has grown, the store alone is asked. Options that may
    change by themselves are gathered for every time. Usable from several threads.
    """

    def __init__(self, store: SessionStore, gathering: Gathering) -> None:
        self._store = store
        self._gathering = gathering
        self._marked: MarkedStore | None = None
        if isinstance(store, MarkedStore) and is_offered(
            store, "change_mark", instead_of=("head", "calibrations")
        ):
            self._marked = store
        self._kept: OrderedDict[Hashable, Before] = OrderedDict()
        self._lock = Lock()

    async def gather(
        self, session_id: str, agent_id: str | None, options: Mapping[str, Any]
    ) -> Gathered:
        """Return what holds for the session's next call; see `Gathering.gather`."""
        question = _ask(session_id, agent_id, options)
        before = self._find(question)
        # Before anything is read: what is written meanwhile has another mark.
        mark = None if self._marked is None or question is None else self._marked.change_mark()
        if before is not None and mark is not None and before.mark == mark:
            return before.gathered
        head = checked_head(await self._store.head(session_id), store=self._store)
        session = repr(head.session)  # a default of 1.0 equals 1, and is not taken like it
        if before is not None and before.session == session:
            gathered = await self._gathering.further(before.gathered, head)
        else:
            gathered = await self._gathering.gather(head, agent_id=agent_id, options=options)
        if question is not None:
            self._keep(question, Before(mark, session, gathered))
        return gathered

    def _find(self, question: Hashable | None) -> Before | None:
        with self._lock:
            before = self._kept.get(question)
            if before is None or not self._gathering.still_holds(before.gathered):
                return None
            self._kept.move_to_end(question)
            return before

    def _keep(self, question: Hashable, before: Before) -> None:
        with self._lock:
            self._kept[question] = before
            self._kept.move_to_end(question)
            if len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)


def _ask(
    session_id: str, agent_id: str | None, options: Mapping[str, Any]
) -> tuple[str, str, Hashable] | None:
    """Return what tells one call from another; `None`: it has to be gathered for every time."""
    plain = ask_plainly(options)
    # Printed, since an id that is none may be no key either: whoever reads it says what is wrong.
    return None if plain is None else (repr(session_id), repr(agent_id), plain)
