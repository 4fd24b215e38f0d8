"""A history is masked alike at every step, and no step masks what the one before it sent whole."""

from collections.abc import Hashable
from dataclasses import replace
from operator import is_
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from context_assembler.history import HistoryWay, shape_history
from context_assembler.limits import get_model_limits
from context_assembler.stages.mask_secrets import SecretMasker
from context_assembler.values.events import (
    AssistantBody,
    EventBody,
    SessionEvent,
    SystemBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.options import MaskedPlace
from context_assembler.values.parts import Part, Text, ToolCall, ToolResult
from context_assembler.values.readers import Reader
from tests.values.test_secrets_across import BEGIN, END, LINE, TOKEN

READER = Reader(provider="anthropic", limits=get_model_limits("claude-opus-5-5"))
PLACES: dict[str, list[MaskedPlace]] = {
    "users": ["user"],
    "tools": ["tool_results"],
    "both": ["user", "tool_results"],
}
WAYS = {
    name: HistoryWay(reader=READER, masker=SecretMasker(places)) for name, places in PLACES.items()
}

pieces = st.sampled_from([BEGIN, LINE, END, TOKEN, TOKEN[:9], TOKEN[9:], "ok", "\0", " ", "- "])
texts = st.lists(pieces, max_size=3).map("\n".join)
contents = st.lists(texts.map(Text), min_size=1, max_size=3).map(tuple)


@st.composite
def logs(draw: DrawFn) -> list[SessionEvent]:
    """Sessions whose users and tools tell secrets, whole and in pieces."""
    bodies: list[EventBody] = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from("uuuatts"), max_size=14))):
        told: tuple[Part, ...] = draw(contents)
        match kind:
            case "u":
                bodies.append(UserBody(parts=told))
            case "a":
                bodies.append(AssistantBody(parts=(Text("Yes."),)))
            case "s":
                bodies.append(SystemBody(parts=(Text("Noon."),), note="clock"))
            case _:
                calls = [f"call_{number}_{at}" for at in range(draw(st.integers(1, 3)))]
                parts = tuple(ToolCall(call_id=call, name="look") for call in calls)
                bodies.append(AssistantBody(parts=parts))
                bodies += (
                    ToolResultBody(result=ToolResult(call_id=call, content=draw(contents)))
                    for call in calls
                )
    return [SessionEvent(body=body, id=f"evt_{seq}", seq=seq) for seq, body in enumerate(bodies, 1)]


every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


@every_way
@settings(deadline=None)
@given(log=logs(), step=st.integers(1, 4), max_open=st.integers(0, 8))
def test_step_by_step_is_masked_as_from_the_beginning(
    way: HistoryWay, log: list[SessionEvent], step: int, max_open: int
) -> None:
    derived: dict[Hashable, Any] = {}
    for end in range(1, len(log) + 1, step):
        history = shape_history(log[:end], way, derived=derived, max_open_events=max_open)

        anew = shape_history(log[:end], way)
        assert history.messages == anew.messages
        assert history.entries == anew.entries


@every_way
@settings(deadline=None)
@given(log=logs())
def test_what_a_user_wrote_is_masked_whatever_follows(
    way: HistoryWay, log: list[SessionEvent]
) -> None:
    whole = {message.seq: message for message in shape_history(log, way).messages}

    for end in range(1, len(log)):
        for message in shape_history(log[:end], way).messages:
            if message.role == "user" and message.seq:
                assert message == whole[message.seq]


def test_a_key_that_a_user_goes_on_with_is_masked_behind_what_is_settled() -> None:
    way, derived = WAYS["users"], dict[Hashable, Any]()
    told = [*(f"word {number}" for number in range(20)), BEGIN, LINE, LINE, END]
    log = [
        SessionEvent(body=UserBody(parts=(Text(text),)), id=f"evt_{seq}", seq=seq)
        for seq, text in enumerate(told, 1)
    ]
    steps = [shape_history(log[:end], way, derived=derived) for end in range(1, len(log))]

    history = shape_history(log, way, derived=derived)

    assert not any(LINE in message.text for message in history.messages)
    assert [row.id for row in history.entries] == [event.id for event in log[20:]]
    assert [step.settled_count for step in steps] == list(range(1, len(log)))
    assert all(map(is_, steps[-1].messages, history.messages))


def test_a_secret_that_cleaning_brings_about_is_masked() -> None:
    hidden = UserBody(parts=(Text(f"{TOKEN[:9]}\0{TOKEN[9:]}"), Text("\ud83d\ude00")))
    log = [replace(SessionEvent(body=hidden), id="evt_1", seq=1)]

    [message] = shape_history(log, WAYS["users"]).messages

    assert message.text == "[masked: GitHub Token]\n😀"
