"""Each rule of Chat Completions: the smallest payload that breaks it, and its neighbour that does not."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from context_assembler.providers.openai_chat import OPENAI_CHAT
from context_assembler.providers.openai_chat.rule_book import SOURCES, UNCHECKED
from context_assembler.values.limits import ModelLimits
from tests.providers.drafts import GPT_4O, GPT_6_SOL, GPT_62, MISTRAL

GO: dict[str, Any] = {"role": "user", "content": "go"}
CALL: dict[str, Any] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "read_file", "arguments": "{}"},
}
SAYS: dict[str, Any] = {"role": "assistant", "tool_calls": [CALL]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "read_file"}}
PICTURE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}


def payload(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": list(messages) or [GO], **fields}


def calls(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{**CALL, **fields}]}


def function(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **fields}}


def asks(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def check(made: Any, limits: ModelLimits | None = None) -> list[tuple[str, str]]:
    found = OPENAI_CHAT.check_payload(made, limits=limits)
    return [(v.rule, v.where) for v in found if v.level == "refused"]


REFUSED: dict[str, tuple[Any, str, str]] = {
    "no messages": ({"model": "gpt-4o"}, "C0", "messages"),
    "an unknown role": (payload({"role": "bot", "content": "x"}), "C0", "messages[0].role"),
    "content of another type": (payload({"role": "user", "content": {}}), "C0", "messages[0]."),
    "a part without a type": (payload(asks({"text": "x"})), "C0", "messages[0].content[0].type"),
    "a part of an unknown type": (
        payload(asks({"type": "holo"})),
        "C0",
        "messages[0].content[0].type",
    ),
    "text for a part at Mistral": (
        payload(asks("x"), model="mistral-small3.1"),
        "C0",
        "messages[0].content[0]",
    ),
    "an unanswered call": (payload(GO, SAYS, GO), "C1", "messages[1].tool_calls[0]"),
    "a call at the end": (payload(GO, SAYS), "C1", "messages[1].tool_calls[0]"),
    "a result without a call": (payload(GO, RESULT), "C1", "messages[1]"),
    "a result too late": (payload(GO, SAYS, GO, RESULT), "C1", "messages[3]"),
    "two results of one call": (payload(GO, SAYS, RESULT, RESULT), "C1", "messages[3]"),
    "a call of the user": (
        payload({**GO, "tool_calls": [CALL]}, RESULT),
        "C1",
        "messages[0].tool_calls",
    ),
    "temperature while reasoning": (payload(model="o3", temperature=0.5), "C3", "temperature"),
    "penalties while reasoning": (payload(model="o3", presence_penalty=1), "C3", "presence"),
    "logprobs while reasoning": (payload(model="o3", logprobs=True), "C3", "logprobs"),
    "stop": (payload(model="gpt-5-mini", stop=["a"]), "C3", "stop"),
    "max_tokens while reasoning": (payload(model="gpt-5", max_tokens=5), "C4", "max_tokens"),
    "developer at o1-mini": (
        payload({"role": "developer", "content": "x"}, GO, model="o1-mini"),
        "C5",
        "messages[0].role",
    ),
    "129 tools": (payload(tools=[TOOL] * 129), "C6", "tools"),
    "129 calls": (payload(GO, {**SAYS, "tool_calls": [CALL] * 129}), "C6", "messages[1]"),
    "an id of 41 characters": (payload(GO, calls(id="x" * 41)), "C6", "messages[1].tool_calls[0]"),
    "a tool choice without tools": (payload(tool_choice="auto"), "C6", "tool_choice"),
    "a forced tool that is not offered": (
        payload(tools=[TOOL], tool_choice=function()),
        "C6",
        "tool_choice",
    ),
    "no id": (payload(GO, calls(id=None)), "C7", "messages[1].tool_calls[0].id"),
    "an id twice": (
        payload(GO, {**SAYS, "tool_calls": [CALL, CALL]}, RESULT),
        "C7",
        "messages[1].tool_calls[1].id",
    ),
    "no calls": (payload(GO, {**SAYS, "tool_calls": []}), "C7", "messages[1].tool_calls"),
    "a call's name with a dot": (
        payload(GO, calls(function={"name": "a.b", "arguments": "{}"}), RESULT),
        "C7",
        "messages[1].tool_calls[0].function.name",
    ),
    "arguments that are no text": (
        payload(GO, calls(function={"name": "f", "arguments": {}}), RESULT),
        "C7",
        "messages[1].tool_calls[0].function.arguments",
    ),
    "a tool's name with a dot": (payload(tools=[function(name="a.b")]), "C7", "tools[0]"),
    "a schema of another type": (
        payload(tools=[function(parameters={"type": "string"})]),
        "C8",
        "tools[0].function.parameters.type",
    ),
    "a union at the root": (
        payload(tools=[function(parameters={"type": "object", "oneOf": []})]),
        "C8",
        "tools[0].function.parameters.oneOf",
    ),
    "a strict tool with a schema that is not": (
        payload(tools=[function(strict=True, parameters={"type": "object"})]),
        "C8",
        "tools[0].function.parameters",
    ),
    "a strict answer whose schema is not": (
        payload(
            response_format={
                "type": "json_schema",
                "json_schema": {"strict": True, "schema": {"type": "object"}},
            }
        ),
        "C8",
        "response_format.json_schema.schema",
    ),
    "a custom tool's name with a dot": (
        payload(tools=[{"type": "custom", "custom": {"name": "a.b"}}]),
        "C7",
        "tools[0].custom.name",
    ),
    "an old function's name with a dot": (
        payload(functions=[{"name": "a.b"}]),
        "C7",
        "functions[0].name",
    ),
    "an allowed tool that is not offered": (
        payload(
            tools=[TOOL],
            tool_choice={
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [TOOL, function()]},
            },
        ),
        "C6",
        "tool_choice.allowed_tools.tools[1]",
    ),
    "a forced custom tool that is not offered": (
        payload(tools=[TOOL], tool_choice={"type": "custom", "custom": {"name": "grep"}}),
        "C6",
        "tool_choice",
    ),
    "too long a key of metadata": (payload(metadata={"k" * 65: "x"}), "C9", "metadata.k"),
    "too long a value of metadata": (payload(metadata={"k": "x" * 513}), "C9", "metadata.k"),
    "a lifetime that the model does not have": (
        payload(model="gpt-5.5", prompt_cache_retention="in_memory"),
        "C15",
        "prompt_cache_retention",
    ),
    "a number that is none": (payload(temperature=float("inf")), "C0", ""),
    "JSON that nobody mentions": (
        payload(response_format={"type": "json_object"}),
        "C9",
        "response_format",
    ),
    "five stop sequences": (payload(stop=list("abcde")), "C9", "stop"),
    "too much metadata": (payload(metadata={str(i): "x" for i in range(17)}), "C9", "metadata"),
    "no room for a reply": (payload(max_completion_tokens=0), "C9", "max_completion_tokens"),
    "an assistant that says nothing": (
        payload(GO, {"role": "assistant", "content": None}, GO),
        "C10",
        "messages[1].content",
    ),
    "a user that says nothing": (payload(asks()), "C10", "messages[0].content"),
    "an image of a tool": (
        payload(GO, SAYS, {**RESULT, "content": [PICTURE]}),
        "C11",
        "messages[2].content[0]",
    ),
    "a file of a tool": (
        payload(GO, SAYS, {**RESULT, "content": [{"type": "file", "file": {}}]}),
        "C11",
        "messages[2].content[0]",
    ),
    "json_schema at gpt-4": (
        payload(model="gpt-4", response_format={"type": "json_schema"}),
        "C12",
        "response_format.type",
    ),
    "web search elsewhere": (payload(web_search_options={}), "C12", "web_search_options"),
    "an image with a blank URL": (
        payload(asks({"type": "image_url", "image_url": {"url": " "}})),
        "C14",
        "messages[0].content[0].image_url.url",
    ),
    "an image without a URL": (
        payload(asks({"type": "image_url", "image_url": {"url": None}})),
        "C14",
        "messages[0].content[0].image_url.url",
    ),
    "a file with an unknown field": (
        payload(asks({"type": "file", "file": {"data": "x"}})),
        "C14",
        "messages[0].content[0].file.data",
    ),
    "too long a cache key": (payload(prompt_cache_key="x" * 65), "C15", "prompt_cache_key"),
    "late instructions at Mistral": (
        payload(GO, {"role": "system", "content": "x"}, model="mistral-small-latest"),
        "C16",
        "messages[1]",
    ),
}


@pytest.mark.parametrize(("made", "rule", "where"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(made: Any, rule: str, where: str) -> None:
    assert any(found == rule and at.startswith(where) for found, at in check(made)), check(made)


BLIND = replace(GPT_4O, features={"vision": False})
SOL: dict[str, Any] = {"model": "gpt-6-sol"}
MODEL_RULES: dict[str, tuple[Any, ModelLimits, str]] = {
    "tools with reasoning": (
        payload(tools=[TOOL], reasoning_effort="low", **SOL),
        GPT_6_SOL,
        "C2",
    ),
    "tools where reasoning cannot be off": (payload(tools=[TOOL]), GPT_62, "C2"),
    "an unknown effort": (payload(reasoning_effort="max", **SOL), GPT_6_SOL, "C13"),
    "an effort that a router passes on": (payload(reasoning={"effort": "none"}), GPT_62, "C13"),
    "reasoning switched off": (payload(reasoning={"enabled": False}), GPT_62, "C13"),
    "temperature while the model reasons": (payload(temperature=0.5, **SOL), GPT_6_SOL, "C3"),
    "max_tokens": (payload(max_tokens=5, **SOL), GPT_6_SOL, "C4"),
    "a longer reply than there is": (payload(max_completion_tokens=16_385), GPT_4O, "C9"),
    "an image for a blind model": (payload(asks(PICTURE)), BLIND, "C14"),
}


@pytest.mark.parametrize(("made", "limits", "rule"), MODEL_RULES.values(), ids=MODEL_RULES.keys())
def test_what_one_model_refuses(made: Any, limits: ModelLimits, rule: str) -> None:
    assert rule in [found for found, _ in check(made, limits)]
    assert check(made) == []


TAKEN: dict[str, tuple[Any, ModelLimits | None]] = {
    "calls and results": (payload(GO, SAYS, RESULT, GO, SAYS, RESULT), None),
    "the default temperature while reasoning": (payload(model="gpt-5-nano", temperature=1), None),
    "temperature without reasoning": (
        payload(temperature=0.5, reasoning_effort="none", **SOL),
        GPT_6_SOL,
    ),
    "no stop sequence": (payload(model="o3", stop=[]), None),
    "JSON that is mentioned": (
        payload(asks({"type": "text", "text": "as JSON"}), response_format={"type": "json_object"}),
        None,
    ),
    "web search": (payload(model="gpt-4o-search-preview", web_search_options={}), None),
    "a custom call": (
        payload(
            GO,
            calls(type="custom", custom={"name": "grep", "input": "x"}),
            RESULT,
            tools=[{"type": "custom", "custom": {"name": "grep"}}],
        ),
        None,
    ),
    "old functions": (payload(functions=[{"name": "f"}], tool_choice="auto"), None),
    "a spoken answer": (payload(GO, {"role": "assistant", "audio": {"id": "a"}}, GO), None),
    "a refusal": (payload(GO, {"role": "assistant", "refusal": "no"}, GO), None),
    "an allowed tool": (
        payload(
            tools=[TOOL],
            tool_choice={
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [TOOL]},
            },
        ),
        None,
    ),
    "a forced custom tool": (
        payload(
            tools=[{"type": "custom", "custom": {"name": "grep"}}],
            tool_choice={"type": "custom", "custom": {"name": "grep"}},
        ),
        None,
    ),
    "an older model's lifetime": (payload(prompt_cache_retention="in_memory"), None),
    "an image as plain text": (
        payload(asks({"type": "image_url", "image_url": "https://example.com/a.png"})),
        None,
    ),
    "other vendors' ways": (
        payload(
            GO,
            calls(id="x" * 41, function={"name": "a.b", "arguments": {}}),
            {**RESULT, "tool_call_id": "x" * 41},
            max_tokens=9_000,
            stop=list("abcde"),
            tool_choice="auto",
            model="x",
        ),
        MISTRAL,
    ),
}


@pytest.mark.parametrize(("made", "limits"), TAKEN.values(), ids=TAKEN.keys())
def test_what_is_taken(made: Any, limits: ModelLimits | None) -> None:
    assert check(made, limits) == []


LATE = payload(GO, {"role": "system", "content": "x"}, GO, model="x")
AVOIDED: dict[str, tuple[Any, ModelLimits | None, str]] = {
    "no model": ({"messages": [GO]}, None, "C0"),
    "text for a part": (payload(asks("x")), None, "C0"),
    "a part of an unknown type": (payload(asks({"type": "holo"}), model="x"), None, "C0"),
    "tools with the effort left open": (payload(tools=[TOOL], **SOL), GPT_6_SOL, "C2"),
    "max_tokens": (payload(max_tokens=5), None, "C4"),
    "two roles for instructions": (
        payload({"role": "system", "content": "x"}, {"role": "developer", "content": "y"}, GO),
        None,
        "C5",
    ),
    "two tools of one name": (payload(tools=[TOOL, TOOL]), None, "C7"),
    "arguments that are no object": (
        payload(GO, calls(function={"name": "f", "arguments": "{"}), RESULT),
        None,
        "C7",
    ),
    "calls that are null": (
        payload(GO, {"role": "assistant", "content": "x", "tool_calls": None}, GO),
        None,
        "C7",
    ),
    "empty content beside calls": (payload(GO, {**SAYS, "content": ""}, RESULT), None, "C10"),
    "an empty answer": (payload(GO, {"role": "assistant", "content": ""}, GO), None, "C10"),
    "an empty question": (payload({"role": "user", "content": ""}), None, "C10"),
    "a silent assistant elsewhere": (
        payload(GO, {"role": "assistant", "content": None}, GO, model="x"),
        None,
        "C10",
    ),
    "an empty part": (payload(asks({"type": "text", "text": ""})), None, "C10"),
    "501 images": (payload(asks(*[PICTURE] * 501)), None, "C14"),
    "an image of too many characters": (
        payload(
            asks({"type": "image_url", "image_url": {"url": "https://x.org/" + "x" * 20_971_521}})
        ),
        None,
        "C14",
    ),
    "five marks": (
        payload(asks(*[{"type": "text", "text": "x", "prompt_cache_breakpoint": {}}] * 5)),
        None,
        "C15",
    ),
    "a strict tool elsewhere": (
        payload(tools=[function(strict=True, parameters={"type": "object"})], model="x"),
        None,
        "C8",
    ),
    "late instructions elsewhere": (LATE, None, "C16"),
    "the assistant last": (payload(GO, {"role": "assistant", "content": "x"}), None, "C16"),
}


@pytest.mark.parametrize(("made", "limits", "rule"), AVOIDED.values(), ids=AVOIDED.keys())
def test_what_merely_harms(made: Any, limits: ModelLimits | None, rule: str) -> None:
    found = OPENAI_CHAT.check_payload(made, limits=limits)

    assert [(v.rule, v.level) for v in found] == [(rule, "avoid")]


GONE = replace(GPT_4O, retires_on=date(2027, 1, 14))


@pytest.mark.parametrize(
    ("today", "rules"),
    [(None, []), (date(2027, 1, 13), []), (date(2027, 1, 14), ["C17"])],
    ids=["on no day", "on the day before", "on that day"],
)
def test_a_model_that_was_shut_down_is_refused(today: date | None, rules: list[str]) -> None:
    found = OPENAI_CHAT.check_payload(payload(), limits=GONE, today=today)

    assert [violation.rule for violation in found] == rules


def test_every_rule_that_a_payload_cannot_break_says_why() -> None:
    numbers = {f"C{number}" for number in range(11)}

    assert numbers <= SOURCES.keys()
    assert UNCHECKED.keys() <= SOURCES.keys()
    assert all(reason.endswith(".") for reason in UNCHECKED.values())
