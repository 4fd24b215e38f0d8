"""What reported usage teaches, within bounds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.limits import ModelRegistry
from context_assembler.values.calibration import (
    LEAST_OBSERVATIONS,
    MOST_FACTOR,
    Calibration,
    UsageObservation,
    counter_id,
    factor_for,
    learn,
    shape_of,
    why_incomparable,
)
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.events import Usage
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Image,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolResult,
    UrlSource,
)
from context_assembler.values.tools import ToolSpec

LIMITS = ModelRegistry(overrides=[]).get("claude-opus-5-5")
IMAGE = Image(source=UrlSource(url="https://example.org/a.png"))
USED = Usage(input_tokens=1_000)


def seen(
    ratio: float = 1.2, *, counted: int = 1_000, counter: str = "~claude 2"
) -> UsageObservation:
    return UsageObservation(
        provider="anthropic",
        model=LIMITS.id,
        shape="text",
        counter=counter,
        counted_tokens=counted,
        reported_tokens=round(ratio * counted),
    )


def after(*ratios: float) -> Calibration:
    known: Calibration | None = None
    for ratio in ratios:
        known = learn(known, seen(ratio))
    assert known is not None
    return known


def draft(*parts: Part, tools: tuple[ToolSpec, ...] = ()) -> Draft:
    return Draft(
        limits=LIMITS,
        parameters=Parameters(max_tokens=100),
        messages=(Message(role="user", parts=parts),),
        tools=tools,
    )


def test_nothing_is_corrected_before_there_are_enough_observations() -> None:
    assert after(*[1.3] * (LEAST_OBSERVATIONS - 1)).factor == 1.0
    assert 1.0 < after(*[1.3] * LEAST_OBSERVATIONS).factor < 1.3


def test_the_factor_comes_near_what_is_charged() -> None:
    assert after(*[1.3] * 30).factor == pytest.approx(1.3, abs=0.01)


def test_one_outlier_hardly_moves_the_factor() -> None:
    steady = after(*[1.1] * 20)

    assert learn(steady, seen(2.5)).factor == pytest.approx(steady.factor, abs=0.005)


def test_what_is_out_of_all_proportion_is_not_believed() -> None:
    steady = after(*[1.1] * 20)

    assert learn(steady, seen(40.0)) == replace(steady, refused=1)
    assert learn(steady, seen(0.01)).factor == steady.factor


def test_what_another_counter_taught_is_forgotten() -> None:
    renewed = learn(after(*[1.3] * 20), seen(1.0, counter="~claude 3"))

    assert (renewed.factor, renewed.observations) == (1.0, 1)


@given(ratios=st.lists(st.floats(0.001, 1_000), min_size=1, max_size=40))
def test_the_factor_stays_within_its_bounds_and_between_what_was_seen(ratios: list[float]) -> None:
    known = after(*ratios)

    assert 1 / MOST_FACTOR <= known.factor <= MOST_FACTOR
    assert min(1.0, *ratios) - 0.01 <= known.factor <= max(1.0, *ratios) + 0.01
    assert known.observations + known.refused == len(ratios)


INCOMPARABLE: dict[str, tuple[Draft, Usage | None, str | None, str]] = {
    "no usage": (draft(Text("a")), None, "end_turn", "no usage"),
    "usage without figures": (draft(Text("a")), Usage(), "end_turn", "no usage"),
    "a cut stream": (draft(Text("a")), USED, None, "cut off"),
    "an image": (draft(IMAGE), USED, "end_turn", "images"),
    "an image from a tool": (
        draft(ToolResult(call_id="c", content=(IMAGE,))),
        USED,
        "end_turn",
        "images",
    ),
    "a block of the provider's own": (
        draft(Opaque(provider="anthropic", block={})),
        USED,
        "end_turn",
        "own",
    ),
    "sealed reasoning": (
        draft(Thinking(provider="anthropic", block={"signature": "x"})),
        USED,
        "end_turn",
        "sealed",
    ),
    "a tool of the provider's own": (
        draft(Text("a"), tools=(ToolSpec(name="web", native_specs={"anthropic": {}}),)),
        USED,
        "end_turn",
        "nobody sees",
    ),
}


@pytest.mark.parametrize(
    ("sent", "usage", "stop_reason", "why"), INCOMPARABLE.values(), ids=INCOMPARABLE.keys()
)
def test_a_call_that_teaches_nothing_says_why(
    sent: Draft, usage: Usage | None, stop_reason: str | None, why: str
) -> None:
    assert why in (why_incomparable(sent, usage, stop_reason=stop_reason) or "")


def test_a_call_of_text_alone_teaches() -> None:
    assert why_incomparable(draft(Text("a")), USED, stop_reason="end_turn") is None


def test_requests_with_tools_are_of_another_shape() -> None:
    assert shape_of(draft(Text("a"))) == "text"
    assert shape_of(draft(Text("a"), tools=(ToolSpec(name="look"),))) == "tools"


def test_a_factor_holds_for_its_own_counter_and_shape_alone() -> None:
    known = after(*[1.3] * 20)

    def factor(counter: str = known.counter, model: str = LIMITS.id) -> float:
        return factor_for(
            [replace(known, model="other"), known],
            provider="anthropic",
            model=model,
            shape="text",
            counter=counter,
        )

    assert factor() == known.factor
    assert factor(counter=counter_id("another")) == factor(model="unknown") == 1.0
