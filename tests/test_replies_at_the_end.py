"""Calls made while a history ends on a reply: the next request begins with them, or says not."""

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any, Final

import pytest

from context_assembler import AssembledContext, AssemblerConfig, ContextAssembler
from tests.test_cases import unmarked

TAKES_PREFILL: Final = "claude-haiku-4-5"
THOUGHT: Final = {"type": "thinking", "thinking": "Two first.", "signature": "EqQB" * 8}
REDACTED: Final = {"type": "redacted_thinking", "data": "EmwK" * 8}
REPLIES: Final[dict[str, list[dict[str, str]]]] = {
    "plain": [{"type": "text", "text": "First."}],
    "spaced": [{"type": "text", "text": "First: \n"}],
    "thought": [THOUGHT, {"type": "text", "text": "First: \n"}],
    "redacted": [REDACTED, {"type": "text", "text": "First."}],
    "only thought": [THOUGHT],
}
NOTES: Final = {"bare": "", "with a note": "Mind the gap."}
THINKING: Final[dict[str, dict[str, Any]]] = {"idle": {}, "thinking": {"thinking_budget": 1_024}}


def reply(blocks: Sequence[dict[str, str]], at: int) -> dict[str, Any]:
    return {
        "id": f"msg_{at}",
        "type": "message",
        "role": "assistant",
        "model": TAKES_PREFILL,
        "content": list(blocks),
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 50, "output_tokens": 5},
    }


def blocks_of(context: AssembledContext) -> list[tuple[str, Any]]:
    """Return every block in order, with who says it; cache marks move and do not count."""
    messages = unmarked(context.to_anthropic())["messages"]
    return [(message["role"], block) for message in messages for block in message["content"]]


def is_told(context: AssembledContext) -> bool:
    """Whether the forecast says that the prefix broke."""
    forecast = context.report.forecast
    return forecast is not None and forecast.broken is not None


@pytest.mark.parametrize("before", THINKING)
@pytest.mark.parametrize("then", THINKING)
@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize(("first", "second"), list(product(REPLIES, REPLIES)))
async def test_a_call_behind_a_reply_is_what_the_next_one_begins_with(
    first: str, second: str, note: str, before: str, then: str
) -> None:
    async with ContextAssembler(config=AssemblerConfig(clock={"is_enabled": False})) as assembler:
        await assembler.add_user("s", "Count.")
        calls: list[AssembledContext] = []
        asked: dict[str, Any] = {"model": TAKES_PREFILL, "max_tokens": 4_096}
        ways = [(first, "", before), (second, note, then), ("plain", "", before)]
        for at, (said, noted, thinks) in enumerate(ways):
            prompt = NOTES[noted] if noted else None
            context = await assembler.assemble(
                "s", additional_system_prompt=prompt, **asked, **THINKING[thinks]
            )
            await assembler.record("s", reply(REPLIES[said], at), context)
            calls.append(context)
        await assembler.add_user("s", "Go on.")
        calls.append(await assembler.assemble("s", **asked, **THINKING[then]))

        assert [str(v) for call in calls for v in call.check() if v.level == "refused"] == []
        for earlier, later in pairwise(calls):
            sent = blocks_of(earlier)
            grew = blocks_of(later)[: len(sent)] == sent
            assert grew or is_told(later)


async def test_reasoning_at_the_end_is_not_left_out_and_brought_back() -> None:
    async with ContextAssembler(config=AssemblerConfig(clock={"is_enabled": False})) as assembler:
        await assembler.add_user("s", "Count.")
        context = await assembler.assemble("s", model=TAKES_PREFILL)
        await assembler.record("s", reply(REPLIES["thought"], 0), context)

        behind = await assembler.assemble("s", model=TAKES_PREFILL)
        await assembler.record("s", reply(REPLIES["plain"], 1), behind)
        later = await assembler.assemble("s", model=TAKES_PREFILL)

    assert "repair.prefill" in {row.rule for row in behind.report.entries}
    assert blocks_of(later)[: len(blocks_of(behind))] == blocks_of(behind)
    assert not is_told(later)
