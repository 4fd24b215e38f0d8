"""Counts that outlive the process: fetched with a session's events, and left behind once counted."""

from collections.abc import Hashable, MutableMapping, Sequence
from contextlib import suppress
from typing import Any, Final

from context_assembler.errors import StoreError
from context_assembler.ports import CountStore, SessionStore, TokenCounter
from context_assembler.values.events import SessionEvent
from context_assembler.values.resting_counts import Resting, RestingCount, place_of_counts

LEAST_COUNTS: Final = 64
"""How many messages must be counted before it pays to read their counts, or to write them."""


class CountsAtRest:
    """The counts that a session store keeps for us; none where it does not offer to.

    What is fetched is put among what is derived of a session, where its counter finds it, and notes
    what it counts itself; when that is much, it is left behind.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = store if isinstance(store, CountStore) else None

    async def fetch(
        self,
        session_id: str,
        *,
        counter: TokenCounter,
        derived: MutableMapping[Hashable, Any],
        events: Sequence[SessionEvent],
    ) -> None:
        """Read the counts of a session of some length, once for as long as its events are kept."""
        place = place_of_counts(counter)
        if self._store is None or place is None or len(events) < LEAST_COUNTS:
            return
        if place not in derived:
            known: dict[int, RestingCount] = {}
            with suppress(StoreError):  # they are counted again
                known.update(await self._store.find_counts(session_id, counter=place[1]))
            derived[place] = Resting(known=known)
        derived[place].see(events)

    async def leave(
        self,
        session_id: str,
        *,
        counter: TokenCounter,
        derived: MutableMapping[Hashable, Any],
        incarnation: str,
    ) -> None:
        """Write what was counted meanwhile, if it is much; a store that cannot be written stays."""
        place = place_of_counts(counter)
        if self._store is None or place is None or place not in derived or not incarnation:
            return
        counts = derived[place].take_found(least=LEAST_COUNTS)
        if not counts:
            return
        with suppress(StoreError):  # read-only, or somebody else is writing: it stays as it is
            await self._store.keep_counts(
                session_id, counts, counter=place[1], incarnation=incarnation
            )
