"""Sessions of other agents and messages of frameworks: read as what they are, every row counted."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from context_assembler import Document, Image, Text, Thinking, ToolCall, ToolResult
from context_assembler.errors import TranscriptError
from context_assembler.events import SessionEvent, Usage
from context_assembler.transcripts import (
    FORMATS,
    detect_format,
    read_transcript,
    write_transcript,
)

PNG = "iVBORw0KGgo="
AT = "2026-09-01T10:00:00Z"
USER, REPLY = {"agentVisible": True, "userVisible": True}, {"agentVisible": True}


def codex_row(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": AT, "type": kind, "payload": payload}


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


CALL = {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"p": "."}'}
SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5j"}
SAMPLES: dict[str, Any] = {
    "codex": [
        codex_row("session_meta", id="s", cwd="/w", base_instructions={"text": "You code."}),
        codex_row("turn_context", model="gpt-5.5", cwd="/w"),
        codex_row("response_item", **said("user", "list files")),
        codex_row("event_msg", type="user_message", message="list files"),
        codex_row("response_item", **SEALED),
        codex_row("response_item", **CALL),
        codex_row("event_msg", type="token_count", info={"last_token_usage": {"input_tokens": 9}}),
        codex_row("response_item", type="function_call_output", call_id="c1", output="a.txt"),
        codex_row("response_item", **said("assistant", "a.txt")),
    ],
    "pi": [
        {"type": "session", "version": 3, "id": "s", "timestamp": AT, "cwd": "/w"},
        {"type": "model_change", "id": "m", "parentId": None, "modelId": "claude-opus-5-5"},
        {
            "type": "message",
            "id": "a",
            "parentId": "m",
            "timestamp": AT,
            "message": {
                "role": "user",
                "content": [
                    {"type": "text", "text": "list files"},
                    {"type": "image", "data": PNG, "mimeType": "image/png"},
                ],
            },
        },
        {
            "type": "message",
            "id": "b",
            "parentId": "a",
            "message": {
                "role": "assistant",
                "api": "anthropic-messages",
                "model": "claude-opus-5-5",
                "usage": {"input": 5, "output": 2, "cacheRead": 3, "cacheWrite": 1},
                "stopReason": "toolUse",
                "content": [
                    {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
                    {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"p": "."}},
                ],
            },
        },
        {
            "type": "message",
            "id": "c",
            "parentId": "b",
            "message": {
                "role": "toolResult",
                "toolCallId": "c1",
                "toolName": "ls",
                "content": [{"type": "text", "text": "a.txt"}],
                "isError": True,
            },
        },
    ],
    "goose": [
        {"working_dir": "/w", "description": "d", "message_count": 3},
        {
            "id": "a",
            "role": "user",
            "created": 1_788_000_000,
            "content": [
                {"type": "text", "text": "list files"},
                {"type": "image", "data": PNG, "mimeType": "image/png"},
            ],
            "metadata": USER,
        },
        {
            "role": "assistant",
            "created": 1_788_000_001,
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {
                    "type": "toolRequest",
                    "id": "c1",
                    "toolCall": {
                        "status": "success",
                        "value": {"name": "ls", "arguments": {"p": "."}},
                    },
                },
            ],
        },
        {
            "role": "user",
            "created": 1_788_000_002,
            "content": [
                {
                    "type": "toolResponse",
                    "id": "c1",
                    "toolResult": {
                        "status": "success",
                        "value": {"content": [{"type": "text", "text": "a.txt"}], "isError": True},
                    },
                }
            ],
        },
    ],
    "opencode": {
        "info": {"id": "ses_1", "title": "t"},
        "messages": [
            {
                "info": {"id": "m1", "sessionID": "ses_1", "role": "user", "time": {"created": 1}},
                "parts": [
                    {"id": "p", "type": "text", "text": "list files"},
                    {"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{PNG}"},
                ],
            },
            {
                "info": {
                    "id": "m2",
                    "role": "assistant",
                    "parentID": "m1",
                    "providerID": "anthropic",
                    "modelID": "claude-opus-5-5",
                    "tokens": {"input": 4, "output": 2, "cache": {"read": 3, "write": 0}},
                },
                "parts": [
                    {"type": "step-start"},
                    {
                        "type": "reasoning",
                        "text": "hm",
                        "metadata": {"anthropic": {"signature": "c2ln"}},
                        "time": {"start": 1},
                    },
                    {
                        "type": "tool",
                        "callID": "c1",
                        "tool": "ls",
                        "state": {"status": "error", "input": {"p": "."}, "error": "a.txt"},
                    },
                    {"type": "step-finish", "tokens": {}},
                ],
            },
        ],
    },
    "openai_agents": [
        {"role": "user", "content": "list files"},
        {**CALL, "id": "__fake_id__", "provider_data": {"model": "gpt-5.5"}},
        {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
        {**said("assistant", "a.txt"), "id": "__fake_id__"},
    ],
    "pydantic_ai": [
        {
            "kind": "request",
            "instructions": "Be brief.",
            "parts": [
                {"part_kind": "system-prompt", "content": "You code."},
                {
                    "part_kind": "user-prompt",
                    "content": [
                        "list files",
                        {"kind": "binary", "data": PNG, "media_type": "image/png"},
                        {"kind": "document-url", "url": "https://x.org/a.pdf"},
                    ],
                },
            ],
        },
        {
            "kind": "response",
            "model_name": "claude-opus-5-5",
            "provider_name": "anthropic",
            "timestamp": AT,
            "usage": {"input_tokens": 9, "output_tokens": 2, "cache_read_tokens": 3},
            "parts": [
                {
                    "part_kind": "thinking",
                    "content": "hm",
                    "signature": "c2ln",
                    "provider_name": "anthropic",
                },
                {
                    "part_kind": "tool-call",
                    "tool_name": "ls",
                    "args": '{"p": "."}',
                    "tool_call_id": "c1",
                },
            ],
        },
        {
            "kind": "request",
            "instructions": "Be brief.",
            "parts": [
                {
                    "part_kind": "tool-return",
                    "tool_name": "ls",
                    "content": ["a.txt"],
                    "tool_call_id": "c1",
                    "outcome": "failed",
                }
            ],
        },
    ],
    "langchain": {
        "values": {
            "messages": [
                {"type": "system", "content": "You code."},
                {
                    "type": "human",
                    "id": "h",
                    "content": [
                        {"type": "text", "text": "list files"},
                        {
                            "type": "image_url",
                            "image_url": {"url": f"data:image/png;base64,{PNG}"},
                        },
                    ],
                },
                {
                    "type": "ai",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                        {"type": "tool_use", "id": "c1", "name": "ls", "input": {"p": "."}},
                    ],
                    "tool_calls": [
                        {"name": "ls", "args": {"p": "."}, "id": "c1", "type": "tool_call"}
                    ],
                    "response_metadata": {"model_name": "claude-opus-5-5"},
                    "usage_metadata": {
                        "input_tokens": 9,
                        "output_tokens": 2,
                        "input_token_details": {"cache_read": 3},
                    },
                },
                {
                    "type": "tool",
                    "content": "a.txt",
                    "tool_call_id": "c1",
                    "name": "ls",
                    "status": "error",
                },
            ]
        }
    },
    "vercel_ai": [
        {
            "id": "a",
            "role": "user",
            "parts": [
                {"type": "text", "text": "list files"},
                {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{PNG}"},
            ],
        },
        {
            "id": "b",
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {
                    "type": "reasoning",
                    "text": "hm",
                    "providerMetadata": {"anthropic": {"signature": "c2ln"}},
                },
                {
                    "type": "tool-ls",
                    "toolCallId": "c1",
                    "state": "output-error",
                    "input": {"p": "."},
                    "errorText": "a.txt",
                },
                {"type": "step-start"},
                {"type": "text", "text": "a.txt"},
            ],
        },
    ],
    "llama_index": [
        {
            "role": "user",
            "additional_kwargs": {},
            "blocks": [
                {"block_type": "text", "text": "list files"},
                {"block_type": "image", "image": PNG, "image_mimetype": "image/png"},
            ],
        },
        {
            "role": "assistant",
            "additional_kwargs": {},
            "blocks": [
                {
                    "block_type": "thinking",
                    "content": "hm",
                    "additional_information": {"signature": "c2ln"},
                },
                {
                    "block_type": "tool_call",
                    "tool_call_id": "c1",
                    "tool_name": "ls",
                    "tool_kwargs": {"p": "."},
                },
            ],
        },
        {
            "role": "tool",
            "additional_kwargs": {"tool_call_id": "c1", "name": "ls"},
            "blocks": [{"block_type": "text", "text": "a.txt"}],
        },
    ],
    "bedrock": {
        "modelId": "us.anthropic.claude-opus-5-5-v1:0",
        "system": [{"text": "You code."}, {"cachePoint": {"type": "default"}}],
        "toolConfig": {
            "tools": [{"toolSpec": {"name": "ls", "inputSchema": {"json": {"type": "object"}}}}]
        },
        "messages": [
            {
                "role": "user",
                "content": [
                    {"text": "list files"},
                    {"image": {"format": "png", "source": {"bytes": PNG}}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
                    {"toolUse": {"toolUseId": "c1", "name": "ls", "input": {"p": "."}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "toolResult": {
                            "toolUseId": "c1",
                            "content": [{"text": "a.txt"}],
                            "status": "error",
                        }
                    },
                    {"cachePoint": {"type": "default"}},
                ],
            },
        ],
    },
}
every_sample = pytest.mark.parametrize(("name", "sample"), SAMPLES.items(), ids=SAMPLES.keys())


def rows_in(sample: Any) -> list[Any]:
    """Return the list of messages in a sample."""
    while not isinstance(sample, list):
        sample = sample.get("messages") or sample["values"]
    return sample


@every_sample
def test_a_sample_is_read_as_what_it_is(name: str, sample: Any) -> None:
    read = read_transcript(sample)

    assert detect_format(sample) == name
    assert read == read_transcript(sample, format=name)
    assert read.rows_read + read.rows_listed == len(rows_in(sample))


@every_sample
def test_calls_results_pictures_and_reasoning_survive(name: str, sample: Any) -> None:
    parts = [part for event in read_transcript(sample).events for part in event.parts]
    [call] = [part for part in parts if isinstance(part, ToolCall)]
    [result] = [part for part in parts if isinstance(part, ToolResult)]

    assert (call.call_id, call.name, call.arguments) == ("c1", "ls", {"p": "."})
    assert result.call_id == "c1" and "a.txt" in result.text
    assert Text("list files") in parts
    without = {"codex", "openai_agents"}
    assert any(isinstance(part, Image) for part in parts) or name in without
    assert any(isinstance(part, Thinking) for part in parts) or name == "openai_agents"
    assert result.is_error or name in {*without, "llama_index"}
    signed = [part.block for part in parts if isinstance(part, Thinking)]
    assert any(signed) or name in {"openai_agents", "goose"}


def tokens_of(events: tuple[SessionEvent, ...]) -> list[Usage | None]:
    return [event.made_by.usage for event in events if event.made_by and event.made_by.usage]


@pytest.mark.parametrize("name", ["pi", "opencode", "pydantic_ai", "langchain"])
def test_usage_counts_the_whole_prompt(name: str) -> None:
    [usage] = tokens_of(read_transcript(SAMPLES[name]).events)

    assert usage is not None
    assert (usage.output_tokens, usage.cache_read_tokens) == (2, 3)
    assert usage.input_tokens in (7, 9)


@every_sample
def test_what_is_read_goes_to_every_provider(name: str, sample: Any) -> None:
    events = read_transcript(sample).events

    for provider in ("anthropic", "openai_chat", "openai_responses", "gemini", "claude_code"):
        assert "list files" in write_transcript(events, format=provider)


# ---- damage ----


def changed(sample: Any) -> Iterator[Any]:
    """Yield the sample with one field, or one entry of a list, removed or of another type."""
    paths: list[tuple[Any, ...]] = []

    def walk(value: Any, path: tuple[Any, ...]) -> None:
        keys: Any = value if isinstance(value, dict) else ()
        for key in range(len(value)) if isinstance(value, list) else keys:
            paths.append((*path, key))
            walk(value[key], (*path, key))

    walk(sample, ())
    for *path, last in paths:
        for new in (None, 5, "x", [], ["x"], {}, {"type": []}, "gone"):
            copy = deepcopy(sample)
            place = copy
            for key in path:
                place = place[key]
            if new == "gone":
                del place[last]
            else:
                place[last] = new
            yield copy


@every_sample
def test_any_one_damaged_field_is_read_listed_or_refused(name: str, sample: Any) -> None:
    for damaged in changed(sample):
        try:
            read = read_transcript(damaged, format=name, partial=True)
        except TranscriptError:
            continue
        write_transcript(read.events, format="anthropic")


@every_sample
def test_damage_never_makes_it_another_format(name: str, sample: Any) -> None:
    for damaged in changed(sample):
        try:
            found = detect_format(damaged)
        except TranscriptError:
            continue
        if len(rows_in(SAMPLES[name])) == len(rows_of_copy(damaged)):
            assert found == name, damaged


def rows_of_copy(sample: Any) -> list[Any]:
    try:
        found = rows_in(sample)
    except (AttributeError, KeyError, TypeError):
        return []
    return found


@every_sample
def test_a_row_less_and_keys_in_another_order_make_no_other_format(name: str, sample: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, list):
            return [shuffled(one) for one in value]
        if not isinstance(value, dict):
            return value
        keys = list(value)
        random.Random(4).shuffle(keys)
        return {key: shuffled(value[key]) for key in keys}

    for cut in (slice(1, None), slice(None, -1)):
        copy = deepcopy(sample)
        rows_in(copy)[:] = rows_in(copy)[cut]
        assert detect_format(copy) == name
    assert detect_format(shuffled(sample)) == name
    assert read_transcript(shuffled(sample)).events == read_transcript(sample).events
