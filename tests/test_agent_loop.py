"""Whole agent loops over real HTTP: what the assembler sends is taken, step after step."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import anthropic
import openai
import pytest

from context_assembler import ContextAssembler
from context_assembler.testing import ProviderServer, ScriptedReply, SeenRequest, serve_providers
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import JsonObject, ToolCall

STEPS = 40
WINDOW_TOKENS = 8_000
REPLY_TOKENS = 1_000
QUESTIONS = {0: "Why do the nightly builds fail?", 15: "And the weekly ones?", 30: "Then mend it."}


def read_log(part: int) -> str:
    """Return a part of the build log.

    Args:
        part: Which one, from 0.
    """
    return "\n".join(f"{part:03d}:{line:03d} compiled module {line * 7 % 50}" for line in range(40))


def script() -> Iterator[ScriptedReply]:
    """Forty steps: a thought, a call, now and then two at once, and an answer where one is due."""
    for step in range(STEPS):
        if step + 1 in QUESTIONS or step == STEPS - 1:
            yield ScriptedReply(text=f"Found it in part {step}.", thinking=f"That was step {step}.")
            continue
        calls = tuple(
            ToolCall(call_id=f"call_{step}_{n}", name="read_log", arguments={"part": step + n})
            for n in range(2 if step % 5 == 0 else 1)
        )
        yield ScriptedReply(text="", thinking=f"Look at part {step} next.", tool_calls=calls)


async def run_loop(server: ProviderServer, assembler: ContextAssembler, model: str) -> None:
    claude = anthropic.AsyncAnthropic(base_url=server.anthropic_url, api_key="x", max_retries=0)
    gpt = openai.AsyncOpenAI(base_url=server.openai_url, api_key="x", max_retries=0)
    async with claude, gpt:
        create: Any = (
            claude.messages.create if model.startswith("claude") else gpt.chat.completions.create
        )
        for step in range(STEPS):
            if step in QUESTIONS:
                await assembler.add_user("loop", QUESTIONS[step])
            context = await assembler.assemble(
                "loop", model=model, max_tokens=REPLY_TOKENS, max_context_tokens=WINDOW_TOKENS
            )
            reply = await create(**context.to_request())
            answer = (await assembler.record("loop", reply, context))[-1]
            for call in answer.tool_calls:
                result = read_log(**call.arguments)
                await assembler.add_tool_result("loop", call.call_id, result)


def prefix_of(body: JsonObject) -> list[Any]:
    """Return the messages without cache marks, which move."""
    return [_unmarked(message) for message in body["messages"]]


def _unmarked(value: Any) -> Any:
    if is_object(value):
        return {key: _unmarked(inner) for key, inner in value.items() if key != "cache_control"}
    return [_unmarked(inner) for inner in value] if is_array(value) else value


def rewrites(requests: Sequence[SeenRequest]) -> int:
    """Return how many requests do not begin with the one before."""
    bodies = [prefix_of(seen.body) for seen in requests]
    return sum(later[: len(earlier)] != earlier for earlier, later in pairwise(bodies))


MODELS = ("claude-opus-5-5", "claude-opus-5", "claude-haiku-4-5", "gpt-4.1", "gpt-4o")


@pytest.mark.parametrize("model", MODELS)
async def test_every_step_of_a_long_loop_is_accepted_and_most_only_grow(model: str) -> None:
    with serve_providers(script()) as server:
        async with ContextAssembler(sessions="memory:", tools=[read_log]) as assembler:
            await run_loop(server, assembler, model)

    assert [seen.refusal for seen in server.requests] == [None] * STEPS
    assert 1 <= rewrites(server.requests) <= STEPS // 4


async def test_signed_thinking_comes_back_until_the_prefix_changes() -> None:
    with serve_providers(script()) as server:
        async with ContextAssembler(sessions="memory:", tools=[read_log]) as assembler:
            await run_loop(server, assembler, "claude-opus-5-5")

    thoughts = [str(seen.body["messages"]).count("'type': 'thinking'") for seen in server.requests]
    assert thoughts[:5] == [0, 1, 2, 3, 4]
    assert max(thoughts) >= 8
    assert 0 in thoughts[5:], "a cut leaves all earlier thinking out"


async def test_most_of_a_long_loop_is_read_from_the_prompt_cache() -> None:
    with serve_providers(script()) as server:
        async with ContextAssembler(sessions="memory:", tools=[read_log]) as assembler:
            await run_loop(server, assembler, "claude-opus-5-5")

    usages = [seen.usage for seen in server.requests if seen.usage]
    read = sum(usage.cache_read_tokens for usage in usages)
    sent = sum(usage.input_tokens for usage in usages)
    assert read / sent > 0.6
