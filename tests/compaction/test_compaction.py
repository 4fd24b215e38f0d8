"""When a session should be compacted, and what a summary may cover."""

from collections import Counter
from datetime import date
from random import Random

import pytest

from context_assembler.compaction import (
    CompactionCheck,
    CompactionDetector,
    HistoryFacts,
    history_facts,
    plan_range,
)
from context_assembler.context import Ledger, LedgerRow
from context_assembler.events import (
    ASSISTANT,
    COMPACTION,
    HAS_CALLS,
    NOTE,
    PINNED,
    TOOL_RESULT,
    USER,
)
from context_assembler.models import ModelLimits, Price
from context_assembler.options import CompactionSettings
from context_assembler.truncation import History

PLENTY = HistoryFacts(messages=10, tool_calls=5, compactable_tokens=50_000)


def ledger(
    *, history: int = 0, system: int = 1000, tools: int = 0, budget: int = 100_000
) -> Ledger:
    return Ledger(
        window_tokens=budget + 4096,
        reserve_tokens=4096,
        budget_tokens=budget,
        rows=(
            LedgerRow("system", "agent", system),
            LedgerRow("tools", "search", tools),
            LedgerRow("history", "history", history),
        ),
    )


def facts(**known: int) -> HistoryFacts:
    return HistoryFacts(**{"compactable_tokens": 800, **known})


FILLED, LARGE = ledger(history=30_001), ledger(history=90_000)
REASONS = {
    "little is used": (ledger(history=40_000), PLENTY, None),
    "at the threshold nothing is needed": (ledger(history=79_000), PLENTY, None),
    "over the threshold": (ledger(history=79_001), PLENTY, "token_limit"),
    "a hundred messages are allowed": (FILLED, PLENTY._replace(messages=100), None),
    "more than a hundred are many": (FILLED, PLENTY._replace(messages=101), "message_count"),
    "more than fifty calls are many": (FILLED, PLENTY._replace(tool_calls=51), "tool_count"),
    "counts do not matter in an empty window": (
        ledger(history=30_000),
        PLENTY._replace(messages=900, tool_calls=900),
        None,
    ),
    "tokens come before counts": (
        LARGE,
        facts(messages=500, tool_calls=500, compactable_tokens=9999),
        "token_limit",
    ),
    "too little was added": (LARGE, facts(compactable_tokens=80_000, grown_tokens=1999), None),
    "enough was added": (LARGE, facts(compactable_tokens=80_000, grown_tokens=2000), "token_limit"),
    "too little could be freed": (LARGE, facts(), None),
    "what was charged counts if it is known": (
        LARGE._replace(counted_tokens=70_000),
        PLENTY,
        None,
    ),
}


@pytest.mark.parametrize(("window", "history", "reason"), REASONS.values(), ids=REASONS.keys())
def test_it_is_needed_for_a_reason(
    window: Ledger, history: HistoryFacts, reason: str | None
) -> None:
    check = CompactionDetector().check(window, history=history)

    assert (check.needed, check.reason) == (reason is not None, reason)
    assert check.feasible
    assert (check.current_tokens, check.threshold) == (window.expected_tokens, 80_000)
    assert check.details["counted_tokens"] == window.used_tokens
    assert ("why" in check.details) == check.needed


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
        ledger(history=99_001, budget=900_000),
        PLENTY,
        "100,001 tokens, more than 100,000 ([compaction] uses_price_steps: above it the model's",
    ),
    "message_count": (
        FILLED,
        PLENTY._replace(messages=1_234),
        "1,234 messages, more than 100 ([compaction] max_messages)",
    ),
    "tool_count": (
        FILLED,
        PLENTY._replace(tool_calls=109),
        "109 tool calls, more than 50 ([compaction] max_tool_calls)",
    ),
}


@pytest.mark.parametrize("reason", EXPLAINED)
def test_a_reason_is_given_with_its_figures_and_its_setting(reason: str) -> None:
    window, history, why = EXPLAINED[reason]
    limits = STEPPED if reason == "price_step" else None

    check = CompactionDetector().check(window, history=history, limits=limits)

    assert check.reason == reason
    assert check.details["why"].startswith(why)


THRESHOLDS = {
    "a price step can be ignored": (CompactionSettings(uses_price_steps=False), 1000, 720_000),
    "one under the fixed part does not matter": (CompactionSettings(), 150_000, 720_000),
    "one over it does": (CompactionSettings(), 1000, 100_000),
}


@pytest.mark.parametrize(("chosen", "system", "expected"), THRESHOLDS.values(), ids=THRESHOLDS)
def test_a_price_step_is_a_threshold(
    chosen: CompactionSettings, system: int, expected: int
) -> None:
    window = ledger(system=system, history=9000, budget=900_000)

    check = CompactionDetector(chosen).check(window, history=PLENTY, limits=STEPPED)

    assert (check.feasible, check.threshold) == (True, expected)


DECLINED = {
    "too little was added": (
        HistoryFacts(compactable_tokens=80_000, grown_tokens=12),
        "Only 12 tokens were added since the last compaction; min_growth_tokens is 2,000.",
    ),
    "too little can be freed": (
        HistoryFacts(compactable_tokens=900),
        "A summary could replace 900 tokens at most, no more than 9,000 (min_gain_share = 0.1",
    ),
}


@pytest.mark.parametrize(("history", "declined"), DECLINED.values(), ids=DECLINED.keys())
def test_a_reason_that_does_not_count_is_explained(history: HistoryFacts, declined: str) -> None:
    check = CompactionDetector().check(LARGE, history=history)

    assert check.details["declined"].startswith(declined)
    assert "declined" not in CompactionDetector().check(ledger(), history=history).details


def test_a_fixed_part_over_the_threshold_is_infeasible_with_its_culprits() -> None:
    window = ledger(system=9000, tools=20_400, budget=32_768 - 4096)
    detector = CompactionDetector(CompactionSettings(trigger_share=0.85))

    check = detector.check(window, history=HistoryFacts())

    assert (check.needed, check.reason, check.feasible) == (False, None, False)
    assert check.floor_tokens == 29_400
    assert check.details["culprits"] == [
        {"kind": "tools", "name": "search", "tokens": 20_400},
        {"kind": "system", "name": "agent", "tokens": 9000},
        {"kind": "overhead", "name": "reserve", "tokens": 4096},
    ]
    assert "tools 20,400, system 9,000" in check.details["declined"]
    assert "Offer fewer tools" in check.details["declined"]
    assert not detector.check(ledger(budget=-5), history=PLENTY).feasible


CULPRITS = {
    "the last turn": (HistoryFacts(last_turn_tokens=70_000), "last turn", "Shorten the last"),
    "pins": (HistoryFacts(pinned_tokens=60_000, last_turn_tokens=30_000), "pinned", "Pin fewer"),
}


@pytest.mark.parametrize(("history", "name", "remedy"), CULPRITS.values(), ids=CULPRITS.keys())
def test_what_of_the_history_must_stay_can_be_the_culprit(
    history: HistoryFacts, name: str, remedy: str
) -> None:
    check = CompactionDetector().check(ledger(history=90_000, system=12_000), history=history)

    assert (check.needed, check.feasible) == (False, False)
    assert check.details["culprits"][0]["name"] == name
    assert remedy in check.details["declined"]


def test_the_caller_may_ask_as_long_as_there_is_something_to_summarise() -> None:
    detector = CompactionDetector()

    asked = detector.check(ledger(history=500), history=PLENTY, is_explicit=True)
    idle = detector.check(ledger(), history=HistoryFacts(), is_explicit=True)

    assert (asked.needed, asked.reason) == (True, "explicit")
    assert (idle.needed, idle.reason) == (False, None)
    assert "nothing to summarise" in idle.details["declined"]


def _settings(random: Random) -> tuple[CompactionDetector, Ledger, HistoryFacts]:
    trigger = random.choice((0.5, 0.8, 0.95))
    detector = CompactionDetector(
        CompactionSettings(
            trigger_share=trigger,
            target_share=random.uniform(0.1, trigger - 0.05),
            max_messages=random.choice((5, 100)),
            min_gain_share=random.choice((0.0, 0.1)),
            min_growth_tokens=random.choice((0, 2000)),
            min_history_share=random.choice((0.0, 0.3)),
        )
    )
    sizes = [random.choice((0, 500, 5000, 50_000)) for _ in range(7)]
    system, tools, pinned, last_turn, loose, reserve, spare = sizes
    window = random.choice((8192, 32_768, 200_000))
    rows = (
        LedgerRow("system", "agent", system),
        LedgerRow("tools", "search", tools),
        LedgerRow("history", "history", pinned + last_turn + loose),
        LedgerRow("notes", "notes", spare // 100),
    )
    window_use = Ledger(window, reserve, window - reserve, rows)
    known = HistoryFacts(random.choice((3, 200)), 0, loose, None, pinned, last_turn)
    return detector, window_use, known


def test_no_setting_makes_a_loop_and_who_is_in_the_way_is_named() -> None:
    reasons = Counter[str | None]()
    for seed in range(10_000):
        detector, window, known = _settings(Random(seed))
        check = detector.check(window, history=known)
        reasons[check.reason if check.feasible else "infeasible"] += 1
        if not check.feasible:
            named = check.details["culprits"]
            sizes = [row["tokens"] for row in named]
            using = [row for row in window.rows if row.kind != "history"]
            sums = [known.pinned_tokens, known.last_turn_tokens, *(row.tokens for row in using)]
            taken = min(window.reserve_tokens, window.window_tokens - window.budget_tokens)
            assert not check.needed
            assert sizes == sorted([s for s in (*sums, taken) if s > 0], reverse=True)[:5]
            assert sum(sums) == check.floor_tokens >= check.threshold
        if check.needed:  # each summary is a tenth of what it covers, and nothing is added
            summary = known.compactable_tokens // 10
            assert summary < known.compactable_tokens
            rows = tuple(
                row._replace(tokens=row.tokens - known.compactable_tokens + summary)
                if row.kind == "history"
                else row
                for row in window.rows
            )
            window = window._replace(rows=rows)
            known = known._replace(compactable_tokens=0, grown_tokens=0)
            check = detector.check(window, history=known)
            assert not check.needed, seed

    assert min(reasons["infeasible"], reasons["token_limit"], reasons["message_count"]) > 200


Lines = list[tuple[int, int, int]]  # kind, tokens and event of each


def _talk(random: Random) -> Lines:
    """Return turns of any size, some pinned, with calls and their results."""
    size, lines = random.choice((20, 800, 4000)), list[tuple[int, int]]()
    for _ in range(random.choice((1, 3, 10, 40))):
        lines.append((USER | PINNED * (random.random() < 0.05), random.randint(1, size)))
        for _ in range(random.choice((0, 1, 5))):
            lines.append((ASSISTANT | HAS_CALLS, random.randint(1, size)))
            lines += [(TOOL_RESULT, random.randint(1, 3 * size))] * random.choice((1, 3))
        lines.append((ASSISTANT, random.randint(1, size)))
    return [(kind, tokens, seq) for seq, (kind, tokens) in enumerate(lines, 1)]


def _compacted(lines: Lines, check: CompactionCheck, chosen: CompactionSettings) -> Lines | None:
    """Return the lines after a compaction as `compact` plans it; `None`: nothing can be covered."""
    kinds, tokens, seqs = map(list, zip(*lines, strict=True))
    target = check.details["target_tokens"]
    plan = plan_range(
        bytes(kinds),
        tokens,
        seqs,
        room_tokens=target - check.floor_tokens - chosen.summary_tokens,
        task_tokens=target // 10,
        most_messages=chosen.max_messages // 2,
        most_calls=chosen.max_tool_calls // 2,
    )
    if not plan.last_seq:
        return None
    summary = COMPACTION, min(chosen.summary_tokens, plan.tokens // 2), max(seqs) + 1
    kept = [line for line in lines if line[2] not in {*plan.seqs}]
    place = sum(line[2] < min(plan.seqs) for line in kept)
    return [*kept[:place], summary, *kept[place:]]


def test_what_a_compaction_leaves_needs_no_other_one() -> None:
    made = 0
    for seed in range(3000):
        random = Random(seed)
        trigger = random.choice((0.5, 0.8, 0.95))
        chosen = CompactionSettings(
            trigger_share=trigger,
            target_share=random.uniform(0.1, trigger - 0.05),
            max_messages=random.choice((5, 20, 100)),
            max_tool_calls=random.choice((3, 50)),
            min_history_share=random.choice((0.0, 0.3)),
            min_growth_tokens=0,
            summary_tokens=random.choice((100, 4000)),
        )
        budget, system = random.choice((7000, 31_000)), random.choice((100, 3000))
        lines: Lines | None = _talk(random)
        for rounds in range(4):
            assert lines is not None
            history = History(stub_tokens=200)
            history.extend([line[0] for line in lines], [line[1] for line in lines])
            calls = sum(line[0] == TOOL_RESULT for line in lines)
            known = history_facts(history, tool_calls=calls, seqs=[line[2] for line in lines])
            window = ledger(history=history.ends[-1], system=system, budget=budget)
            check = CompactionDetector(chosen).check(window, history=known)
            before = history.ends[-1]
            if not check.needed or (lines := _compacted(lines, check, chosen)) is None:
                break
            made += 1
            assert rounds < 2, seed
            assert sum(line[1] for line in lines) < before

    assert made > 300


# Kinds and tokens of lines, their numbers, and: messages, compactable and grown tokens.
HISTORIES: dict[
    str, tuple[list[tuple[int, int]], list[int] | None, tuple[int, int, int | None]]
] = {
    "nothing": ([], None, (0, 0, None)),
    "parallel results are one message, notes are none": (
        [
            (USER, 9),
            (NOTE, 2),
            (ASSISTANT, 6),
            (TOOL_RESULT, 3),
            (TOOL_RESULT, 3),
            (ASSISTANT, 1),
            (USER, 4),
        ],
        None,
        (5, 24, None),
    ),
    "summary, pins and the last question stay": (
        [
            (COMPACTION, 40),
            (USER | PINNED, 30),
            (USER, 50),
            (ASSISTANT, 20),
            (USER, 5),
            (ASSISTANT, 7),
            (TOOL_RESULT, 8),
        ],
        None,
        (7, 70, 120),
    ),
    "what is older than the summary is no growth": (
        [(COMPACTION, 5), (USER, 9), (ASSISTANT, 9), (USER, 3), (NOTE, 2)],
        [3, 1, 2, 4, 0],
        (4, 18, 5),
    ),
}


@pytest.mark.parametrize(("lines", "seqs", "expected"), HISTORIES.values(), ids=HISTORIES.keys())
def test_facts_are_read_from_columns(
    lines: list[tuple[int, int]], seqs: list[int] | None, expected: tuple[int, int, int | None]
) -> None:
    history = History(stub_tokens=200)
    history.extend([kind for kind, _ in lines], [tokens for _, tokens in lines])

    read = history_facts(history, seqs=seqs)

    assert (read.messages, read.compactable_tokens, read.grown_tokens) == expected
    summary = sum(tokens for kind, tokens in lines if kind == COMPACTION)
    kept = read.pinned_tokens + read.last_turn_tokens + summary
    assert read.compactable_tokens + kept == sum(tokens for _, tokens in lines)
