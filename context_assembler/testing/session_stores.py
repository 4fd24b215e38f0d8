"""A check of a session store that is not one of ours."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import Any, Final

from context_assembler.errors import (
    ConcurrentAppendError,
    DuplicateEventError,
    UnknownSessionError,
)
from context_assembler.ports import SessionStore
from context_assembler.sessions import checked_head
from context_assembler.values.events import (
    Session,
    SessionEvent,
    assistant_event,
    tool_result_event,
    user_event,
)
from context_assembler.values.parts import Opaque, Text, ToolCall

_TRIP: Final = "trip 旅/'\"%"
_OTHER: Final = "trip"
_CALL: Final = ToolCall(call_id="c1", name="look", arguments={"at": [1, 0.5, None], "ß": {"x": ""}})
_BLOCK: Final = Opaque(provider="anthropic", block={"type": "thinking", "signature": "c2ln"})
_EVENTS: Final = (
    user_event("Look around. 見て \N{EYES} \ud83d \0"),
    assistant_event((_BLOCK, Text("One moment."), _CALL)),
    replace(tool_result_event("c1", {"seen": ["a wall"]}), metadata={"n": [1]}, is_pinned=True),
)


async def check_session_store(store: SessionStore) -> None:
    """Hold a session store against what the assembler relies on.

    It writes into the sessions that it makes, and deletes them at the end; give it an empty store.

    Raises:
        AssertionError: The store does something else; the message says what it must do.
    """
    await _check_unknown(store)
    await _check_events(store)
    await _check_ids(store)
    await _check_swaps(store)
    await _check_records(store)
    await _check_deletion(store)


async def _check_unknown(store: SessionStore) -> None:
    for what, asked in (
        ("head()", store.head(_TRIP)),
        ("load()", _all(store.load(_TRIP))),
        ("delete()", store.delete(_TRIP)),
    ):
        _need(
            await _raises(UnknownSessionError, asked),
            f"{what} of a session that is not there must raise UnknownSessionError",
        )


async def _check_events(store: SessionStore) -> None:
    kept = await store.append(_TRIP, _EVENTS[:2])
    kept = [*kept, *await store.append(_TRIP, _EVENTS[2:])]
    await store.append(_OTHER, [user_event("of another session")])
    loaded = await _all(store.load(_TRIP))
    _need(
        [event.seq for event in kept] == [1, 2, 3] and all(event.id for event in kept),
        "append() must return the events with the numbers 1, 2, 3 … and an id each",
    )
    _need(loaded == kept, "load() must yield the session's events as append() returned them")
    bare = [replace(event, id="", seq=0) for event in loaded]
    _need(bare == list(_EVENTS), "load() must yield all fields of the events as they were given")
    behind = [event.seq for event in await _all(store.load(_TRIP, after_seq=2))]
    _need(behind == [3], "load(after_seq=2) must begin with event 3")
    head = checked_head(await store.head(_TRIP), store=store)
    _need(head.last_seq == 3, "head() must tell the number of the last event as last_seq")


async def _check_ids(store: SessionStore) -> None:
    named = replace(user_event("named"), id="mine")
    [kept] = await store.append(_TRIP, [named])
    _need(kept.id == "mine", "append() must keep the id that an event brings")
    twice = store.append(_TRIP, [user_event("good"), named])
    _need(
        await _raises(DuplicateEventError, twice),
        "append() must refuse an id that the session has with DuplicateEventError",
    )
    _need(len(await _all(store.load(_TRIP))) == 4, "append() must keep all of its events, or none")


async def _check_swaps(store: SessionStore) -> None:
    tries = [store.append(_TRIP, [user_event(str(n))], expected_seq=4) for n in range(5)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    lost = [one for one in outcomes if isinstance(one, ConcurrentAppendError)]
    _need(
        len(lost) == 4 and len(await _all(store.load(_TRIP))) == 5,
        "of several append(expected_seq=4) one must win, the others raise ConcurrentAppendError",
    )


async def _check_records(store: SessionStore) -> None:
    session = Session(id=_TRIP, agent_id="pilot", defaults={"model": "m"}, metadata={"n": [1]})
    await store.create(session)
    head = checked_head(await store.head(_TRIP), store=store)
    _need(
        (head.session, head.last_seq) == (session, 5),
        "create() must replace the session's record, and leave its events",
    )
    listed = {head.session.id: head.last_seq for head in await store.list_sessions()}
    _need(
        listed.get(_TRIP) == 5 and listed.get(_OTHER) == 1,
        "list_sessions() must return a SessionHead for every session",
    )


async def _check_deletion(store: SessionStore) -> None:
    before = await store.head(_TRIP)
    await store.delete(_TRIP)
    kept = await store.append(_TRIP, [user_event("anew")])
    after = await store.head(_TRIP)
    _need(
        [event.seq for event in kept] == [1] and len(await _all(store.load(_TRIP))) == 1,
        "delete() must forget the session's events",
    )
    _need(
        not before.incarnation or before.incarnation != after.incarnation,
        "a session that was deleted must have another incarnation when it begins again",
    )
    for session_id in (_TRIP, _OTHER):
        await store.delete(session_id)


async def _all(events: AsyncIterator[SessionEvent]) -> list[SessionEvent]:
    return [event async for event in events]


async def _raises(error: type[Exception], asked: Awaitable[Any]) -> bool:
    try:
        await asked
    except error:
        return True
    return False


def _need(is_so: bool, rule: str) -> None:
    if not is_so:
        raise AssertionError(f"{rule}.")
