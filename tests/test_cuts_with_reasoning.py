"""A cut stays where it was made, although the reasoning it led to may stand behind it alone."""

from itertools import pairwise
from typing import Any

import pytest

from context_assembler import AssembledContext, ContextAssembler
from context_assembler.testing import ScriptedReply, serve_providers
from tests.calling import call_model

TURNS = 40
LEAST_TURNS_BETWEEN = 4  # a cut frees a quarter of the room at the least


def said_of(context: AssembledContext) -> list[dict[str, Any]]:
    """Return the messages of a payload without cache marks, which move along."""
    return [
        {**message, "content": [_unmarked(block) for block in message["content"]]}
        for message in context.to_anthropic()["messages"]
    ]


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    return {key: held for key, held in block.items() if key != "cache_control"}


def left_out(context: AssembledContext) -> int:
    return sum(row.kind == "message" for row in context.report.of("dropped"))


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("window_tokens", [1_000, 1_400])
async def test_a_cut_is_not_taken_back(window_tokens: int, every: int) -> None:
    script = [
        ScriptedReply(text=f"Answer {n}.", thinking="So be it." if n % every == 0 else None)
        for n in range(TURNS)
    ]
    assembler = ContextAssembler("memory:")
    before: list[dict[str, Any]] = []
    dropped, rewritten_at = 0, [0]
    with serve_providers(script) as server:
        for turn in range(TURNS):
            await assembler.add_user("s", f"Question {turn}: {'word ' * 20}")
            context = await assembler.assemble(
                "s", model="claude-opus-5-5", max_tokens=500, max_context_tokens=window_tokens
            )
            said = said_of(context)
            if said[: len(before)] != before:
                rewritten_at.append(turn)
            dropped, before = max(dropped, left_out(context)), said
            await assembler.record("s", await call_model(server, context), context)
    assert not server.refusals
    assert dropped > 0
    assert min(later - one for one, later in pairwise(rewritten_at)) >= LEAST_TURNS_BETWEEN
