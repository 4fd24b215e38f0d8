"""Whatever is nested too deep for Python to walk through is taken, or refused in our own words."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from context_assembler import (
    AssemblyError,
    ContextAssembler,
    McpTools,
    MemoryAssembler,
    MemoryRecord,
    ModelRegistry,
    SessionEvent,
    TaskStack,
    ToolCall,
    assistant_event,
    read_questions,
    read_transcript,
    tool_result_event,
    user_event,
)
from context_assembler.errors import ReplyError
from context_assembler.memory import import_memories, open_memory
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.wire import object_of
from tests.models import MODELS

LEVELS = [300, 20_000]
deep = pytest.mark.parametrize("levels", LEVELS)


def objects(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def lists(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def spelled(levels: int) -> str:
    return '{"a":' * levels + "{}" + "}" * levels


def replies(levels: int) -> Mapping[str, dict[str, Any]]:
    """Return by provider a reply that is as deep in a call, and in what nobody knows."""
    held, arguments = objects(levels), spelled(levels)
    call = {"name": "f", "arguments": arguments}
    return {
        "anthropic": {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c1", "name": "f", "input": held},
                {"type": "novel", "held": held},
            ],
        },
        "openai_chat": {
            "object": "chat.completion",
            "choices": [
                {
                    "message": {
                        "role": "assistant",
                        "tool_calls": [{"id": "c1", "type": "function", "function": call}],
                        "novel": held,
                    }
                }
            ],
        },
        "openai_responses": {
            "object": "response",
            "status": "completed",
            "output": [
                {"type": "function_call", "id": "fc_1", "call_id": "c1", **call},
                {"type": "novel", "id": "n_1", "held": held},
            ],
        },
        "gemini": {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [{"function_call": {"name": "f", "args": held}}, {"novel": held}],
                    },
                    "grounding_metadata": held,
                }
            ]
        },
    }


SDK_TYPES: Mapping[str, Any] = {
    "anthropic": AnthropicMessage,
    "openai_chat": ChatCompletion,
    "openai_responses": Response,
    "gemini": GenerateContentResponse,
}


@deep
@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize("shape", ["a dict", "the SDK's type", "chunks"])
async def test_a_reply_is_recorded_or_refused(provider: str, shape: str, levels: int) -> None:
    reply: Any = replies(levels)[provider]
    if shape == "the SDK's type":
        reply = SDK_TYPES[provider].model_construct(**reply)
    async with ContextAssembler() as assembler:
        await assembler.add_user("s", "hi")
        context = await assembler.assemble("s", model=MODELS[provider], max_tokens=500)
        with suppress(AssemblyError):
            await assembler.record("s", [reply] if shape == "chunks" else reply, context)
        await assembler.add_user("s", "go")

        for name, model in MODELS.items():
            context = await assembler.assemble("s", model=model, max_tokens=500)
            assert context.to_request(name)


@pytest.mark.parametrize("provider", MODELS)
def test_a_reply_that_holds_itself_is_refused(provider: str) -> None:
    reply = replies(0)[provider]
    reply["itself"] = [reply]

    with pytest.raises(ReplyError, match="holds itself"):
        object_of(reply)


async def _assembled(**options: Any) -> None:
    async with ContextAssembler() as assembler:
        await assembler.add_user("s", "hi")
        for model in MODELS.values():
            context = await assembler.assemble("s", model=model, max_tokens=500, **options)
            context.to_request()


async def _with_tools(tools: Any) -> None:
    async with ContextAssembler(tools=tools) as assembler:
        await assembler.add_user("s", "hi")
        for model in MODELS.values():
            (await assembler.assemble("s", model=model, max_tokens=500)).to_request()


async def _appended(*events: SessionEvent) -> None:
    async with ContextAssembler() as assembler:
        await assembler.sessions.append("s", [user_event("hi"), *events])
        for model in MODELS.values():
            (await assembler.assemble("s", model=model, max_tokens=500)).to_request()


async def _imported(line: str) -> None:
    async with open_memory("memory:") as store:
        await import_memories(store, BytesIO(line.encode()))


async def _remembered(record: MemoryRecord) -> None:
    async with MemoryAssembler("memory:") as recall:
        await recall.remember(record)
        await recall.assemble_context("boat")


async def _recalled(kinds: Any) -> None:
    await MemoryAssembler("memory:").assemble_context("boat", context_types=kinds)


def _configured(text: str) -> None:
    Path("context-assembler.toml").write_text(text)
    ContextAssembler()


def _schema(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def _called(levels: int, *, is_text: bool) -> list[SessionEvent]:
    held: Any = {"arguments_json": spelled(levels)} if is_text else {"arguments": objects(levels)}
    call = ToolCall(call_id="c1", name="f", **held)
    return [assistant_event(call), tool_result_event("c1", "done")]


GIVEN: Mapping[str, Callable[[int], Awaitable[None] | object]] = {
    "a tool": lambda n: _with_tools([{"name": "t", "input_schema": _schema(n)}]),
    "lists of tools": lambda n: _with_tools(lists(n)),
    "a call's tool": lambda n: _assembled(
        additional_tools=[{"name": "t", "input_schema": _schema(n)}]
    ),
    "a call's lists of tools": lambda n: _assembled(additional_tools=lists(n)),
    "a choice": lambda n: _assembled(tool_choice=objects(n)),
    "arguments": lambda n: _appended(*_called(n, is_text=False)),
    "arguments as text": lambda n: _appended(*_called(n, is_text=True)),
    "a result": lambda n: tool_result_event("c1", objects(n)),
    "metadata": lambda n: _appended(
        SessionEvent(body=user_event("hi").body, metadata={"a": objects(n)})
    ),
    "MCP servers": lambda n: McpTools.from_config(
        {"mcpServers": {"files": {"command": "x", "env": objects(n)}}}
    ),
    "a line of memories": lambda n: _imported(f'{{"text": "x", "extras": {spelled(n)}}}'),
    "a record": lambda n: _remembered(MemoryRecord(text="boat", extras=objects(n))),
    "kinds of memory": lambda n: _recalled(lists(n)),
    "questions": lambda n: read_questions([spelled(n)]),
    "a stack": lambda n: TaskStack.load(f'{{"version": 1, "frames": {spelled(n)}}}'),
    "a row of a model": lambda n: ModelRegistry().register(
        "mine", window_tokens=9_000, output_tokens=900, row={"features": objects(n)}
    ),
    "a file of settings": lambda n: _configured(f"[defaults]\nx = {'[' * n}{']' * n}\n"),
}


@deep
@pytest.mark.parametrize("name", GIVEN)
async def test_what_is_given_is_taken_or_refused(
    name: str, levels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with suppress(AssemblyError):
        answer = GIVEN[name](levels)
        if isinstance(answer, Awaitable):
            await answer


@pytest.mark.parametrize("levels", [300, 50_000])
def test_settings_of_the_environment_are_refused(
    levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_DEFAULTS", f'{{"x": {spelled(levels)}}}')

    with pytest.raises(AssemblyError):
        ContextAssembler()


@deep
@pytest.mark.parametrize("format", [None, *TRANSCRIPTS])
def test_a_transcript_is_read_or_refused(format: str | None, levels: int) -> None:  # noqa: A002 – as read_transcript calls it
    held = objects(levels)
    for source in (
        [{"role": "user", "content": held}],
        [{"role": "assistant", "content": [{"type": "tool_use", "id": "c", "input": held}]}],
        [{"type": "novel", "held": held}, {"type": "message", "role": "user", "content": "hi"}],
        {"contents": [{"role": "model", "parts": [{"functionCall": {"args": held}}]}]},
        json.dumps([{"role": "user", "content": "@"}]).replace('"@"', spelled(levels)),
        f'{{"role": "user", "content": "hi"}}\n{spelled(levels)}\n',
    ):
        with suppress(AssemblyError):
            read_transcript(source, format=format)
