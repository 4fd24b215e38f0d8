"""What was worked out at earlier steps never changes what a step returns."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from context_assembler.history import History, HistoryWay, settled, shape_history
from context_assembler.history.steps import Worked, work_out
from context_assembler.limits import get_model_limits
from context_assembler.stages.mask_secrets import SecretMasker
from context_assembler.stages.settle_tools import UNSETTLED
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    EventBody,
    SessionEvent,
    SystemBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.parts import Text, ToolCall, ToolResult
from context_assembler.values.readers import Reader
from context_assembler.values.standing import shift_covers
from context_assembler.values.tool_changes import TOOLS_NOTE
from tests.event_strategies import any_texts
from tests.strategies import broken_event_logs, event_logs

READERS = {
    "a model that refuses prefill": Reader(
        provider="anthropic", limits=get_model_limits("claude-opus-4-8")
    ),
    "a model that takes it": Reader(
        provider="anthropic", limits=get_model_limits("claude-sonnet-4-5")
    ),
}


MASKER = SecretMasker()


def way_for(reader: Reader, *, until: int = 0) -> HistoryWay:
    tools = replace(UNSETTLED, plan=replace(UNSETTLED.plan, after_seq=until))
    return HistoryWay(reader=reader, masker=MASKER, tools=tools)


WAY = way_for(READERS["a model that takes it"])


def said(body: EventBody, seq: int, *, answers_seq: int = 0) -> SessionEvent:
    return SessionEvent(body=body, id=f"evt_{seq}", seq=seq, answers_seq=answers_seq)


def exchange(call_id: str) -> list[EventBody]:
    call = ToolCall(call_id=call_id, name="look", arguments={})
    result = ToolResult(call_id=call_id, content=(Text("seen"),))
    return [AssistantBody(parts=(call,)), ToolResultBody(result=result)]


def numbered(bodies: Sequence[EventBody]) -> list[SessionEvent]:
    return [said(body, seq) for seq, body in enumerate(bodies, start=1)]


def exchanges(count: int) -> list[EventBody]:
    """A user's turn with so many calls, one after the other."""
    asked: list[EventBody] = [UserBody(parts=(Text("go"),))]
    return [*asked, *(body for i in range(count) for body in exchange(f"call_{i}"))]


def assert_same(one: History, other: History) -> None:
    assert one.messages == other.messages
    assert one.leading_system == other.leading_system
    assert one.entries == other.entries


small_ids = st.sampled_from(["a", "b", "c", "a\0"])
simple_pieces = st.one_of(
    small_ids.map(exchange),
    small_ids.map(lambda call_id: exchange(call_id)[:1]),
    small_ids.map(lambda call_id: exchange(call_id)[1:]),
    any_texts.map(lambda text: [UserBody(parts=(Text(text),))]),
    any_texts.map(lambda text: [AssistantBody(parts=(Text(text),))]),
    any_texts.map(lambda text: [SystemBody(parts=(Text(text),), note="clock")]),
    st.just([SystemBody(parts=(Text("tools"),), note=TOOLS_NOTE)]),
).map(numbered)


@st.composite
def long_logs(draw: DrawFn) -> list[SessionEvent]:
    """Logs of many pieces, sound and broken ones, with replies to earlier moments among them."""
    pieces = st.one_of(simple_pieces, simple_pieces, simple_pieces, event_logs, broken_event_logs)
    log: list[SessionEvent] = []
    for piece in draw(st.lists(pieces, max_size=14)):
        for event in shift_covers(piece, by=len(log)):
            seq = len(log) + 1
            back = draw(st.sampled_from([0, 0, 0, 0, 0, 0, 1, 1, 2, 3]))
            answers_seq = max(0, seq - back) if back else 0
            log.append(replace(event, id=f"evt_{seq}", seq=seq, answers_seq=answers_seq))
    return log


steps = st.lists(st.integers(1, 6), min_size=1, max_size=6)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(log=long_logs(), steps=steps, max_open=st.integers(1, 14))
def test_step_by_step_is_the_same_as_from_the_beginning(
    reader: Reader, log: list[SessionEvent], steps: list[int], max_open: int
) -> None:
    derived, end, number = dict[Hashable, Any](), 0, 0
    while end < len(log):
        end, number = end + steps[number % len(steps)], number + 1
        events, way = log[:end], way_for(reader, until=end // max_open)

        history = shape_history(events, way, derived=derived, max_open_events=max_open)

        assert_same(history, shape_history(events, way))


def look_again(call_id: str) -> EventBody:
    return AssistantBody(parts=(ToolCall(call_id=call_id, name="look", arguments={}),))


ASKED = UserBody(parts=(Text("and now?"),))
SEEN = ToolResultBody(result=ToolResult(call_id="again", content=(Text("a wall"),)))
CROWDED: list[tuple[EventBody, int]] = [  # each with the moment that it answers
    *[(ASKED, 0)] * 8,
    (look_again("once"), 8),
    (ASKED, 0),
    (AssistantBody(parts=(Text("I looked."),)), 5),
    (ASKED, 0),
    (look_again("again"), 12),
    (SEEN, 0),
    (look_again("again"), 14),
    (ASKED, 0),
    (look_again("again"), 16),
    (ASKED, 0),
    (look_again("other"), 17),
    (SEEN, 0),
    (SEEN, 0),
]


@pytest.mark.parametrize("first", range(8, 19))
def test_an_id_that_comes_again_is_known_wherever_a_late_reply_reaches_back_to(first: int) -> None:
    log = [said(body, seq, answers_seq=at) for seq, (body, at) in enumerate(CROWDED, start=1)]
    for between in combinations(range(first + 1, len(log)), 2):
        derived = dict[Hashable, Any]()
        for end in (first, *between, len(log)):
            history = shape_history(log[:end], WAY, derived=derived)

            assert_same(history, shape_history(log[:end], WAY))


LATE_CALL = ToolCall(call_id="late", name="look", arguments={})
WAITING: list[EventBody] = [
    AssistantBody(parts=(LATE_CALL,)),
    UserBody(parts=(Text("and meanwhile?"),)),
]
LATE_EVENTS: dict[str, tuple[list[EventBody], SessionEvent]] = {
    "a compaction covers what is settled": (
        exchanges(9),
        said(CompactionBody(summary="They looked.", first_seq=1, last_seq=6), 20),
    ),
    "a reply answers an earlier moment": (
        exchanges(9),
        said(AssistantBody(parts=(Text("late"),)), 20, answers_seq=3),
    ),
    "a result comes for a call that was given up": (
        [*WAITING, *exchanges(9)],
        said(ToolResultBody(result=ToolResult(call_id="late", content=(Text("x"),))), 22),
    ),
    "a call is answered twice": (
        exchanges(9),
        said(ToolResultBody(result=ToolResult(call_id="call_0", content=(Text("x"),))), 20),
    ),
    "an id that was left open is used again": (
        [*WAITING, *exchanges(9)],
        said(AssistantBody(parts=(LATE_CALL,)), 22),
    ),
}


@pytest.mark.parametrize(("bodies", "late"), LATE_EVENTS.values(), ids=LATE_EVENTS.keys())
def test_what_reaches_back_is_noticed(bodies: list[EventBody], late: SessionEvent) -> None:
    derived: dict[Hashable, Any] = {}
    log = numbered(bodies)
    before = shape_history(log, WAY, derived=derived, max_open_events=6)

    after = shape_history([*log, late], WAY, derived=derived, max_open_events=6)

    assert before.settled_count > 0
    assert_same(after, shape_history([*log, late], WAY))


def test_an_id_that_was_answered_can_be_used_again() -> None:
    derived: dict[Hashable, Any] = {}
    log = numbered([*exchanges(9), *exchange("call_0")])
    before = shape_history(log[:19], WAY, derived=derived, max_open_events=6)

    after = shape_history(log, WAY, derived=derived, max_open_events=6)

    assert_same(after, shape_history(log, WAY))
    assert after.settled_count == before.settled_count > 0


def test_messages_stay_the_same_objects_from_step_to_step() -> None:
    derived: dict[Hashable, Any] = {}
    log = numbered(exchanges(40))
    before = shape_history(log[:41], WAY, derived=derived, max_open_events=6)

    after = shape_history(log, WAY, derived=derived, max_open_events=6)

    assert before.messages
    assert all(one is other for one, other in zip(before.messages, after.messages, strict=False))


def test_a_late_reply_leaves_the_objects_of_other_messages_alone() -> None:
    derived: dict[Hashable, Any] = {}
    log = numbered(exchanges(20))
    before = shape_history(log, WAY, derived=derived, max_open_events=6)
    late = said(AssistantBody(parts=(Text("late"),)), 42, answers_seq=3)

    after = shape_history([*log, late], WAY, derived=derived, max_open_events=6)

    known = set(map(id, before.messages))
    assert [message.seq for message in after.messages if id(message) not in known] == [42]


def test_other_events_under_the_same_numbers_are_worked_out_anew() -> None:
    derived: dict[Hashable, Any] = {}
    shape_history(numbered(exchanges(20)), WAY, derived=derived, max_open_events=6)
    others = numbered([UserBody(parts=(Text("stop"),)), *exchanges(20)])

    history = shape_history(others, WAY, derived=derived, max_open_events=6)

    assert_same(history, shape_history(others, WAY))


def test_every_reader_has_what_was_made_for_it() -> None:
    derived: dict[Hashable, Any] = {}
    log = numbered([*exchanges(20), AssistantBody(parts=(Text("done"),))])
    ways = [way_for(reader) for reader in READERS.values()]

    made = [shape_history(log, way, derived=derived, max_open_events=6) for way in (*ways, *ways)]

    for history, way in zip(made, (*ways, *ways), strict=True):
        assert_same(history, shape_history(log, way))
    assert made[0].messages != made[1].messages


def test_notes_of_tool_changes_that_are_declared_by_now_are_left_out() -> None:
    derived: dict[Hashable, Any] = {}
    note: EventBody = SystemBody(parts=(Text("a tool was added"),), note=TOOLS_NOTE)
    log = numbered([*exchanges(4), note, *exchanges(20)])
    histories = [
        shape_history(log, way_for(WAY.reader, until=until), derived=derived, max_open_events=6)
        for until in (0, 3, 12, 50)
    ]

    for history, until in zip(histories, (0, 3, 12, 50), strict=True):
        assert_same(history, shape_history(log, way_for(WAY.reader, until=until)))
    assert [len(history.entries) for history in histories] == [0, 0, 1, 1]
    assert histories[0].messages[0] is histories[1].messages[0]
    assert len(derived["history"]) == 2


def test_what_is_kept_for_many_readers_is_bounded() -> None:
    derived: dict[Hashable, Any] = {}
    log = numbered(exchanges(5))

    for number in range(50):
        shape_history(log, way_for(replace(WAY.reader, account=str(number))), derived=derived)

    assert [len(kept) for kept in derived.values()] == [4]


def test_events_that_no_store_has_numbered_are_never_settled() -> None:
    derived: dict[Hashable, Any] = {}
    log = [replace(event, seq=0) for event in numbered(exchanges(20))]

    history = shape_history(log, WAY, derived=derived, max_open_events=6)

    assert_same(history, shape_history(log, WAY))
    assert history.settled_count == 0


def test_a_late_reply_goes_back_a_little_and_not_to_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worked_out: list[int] = []

    def watched(events: Sequence[SessionEvent], *args: Any, **kwargs: Any) -> Worked:
        worked_out.append(len(events))
        return work_out(events, *args, **kwargs)

    monkeypatch.setattr(settled, "work_out", watched)
    log, derived = numbered(exchanges(40)), dict[Hashable, Any]()
    for end in range(1, len(log) + 1, 2):
        shape_history(log[:end], WAY, derived=derived)
    assert max(worked_out) == 2
    late = said(AssistantBody(parts=(Text("late"),)), len(log) + 1, answers_seq=len(log) - 4)
    asked = said(UserBody(parts=(Text("and?"),)), len(log) + 2)

    history = shape_history([*log, late, asked], WAY, derived=derived)

    assert max(worked_out) < 40
    assert_same(history, shape_history([*log, late, asked], WAY))
