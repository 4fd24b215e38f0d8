"""What Chat Completions is sent for turns and parameters, and what its replies are read as."""

import json
from typing import Any

import pytest

from context_assembler.ports import ToolPlan, ToolSpec
from context_assembler.providers import PROVIDERS
from tests.providers.builders import (
    READ,
    SCHEMA,
    call,
    render,
    render_with_entries,
    reply,
    request,
    result,
    results,
    user,
)

CHAT = PROVIDERS["openai_chat"]
FUNCTION = {"name": "read", "description": "Read one file.", "parameters": SCHEMA}


def messages(*turns: Any, **options: Any) -> list[dict[str, Any]]:
    made = render("openai_chat", *turns, system="", **options)["messages"]
    plain: list[dict[str, Any]] = json.loads(json.dumps(made))
    return plain


def asked(call_id: str, arguments: str = "{}", name: str = "read") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


THOUGHT = {"type": "thinking", "provider": "openai_chat", "text": "need f"}
DETAILS = [{"type": "reasoning.text", "text": "need f", "index": 0}]
DETAILED = {**THOUGHT, "block": {"reasoning_details": DETAILS}}
SHORT = {**THOUGHT, "extras": {"openai_chat": {"field": "reasoning"}}}
PLAIN = {"reasoning_content": "need f"}
BLANK = {"reasoning_content": " "}


@pytest.mark.parametrize(
    ("model", "thought", "behind_calls", "elsewhere"),
    [
        ("deepseek-flash", THOUGHT, PLAIN, PLAIN),
        ("kimi-k3", DETAILED, PLAIN, PLAIN),
        ("kimi-k2.6", THOUGHT, PLAIN, {}),
        ("qwen3.8-max", THOUGHT, PLAIN, {}),
        ("glm-5.3", THOUGHT, PLAIN, {}),
        ("MiniMax-M3", THOUGHT, PLAIN, PLAIN),
        ("MiniMax-M3", DETAILED, *[{"reasoning_details": DETAILS}] * 2),
        ("openrouter/kimi-k3", DETAILED, *[{"reasoning_details": DETAILS}] * 2),
        ("openrouter/google/gemini-4-argon", DETAILED, {"reasoning_details": DETAILS}, {}),
        ("groq/kimi-k3", SHORT, *[{"reasoning": "need f"}] * 2),
        ("groq/kimi-k3", DETAILED, PLAIN, PLAIN),
        ("kimi-k3", SHORT, PLAIN, PLAIN),
        ("gpt-4.1", THOUGHT, {}, {}),
        ("gemini-4-argon", DETAILED, {}, {}),
        ("mistral-large-4", THOUGHT, {}, {}),
        ("deepseek-flash", text("x"), BLANK, BLANK),
        ("deepseek-v4-pro", {**THOUGHT, "provider": "anthropic"}, BLANK, BLANK),
        ("kimi-k2.6", text("x"), BLANK, {}),
        ("glm-5.3", text("x"), {}, {}),
    ],
)
def test_reasoning_goes_back_to_models_that_need_it(
    model: str, thought: dict[str, Any], behind_calls: dict[str, Any], elsewhere: dict[str, Any]
) -> None:
    turns = [user("a"), reply(thought, "b"), user("c"), reply(thought, call("c1"))]
    turns.append(results(result("c1")))

    made = [message for message in messages(*turns, model=model) if message["role"] == "assistant"]

    others = ("role", "content", "tool_calls")
    found = [{k: held for k, held in one.items() if k not in others} for one in made]
    assert found == [elsewhere, behind_calls]


PARAMETERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gpt-4.1: OpenAI's own": ({}, {"max_completion_tokens": 4000}),
    "deepseek-flash: another vendor's": (
        {"top_k": 5},
        {"max_tokens": 4000, "extra_body": {"top_k": 5}},
    ),
    "gpt-4.1: sampling": (
        {"temperature": 0.5, "top_p": 0.9, "stop_sequences": ["x"]},
        {"max_completion_tokens": 4000, "temperature": 0.5, "top_p": 0.9, "stop": ["x"]},
    ),
    "o3: effort": ({"thinking_level": "low"}, {"reasoning_effort": "low"}),
    "gpt-5.5: no reasoning with tools": ({"thinking_level": "high"}, {"reasoning_effort": "none"}),
    "gpt-4.1: a forced call": (
        {"tool_choice": {"mode": "tool", "name": "read", "allows_parallel": False}},
        {"tool_choice": {"type": "function", "function": {"name": "read"}}}
        | {"parallel_tool_calls": False},
    ),
    "gpt-4.1: any call": ({"tool_choice": {"mode": "any"}}, {"tool_choice": "required"}),
    "gpt-4.1: some tools only": (
        {"tool_choice": {"allowed": ("read", "gone")}},
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "read"}}],
                },
            }
        },
    ),
    "gpt-4.1: a cache key": ({"cache": "auto"}, {"prompt_cache_key": "trip-42"}),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name: str) -> None:
    given, sent = PARAMETERS[name]

    payload = render("openai_chat", user("a"), model=name.partition(":")[0], **given)

    assert {key: payload.get(key) for key in sent} == sent


def test_tools() -> None:
    strict = ToolSpec(name="strict one", input_schema=SCHEMA, is_strict=True)
    lax = ToolSpec(name="lax", input_schema={"anyOf": [SCHEMA, {"type": "object"}]}, is_strict=True)
    native = ToolSpec(name="web", native_specs={"openai_chat": {"type": "web_search"}})
    elsewhere = ToolSpec(name="other", native_specs={"anthropic": {"type": "bash"}})
    gateway = ToolSpec(name="g", native_specs={"openai_chat": {"type": "openrouter:search"}})
    tools = (READ, strict, lax, native, elsewhere, gateway)

    payload, entries = render_with_entries("openai_chat", user("a"), tools=tools)

    sent = payload["tools"]
    assert sent[0] == {"type": "function", "function": FUNCTION}
    assert sent[1]["function"]["strict"] is True
    assert sent[1]["function"]["name"].startswith("strict_one_")
    flat = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert sent[2]["function"] == {"name": "lax", "parameters": flat}
    assert sent[3] == {"type": "web_search"}
    assert len(sent) == 4
    assert sorted(entries) == [("dropped", "tool.native")] * 2 + [("repaired", "tool.strict")]


def test_only_so_many_tools_are_offered_and_the_forced_one_stays() -> None:
    tools = tuple(ToolSpec(name=f"t{number:03}") for number in range(130))

    payload, entries = render_with_entries(
        "openai_chat", user("a"), tools=tools, tool_choice={"mode": "tool", "name": "t129"}
    )

    names = [tool["function"]["name"] for tool in payload["tools"]]
    assert (len(names), names[-1]) == (128, "t129")
    assert entries == [("dropped", "tool.count")] * 2


def test_a_withdrawn_tool_stays_declared_and_is_not_allowed() -> None:
    gone = ToolSpec(name="gone", input_schema=SCHEMA)
    forms = CHAT.change_forms(request("openai_chat").limits)
    plan = ToolPlan("openai_chat", declared=(gone, READ), offered=(READ,), forms=forms)

    payload = render("openai_chat", user("a"), plan=plan)

    assert [tool["function"]["name"] for tool in payload["tools"]] == ["gone", "read"]
    allowed = payload["tool_choice"]["allowed_tools"]["tools"]
    assert [tool["function"]["name"] for tool in allowed] == ["read"]


# ---- replies ----


def completion(message: dict[str, Any], finish: str = "stop", **fields: Any) -> dict[str, Any]:
    choices = [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}]
    return {"object": "chat.completion", "id": "x", "model": "m", "choices": choices, **fields}


def test_tools_get_their_names_back() -> None:
    odd = request("openai_chat", tools=(ToolSpec(name="fs.read"),))
    sent = grown(odd, user("a")).write(odd)["tools"][0]["function"]["name"]

    answer = completion({"tool_calls": [asked("c1", name=sent)]})

    assert CHAT.read_reply(answer, odd).parts[0]["name"] == "fs.read"


def grown(asked_for: Any, *turns: Any) -> Any:
    wire = CHAT.Wire(asked_for)
    for turn in turns:
        wire.add(turn)
    return wire


def test_numbers_that_json_does_not_know_are_kept_as_words() -> None:
    read = CHAT.read_reply(completion({"content": [{"type": "odd", "score": float("nan")}]}))

    assert read.parts[0]["block"] == {"type": "odd", "score": "NaN"}
