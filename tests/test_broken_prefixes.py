"""Where and why a prefix broke: what the forecast says is held against what both calls sent."""

from collections.abc import Sequence
from itertools import pairwise, zip_longest

import pytest

from context_assembler import AssembledContext, ContextAssembler, ToolCall
from context_assembler.providers import PROVIDERS
from context_assembler.testing import ScriptedReply, serve_providers
from context_assembler.truncation import TRUNCATIONS
from context_assembler.values.options import TruncationStrategy
from tests.calling import call_model

MODELS = ("claude-opus-5-5", "claude-haiku-4-5", "gpt-5.5", "gpt-4o", "gemini-4-argon")
CUTS = ("The history does not fit", "Older than the newest turns", "A bulky tool result")
BACK = "What the last call had left out before this place is sent again."
WORDS = "The train to the sea leaves at nine, and nobody knows why. "


def look_up(page: int = 0) -> str:
    """Look a page up."""
    return f"Page {page}. {WORDS * (5 + page % 3 * 60)}"


def first_change(before: AssembledContext, now: AssembledContext) -> int | None:
    """Return the first message of a call that the one before did not send at its place."""
    old, new = (PROVIDERS[one.provider].fingerprints(one.draft) for one in (before, now))
    assert old[0] == new[0], "the same stands in front"
    if old[-1] in new:
        return None
    return next(at for at, (a, b) in enumerate(zip_longest(old, new)) if a != b) - 1


async def converse(
    *, model: str, strategy: TruncationStrategy, bounds: Sequence[int]
) -> list[tuple[AssembledContext, AssembledContext]]:
    """Return each call with the one before it, in a session with large and small results."""
    script = [
        ScriptedReply(
            text=f"Reply {n}. {WORDS * (n % 4 * 5)}",
            thinking=f"Thought {n}." if "claude" in model else None,
            tool_calls=(ToolCall(call_id=f"call_{n}", name="look_up", arguments={"page": n}),)
            * (n % 2),
        )
        for n in range(len(bounds))
    ]
    contexts: list[AssembledContext] = []
    with serve_providers(script) as server:
        assembler = ContextAssembler("memory:", tools=[look_up])
        pending: list[str] = []
        for step, bound in enumerate(bounds):
            for call_id in pending:
                await assembler.add_tool_result("s", call_id, look_up(step))
            if not pending:
                await assembler.add_user("s", f"Question {step}. {WORDS * (step % 5 * 4)}")
            context = await assembler.assemble(
                "s",
                model=model,
                max_tokens=300,
                max_context_tokens=bound,
                truncation_strategy=strategy,
                window_turns=5,
            )
            new = await assembler.record("s", await call_model(server, context), context)
            pending = [call.call_id for event in new for call in event.tool_calls]
            contexts.append(context)
    return list(pairwise(contexts))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("strategy", TRUNCATIONS)
async def test_a_break_is_told_where_it_is_and_why(
    strategy: TruncationStrategy, model: str
) -> None:
    steps = await converse(model=model, strategy=strategy, bounds=[3_000] * 18)

    broken = 0
    for before, now in steps:
        place, told = first_change(before, now), now.report.forecast
        assert told is not None
        assert (told.broken is None) == (place is None)
        if told.broken is None or place is None:
            continue
        broken += 1
        message = now.messages[place]
        assert told.broken.piece == "message"
        assert told.broken.id == (message.id or message.note or message.kind)
        sent = {one.id for one in before.messages}
        because = [row for row in now.report.entries if row.reason == told.broken.reason]
        assert any(row.id in sent for row in because) or told.broken.reason == BACK, told.broken
        if told.broken.reason.startswith(CUTS):
            assert now.metadata.cut_level != before.metadata.cut_level
    assert broken


@pytest.mark.parametrize("model", MODELS)
async def test_a_smaller_window_is_told_where_it_cuts(model: str) -> None:
    steps = await converse(model=model, strategy="smart", bounds=[*[30_000] * 12, 4_000])
    before, now = steps[-1]

    place, told = first_change(before, now), now.report.forecast

    assert place is not None
    assert told is not None
    assert told.broken is not None
    message = now.messages[place]
    assert told.broken.id == (message.id or message.note or message.kind)
    assert told.broken.reason.startswith(CUTS)


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-opus-4-8", "gpt-6.2-sol"])
async def test_reasoning_that_a_second_reply_costs_is_told(model: str) -> None:
    """Both replies to a call are recorded: the chain of what is bound to its prefix has a hole."""
    script = [ScriptedReply(text=f"Reply {n}.", thinking=f"Thought {n}.") for n in range(5)]
    contexts: list[AssembledContext] = []
    with serve_providers(script) as server:
        assembler = ContextAssembler("memory:")
        for answers in (1, 2, 1, 1):
            await assembler.add_user("s", f"Question {len(contexts)}.")
            context = await assembler.assemble("s", model=model, max_tokens=300)
            contexts.append(context)
            for _ in range(answers):
                await assembler.record("s", await call_model(server, context), context)

    for before, now in pairwise(contexts):
        forecast = now.report.forecast
        assert forecast is not None
        sent = [message.parts for message in before.messages]
        is_begun_with = [message.parts for message in now.messages[: len(sent)]] == sent
        assert (forecast.broken is None) == is_begun_with
        if forecast.broken is not None:
            assert forecast.broken.id == "evt_3"
            assert "holes in a chain are refused" in forecast.broken.reason
