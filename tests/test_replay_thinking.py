"""Sessions with thinking, played step by step on models that bind it to what stood before it.

The local provider signs and checks over its own split of the prompt, not by our fingerprints.
"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.replay import (
    WEATHERS,
    Outcome,
    Turn,
    Weather,
    find_sessions,
    has_thinking,
    pieces_of,
    replay,
    seals_in,
    turns_of,
)
from context_assembler import tool_result_event, user_event
from context_assembler.testing import ScriptedReply
from context_assembler.values.parts import ToolCall

MODELS = ("claude-opus-5-5", "claude-haiku-5-5", "gpt-6.2-sol", "gpt-6.2-astra")
LARGEST_EVENTS = 45  # a recorded session that is played within seconds


@st.composite
def sessions(draw: st.DrawFn) -> list[Turn]:
    """Loops of a few steps: thoughts on most, none to three calls, results of any length."""
    turns: list[Turn] = []
    open_calls: tuple[ToolCall, ...] = ()
    steps: int = draw(st.integers(2, 7))
    for step in range(steps):
        added = [
            tool_result_event(call.call_id, "result\n" * draw(st.integers(1, 400)))
            for call in open_calls
        ]
        speaks: bool = draw(st.booleans())
        if not open_calls or speaks:
            added.append(user_event(f"Question {step}, " + "please " * draw(st.integers(0, 60))))
        open_calls = tuple(
            ToolCall(call_id=f"c{step}.{n}", name=draw(st.sampled_from(["read", "im Netz suchen"])))
            for n in range(draw(st.integers(0, 3)))
        )
        is_silent: bool = draw(st.booleans())
        thought: str | None = draw(st.sampled_from(["", "Hm.", None]))
        reply = ScriptedReply(
            text="" if open_calls and is_silent else f"Answer {step}.",
            thinking=thought,
            tool_calls=open_calls,
        )
        turns.append(Turn(added=tuple(added), reply=reply))
    return turns


weathers = st.builds(
    Weather,
    models=st.lists(st.sampled_from(MODELS), min_size=1, max_size=3),
    shares=st.lists(st.sampled_from([None, None, 0.3, 0.6]), min_size=1, max_size=4),
    tools=st.lists(st.sampled_from(["all", "all", "more", "fewer"]), min_size=1, max_size=4),
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(turns=sessions(), weather=weathers)
async def test_no_thinking_is_refused_or_unused_and_none_is_dropped_within_an_epoch(
    turns: list[Turn], weather: Weather
) -> None:
    outcome = await replay(turns, weather)

    assert outcome.failures == []
    assert outcome.steps == len(turns)


@pytest.mark.parametrize("model", MODELS)
async def test_while_nothing_changes_every_thought_is_sent_again(model: str) -> None:
    turns = [
        Turn(
            added=(user_event(f"Question {step}?"),),
            reply=ScriptedReply(text="Yes.", thinking=f"Thought {step}."),
        )
        for step in range(5)
    ]

    outcome = await replay(turns, Weather(models=[model]))

    assert outcome == Outcome(steps=5, sent=0 + 1 + 2 + 3 + 4, grown=4)


@pytest.mark.recorded
@pytest.mark.parametrize("weather", WEATHERS.values(), ids=WEATHERS.keys())
async def test_recorded_thinking_survives_its_replay(weather: Weather, corpus: Path) -> None:
    recorded = (turns_of(events) for _, events in find_sessions(corpus) if _is_short(events))
    long_enough = (turns for turns in recorded if len(turns) > 4)
    outcome = await replay(next(long_enough), weather)

    assert outcome.failures == []
    assert outcome.sent >= 3


def _is_short(events: Any) -> bool:
    return len(events) <= LARGEST_EVENTS and has_thinking(events)


def test_signed_blocks_and_marks_are_no_pieces_of_what_a_payload_says() -> None:
    thinking = {"type": "thinking", "thinking": "", "signature": "sig"}
    text = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    plain: dict[str, Any] = {"messages": [{"role": "assistant", "content": [text]}]}
    signed: dict[str, Any] = {
        "messages": [{"role": "assistant", "content": [thinking, text | {"citations": []}]}]
    }
    unmarked = {
        "messages": [{"role": "assistant", "content": [thinking, {"type": "text", "text": "x"}]}]
    }

    assert pieces_of(plain) == pieces_of(unmarked) != pieces_of(signed)
    assert seals_in(signed) == ["sig"]
