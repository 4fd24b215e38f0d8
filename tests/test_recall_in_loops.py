"""Whole agent loops with a query at every step, over real HTTP: taken, and only ever growing."""

from typing import Any

import anthropic
import openai
import pytest

from context_assembler import ContextAssembler, MemoryRecord, SqliteMemoryStore
from context_assembler.testing import ProviderServer, serve_providers
from tests.test_agent_loop import QUESTIONS, STEPS, read_log, rewrites, script

REPLY_TOKENS = 1_000


def remembered(step: int) -> list[MemoryRecord]:
    return [
        MemoryRecord(
            id=f"fact-{step % 7}", text=f"Part {step} compiled what part {step - 1} broke."
        ),
        MemoryRecord(text=f"The build of part {step} takes {step} minutes.", kind="learnings"),
    ]


async def run_loop(
    server: ProviderServer, assembler: ContextAssembler, *, model: str, window_tokens: int
) -> list[int]:
    """Return how many notes of memory each request has."""
    claude = anthropic.AsyncAnthropic(base_url=server.anthropic_url, api_key="x", max_retries=0)
    gpt = openai.AsyncOpenAI(base_url=server.openai_url, api_key="x", max_retries=0)
    told: list[int] = []
    async with claude, gpt:
        create: Any = (
            claude.messages.create if model.startswith("claude") else gpt.chat.completions.create
        )
        for step in range(STEPS):
            if step in QUESTIONS:
                await assembler.add_user("loop", QUESTIONS[step])
            context = await assembler.assemble(
                "loop",
                model=model,
                max_tokens=REPLY_TOKENS,
                max_context_tokens=window_tokens,
                query=f"What of the build of part {step}?",
                recall_tokens=200,
            )
            reply = await create(**context.to_request())
            answer = (await assembler.record("loop", reply, context))[-1]
            for call in answer.tool_calls:
                result = read_log(**call.arguments)
                await assembler.add_tool_result("loop", call.call_id, result)
            await assembler.remember(remembered(step))
            told.append(sum(message.note == "memory" for message in context.messages))
    return told


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-haiku-4-5", "gpt-4.1"])
async def test_with_a_query_at_every_step_each_request_begins_with_the_one_before(
    model: str,
) -> None:
    with serve_providers(script()) as server:
        async with (
            SqliteMemoryStore(None) as store,
            ContextAssembler(sessions="memory:", tools=[read_log], memory=store) as assembler,
        ):
            told = await run_loop(server, assembler, model=model, window_tokens=100_000)

    assert [seen.refusal for seen in server.requests] == [None] * STEPS
    assert rewrites(server.requests) == 0
    assert told == sorted(told)
    assert told[0] == 0
    assert told[-1] > 10


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-4.1"])
async def test_in_a_small_window_it_is_rewritten_as_seldom_as_without(model: str) -> None:
    with serve_providers(script()) as server:
        async with (
            SqliteMemoryStore(None) as store,
            ContextAssembler(sessions="memory:", tools=[read_log], memory=store) as assembler,
        ):
            await run_loop(server, assembler, model=model, window_tokens=8_000)

    assert [seen.refusal for seen in server.requests] == [None] * STEPS
    assert 1 <= rewrites(server.requests) <= STEPS // 4
