"""What was gathered for a call before, for as long as nothing that it came from has changed."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from threading import Lock
from typing import Any, Final, NamedTuple

from context_assembler.gathered import Gathered
from context_assembler.ports import MarkedStore, SessionStore, is_offered
from context_assembler.stages.resolve_defaults.settling import ask_plainly

_MAX_KEPT: Final = 256


class Call(NamedTuple):
    """A call as it was asked for, and the store's mark before anything was read for it."""

    question: Hashable
    mark: Hashable


class GatheredBefore:
    """Remembers what was gathered, so that the same call of an unchanged session asks nobody.

    Known only for stores that tell at once whether they were written to, and for options that
    cannot change by themselves; usable from several threads.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store: MarkedStore | None = None
        if isinstance(store, MarkedStore) and is_offered(
            store, "change_mark", instead_of=("head", "calibrations")
        ):
            self._store = store
        self._kept: OrderedDict[Hashable, tuple[Hashable, Gathered]] = OrderedDict()
        self._lock = Lock()

    def call(
        self, session_id: str, agent_id: str | None, options: Mapping[str, Any]
    ) -> Call | None:
        """Return the call, before anything is read for it; `None`: it has to be gathered anew."""
        if self._store is None or (question := ask_plainly(options)) is None:
            return None
        mark = self._store.change_mark()
        # Printed, since an id that is none may be no key either: whoever reads it says what is wrong.
        asked = repr(session_id), repr(agent_id), question
        return None if mark is None else Call(asked, mark)

    def find(self, call: Call) -> Gathered | None:
        """Return what was gathered for the same call, if the store was not written to since."""
        with self._lock:
            mark, gathered = self._kept.get(call.question, (None, None))
            if gathered is None or mark != call.mark:
                return None
            self._kept.move_to_end(call.question)
            return gathered

    def keep(self, call: Call, gathered: Gathered) -> None:
        """Remember what was gathered behind the call's mark."""
        with self._lock:
            self._kept[call.question] = call.mark, gathered
            self._kept.move_to_end(call.question)
            if len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
