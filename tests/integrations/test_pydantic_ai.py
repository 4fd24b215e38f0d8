"""Pydantic AI's own loop, with its models for OpenAI and Anthropic."""

import base64
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import is_
from pathlib import Path
from typing import Any

import pytest

from context_assembler.testing import ProviderServer
from tests.integrations import loop

loop.needs("pydantic_ai", "openai", "anthropic")

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from context_assembler import FittedMessages
from context_assembler.integrations.pydantic_ai import FitHistory

pytestmark = pytest.mark.filterwarnings("ignore")


def openai_model(server: ProviderServer) -> Any:
    return OpenAIChatModel("gpt-4.1", provider=OpenAIProvider(server.openai_url, api_key="test"))


def responses_model(server: ProviderServer) -> Any:
    """Return a model whose encrypted reasoning is bound to what stood before it."""
    provider = OpenAIProvider(server.openai_url, api_key="test")
    settings: Any = {"openai_store": False, "openai_include_encrypted_reasoning": True}
    return OpenAIResponsesModel("gpt-6.2-sol", provider=provider, settings=settings)


def anthropic_model(server: ProviderServer) -> Any:
    """Return a model whose signed reasoning is bound to what stood before it."""
    provider = AnthropicProvider(api_key="test", base_url=server.anthropic_url)
    thinking = {"type": "adaptive", "display": "summarized"}
    settings: Any = {"max_tokens": 2000, "anthropic_thinking": thinking}
    return AnthropicModel("claude-opus-5-5", provider=provider, settings=settings)


async def agent(model: Callable[[ProviderServer], Any], own: Any, server: ProviderServer) -> str:
    made = Agent(
        model(server), instructions=loop.SYSTEM, tools=[loop.read_page], capabilities=[own]
    )
    told = await made.run(loop.TASK, usage_limits=UsageLimits(request_limit=None))
    return str(told.output)


def keep_newest(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Keep the newest messages, as the page on message history does."""
    return messages[-5:]


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MODELS = {"OpenAI": openai_model, "Responses": responses_model, "Anthropic": anthropic_model}


@pytest.mark.parametrize("name", MODELS)
def test_an_agent_runs_its_whole_loop(name: str) -> None:
    script = loop.make_script(None if name == "OpenAI" else "I look at the next page.")
    ours = loop.play(partial(agent, MODELS[name], FitHistory(max_tokens=loop.BUDGET)), script)
    theirs = loop.play(partial(agent, MODELS[name], ProcessHistory(keep_newest)), script)
    loop.check_beside(f"Pydantic AI, {name}", ours, theirs, "a history processor")


def history() -> list[ModelMessage]:
    """Return a talk with whatever a history may hold."""
    picture = BinaryContent(PIXEL, media_type="image/png")
    task = UserPromptPart([loop.TASK, CachePoint(), picture])
    told: list[ModelMessage] = [ModelRequest([SystemPromptPart(loop.SYSTEM), task])]
    for page in range(12):
        calls = [ToolCallPart("read_page", {"page": page}, f"{one}{page}") for one in "ab"]
        seal = ThinkingPart("Which page?", signature="c2VhbGVk")
        told.append(ModelResponse([seal, TextPart("So."), *calls], model_name="m"))
        long = ToolReturnPart("read_page", loop.read_page(page), f"a{page}", metadata=[page])
        wrong = ToolReturnPart("read_page", "Not that page.", f"b{page}", outcome="retried")
        more = [ToolAvailabilityDeltaPart(tools_added=["write_page"])] if page == 3 else []
        told.append(ModelRequest([long, wrong, *more], run_id=f"run {page}"))
    return [*told, ModelResponse([TextPart("Hm.")]), ModelRequest([UserPromptPart("Well?")])]


def test_what_stays_is_the_same_and_what_changes_keeps_its_fields() -> None:
    told, seen = history(), list[FittedMessages]()
    whole = FitHistory("claude-sonnet-4-6").fit(told)
    assert all(map(is_, whole, told))
    assert len(whole) == len(told)

    kept = FitHistory("claude-sonnet-4-6", seen.append, max_tokens=4_000).fit(told)
    assert kept[0] is told[0]
    assert kept[-1] is told[-1]
    assert kept[-2] is told[-2]
    assert {entry.decision for entry in seen[-1].changes} >= {"shortened", "dropped"}
    own = {p.tool_call_id: (m, p) for m in told for p in m.parts if isinstance(p, ToolReturnPart)}
    shortened = 0
    for message in kept:
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                request, before = own[part.tool_call_id]
                assert part is before or part == replace(before, content=part.content)
                assert message == replace(request, parts=message.parts)
                shortened += part is not before
    assert shortened
    states = [p for m in kept for p in m.parts if isinstance(p, ToolAvailabilityDeltaPart)]
    assert states == [told[8].parts[2]]  # though its message was dropped
    assert not any(
        p.tool_call_id == "a3" for m in kept for p in m.parts if isinstance(p, ToolReturnPart)
    )


def test_calls_that_share_an_id_get_one_each() -> None:
    reply = ModelResponse(
        [TextPart("Both."), *[ToolCallPart("read_page", {"page": 1}, "same")] * 2]
    )
    results = ModelRequest([ToolReturnPart("read_page", text, "same") for text in ("one", "two")])
    task = ModelRequest([UserPromptPart(loop.TASK)])
    first, kept, answers = FitHistory("gpt-4.1").fit([task, reply, results])
    assert first is task
    ids = [part.tool_call_id for part in kept.parts if isinstance(part, ToolCallPart)]
    assert len({*ids}) == 2
    told = [(p.content, p.tool_call_id) for p in answers.parts if isinstance(p, ToolReturnPart)]
    assert told == [("one", ids[0]), ("two", ids[1])]


def test_a_call_that_nobody_answered_is_answered() -> None:
    reply = ModelResponse([ToolCallPart("read_page", {"page": 1}, "c")])
    talk = [ModelRequest([UserPromptPart(loop.TASK)]), reply, ModelRequest([UserPromptPart("?")])]
    *_, added, _ = FitHistory("gpt-4.1").fit(talk)
    [part] = added.parts
    assert isinstance(part, ToolReturnPart)
    assert (part.tool_name, part.tool_call_id) == ("read_page", "c")


def test_its_page_and_example_run(tmp_path: Path) -> None:
    loop.check_section("Pydantic AI")
    loop.check_example("pydantic_ai_agent", "Page 7 is odd.", tmp_path)
