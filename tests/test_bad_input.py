"""Bad input through the facade, for every provider: what is sent is valid, and what changed is told.

Each case is assembled, held against the rules and the SDK's types, and sent over HTTP with the
vendor's own client to a local server that refuses what the vendor refuses.
"""

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai.types import HttpOptions
from pydantic import BaseModel

from context_assembler import (
    AssembledContext,
    ContextAssembler,
    Image,
    SessionEvent,
    Text,
    Thinking,
    ToolCall,
    assistant_event,
    tool_result_event,
    user_event,
)
from context_assembler.errors import ReplyError
from context_assembler.testing import ProviderServer, serve_providers
from context_assembler.testing.sdk_types import find_type_errors
from context_assembler.values.events import AssistantBody, Provenance
from context_assembler.values.parts import Base64Source, Part
from tests.models import MODELS
from tests.providers.drafts import PIXEL

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())

LONG_ID = "call_" + "x" * 395
CALL = ToolCall(call_id="c1", name="look_up", arguments={"q": "tea"})
DONE = tool_result_event("c1", "found")
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}


def image(encoded: str) -> Image:
    return Image(source=Base64Source(media_type="image/png", data=encoded))


def large_image() -> Image:
    """Return an image of 30 MB whose header says 20,000 × 20,000 pixels."""
    head = base64.b64decode(PIXEL)[:16] + (20_000).to_bytes(4, "big") * 2
    return image(base64.b64encode(head + b"\0" * 30_000_000).decode())


def made_by(provider: str, model: str, *parts: Part) -> SessionEvent:
    """Return a reply of another session: signed, but by nobody here."""
    body = AssistantBody(parts=parts, made_by=Provenance(provider=provider, model=model))
    return SessionEvent(body=body, origin="model")


def signed(provider: str) -> Thinking:
    blocks: dict[str, dict[str, Any]] = {
        "anthropic": {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
        "openai_responses": {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "encrypted_content": "gAAAA",
        },
        "gemini": {"thought": True, "text": "Hm.", "thought_signature": "c2lnbmVk"},
    }
    return Thinking(text="Hm.", provider=provider, block=blocks[provider])


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "description": "x", "input_schema": SCHEMA}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A session, its tools, and the rules of the report one of which has to tell; none if empty.

    `taken_by` names the providers that take it as it is.
    """

    events: Callable[[], Sequence[SessionEvent]]
    tools: Sequence[Any] = ()
    told: Sequence[str] = ()
    taken_by: Sequence[str] = ()


def case(*events: SessionEvent, tools: Iterable[Any] = (), told: Sequence[str] = ()) -> Case:
    return Case(events=lambda: events, tools=tuple(tools), told=told)


CASES = {
    "unsigned thinking": case(
        user_event("hi"),
        assistant_event((Thinking(text="Hm."), Text("Hello."))),
        user_event("go"),
        told=["reasoning.unsigned"],
    ),
    **{
        f"thinking of {provider}, not made here": case(
            user_event("hi"),
            made_by(provider, model, signed(provider), Text("Hello.")),
            user_event("go"),
            told=[
                f"reasoning.{reason}"
                for reason in ("provider", "model", "fingerprint", "unsupported", "origin")
            ],
        )
        for provider, model in (
            ("anthropic", "claude-haiku-5-5"),
            ("openai_responses", "gpt-6.2-astra"),
            ("gemini", "gemini-3.8-flash"),
        )
    },
    "base64 that is no image": case(
        user_event((Text("look"), image("bm90IGFuIGltYWdl"))), told=["media."]
    ),
    "base64 that is none": case(user_event((Text("look"), image("***"))), told=["media."]),
    "an image of 30 MB": Case(
        events=lambda: [user_event((Text("look"), large_image()))],
        told=["media."],
        taken_by=["gemini"],
    ),
    "a tool named in another script": case(
        user_event("go"),
        assistant_event(ToolCall(call_id="c1", name="срочно!", arguments={"q": "ы"})),
        DONE,
        tools=[tool("срочно!")],
    ),
    "a call id of 400 characters": case(
        user_event("go"),
        assistant_event(ToolCall(call_id=LONG_ID, name="look_up")),
        tool_result_event(LONG_ID, "found"),
    ),
    "arguments that are half a JSON": case(
        user_event("go"),
        assistant_event(ToolCall(call_id="c1", name="look_up", arguments_json='{"q": "te')),
        DONE,
        tools=[tool("look_up")],
        told=["repair.arguments"],
    ),
    "arguments that are JSON within JSON": case(
        user_event("go"),
        assistant_event(ToolCall(call_id="c1", name="look_up", arguments_json='"{\\"q\\": 1}"')),
        DONE,
        told=["repair.arguments"],
    ),
    "a result for a call two turns ago": case(
        user_event("go"),
        assistant_event(CALL),
        user_event("well?"),
        assistant_event("Not yet."),
        user_event("and?"),
        DONE,
        told=["repair.moved", "repair.late", "repair."],
    ),
    "a history that starts with a call": case(
        assistant_event(CALL), DONE, user_event("go on"), tools=[tool("look_up")]
    ),
    "a result without a call": case(user_event("go"), DONE, told=["repair.", "orphan"]),
    "nulls among the arguments": case(
        user_event("go"),
        assistant_event(
            ToolCall(call_id="c1", name="look_up", arguments={"q": None, "n": [None, {}]})
        ),
        tool_result_event("c1", ""),
        tools=[tool("look_up")],
    ),
    "surrogates and NULs": case(
        user_event("\ud83d \0 hello"), assistant_event(" \n"), user_event("go")
    ),
}


def send(server: ProviderServer, context: AssembledContext) -> Any:
    """Send the payload with the client of its vendor; a refusal raises."""
    payload = context.to_request()
    if context.provider == "anthropic":
        with anthropic.Anthropic(base_url=server.url, api_key="x", max_retries=0) as claude:
            ask: Any = claude.messages.create
            return ask(**payload)
    if context.provider == "gemini":
        options = HttpOptions(base_url=server.gemini_url)
        with genai.Client(api_key="x", http_options=options) as gemini:
            models: Any = gemini.models
            return models.generate_content(**payload)
    with openai.OpenAI(base_url=server.openai_url, api_key="x", max_retries=0) as gpt:
        create: Any = gpt.responses.create if "input" in payload else gpt.chat.completions.create
        return create(**payload)


def rules_told(context: AssembledContext) -> list[str]:
    return [entry.rule for entry in context.report.entries if entry.decision != "kept"]


@every_model
@pytest.mark.parametrize("given", CASES.values(), ids=CASES.keys())
async def test_bad_input_is_sent_validly_and_what_changed_is_told(given: Case, model: str) -> None:
    async with ContextAssembler(tools=list(given.tools)) as assembler:
        await assembler.sessions.append("s", list(given.events()))
        context = await assembler.assemble("s", model=model, max_tokens=1000)

        assert [str(v) for v in context.check() if v.level == "refused"] == []
        assert find_type_errors(context.provider, context.to_request()) == []
        with serve_providers() as server:
            await assembler.record("s", send(server, context), context)
        assert not any(seen.refusal or seen.left_out for seen in server.requests)
    if given.told and context.provider not in given.taken_by:
        assert any(rule.startswith(tuple(given.told)) for rule in rules_told(context))


@every_model
async def test_arguments_that_are_json_within_json_are_sent_as_the_object(model: str) -> None:
    spelled = json.dumps(json.dumps({"q": "green tea"}))
    call = ToolCall(call_id="c1", name="look_up", arguments_json=spelled)
    async with ContextAssembler() as assembler:
        await assembler.sessions.append("s", [user_event("go"), assistant_event(call), DONE])
        context = await assembler.assemble("s", model=model, max_tokens=1000)

    assert context.messages[1].tool_calls[0].arguments == {"q": "green tea"}
    assert "green tea" in json.dumps(context.to_request())


@every_model
async def test_of_150_tools_as_many_are_sent_as_are_taken_and_the_others_are_told(
    model: str,
) -> None:
    async with ContextAssembler(tools=[tool(f"tool_{n}") for n in range(150)]) as assembler:
        await assembler.add_user("s", "go")
        context = await assembler.assemble("s", model=model, max_tokens=1000)
        with serve_providers() as server:
            send(server, context)

    assert find_type_errors(context.provider, context.to_request()) == []
    assert len(context.tools) >= 128
    assert len(context.tools) + rules_told(context).count("tool.count") == 150


class OlderModel:
    """A model of an SDK on pydantic 1: it has `dict` alone."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def dict(self, **_options: Any) -> dict[str, Any]:
        return self._fields


class LaxModel(BaseModel, extra="allow"):
    """A model whose type is not the one that we know."""


class OlderDict(dict[str, Any]):
    """The replies of openai before 1.0."""


OLDER_REPLIES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": "Hello.", "citations": None}],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": None,
    },
    "openai_chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "gpt-4.1",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Hello.",
                    "tool_calls": None,
                    "function_call": None,
                },
                "finish_reason": None,
            }
        ],
        "usage": None,
    },
    "openai_responses": {
        "id": "resp_1",
        "object": "response",
        "model": "gpt-6.2-sol",
        "status": None,
        "error": None,
        "usage": None,
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": None,
                "content": [{"type": "output_text", "text": "Hello.", "annotations": None}],
            }
        ],
    },
    "gemini": {
        "candidates": [
            {
                "content": {"role": None, "parts": [{"text": "Hello.", "thought": None}]},
                "finish_reason": None,
            }
        ],
        "usage_metadata": None,
        "model_version": None,
    },
}


SHAPES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a dict": dict,
    "a dict of its own kind": OlderDict,
    "a pydantic 1 model": OlderModel,
    "a pydantic 2 model": lambda fields: LaxModel(**fields),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("provider", MODELS)
async def test_a_reply_of_an_older_sdk_is_recorded_and_sent_back(
    provider: str, shape: Callable[[Any], Any]
) -> None:
    async with ContextAssembler() as assembler:
        await assembler.add_user("s", "hi")
        context = await assembler.assemble("s", model=MODELS[provider], max_tokens=1000)
        event = (await assembler.record("s", shape(OLDER_REPLIES[provider]), context))[-1]
        await assembler.add_user("s", "go")
        context = await assembler.assemble("s", model=MODELS[provider], max_tokens=1000)

        with serve_providers() as server:
            send(server, context)

    assert event.text == "Hello."
    assert find_type_errors(provider, context.to_request()) == []
    assert "Hello." in json.dumps(context.to_request())


MANGLED: dict[str, Any] = {
    "nothing": None,
    "a number": 7,
    "an empty object": {},
    "nulls alone": {"content": None, "choices": None, "output": None, "candidates": None},
    "an empty choice": {"object": "chat.completion", "choices": [None]},
    "content of numbers": {"type": "message", "role": "assistant", "content": [1, None]},
    "output of numbers": {"object": "response", "output": [1, None]},
    "candidates of numbers": {"candidates": [1, None]},
}


@pytest.mark.parametrize("reply", MANGLED.values(), ids=MANGLED.keys())
@every_model
async def test_a_mangled_reply_is_a_reply_error_or_harmless(model: str, reply: Any) -> None:
    async with ContextAssembler() as assembler:
        await assembler.add_user("s", "hi")
        context = await assembler.assemble("s", model=model, max_tokens=1000)
        with suppress(ReplyError):
            await assembler.record("s", reply, context)
        await assembler.add_user("s", "go")
        context = await assembler.assemble("s", model=model, max_tokens=1000)

    assert context.check() == []
    assert find_type_errors(context.provider, context.to_request()) == []
