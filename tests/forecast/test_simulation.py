"""Sessions replayed call by call: what each call would have sent, shared, read and cost."""

from collections.abc import Iterable, Sequence
from datetime import date
from itertools import pairwise
from typing import Any, Final

import pytest

from context_assembler.events import (
    ASSISTANT,
    COMPACTION,
    NOTE,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    JsonObject,
)
from context_assembler.forecast import CutPolicy, Replay, Segment, Simulation, simulate
from context_assembler.models import CacheRule, ModelLimits, Price
from context_assembler.options import TruncationSettings
from tests.truncation.talk import Columns

TODAY: Final = date(2026, 11, 28)
CLAUDE: Final = ModelLimits(
    id="claude",
    provider="anthropic",
    window_tokens=1_000_000,
    cache=CacheRule(mode="explicit", min_tokens=0, ttls=("5m",)),
    prices=(Price(input=4, cache_read=0.4, cache_write=5),),
)


class Lines(Columns):
    """Lines of so many words."""

    def __init__(self, kinds: Sequence[int], sizes: Sequence[int]) -> None:
        self.kinds, self.sizes = kinds, sizes

    def parts(self, line: int) -> list[JsonObject]:
        text: JsonObject = {"type": "text", "text": "w " * self.sizes[line]}
        if self.kinds[line] != TOOL_RESULT:
            return [text]
        return [{"type": "tool_result", "call_id": "c", "content": [text]}]

    def count(self, kind: int, parts: Sequence[JsonObject], line: int = -1) -> int:
        assert line < 0 or kind == self.kinds[line]
        held = (inner for part in parts for inner in part.get("content", [part]))
        return sum(self.count_text(part["text"]) for part in held)

    def count_text(self, text: str) -> int:
        return len(text.split())

    def is_clock(self, line: int) -> bool:
        return line < 0


def segment(lines: Iterable[tuple[int, int]], *, first_seq: int = 1, after_seq: int = 0) -> Segment:
    """Return lines of (kind, tokens), a minute apart."""
    kinds, sizes = zip(*lines, strict=True)
    seqs = range(first_seq, first_seq + len(kinds))
    return Segment(
        kinds=kinds,
        tokens=sizes,
        seqs=list(seqs),
        blocks=[1] * len(kinds),
        created=[1e9 + 60 * seq for seq in seqs],
        lines=Lines(kinds, sizes),
        after_seq=after_seq,
    )


def replayed(*segments: Segment, window: int = 100_000, **policies: Any) -> Simulation:
    replay = Replay(
        segments=segments,
        limits=CLAUDE,
        fixed_tokens=100,
        budget_tokens=window,
        settings=TruncationSettings(stub_tokens=40),
        today=TODAY,
    )
    return simulate(replay, [CutPolicy(**policies)])


TALK: Final = [(USER, 50), (ASSISTANT, 20), (USER, 30), (ASSISTANT, 10)]
RUN: Final = [(USER, 50), *[(ASSISTANT, 20), (TOOL_RESULT, 100)] * 30, (ASSISTANT, 10)]
SIMULATED_TOKENS: Final = 100 + 50 + 30 * 120  # the last call of RUN


def test_each_reply_is_the_answer_to_a_call_that_sent_what_stands_before_it() -> None:
    whole = replayed(segment(TALK)).everything

    assert [(step.seq, step.tokens, step.shared_tokens) for step in whole.steps] == [
        (2, 150, 0),
        (4, 200, 150),
    ]
    splits = [step.forecast.split[:4] for step in whole.steps if step.forecast]
    assert splits == [(0, 150, 0, 0), (150, 50, 0, 0)]
    assert whole.usd == pytest.approx((150 * 5 + 150 * 0.4 + 50 * 5) / 1e6)
    assert (whole.tokens, whole.rewrites) == (350, 0)
    assert whole.read_share == pytest.approx(150 / 350)


REPLIES: dict[str, tuple[list[tuple[int, int]], list[int]]] = {
    "calls after their reply are one answer": (
        [(USER, 5), (ASSISTANT, 5), (TOOL_CALL, 5), (TOOL_RESULT, 5), (TOOL_CALL, 5)],
        [2, 5],
    ),
    "a reply to nothing but notes has no call": ([(NOTE, 5), (ASSISTANT, 5), (USER, 5)], []),
    "every reply has one": ([(USER, 5), (ASSISTANT, 5), (ASSISTANT, 5)], [2, 3]),
}


@pytest.mark.parametrize(("lines", "seqs"), REPLIES.values(), ids=REPLIES)
def test_calls_are_the_replies_that_answer_something(
    lines: list[tuple[int, int]], seqs: list[int]
) -> None:
    assert [step.seq for step in replayed(segment(lines)).everything.steps] == seqs


def test_a_policy_that_fits_costs_what_sending_everything_costs() -> None:
    simulation = replayed(segment(RUN))

    [run] = simulation.runs
    assert run.steps == simulation.everything.steps
    assert (simulation.model, run.usd) == ("claude", simulation.everything.usd)


@pytest.mark.parametrize("strategy", ["smart", "simple", "sliding"])
def test_between_two_cuts_a_call_shares_all_that_the_one_before_sent(strategy: str) -> None:
    [run] = replayed(segment(RUN), strategy=strategy, budget_share=0.4).runs

    steps = run.steps
    assert all(step.tokens <= 0.4 * SIMULATED_TOKENS for step in steps)
    for before, now in pairwise(steps):
        assert bool(now.rewrite) == (now.shared_tokens < before.tokens)
        assert not now.rewrite or now.rewrite.startswith("The history is cut: ")
    assert 0 < run.rewrites < len(steps) / 3


def test_cuts_in_steps_read_more_from_the_cache_than_cuts_at_every_call() -> None:
    runs = [
        replayed(segment(RUN), cache_stable=stable, budget_tokens=2_000).runs[0]
        for stable in (True, False)
    ]

    assert runs[0].read_share > runs[1].read_share


def test_a_call_that_cannot_be_sent_is_passed_over_by_the_next() -> None:
    [run] = replayed(segment([(USER, 900), *TALK[1:]]), window=400, strategy="simple").runs

    assert [bool(step.overflow) for step in run.steps] == [True, False]
    assert "tokens are needed" in run.steps[0].overflow
    assert (run.usd, run.steps[1].shared_tokens) == (None, 0)


def test_nothing_fits_a_budget_below_the_fixed_part() -> None:
    [run] = replayed(segment(TALK), window=50).runs

    assert all(step.overflow for step in run.steps)
    assert (run.usd, run.read_share) == (None, 0.0)


def test_a_compaction_is_a_rewrite_after_which_the_head_is_read() -> None:
    later = [(COMPACTION, 15), (USER, 30), (ASSISTANT, 10), (USER, 5), (ASSISTANT, 1)]

    whole = replayed(segment(TALK), segment(later, first_seq=5, after_seq=4)).everything

    assert [step.seq for step in whole.steps] == [2, 4, 7, 9]
    assert whole.steps[2].rewrite == "A compaction stands for what was sent before."
    assert [step.shared_tokens for step in whole.steps] == [0, 150, 100, 145]
    forecasts = [step.forecast for step in whole.steps if step.forecast]
    assert [forecast.split.read_tokens for forecast in forecasts] == [0, 150, 100, 145]


def test_a_session_without_replies_costs_nothing() -> None:
    simulation = replayed(segment([(USER, 5)]))

    assert (simulation.everything.steps, simulation.everything.usd) == ((), 0)
