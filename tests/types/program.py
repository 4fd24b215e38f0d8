"""A program as a user writes it: type checkers know what every call returns, and it runs.

`assert_type` fails if a type is `Any` or unknown.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from anthropic import Anthropic, AsyncAnthropic, AsyncStream, Stream
from anthropic.types import Message, ParsedMessage, RawMessageStreamEvent
from google import genai
from google.genai.types import GenerateContentResponse
from openai import AsyncOpenAI, OpenAI
from openai import AsyncStream as AsyncOpenAIStream
from openai import Stream as OpenAIStream
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from context_assembler import AssembledContext, AssemblerConfig, ContextAssembler, fit_messages
from context_assembler.compaction import CompactionCheck
from context_assembler.events import Opaque, SessionEvent, ToolCall
from context_assembler.options import GivenOptions
from context_assembler.report import Decision, Rule
from context_assembler.testing import stand_in_for_providers


def look_up_price(article: str) -> str:
    """Return the price of an article."""
    return {"mug": "12.90"}.get(article, "unknown")


async def ask(assembler: ContextAssembler, model: str) -> AssembledContext:
    words = {"model": model}  # plain dicts, as programs read them from their own settings
    numbers: dict[str, object] = {**words, "max_tokens": 1000}
    named: GivenOptions = {"model": model, "max_tokens": 1000}
    assert_type(await assembler.assemble("s", **words), AssembledContext)
    assert_type(await assembler.assemble("s", **named), AssembledContext)
    assert_type(assembler.assemble_sync("s", **numbers), AssembledContext)
    return await assembler.assemble("s", **numbers)


async def talk_to_claude(assembler: ContextAssembler) -> None:
    context = await ask(assembler, "claude-opus-5-5")
    client = Anthropic()
    assert_type(client.messages.create(**context.to_anthropic()), Message)
    streamed = client.messages.create(
        **context.to_anthropic(), stream=True, metadata={"user_id": "ada"}
    )
    assert_type(streamed, Stream[RawMessageStreamEvent])
    with client.messages.stream(**context.to_anthropic(), timeout=30) as stream:
        assert_type(stream.get_final_message(), ParsedMessage[None])
    waiting = AsyncAnthropic()
    later = await waiting.messages.create(**context.to_anthropic(), stream=True)
    assert_type(later, AsyncStream[RawMessageStreamEvent])
    reply = assert_type(await waiting.messages.create(**context.to_anthropic()), Message)

    answer = assert_type(await assembler.record("s", reply, context), list[SessionEvent])
    assert_type(await assembler.run_tools("s", answer), list[ToolCall | Opaque])
    assert_type(context.check_compaction(), CompactionCheck)
    for entry in context.report.entries:
        assert_type(entry.decision, Decision)
        assert_type(entry.rule, Rule)


async def talk_to_gpt(assembler: ContextAssembler) -> None:
    context = await ask(assembler, "gpt-5.5")
    client, waiting = OpenAI(), AsyncOpenAI()
    chat, responses = context.to_openai_chat(), context.to_openai_responses()
    assert_type(client.chat.completions.create(**chat, user="ada"), ChatCompletion)
    assert_type(
        client.chat.completions.create(**chat, stream=True), OpenAIStream[ChatCompletionChunk]
    )
    assert_type(await waiting.chat.completions.create(**chat), ChatCompletion)
    assert_type(client.responses.create(**responses, service_tier="flex"), Response)
    assert_type(
        client.responses.create(**responses, stream=True), OpenAIStream[ResponseStreamEvent]
    )
    later = await waiting.responses.create(**responses, stream=True)
    assert_type(later, AsyncOpenAIStream[ResponseStreamEvent])
    reply = assert_type(await waiting.responses.create(**responses), Response)
    await assembler.record("s", reply, context)


async def talk_to_gemini(assembler: ContextAssembler) -> None:
    context = await ask(assembler, "gemini-4-argon")
    payload = context.to_gemini()
    client = genai.Client()
    assert_type(client.models.generate_content(**payload), GenerateContentResponse)
    streamed = client.models.generate_content_stream(**payload)
    assert_type(streamed, Iterator[GenerateContentResponse])
    later = await client.aio.models.generate_content_stream(**payload)
    assert_type(later, AsyncIterator[GenerateContentResponse])
    reply = await client.aio.models.generate_content(**payload)
    assert_type(reply, GenerateContentResponse)
    await assembler.record("s", reply, context)


def trim() -> None:
    messages = [{"role": "user", "content": "What do two mugs cost?"}]
    fitted = fit_messages(messages, model="gpt-5.5", max_tokens=1000)
    chat = OpenAI().chat.completions
    assert_type(
        chat.create(model="gpt-5.5", messages=fitted.messages, max_completion_tokens=100),
        ChatCompletion,
    )
    assert_type(
        chat.create(model="gpt-5.5", messages=fitted.messages, stream=True),
        OpenAIStream[ChatCompletionChunk],
    )
    fitted = fit_messages(messages, model="claude-opus-5-5", after=fitted)
    claude = Anthropic().messages
    sent = claude.create(model="claude-opus-5-5", messages=fitted.messages, max_tokens=100)
    assert_type(sent, Message)


async def main() -> None:
    settings: dict[str, Any] = {"defaults": {"model": "gpt-5.5"}}
    async with ContextAssembler(
        tools=[look_up_price], config=AssemblerConfig(**settings)
    ) as assembler:
        await assembler.add_user("s", "What do two mugs cost?")
        await talk_to_claude(assembler)
        await talk_to_gpt(assembler)
        await talk_to_gemini(assembler)
    trim()


if __name__ == "__main__":
    with stand_in_for_providers():
        asyncio.run(main())
