"""Laws of compaction, over generated windows, fixed parts, histories and thresholds.

`COMPACTION_EXAMPLES=10000 pytest tests/compaction/test_laws.py` runs more of them.
"""

import asyncio
import os
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from context_assembler import AssembledContext, ContextAssembler, SessionEvent
from context_assembler.compaction import CompactionCheck, extract_summary
from context_assembler.errors import ContextOverflowError
from context_assembler.options import AssemblerConfig, CompactionSettings
from context_assembler.testing import event_log

EXAMPLES = int(os.environ.get("COMPACTION_EXAMPLES", "150"))
MODELS = ("claude-opus-5-5", "gpt-5.5", "gemini-3.5-flash", "gpt-4.1")
SIZES = st.sampled_from([3, 30, 150, 600])  # words
REMEDIES = {
    "system": "Shorten the instructions",
    "tools": "Offer fewer tools",
    "overhead": "Offer fewer tools",
    "notes": "Send fewer notes",
    "pinned": "Pin fewer messages",
    "last turn": "Shorten the last message",
    "reserve": "Lower max_tokens",
}


@st.composite
def chosen(draw: DrawFn) -> CompactionSettings:
    trigger = draw(st.sampled_from([0.3, 0.5, 0.8, 0.95]))
    return CompactionSettings(
        trigger_share=trigger,
        target_share=trigger * draw(st.sampled_from([0.2, 0.6, 0.95])),
        max_messages=draw(st.sampled_from([2, 12, 100])),
        max_tool_calls=draw(st.sampled_from([1, 8, 50])),
        min_history_share=draw(st.sampled_from([0.0, 0.3])),
        min_gain_share=draw(st.sampled_from([0.01, 0.1, 0.5])),
        min_growth_tokens=draw(st.sampled_from([0, 100, 2000])),
        summary_tokens=draw(st.sampled_from([100, 1000, 4000])),
    )


@st.composite
def histories(draw: DrawFn, most_turns: int = 12) -> list[SessionEvent]:
    """Return turns of any size, with calls, some of them pinned; the last one may be in flight."""
    lines, pins = list[str](), list[int]()
    turns = draw(st.integers(1, most_turns))
    for turn in range(turns):
        if draw(st.integers(0, 12)) == 0:
            pins.append(len(lines))
        lines.append(f"U {words(draw(SIZES), turn)}")
        for step in range(draw(st.sampled_from([0, 0, 1, 6]))):
            name = f"c{turn}x{step}"
            lines.append(f'A[{name}:read {{"path": "src/{name}.py"}}] {words(draw(SIZES), step)}')
            lines.append(f"T[{name}] {words(draw(SIZES), step)}")
        if turn < turns - 1:
            lines.append(f"A {words(draw(SIZES), turn)}")
    events = event_log(*lines)
    return [replace(event, is_pinned=at in pins) for at, event in enumerate(events)]


def words(number: int, seed: int) -> str:
    return " ".join(f"w{(seed * 31 + at * 7) % 211}" for at in range(number))


def tools(number: int) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return [
        {"name": f"tool_{n}", "description": words(60, n), "input_schema": schema}
        for n in range(number)
    ]


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
@given(
    compaction=chosen(),
    history=histories(),
    later=histories(3),
    window=st.sampled_from([1_500, 4_000, 10_000, 30_000]),
    reserve=st.sampled_from([200, 1_500]),
    system=st.sampled_from([0, 0, 200, 1_500]),
    offered=st.sampled_from([0, 0, 15]),
    model=st.sampled_from(MODELS),
)
def test_no_compaction_asks_for_another_and_who_is_in_the_way_is_named(
    compaction: CompactionSettings,
    history: list[SessionEvent],
    later: list[SessionEvent],
    **setup: Any,
) -> None:
    async def run() -> None:
        assembler = ContextAssembler(
            config=AssemblerConfig(compaction=compaction, clock={"is_enabled": False}),
            tools=tools(setup["offered"]),
            auto_compact=extract_summary,
        )
        options: Any = {
            "model": setup["model"],
            "max_tokens": setup["reserve"],
            "max_context_tokens": setup["window"],
            "system": words(setup["system"], 1),
            "on_overflow": "shorten",
        }
        for events in (history, later):
            await assembler.sessions.append("s", events)
            await settle(assembler, options)

    asyncio.run(run())


async def settle(assembler: ContextAssembler, options: Any) -> None:
    """Have the session compacted if that is advised; then it is not advised again."""
    try:
        check = await assembler.check_compaction("s", **options)
        context = await assembler.assemble("s", **options)
    except ContextOverflowError:
        return
    again = context.check_compaction()
    if not check.feasible:
        judge(check, context)
    if check.needed:
        failed = [one for one in context.report.warnings if "not compacted" in one]
        if failed and check.details["pinned_tokens"]:  # what shares an exchange with a pin stays
            assert "too few to be worth it" in failed[0]
            return
        assert failed == []
        assert again.current_tokens < check.current_tokens
    assert not again.needed, (check, again)


def judge(check: CompactionCheck, context: AssembledContext) -> None:
    """Of what must stay, the largest is named, with what to do about it."""
    assert not check.needed
    ledger, using = context.metadata.ledger, Counter[str]()
    for row in ledger.rows:
        if row.kind != "history":  # what tools take besides their schemas is of the tools
            using["tools" if row.name == "tools" else row.kind] += row.tokens
    using["pinned"] += check.details["pinned_tokens"]
    using["last turn"] += check.details["last_turn_tokens"]
    assert sum(using.values()) == check.floor_tokens >= check.threshold
    using["reserve"] = min(ledger.reserve_tokens, ledger.window_tokens - ledger.budget_tokens)
    largest = [name for name, size in using.items() if size == max(using.values())]
    said = str(check.details["declined"])
    assert any(REMEDIES[name] in said for name in largest), (said, using)
