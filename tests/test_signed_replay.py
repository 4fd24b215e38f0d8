"""Signed reasoning through the facade: whom it is sent to, and over which protocol."""

import json
import pickle
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import pytest

from context_assembler import AssembledContext, AssemblerConfig, ContextAssembler
from context_assembler.providers import PROVIDERS
from context_assembler.values.events import AssistantBody

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

Block: TypeAlias = dict[str, Any]


def of_claude(*blocks: Mapping[str, Any], stop_reason: str = "end_turn") -> dict[str, Any]:
    return {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "model": "c",
        "content": list(blocks),
        "stop_reason": stop_reason,
        "usage": None,
    }


def of_gemini(*parts: Mapping[str, Any]) -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finish_reason": "STOP"}]}


def of_gpt(number: int) -> dict[str, Any]:
    """Return a response with encrypted reasoning `gAAA<number>` and a message."""
    said: Block = {"type": "output_text", "text": f"answer {number}", "annotations": []}
    reasoning: Block = {
        "type": "reasoning",
        "id": f"rs_{number}",
        "summary": [],
        "encrypted_content": f"gAAA{number}",
    }
    message: Block = {
        "type": "message",
        "id": f"msg_{number}",
        "role": "assistant",
        "status": "completed",
        "content": [said],
    }
    return {
        "object": "response",
        "id": f"r{number}",
        "status": "completed",
        "model": "g",
        "output": [reasoning, message],
        "usage": None,
    }


def of_chat(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"object": "chat.completion", "id": "x", "model": "g", "choices": [choice]}


def thought(text: str = "") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": "U0lH"}


def said(text: str = "a") -> dict[str, Any]:
    return {"type": "text", "text": text}


async def session(*turns: tuple[str, dict[str, Any], dict[str, Any]]) -> ContextAssembler:
    """Return an assembler whose session `s` has one reply per turn: model, reply, options."""
    assembler = ContextAssembler(sessions="memory:")
    await assembler.add_user("s", "hi")
    for model, reply, options in turns:
        context = await assembler.assemble("s", model=model, **options)
        await assembler.record("s", reply, context)
        await assembler.add_user("s", "next")
    return assembler


def rules(context: AssembledContext) -> list[str]:
    return [e.rule for e in context.report.of("cleared", "dropped", "repaired")]


def body(context: AssembledContext, provider: str | None = None) -> str:
    assert context.check(provider) == []
    return json.dumps(context.to_request(provider), ensure_ascii=False)


# A reply, whom it goes to next, and what becomes of its signature.
SIGNED_PICTURE = of_gemini(
    {"inline_data": {"mime_type": "image/png", "data": PNG}, "thought_signature": "U0lH"}
)
SIGNED_CODE = of_gemini(
    {"executable_code": {"language": "PYTHON", "code": "1"}, "thought_signature": "U0lH"}
)
SIGNED_TEXT = of_gemini({"text": "x", "thought_signature": "U0lH"})
ROUTES: dict[str, tuple[str, dict[str, Any], str, list[str]]] = {
    "a picture, its own model": ("gemini-4-argon", SIGNED_PICTURE, "gemini-4-argon", []),
    "a picture, another model": (
        "gemini-4-argon",
        SIGNED_PICTURE,
        "gemini-3.8-flash",
        ["reasoning.model"],
    ),
    "code, another model": (
        "gemini-4-argon",
        SIGNED_CODE,
        "gemini-3.8-flash",
        ["reasoning.model"],
    ),
    "text, another route": (
        "gemini-4-argon",
        SIGNED_TEXT,
        "vertex_ai/gemini-4-argon",
        ["reasoning.account"],
    ),
    "thinking bound to its account, another route": (
        "claude-haiku-5-5",
        of_claude(thought(), said()),
        "vertex_ai/claude-haiku-5-5",
        ["reasoning.account"],
    ),
    "thinking bound to no account, another route": (
        "claude-opus-4-8",
        of_claude(thought(), said()),
        "vertex_ai/claude-opus-4-8",
        [],
    ),
}


@pytest.mark.parametrize(("maker", "reply", "model", "lost"), ROUTES.values(), ids=ROUTES.keys())
async def test_a_signature_goes_to_whom_it_is_bound_to_and_to_nobody_else(
    maker: str, reply: dict[str, Any], model: str, lost: list[str]
) -> None:
    assembler = await session((maker, reply, {}))

    context = await assembler.assemble("s", model=model)

    assert ("U0lH" in body(context)) == (not lost)
    assert rules(context) == lost


async def test_a_signed_picture_goes_to_no_other_account() -> None:
    first = await session(("gemini-4-argon", SIGNED_PICTURE, {}))
    other = ContextAssembler(first.sessions, config=AssemblerConfig(account="other"))

    context = await other.assemble("s", model="gemini-4-argon")

    assert "U0lH" not in body(context)
    assert PNG in body(context)
    assert rules(context) == ["reasoning.account"]


@pytest.mark.parametrize("text", ["read a\0b", "half a \ud83d"], ids=["a NUL", "half a character"])
async def test_signed_thinking_that_no_request_can_carry_is_left_out_and_told(text: str) -> None:
    assembler = await session(
        ("claude-opus-5-5", of_claude(thought(text), said()), {}),
        ("claude-opus-5-5", of_claude(thought(), said()), {}),
    )

    context = await assembler.assemble("s", model="claude-opus-5-5")

    sent = [block for m in context.to_request()["messages"] for block in m["content"]]
    assert [block for block in sent if block["type"] == "thinking"] == [thought()]
    assert rules(context) == ["repair.clean_text", "reasoning.unsigned"]


@pytest.mark.parametrize("model", ["mistral-large-4", "gpt-6-astra", "gemini-4-argon"])
async def test_a_paused_turn_that_moves_elsewhere_ends_with_the_user(model: str) -> None:
    call: Block = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    reply = of_claude(said("Searching."), call, stop_reason="pause_turn")
    assembler = ContextAssembler(sessions="memory:")
    await assembler.add_user("s", "hi")
    context = await assembler.assemble("s", model="claude-opus-5-5")
    await assembler.record("s", reply, context)

    context = await assembler.assemble("s", model=model)

    assert "Searching." in body(context)
    assert "repair.server_call" in rules(context)
    assert [message.role for message in context.messages if message.role != "system"][-1] == "user"


# Which reasoning of the first of two replies is sent for the third.
BETWEEN: dict[str, tuple[list[tuple[str, dict[str, Any], dict[str, Any]]], str, dict[str, Any]]] = {
    "another model of OpenAI's": (
        [("gpt-6-astra", of_gpt(1), {}), ("gpt-6-sol", of_gpt(2), {})],
        "gpt-6-astra",
        {},
    ),
    "another effort": (
        [
            ("gpt-6.2-sol", of_gpt(1), {"thinking_level": "high"}),
            ("gpt-6.2-sol", of_gpt(2), {"thinking_level": "low"}),
        ],
        "gpt-6.2-sol",
        {"thinking_level": "high"},
    ),
    "another vendor": (
        [("gpt-6.2-sol", of_gpt(1), {}), ("claude-opus-5-5", of_claude(thought(), said()), {})],
        "gpt-6.2-sol",
        {},
    ),
}


@pytest.mark.parametrize(("turns", "model", "options"), BETWEEN.values(), ids=BETWEEN.keys())
async def test_reasoning_comes_back_with_its_model_whoever_spoke_in_between(
    turns: list[tuple[str, dict[str, Any], dict[str, Any]]], model: str, options: dict[str, Any]
) -> None:
    context = await (await session(*turns)).assemble("s", model=model, **options)

    assert "gAAA1" in body(context)
    assert "gAAA2" not in body(context)
    assert "reasoning.chain" not in rules(context)


@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-opus-5-5"])
async def test_thinking_of_claude_comes_back_after_another_vendor_spoke(model: str) -> None:
    assembler = await session(
        (model, of_claude(thought(), said()), {}), ("gpt-6-astra", of_gpt(2), {})
    )

    context = await assembler.assemble("s", model=model)

    assert "U0lH" in body(context)
    assert rules(context) == ["reasoning.provider"]


# ---- models that are asked over two protocols ----

BOTH = ("gpt-5.2", "o3", "gpt-5", "gpt-5.1", "gpt-5.3-codex")


@pytest.mark.parametrize("model", BOTH)
async def test_responses_takes_the_reasoning_that_chat_completions_cannot(model: str) -> None:
    assembler = await session((model, of_gpt(1), {}))

    context = await assembler.assemble("s", model=model)

    assert "gAAA1" in body(context, "openai_responses")
    assert rules(context.for_provider("openai_responses")) == []
    assert "gAAA1" not in body(context, "openai_chat")
    assert rules(context) == ["reasoning.protocol"]


async def test_what_another_protocol_is_sent_is_counted_and_cut_by_itself() -> None:
    assembler = await session(("o3", of_gpt(1), {}))

    context = await assembler.assemble("s", model="o3")

    other = context.for_provider("openai_responses")
    assert other.provider == "openai_responses"
    assert other.metadata.ledger.used_tokens > context.metadata.ledger.used_tokens
    assert other.metadata.assembly_ms == context.metadata.assembly_ms
    assert context.for_provider("openai_chat") is context


async def test_what_is_sent_over_responses_only_grows_and_is_recorded_as_sent() -> None:
    assembler = await session()
    sent: list[list[Any]] = []
    for number in range(1, 4):
        context = await assembler.assemble("s", model="o3")
        sent.append(context.to_openai_responses()["input"])
        [*_, event] = await assembler.record("s", of_gpt(number), context)
        draft = context.for_provider("openai_responses").draft
        assert isinstance(event.body, AssistantBody)
        assert event.body.made_by is not None
        assert (
            event.body.made_by.prefix_fingerprint
            == (PROVIDERS["openai_responses"].fingerprints(draft)[-1])
        )
        await assembler.add_user("s", "next")

    assert all(later[: len(first)] == first for first, later in pairwise(sent))
    assert [item["id"] for item in sent[2] if item["type"] == "reasoning"] == ["rs_1", "rs_2"]


# Sessions and models for which there is one request only.
ALONE: dict[str, tuple[str, dict[str, Any]]] = {
    "nothing came over Responses": ("o3", of_chat("a")),
    "a model that does not reason": ("gpt-4.1", of_gpt(1)),
    "a model that speaks Responses anyway": ("gpt-6-astra", of_gpt(1)),
    "a gateway that speaks Chat Completions": ("openrouter/openai/o3", of_gpt(1)),
    "another vendor": ("mistral-large-4", of_gpt(1)),
}


@pytest.mark.parametrize(("model", "reply"), ALONE.values(), ids=ALONE.keys())
async def test_nothing_is_made_twice_where_one_request_serves(
    model: str, reply: dict[str, Any]
) -> None:
    assembler = await session((model, reply, {}))

    context = await assembler.assemble("s", model=model)

    assert context.others == {}
    assert context.for_provider(context.provider) is context


async def test_azure_speaks_both_protocols_as_well() -> None:
    assembler = await session(("azure/o3", of_gpt(1), {}))

    own = await assembler.assemble("s", model="azure/o3")
    openai = await assembler.assemble("s", model="o3")

    assert "gAAA1" in body(own, "openai_responses")
    assert "gAAA1" not in body(openai, "openai_responses")
    assert rules(openai) == ["reasoning.unsupported"]


async def test_a_context_of_two_protocols_can_be_pickled_and_comes_from_the_cache() -> None:
    assembler = await session(("o3", of_gpt(1), {}))
    first = await assembler.assemble("s", model="o3")

    again = await assembler.assemble("s", model="o3")
    copied = pickle.loads(pickle.dumps(again))

    assert again.metadata.cache_hit
    assert again.for_provider("openai_responses").metadata.cache_hit
    assert copied.to_openai_responses() == first.to_openai_responses()


async def test_reasoning_that_does_not_fit_over_the_other_protocol_is_told() -> None:
    reply = of_gpt(1)
    reply["output"][0]["encrypted_content"] = "gAAA" * 20_000
    reply["output"][1] = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "look",
        "arguments": "{}",
        "status": "completed",
    }
    assembler = ContextAssembler(sessions="memory:")
    await assembler.add_user("s", "hi")
    await assembler.record("s", reply, await assembler.assemble("s", model="o3"))
    await assembler.add_tool_result("s", "c1", "found")

    context = await assembler.assemble("s", model="o3", max_context_tokens=6000, max_tokens=1000)

    assert context.others == {}
    assert "gAAA" not in body(context, "openai_responses")
    [warning] = [w for w in context.report.warnings if w.startswith("Over openai_responses")]
    assert "no reasoning is sent either" in warning
