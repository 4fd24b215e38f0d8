"""What needs no server: sessions in shorthand, a clock, a counter, the contract of session stores."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from context_assembler import errors, events
from context_assembler.events import SessionEvent, Text, ToolCall
from context_assembler.ports import SessionStore

START: Final = datetime(2026, 11, 3, 9, 0, tzinfo=UTC)
_LINE: Final = re.compile(r"(?P<who>[SUAT])(?:\[(?P<calls>.*?)\](?!\}))? ?(?P<text>.*)", re.DOTALL)
_CALL: Final = re.compile(
    r"(?P<id>[\w.-]+)(?P<error>!)?(?::(?P<name>[\w.-]+))?(?P<json> ?\{.*\})?$"
)
_BETWEEN_CALLS: Final = re.compile(r",\s*(?=[\w.-]+!?(?::|,|$))")


def event_log(*lines: str) -> tuple[SessionEvent, ...]:
    """Return events from shorthand, a minute apart, not numbered yet.

    Args:
        lines: `S text` (system), `U text` (user), `A text` (assistant), `A[c1] text` (calls the tool
            `look_up`), `A[c1:search {"q": "tea"}, c2:search]` (two calls), `T[c1] text` (a result),
            `T[c1!] text` (a failed one).

    Raises:
        ValueError: A line is none of these.
    """
    return tuple(
        replace(_event(line), created_at=START + timedelta(minutes=place))
        for place, line in enumerate(lines)
    )


def _event(line: str) -> SessionEvent:
    found = _LINE.fullmatch(line)
    written = _BETWEEN_CALLS.split((found and found["calls"]) or "")
    calls = [_CALL.match(one.strip()) for one in written if one]
    if found is None or None in calls or (found["who"] == "T" and len(calls) != 1):
        form = "'S text', 'U text', 'A text', 'A[id:tool {json}, …] text' or 'T[id] text'"
        raise ValueError(f"write {form}; got {line!r}")
    who, text = found["who"], found["text"]
    if who == "A":
        parts = [Text(text)] if text else []
        return events.assistant_event([*parts, *(_tool_call(call) for call in calls if call)])
    if who == "T" and (call := calls[0]):
        return events.tool_result_event(call["id"], text, is_error=call["error"] is not None)
    return events.system_event(text) if who == "S" else events.user_event(text)


def _tool_call(found: re.Match[str]) -> ToolCall:
    arguments = json.loads(found["json"] or "{}")
    return ToolCall(call_id=found["id"], name=found["name"] or "look_up", arguments=arguments)


class ManualClock:
    """A clock in seconds that stands still until `advance` moves it."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    def __call__(self) -> float:
        """Return the seconds that the clock shows."""
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._seconds += seconds


class WordCounter:
    """A token counter that a reader of a test can follow: one word is one token."""

    name, is_exact = "words", True

    def count_text(self, text: str) -> int:
        """Return the number of words."""
        return len(text.split())


_TRIP, _OTHER = "trip 旅/'\"%", "trip"
_CALL_OF_TOOL: Final = ToolCall(call_id="c1", name="look", arguments={"at": [1, 0.5, None]})
_BLOCK: Final = events.Opaque(provider="anthropic", block={"type": "thinking", "signature": "c2ln"})
_EVENTS: Final = (
    events.user_event("Look around. 見て \N{EYES} \ud83d \0"),
    events.assistant_event((_BLOCK, Text("One moment."), _CALL_OF_TOOL)),
    replace(
        events.tool_result_event("c1", {"seen": ["a wall"]}), metadata={"n": [1]}, is_pinned=True
    ),
)


async def check_session_store(store: SessionStore) -> None:
    """Check that a session store does what the assembler relies on.

    It writes into sessions of its own and deletes them at the end; give it an empty store.

    Raises:
        AssertionError: The store breaks a rule; the message says what it must do.
    """
    absent = store.head(_TRIP), store.delete(_TRIP), _all(store.load(_TRIP))
    raised = [await _raises(errors.UnknownSessionError, one) for one in absent]
    rule = "head(), delete() and load() of an unknown session must raise UnknownSessionError"
    _need(all(raised), rule)
    kept = [*await store.append(_TRIP, _EVENTS[:2]), *await store.append(_TRIP, _EVENTS[2:])]
    await store.append(_OTHER, [events.user_event("of another session")])
    loaded = await _all(store.load(_TRIP))
    is_numbered = [event.seq for event in kept] == [1, 2, 3] and all(event.id for event in kept)
    _need(is_numbered, "append() must return the events with the numbers 1, 2, 3 … and an id each")
    _need(loaded == kept, "load() must yield the session's events as append() returned them")
    bare = [replace(event, id="", seq=0) for event in loaded]
    _need(bare == list(_EVENTS), "load() must yield all fields of the events as they were given")
    later = await _all(store.load(_TRIP, after_seq=2))
    _need(later == kept[2:], "load(after_seq=2) must begin with event 3")
    named = replace(events.user_event("named"), id="mine")
    [one] = await store.append(_TRIP, [named])
    _need(one.id == "mine", "append() must keep the id that an event brings")
    again = store.append(_TRIP, [events.user_event("good"), named])
    twice = await _raises(errors.DuplicateEventError, again)
    _need(twice, "append() must refuse an id that the session has with DuplicateEventError")
    _need(len(await _all(store.load(_TRIP))) == 4, "append() must keep all of its events, or none")
    tries = [store.append(_TRIP, [events.user_event(str(n))], expected_seq=4) for n in range(5)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    lost = sum(isinstance(one, errors.ConcurrentAppendError) for one in outcomes)
    _need(lost == 4, "one append(expected_seq=4) must win, others raise ConcurrentAppendError")
    _need(len(await _all(store.load(_TRIP))) == 5, "append() with expected_seq must append once")
    session = events.Session(
        id=_TRIP, agent_id="pilot", defaults={"model": "m"}, metadata={"n": [1]}
    )
    await store.create(session)
    head = await store.head(_TRIP)
    is_replaced = (head.session, head.last_seq) == (session, 5)
    _need(is_replaced, "create() must replace the session's record, and head() return it")
    listed = {head.session.id: head.last_seq for head in await store.list_sessions()}
    _need(listed == {**listed, _TRIP: 5, _OTHER: 1}, "list_sessions() must return every session")
    await store.delete(_TRIP)
    kept = await store.append(_TRIP, [events.user_event("again")])
    is_new = await _all(store.load(_TRIP)) == kept and [event.seq for event in kept] == [1]
    _need(is_new, "delete() must forget the session's events")
    is_other = not head.version or (await store.head(_TRIP)).version != head.version
    _need(is_other, "a session deleted and made again must have another version")
    for session_id in (_TRIP, _OTHER):
        await store.delete(session_id)


async def _all(events: AsyncIterator[SessionEvent]) -> list[SessionEvent]:
    return [event async for event in events]


async def _raises(error: type[Exception], given: Awaitable[Any]) -> bool:
    return isinstance((await asyncio.gather(given, return_exceptions=True))[0], error)


def _need(is_so: bool, rule: str) -> None:
    if not is_so:
        raise AssertionError(f"{rule}.")
