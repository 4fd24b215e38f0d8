"""A reply is kept whole, whatever the model wrote as the arguments of a call."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from context_assembler.providers import PROVIDERS
from context_assembler.values.codec import dump_event, load_event
from context_assembler.values.events import AssistantBody, SessionEvent
from context_assembler.values.parts import ToolCall

WRITTEN = {
    "not a number": '{"x": NaN}',
    "infinity": '{"x": -Infinity}',
    "a number too large": '{"x": 1e999}',
    "an overlong integer": '{"x": ' + "9" * 5_000 + "}",
    "deep nesting": '{"x": ' + "[" * 900 + "]" * 900 + "}",
    "no object": "[1]",
    "cut off": '{"x": ',
}


def chat_reply(arguments: Any) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"object": "chat.completion", "choices": [{"message": message}]}


def responses_reply(arguments: Any) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
    return {"object": "response", "status": "completed", "output": [call]}


def anthropic_reply(arguments: Any) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "c", "name": "f", "input": arguments}
    return {"type": "message", "content": [call], "stop_reason": "tool_use"}


def gemini_reply(arguments: Any) -> dict[str, Any]:
    call = {"functionCall": {"id": "c", "name": "f", "args": arguments}}
    return {"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}]}


REPLIES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "openai_chat": chat_reply,
    "openai_responses": responses_reply,
    "anthropic": anthropic_reply,
    "gemini": gemini_reply,
}


def test_every_provider_is_tested() -> None:
    assert REPLIES.keys() == PROVIDERS.keys()


def read_call(provider: str, arguments: Any) -> ToolCall:
    """Return the call of a reply, once it has been stored."""
    reply = PROVIDERS[provider].read_reply(REPLIES[provider](arguments), None)
    event = SessionEvent(body=AssistantBody(parts=reply.parts))
    [call] = load_event(dump_event(event), where="it").tool_calls
    return call


@pytest.mark.parametrize("provider", REPLIES)
@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN.keys())
def test_text_that_is_no_storable_object_stays_the_model_s_own(provider: str, text: str) -> None:
    call = read_call(provider, text)

    assert (call.arguments, call.arguments_json) == ({}, text)


OBJECTS: dict[str, Any] = {
    "not a number": {"x": float("nan")},
    "infinity": {"x": [float("inf")]},
    "an overlong integer": {"x": 10**5_000},
    "deep nesting": {"x": json.loads("[" * 230 + "]" * 230)},
}


@pytest.mark.parametrize("provider", REPLIES)
@pytest.mark.parametrize("given", OBJECTS.values(), ids=OBJECTS.keys())
def test_an_object_that_cannot_be_stored_is_kept_as_text_or_in_words(
    provider: str, given: Any
) -> None:
    call = read_call(provider, given)

    if call.arguments_json is None:
        assert call.arguments in ({"x": "NaN"}, {"x": ["Infinity"]})
    else:
        assert call.arguments == {}
        assert call.arguments_json.startswith('{"x":')


@pytest.mark.parametrize("provider", REPLIES)
def test_an_ordinary_object_stays_one(provider: str) -> None:
    call = read_call(provider, {"x": [1, 2.5, None]})

    assert (call.arguments, call.arguments_json) == ({"x": [1, 2.5, None]}, None)
