"""When compaction is advised, and when it would not help."""

from dataclasses import replace
from datetime import date

import pytest

from context_assembler.stages.detect_compaction import (
    CompactionDetector,
    HistoryFacts,
    read_history,
)
from context_assembler.values.ledger import Ledger, LedgerRow
from context_assembler.values.limits import ModelLimits, Price
from context_assembler.values.messages import Message
from context_assembler.values.options import CompactionSettings
from context_assembler.values.parts import Text
from tests.truncation.conversations import (
    WordCounter,
    assistant,
    calling,
    numbered,
    summary,
    total,
    user,
    words,
)

COUNTER = WordCounter()
PLENTY = HistoryFacts(messages=10, tool_calls=5, compactable_tokens=50_000)


def ledger(
    *, history: int = 0, system: int = 1000, tools: int = 0, budget: int = 100_000
) -> Ledger:
    return Ledger(
        window_tokens=budget + 4096,
        reserve_tokens=4096,
        budget_tokens=budget,
        rows=(
            LedgerRow(kind="system", name="agent", tokens=system),
            LedgerRow(kind="tools", name="search", tokens=tools),
            LedgerRow(kind="history", name="history", tokens=history),
        ),
    )


REASONS = {
    "little is used": (ledger(history=40_000), PLENTY, None),
    "at the threshold nothing is needed": (ledger(history=79_000), PLENTY, None),
    "over the threshold": (ledger(history=79_001), PLENTY, "token_limit"),
    "a hundred messages are allowed": (
        ledger(history=900),
        HistoryFacts(messages=100, compactable_tokens=800),
        None,
    ),
    "more than a hundred are many": (
        ledger(history=900),
        HistoryFacts(messages=101, compactable_tokens=800),
        "message_count",
    ),
    "more than fifty calls are many": (
        ledger(history=900),
        HistoryFacts(tool_calls=51, compactable_tokens=800),
        "tool_count",
    ),
    "tokens come before counts": (
        ledger(history=90_000),
        HistoryFacts(messages=500, tool_calls=500, compactable_tokens=9999),
        "token_limit",
    ),
    "too little came in since the last time": (
        ledger(history=90_000),
        HistoryFacts(compactable_tokens=80_000, grown_tokens=1999),
        None,
    ),
    "enough came in since the last time": (
        ledger(history=90_000),
        HistoryFacts(compactable_tokens=80_000, grown_tokens=2000),
        "token_limit",
    ),
    "too little could be freed": (
        ledger(history=90_000),
        HistoryFacts(compactable_tokens=900),
        None,
    ),
}


@pytest.mark.parametrize(("window", "facts", "reason"), REASONS.values(), ids=REASONS.keys())
def test_it_is_needed_for_a_reason(window: Ledger, facts: HistoryFacts, reason: str | None) -> None:
    check = CompactionDetector().check(window, history=facts)

    assert (check.needed, check.reason) == (reason is not None, reason)
    assert check.feasible
    assert check.current_tokens == window.used_tokens
    assert check.threshold == 80_000


STEPPED = ModelLimits(
    id="claude-haiku-5-5",
    provider="anthropic",
    window_tokens=1_000_000,
    prices=(
        Price(input=0.1),
        Price(input=0.5, above_input_tokens=100_000),
        Price(input=0.5, above_input_tokens=100_000, from_date=date(2027, 1, 1)),
    ),
)
EXPLAINED = {
    "token_limit": (
        ledger(history=90_000),
        PLENTY,
        "91,000 tokens, more than 80,000 ([compaction] trigger_share = 0.8)",
    ),
    "price_step": (
        ledger(history=120_000, budget=900_000),
        PLENTY,
        "121,000 tokens, more than 100,000, above which the model's price is higher",
    ),
    "message_count": (
        ledger(history=9_000),
        replace(PLENTY, messages=1_234),
        "1,234 messages, more than 100 ([compaction] max_messages)",
    ),
    "tool_count": (
        ledger(history=9_000),
        replace(PLENTY, tool_calls=109),
        "109 tool calls, more than 50 ([compaction] max_tool_calls)",
    ),
}


@pytest.mark.parametrize("reason", EXPLAINED)
def test_a_reason_is_told_with_its_figures_and_its_setting(reason: str) -> None:
    window, facts, why = EXPLAINED[reason]
    limits = STEPPED if reason == "price_step" else None

    check = CompactionDetector().check(window, history=facts, limits=limits)

    assert check.reason == reason
    assert why in check.details["why"]


def test_only_what_is_needed_has_a_why() -> None:
    detector = CompactionDetector()

    asked = detector.check(ledger(history=5_000), history=PLENTY, is_explicit=True)
    declined = detector.check(ledger(history=90_000), history=HistoryFacts())

    assert asked.details["why"] == "it was asked for"
    assert "why" not in declined.details


def test_a_reason_that_is_not_followed_is_explained() -> None:
    grown = HistoryFacts(compactable_tokens=80_000, grown_tokens=12)

    check = CompactionDetector().check(ledger(history=90_000), history=grown)

    assert "Only 12 tokens came in" in check.details["declined"]


def test_no_word_of_declining_where_nothing_was_due() -> None:
    check = CompactionDetector().check(ledger(), history=HistoryFacts())

    assert "declined" not in check.details


def test_a_fixed_part_over_the_threshold_is_infeasible_however_often_it_is_asked() -> None:
    window = ledger(system=9000, tools=20_400, budget=32_768 - 4096)
    detector = CompactionDetector(CompactionSettings(trigger_share=0.85))

    checks = [detector.check(window, history=HistoryFacts()) for _ in range(3)]

    assert checks[0] == checks[1] == checks[2]
    assert (checks[0].needed, checks[0].reason, checks[0].feasible) == (False, None, False)
    assert checks[0].floor_tokens == 29_400
    assert [(c["name"], c["tokens"]) for c in checks[0].details["culprits"]] == [
        ("search", 20_400),
        ("agent", 9000),
    ]
    assert "9,000" in checks[0].details["declined"]


def test_a_window_that_is_all_reserve_is_infeasible() -> None:
    assert not CompactionDetector().check(ledger(budget=-5), history=PLENTY).feasible


def test_the_caller_may_ask_as_long_as_there_is_something_to_summarise() -> None:
    detector = CompactionDetector()

    asked = detector.check(ledger(history=500), history=PLENTY, is_explicit=True)
    idle = detector.check(ledger(), history=HistoryFacts(), is_explicit=True)

    assert (asked.needed, asked.reason) == (True, "explicit")
    assert (idle.needed, idle.reason) == (False, None)
    assert "nothing to summarise" in idle.details["declined"]


def test_a_price_step_is_a_threshold() -> None:
    window = ledger(history=99_001, budget=900_000)

    check = CompactionDetector().check(window, history=PLENTY, limits=STEPPED)

    assert (check.reason, check.threshold) == ("price_step", 100_000)


def test_a_price_step_can_be_ignored() -> None:
    detector = CompactionDetector(CompactionSettings(uses_price_steps=False))

    check = detector.check(ledger(history=200_000, budget=900_000), history=PLENTY, limits=STEPPED)

    assert (check.needed, check.threshold) == (False, 720_000)


def test_a_price_step_under_the_fixed_part_is_no_threshold() -> None:
    window = ledger(system=150_000, history=9000, budget=900_000)

    check = CompactionDetector().check(window, history=PLENTY, limits=STEPPED)

    assert (check.feasible, check.threshold) == (True, 720_000)


def test_a_price_step_over_the_window_share_does_not_matter() -> None:
    check = CompactionDetector().check(ledger(history=90_000), history=PLENTY, limits=STEPPED)

    assert (check.reason, check.threshold) == ("token_limit", 80_000)


def test_facts_count_what_is_in_the_history() -> None:
    note = Message(role="system", parts=(Text("noon"),), kind="note", note="clock")
    talk = numbered(
        [user(words(9)), note, *calling(("a", "1"), ("b", "2")), assistant("ok"), user("next")]
    )

    facts = read_history(talk, counter=COUNTER)

    assert (facts.messages, facts.tool_calls, facts.grown_tokens) == (5, 2, None)
    assert facts.compactable_tokens == total(talk[:-1], COUNTER)


def test_facts_since_a_summary_leave_out_what_it_kept() -> None:
    pinned = user(words(30), is_pinned=True)
    talk = numbered([summary(words(40)), pinned, user(words(50)), assistant(words(20))])
    kept = [talk[0], *talk[1:]]
    before = Message(role="user", parts=(Text(words(10)),), id="kept", seq=0)

    facts = read_history([*kept, before], counter=COUNTER)

    assert facts.compactable_tokens == 52 + 22
    assert facts.grown_tokens == 32 + 52 + 22 + 12


def test_messages_older_than_the_summary_are_no_growth() -> None:
    talk = numbered([user("kept tail"), assistant(words(9)), summary(words(5)), user("new")])
    sent = [talk[2], talk[0], talk[1], talk[3]]

    facts = read_history(sent, counter=COUNTER)

    assert facts.grown_tokens == COUNTER.count_message(talk[3])


def test_what_was_charged_decides_where_it_is_known() -> None:
    counted = ledger(history=90_000)
    charged = replace(counted, anchored_tokens=70_000)

    checks = [CompactionDetector().check(window, history=PLENTY) for window in (counted, charged)]

    assert [check.needed for check in checks] == [True, False]
    assert checks[1].current_tokens == checks[1].details["anchored_tokens"] == 70_000
    assert checks[1].details["counted_tokens"] == counted.used_tokens
