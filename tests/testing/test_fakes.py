"""The doubles that need no server: shorthand for sessions, a clock, a counter, the store contract."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from context_assembler import InMemoryStore, SessionEvent, Text, ToolCall
from context_assembler.testing import ManualClock, WordCounter, check_session_store, event_log

STOP = ToolCall(call_id="c2", name="stop")
FIND = ToolCall(call_id="c1", name="find", arguments={"q": "a, b"})
LINES: dict[str, tuple[str, list[Any]]] = {
    "S Be brief.": ("system", ["Be brief."]),
    "U": ("user", [""]),
    "U two\nlines": ("user", ["two\nlines"]),
    "A[c1]": ("assistant", [ToolCall(call_id="c1", name="look_up")]),
    'A[c1:find {"q": "a, b"}, c2:stop] Ok.': ("assistant", ["Ok.", FIND, STOP]),
}


@pytest.mark.parametrize(("line", "event"), LINES.items(), ids=LINES.keys())
def test_a_line_is_an_event(line: str, event: tuple[str, list[Any]]) -> None:
    [made] = event_log(line)

    kind, parts = event
    assert made.type == kind
    assert list(made.parts) == [Text(p) if isinstance(p, str) else p for p in parts]


def test_a_result_may_have_failed_and_time_goes_on() -> None:
    good, bad = event_log("T[c1] Fine.", "T[c2!] No.")

    assert [getattr(part, "is_error", None) for part in (*good.parts, *bad.parts)] == [False, True]
    assert good.created_at
    assert bad.created_at == good.created_at + timedelta(minutes=1)


@pytest.mark.parametrize("line", ["", "X hi", "T no call", "A[c1:a b c] hi", "T[c1, c2] two"])
def test_what_is_no_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="write"):
        event_log(line)


def test_a_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(5)

    clock.advance(2.5)

    assert (clock(), clock()) == (7.5, 7.5)


def test_one_word_is_one_token() -> None:
    assert WordCounter().count_text("one word is one token") == 5


class Careless(InMemoryStore):
    """A store with one fault."""

    fault = ""

    async def append(
        self, session_id: str, events: Sequence[SessionEvent], **row: Any
    ) -> list[SessionEvent]:
        if self.fault == "forgets metadata":
            events = [replace(event, metadata={}) for event in events]
        if self.fault == "renames":
            events = [replace(event, id="") for event in events]
        row = {} if self.fault == "never compares" else row
        return await super().append(session_id, events, **row)

    async def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        if self.fault == "loads all":
            after_seq = 0
        async for event in super().load(session_id, after_seq=after_seq):
            yield event


FAULTS = {
    "forgets metadata": "all fields",
    "never compares": "ConcurrentAppendError",
    "renames": "keep the id",
    "loads all": "after_seq",
}


async def test_a_good_store_passes_its_contract_and_is_left_empty() -> None:
    store = InMemoryStore()

    await check_session_store(store)

    assert list(await store.list_sessions()) == []


@pytest.mark.parametrize(("fault", "rule"), FAULTS.items(), ids=FAULTS.keys())
async def test_a_fault_of_a_store_is_named(fault: str, rule: str) -> None:
    store = Careless()
    store.fault = fault

    with pytest.raises(AssertionError, match=rule):
        await check_session_store(store)
