"""Session stores that others write: what a check of them finds, and what is said of a wrong one."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_assembler import (
    ConfigurationError,
    ContextAssembler,
    Session,
    SessionEvent,
    user_event,
)
from context_assembler.sessions import SESSION_STORES, InMemoryStore, SessionHead, open_store
from context_assembler.testing import check_session_store


@pytest.mark.parametrize("scheme", SESSION_STORES)
async def test_the_stores_that_travel_along_pass(scheme: str, tmp_path: Path) -> None:
    location = {"memory": "", "sqlite": str(tmp_path / "agent.db")}[scheme]
    store = open_store(f"{scheme}:{location}")

    await check_session_store(store)

    assert await store.list_sessions() == []
    await store.close()


class Forgetful(InMemoryStore):
    async def append(
        self, session_id: str, events: Sequence[SessionEvent], *, expected_seq: int | None = None
    ) -> list[SessionEvent]:
        del expected_seq
        return await super().append(session_id, events)


class Unordered(InMemoryStore):
    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        found = [event async for event in super().load(session_id, after_seq=after_seq)]
        for event in reversed(found):
            yield event


class Deaf(InMemoryStore):
    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        del after_seq
        async for event in super().load(session_id):
            yield event


class Careless(InMemoryStore):
    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        async for event in super().load(session_id, after_seq=after_seq):
            yield replace(event, is_pinned=False)


class Eternal(InMemoryStore):
    async def head(self, session_id: str) -> SessionHead:
        return replace(await super().head(session_id), incarnation="the same")


class Welcoming(InMemoryStore):
    async def delete(self, session_id: str) -> None:
        if any(head.session.id == session_id for head in await self.list_sessions()):
            await super().delete(session_id)


BROKEN: dict[str, tuple[Callable[[], InMemoryStore], str]] = {
    "expected_seq is not looked at": (
        Forgetful,
        r"of several append\(expected_seq=4\) one must win",
    ),
    "newest first": (Unordered, "load.. must yield the session's events as append"),
    "after_seq is not looked at": (Deaf, r"load\(after_seq=2\) must begin with event 3"),
    "a field is lost": (Careless, "load.. must yield the session's events as append"),
    "one incarnation for all": (Eternal, "must have another incarnation"),
    "unknown sessions are deleted": (Welcoming, "delete.. of a session that is not there"),
}


@pytest.mark.parametrize(("make", "rule"), BROKEN.values(), ids=BROKEN.keys())
async def test_a_store_that_breaks_a_rule_is_told_which(
    make: Callable[[], InMemoryStore], rule: str
) -> None:
    with pytest.raises(AssertionError, match=rule):
        await check_session_store(make())


class Telling(InMemoryStore):
    """A store whose `head` returns something else."""

    def __init__(self, told: Any) -> None:
        super().__init__()
        self.told = told

    async def head(self, session_id: str) -> Any:
        del session_id
        return self.told


class Answering(InMemoryStore):
    """A store whose methods answer in another way."""

    def __init__(self, told: Any) -> None:
        super().__init__()
        self.told = told

    async def append(
        self, session_id: str, events: Sequence[SessionEvent], *, expected_seq: int | None = None
    ) -> Any:
        stored = await super().append(session_id, events, expected_seq=expected_seq)
        return self.told if self.told != "load" else stored

    def load(self, session_id: str, *, after_seq: int = 0) -> Any:
        if self.told != "load":
            return super().load(session_id, after_seq=after_seq)
        return self._all(session_id, after_seq)

    async def _all(self, session_id: str, after_seq: int) -> list[SessionEvent]:
        return [event async for event in super().load(session_id, after_seq=after_seq)]


APPENDED: dict[str, tuple[Any, str]] = {
    "nothing": (None, "returned NoneType"),
    "a number": (1, "returned int"),
    "too few": ([], "returned 0 values"),
    "events without ids": ([user_event("hi")], "1 values, 0 of them events with an id"),
    "ids": (["evt_1"], "1 values, 0 of them events"),
}


@pytest.mark.parametrize(("told", "problem"), APPENDED.values(), ids=APPENDED.keys())
async def test_a_store_that_returns_no_events_hears_what_to_return(told: Any, problem: str) -> None:
    assembler = ContextAssembler(Answering(told))

    with pytest.raises(ConfigurationError, match=rf"append\(\).*{problem}.*Return a list"):
        await assembler.add_user("trip", "Plan a trip.")


async def test_a_load_that_returns_a_list_hears_to_yield() -> None:
    assembler = ContextAssembler(Answering("load"))
    await assembler.add_user("trip", "Plan a trip.")

    with pytest.raises(ConfigurationError, match=r"load\(\).*returned coroutine.*generator"):
        await assembler.assemble("trip", model="gpt-4.1")


class Yielding(InMemoryStore):
    """A store whose `load` makes something else of the events."""

    def __init__(self, change: Callable[[list[Any]], list[Any]]) -> None:
        super().__init__()
        self.change = change

    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        found = [event async for event in super().load(session_id, after_seq=after_seq)]
        for event in self.change(found):
            yield event


LOADED: dict[str, tuple[Callable[[list[Any]], list[Any]], str]] = {
    "something else": (lambda events: [*events[:1], {"seq": 2}], "dict among the events"),
    "an event twice": (lambda events: [*events[:2], *events[1:]], "event 2 behind 2"),
    "the newest first": (lambda events: events[::-1], "event 3 behind 4"),
    "too few": (lambda events: events[:3], r"nothing behind event 3, where head\(\) tells of 4"),
    "nothing": (lambda _: [], "nothing behind event 0"),
}


@pytest.mark.parametrize(("change", "problem"), LOADED.values(), ids=LOADED.keys())
async def test_a_load_that_yields_another_history_is_not_sent(
    change: Callable[[list[Any]], list[Any]], problem: str
) -> None:
    assembler = ContextAssembler(Yielding(change))
    for number in range(4):
        await assembler.add_user("trip", f"Plan trip {number}.")

    with pytest.raises(ConfigurationError, match=rf"load\(\).*Yielding returned {problem}"):
        await assembler.assemble("trip", model="gpt-4.1")


NO_HEADS: dict[str, tuple[Any, str]] = {
    "nothing": (None, "returned NoneType"),
    "a number": (3, "returned int"),
    "a dict": ({"last_seq": 3}, "returned dict"),
    "a session": (Session(id="trip"), "returned Session"),
    "a head of no session": (SessionHead(session=None, last_seq=1), r"session=None"),  # type: ignore[arg-type]
    "a head without number": (
        SessionHead(session=Session(id="trip"), last_seq="1"),  # type: ignore[arg-type]
        "last_seq='1'",
    ),
}


@pytest.mark.parametrize(("told", "problem"), NO_HEADS.values(), ids=NO_HEADS.keys())
async def test_a_store_without_heads_hears_what_to_return(told: Any, problem: str) -> None:
    assembler = ContextAssembler(Telling(told))
    await assembler.add_user("trip", "Plan a trip.")

    with pytest.raises(ConfigurationError, match=rf"{problem}.*Return SessionHead\(session="):
        await assembler.assemble("trip", model="gpt-4.1")
