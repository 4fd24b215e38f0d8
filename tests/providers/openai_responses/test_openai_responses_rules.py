"""Each rule of Responses: the smallest payload that breaks it, and its neighbour that does not."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from context_assembler.providers.openai_responses import OPENAI_RESPONSES
from context_assembler.providers.openai_responses.rule_book import SOURCES, UNCHECKED
from context_assembler.values.limits import ModelLimits
from tests.providers.drafts import GPT_4O, GPT_6_SOL, GPT_62, MISTRAL

GO: dict[str, Any] = {"role": "user", "content": "go"}
CALL: dict[str, Any] = {
    "type": "function_call",
    "call_id": "c1",
    "name": "read_file",
    "arguments": "{}",
}
OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
CUSTOM: dict[str, Any] = {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": "x"}
SAID: dict[str, Any] = {"role": "assistant", "content": "Yes."}
REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gAAAA",
}
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "read_file",
    "parameters": {"type": "object"},
    "strict": False,
}
SHELL: dict[str, Any] = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}}


def payload(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-5.5", "store": False, "input": list(items) or [GO], **fields}


def asks(*pieces: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(pieces)}


def tool(**fields: Any) -> dict[str, Any]:
    return {**TOOL, **fields}


def thought(**fields: Any) -> dict[str, Any]:
    return {**REASONING, **fields}


def check(made: Any, limits: ModelLimits | None = None) -> list[tuple[str, str]]:
    found = OPENAI_RESPONSES.check_payload(made, limits=limits)
    return [(v.rule, v.where) for v in found if v.level == "refused"]


REFUSED: dict[str, tuple[Any, str, str]] = {
    "no input": ({"model": "gpt-5.5"}, "R0", "input"),
    "input of another type": ({"model": "gpt-5.5", "input": 3}, "R0", "input"),
    "an item that is none": (payload("go"), "R0", "input[0]"),
    "an unknown role": (payload({"role": "bot", "content": "x"}), "R0", "input[0].role"),
    "content of another type": (payload({"role": "user", "content": {}}), "R0", "input[0].content"),
    "a piece without a type": (payload(asks({"text": "x"})), "R0", "input[0].content[0].type"),
    "a piece as Chat spells it": (
        payload(asks({"type": "text", "text": "x"})),
        "R0",
        "input[0].content[0].type",
    ),
    "the user's text in a reply": (
        payload(GO, {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}, GO),
        "R0",
        "input[1].content[0].type",
    ),
    "an unanswered call": (payload(GO, CALL, GO), "R1", "input[1]"),
    "an unanswered custom call": (payload(GO, CUSTOM), "R1", "input[1]"),
    "an output without a call": (payload(GO, OUTPUT), "R1", "input[1]"),
    "an output before its call": (payload(GO, OUTPUT, CALL), "R1", "input[1]"),
    "a message between calls at DeepSeek": (
        payload(GO, CALL, SAID, OUTPUT, model="deepseek-v4-flash"),
        "R1",
        "input[2]",
    ),
    "reasoning at the end": (payload(GO, REASONING), "R2", "input[1]"),
    "reasoning before the user": (payload(GO, REASONING, GO), "R2", "input[1]"),
    "stored reasoning whose neighbour lost its id": (
        payload(GO, REASONING, SAID, GO, store=True),
        "R2",
        "input[1]",
    ),
    "reasoning without a summary": (
        payload(GO, thought(summary=None), SAID, GO),
        "R0",
        "input[1].summary",
    ),
    "reasoning that is known by its id alone": (
        payload(GO, thought(encrypted_content=None), SAID, GO),
        "R4",
        "input[1].encrypted_content",
    ),
    "two kinds of state": (payload(previous_response_id="r", conversation="c"), "R5", "conver"),
    "an id of 65 characters": (
        payload(GO, {**CALL, "call_id": "x" * 65}, {**OUTPUT, "call_id": "x" * 65}),
        "R6",
        "input[1].call_id",
    ),
    "a call without an id": (payload(GO, {**CALL, "call_id": None}), "R6", "input[1].call_id"),
    "an output without an id": (payload(GO, {**OUTPUT, "call_id": ""}), "R6", "input[1].call_id"),
    "an output that is none": (
        payload(GO, CALL, {**OUTPUT, "output": None}),
        "R0",
        "input[2].output",
    ),
    "too long an output": (
        payload(GO, CALL, {**OUTPUT, "output": "x" * 10_485_761}),
        "R6",
        "input[2].output",
    ),
    "too long a text": (
        payload(asks({"type": "input_text", "text": "x" * 10_485_761})),
        "R6",
        "input[0].content[0].text",
    ),
    "a call's name with a dot": (
        payload(GO, {**CALL, "name": "a.b"}, OUTPUT),
        "R7",
        "input[1].name",
    ),
    "arguments that are no text": (
        payload(GO, {**CALL, "arguments": {}}, OUTPUT),
        "R7",
        "input[1].arguments",
    ),
    "129 tools": (payload(tools=[TOOL] * 129), "R7", "tools"),
    "a tool without a type": (payload(tools=[{"name": "f"}]), "R7", "tools[0].type"),
    "a tool as Chat spells it": (
        payload(tools=[{"type": "function", "function": {"name": "f"}}]),
        "R7",
        "tools[0].function",
    ),
    "a tool's name with a dot": (payload(tools=[tool(name="a.b")]), "R7", "tools[0].name"),
    "a schema of another type": (
        payload(tools=[tool(parameters={"type": "string"})]),
        "R7",
        "tools[0].parameters.type",
    ),
    "a union at the root": (
        payload(tools=[tool(parameters={"type": "object", "oneOf": []})]),
        "R7",
        "tools[0].parameters.oneOf",
    ),
    "a file search without files": (
        payload(tools=[{"type": "file_search"}]),
        "R7",
        "tools[0].vector_store_ids",
    ),
    "a strict tool with a schema that is not": (
        payload(tools=[tool(strict=True)]),
        "R18",
        "tools[0].parameters",
    ),
    "no room for a reply": (payload(max_output_tokens=15), "R8", "max_output_tokens"),
    "a trigger that is not last": (
        payload({"type": "compaction_trigger"}, GO),
        "R9",
        "input[0]",
    ),
    "an empty compaction": (payload({"type": "compaction"}, GO), "R9", "input[0]"),
    "a compaction that comes too soon": (
        payload(context_management=[{"type": "compaction", "compact_threshold": 999}]),
        "R9",
        "context_management[0].compact_threshold",
    ),
    "temperature while reasoning": (payload(model="o3", temperature=0.5), "R10", "temperature"),
    "logprobs while reasoning": (payload(model="gpt-5", top_logprobs=2), "R10", "top_logprobs"),
    "too much metadata": (payload(metadata={str(i): "x" for i in range(17)}), "R11", "metadata"),
    "JSON that no message mentions": (
        payload(text={"format": {"type": "json_object"}}, instructions="as JSON"),
        "R11",
        "text.format",
    ),
    "a picture without bytes": (
        payload(asks({"type": "input_image", "detail": "auto", "image_url": {"url": "x"}})),
        "R12",
        "input[0].content[0]",
    ),
    "a file without bytes": (
        payload(asks({"type": "input_file", "filename": "a.pdf"})),
        "R12",
        "input[0].content[0]",
    ),
    "sound as a file": (
        payload(
            GO,
            CALL,
            {
                **OUTPUT,
                "output": [{"type": "input_file", "file_data": "data:audio/mpeg;base64,QQ=="}],
            },
        ),
        "R12",
        "input[2].output[0].file_data",
    ),
    "no reasoning where it is always on": (
        payload(model="gpt-5-pro", reasoning={"effort": "none"}),
        "R13",
        "reasoning.effort",
    ),
    "effort where there is no reasoning": (
        payload(model="gpt-4.1", reasoning={"effort": "low"}),
        "R13",
        "reasoning.effort",
    ),
    "reasoning of all turns at o3": (
        payload(model="o3", reasoning={"context": "all_turns"}),
        "R13",
        "reasoning.context",
    ),
    "deep research without sources": (payload(model="o3-deep-research"), "R14", "tools"),
    "a model of Chat alone": (payload(model="gpt-5-search-api"), "R15", "model"),
    "a parameter of Chat": (payload(response_format={"type": "json_object"}), "R15", "response_"),
    "a required call without tools": (payload(tool_choice="required"), "R16", "tool_choice"),
    "a forced tool that is not offered": (
        payload(tools=[TOOL], tool_choice={"type": "function", "name": "f"}),
        "R16",
        "tool_choice",
    ),
    "an allowed tool that is not offered": (
        payload(
            tools=[TOOL],
            tool_choice={
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "f"}],
            },
        ),
        "R16",
        "tool_choice.tools[0]",
    ),
    "too long a cache key": (payload(prompt_cache_key="x" * 65), "R17", "prompt_cache_key"),
    "a lifetime that the model does not have": (
        payload(prompt_cache_retention="in_memory"),
        "R17",
        "prompt_cache_retention",
    ),
    "too long a key of metadata": (payload(metadata={"k" * 65: "x"}), "R11", "metadata.k"),
    "too long a value of metadata": (payload(metadata={"k": "x" * 513}), "R11", "metadata.k"),
    "too long a compaction": (
        payload({"type": "compaction", "encrypted_content": "x" * (20 * 1024 * 1024 + 1)}, GO),
        "R6",
        "input[0].encrypted_content",
    ),
    "a strict answer whose schema is not": (
        payload(text={"format": {"type": "json_schema", "strict": True, "schema": {}}}),
        "R18",
        "text.format.schema",
    ),
    "a number that is none": (payload(GO, temperature=float("nan")), "R0", ""),
    "an output of the local shell without a call": (
        payload(GO, {"type": "local_shell_call_output", "id": "c1", "output": "x"}),
        "R1",
        "input[1]",
    ),
    "the output of a program that is not there": (
        payload(GO, {"type": "program_output", "id": "po", "call_id": "p1", "result": "x"}),
        "R1",
        "input[1]",
    ),
}


@pytest.mark.parametrize(("made", "rule", "where"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(made: Any, rule: str, where: str) -> None:
    assert any(found == rule and at.startswith(where) for found, at in check(made)), check(made)


BLIND = replace(GPT_4O, features={"vision": False})
PICTURE: dict[str, Any] = {"type": "input_image", "detail": "auto", "file_id": "file-1"}
MODEL_RULES: dict[str, tuple[Any, ModelLimits, str]] = {
    "an unknown effort": (payload(reasoning={"effort": "max"}), GPT_6_SOL, "R13"),
    "no reasoning where it is always on": (payload(reasoning={"effort": "none"}), GPT_62, "R13"),
    "effort where there is no reasoning": (payload(reasoning={"effort": "low"}), GPT_4O, "R13"),
    "temperature while the model reasons": (payload(temperature=0.5), GPT_6_SOL, "R10"),
    "a longer reply than there is": (payload(max_output_tokens=16_385), GPT_4O, "R8"),
    "an image for a blind model": (payload(asks(PICTURE)), BLIND, "R12"),
}


@pytest.mark.parametrize(("made", "limits", "rule"), MODEL_RULES.values(), ids=MODEL_RULES.keys())
def test_what_one_model_refuses(made: Any, limits: ModelLimits, rule: str) -> None:
    assert rule in [found for found, _ in check(made, limits)]
    assert check(made) == []


TAKEN: dict[str, tuple[Any, ModelLimits | None]] = {
    "text alone": (payload(input="go"), None),
    "a template": ({"prompt": {"id": "p"}}, None),
    "calls and outputs": (
        payload(GO, CALL, CALL | {"call_id": "c2"}, OUTPUT | {"call_id": "c2"}, OUTPUT),
        None,
    ),
    "an output that a stored response asked for": (
        payload(OUTPUT, previous_response_id="resp_1"),
        None,
    ),
    "an output whose call is referred to": (
        payload({"type": "item_reference", "id": "fc_1"}, OUTPUT, store=True),
        None,
    ),
    "a call that may be answered later": (payload(GO, {**CALL, "async": True}), None),
    "a call of the server's own": (payload(GO, {"type": "web_search_call", "id": "ws_1"}), None),
    "a search for tools that is answered in words": (
        payload(GO, {**SHELL, "type": "tool_search_call"}, OUTPUT),
        None,
    ),
    "reasoning with ids on both": (
        payload(GO, REASONING, {**CALL, "id": "fc_1"}, OUTPUT, store=True),
        None,
    ),
    "reasoning without ids": (payload(GO, thought(id=None), SAID, GO, store=True), None),
    "stored reasoning of an older model": (
        payload(GO, REASONING, SAID, GO, store=True, model="o3-mini"),
        None,
    ),
    "stored reasoning by its id": (
        payload(GO, thought(encrypted_content=None), {**SAID, "id": "msg_1"}, GO, store=True),
        None,
    ),
    "a compaction in the middle": (
        payload(GO, {"type": "compaction", "encrypted_content": "gAAAA"}, GO),
        None,
    ),
    "a trigger at the end": (payload(GO, {"type": "compaction_trigger"}), None),
    "the default temperature while reasoning": (payload(model="gpt-5-nano", temperature=1), None),
    "temperature without reasoning": (
        payload(temperature=0.5, reasoning={"effort": "none"}),
        GPT_6_SOL,
    ),
    "JSON that is mentioned": (
        payload(
            asks({"type": "input_text", "text": "as JSON"}),
            text={"format": {"type": "json_object"}},
        ),
        None,
    ),
    "a compaction by the server": (payload(context_management=[{"type": "compaction"}]), None),
    "effort of an unknown model": (
        payload(model="x", reasoning={"effort": "low"}),
        replace(MISTRAL, id="x"),
    ),
    "deep research": (
        payload(model="o3-deep-research", tools=[{"type": "web_search_preview"}]),
        None,
    ),
    "a tool that is added late": (
        payload(
            GO,
            {"type": "additional_tools", "role": "developer", "tools": [TOOL]},
            tool_choice={"type": "function", "name": "read_file"},
        ),
        None,
    ),
    "a reference without a type": (payload({"id": "msg_1"}, GO, store=True), None),
    "an older model's lifetime": (
        payload(model="gpt-5.4", prompt_cache_retention="in_memory"),
        None,
    ),
    "reasoning that led to a program": (
        payload(GO, REASONING, {"type": "program", "id": "p", "call_id": "p1", "code": ""}, GO),
        None,
    ),
    "reasoning before a compaction": (
        payload(GO, REASONING, {"type": "compaction", "encrypted_content": "gAAAA"}, GO),
        None,
    ),
    "a strict answer": (
        payload(
            text={
                "format": {
                    "type": "json_schema",
                    "strict": True,
                    "schema": {"type": "object", "additionalProperties": False},
                }
            }
        ),
        None,
    ),
    "a server's tool": (
        payload(
            tools=[{"type": "mcp", "server_label": "docs"}],
            tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]},
        ),
        None,
    ),
    "other vendors' ways": (
        payload(
            GO,
            {**CALL, "name": "a.b", "arguments": {}},
            OUTPUT,
            thought(summary=None, encrypted_content=None),
            SAID,
            GO,
            max_output_tokens=8,
            temperature=0.5,
            stop=["x"],
            tools=[tool(strict=True), *[TOOL] * 128],
            tool_choice="required",
            text={"format": {"type": "json_object"}},
            model="x",
        ),
        MISTRAL,
    ),
}


@pytest.mark.parametrize(("made", "limits"), TAKEN.values(), ids=TAKEN.keys())
def test_what_is_taken(made: Any, limits: ModelLimits | None) -> None:
    assert check(made, limits) == []


AVOIDED: dict[str, tuple[Any, ModelLimits | None, str]] = {
    "no model": ({"input": "go"}, None, "R0"),
    "an unknown piece": (payload(asks({"type": "input_smell"})), None, "R0"),
    "the assistant last": (payload(GO, SAID), None, "R0"),
    "two outputs of one call": (payload(GO, CALL, OUTPUT, OUTPUT), None, "R1"),
    "an unanswered call of the shell": (payload(GO, SHELL), None, "R1"),
    "tools found for nobody": (
        payload(GO, {"type": "tool_search_output", "call_id": "c9", "tools": []}),
        None,
        "R1",
    ),
    "a message between a call and its output": (payload(GO, CALL, GO, OUTPUT), None, "R1"),
    "a status of reasoning": (payload(GO, thought(status="completed"), SAID, GO), None, "R2"),
    "reasoning for a model without": (payload(GO, REASONING, SAID, GO), GPT_4O, "R2"),
    "encrypted reasoning of a model without": (
        payload(include=["reasoning.encrypted_content"]),
        GPT_4O,
        "R4",
    ),
    "a reference without a store": (
        payload({"type": "item_reference", "id": "msg_1"}, GO),
        None,
        "R4",
    ),
    "an id that is used twice": (payload(GO, CALL, OUTPUT, CALL, OUTPUT), None, "R7"),
    "arguments that are no object": (payload(GO, {**CALL, "arguments": "{"}, OUTPUT), None, "R7"),
    "two tools of one name": (payload(tools=[TOOL, TOOL]), None, "R7"),
    "strict mode left open": (
        payload(tools=[{"type": "function", "name": "f", "parameters": {"type": "object"}}]),
        None,
        "R18",
    ),
    "a picture without detail": (
        payload(asks({"type": "input_image", "file_id": "file-1"})),
        None,
        "R12",
    ),
    "501 pictures": (payload(asks(*[PICTURE] * 501)), None, "R12"),
    "five marks": (
        payload(
            asks(*[{"type": "input_text", "text": "x", "prompt_cache_breakpoint": {}}] * 5),
        ),
        None,
        "R17",
    ),
    "a cut by the server": (payload(truncation="auto"), None, "R8"),
}
GONE = replace(GPT_4O, retires_on=date(2027, 1, 14))


@pytest.mark.parametrize(
    ("today", "rules"),
    [(None, []), (date(2027, 1, 13), []), (date(2027, 1, 14), ["R19"])],
    ids=["on no day", "on the day before", "on that day"],
)
def test_a_model_that_was_shut_down_is_refused(today: date | None, rules: list[str]) -> None:
    found = OPENAI_RESPONSES.check_payload(payload(), limits=GONE, today=today)

    assert [violation.rule for violation in found] == rules


def test_every_rule_that_a_payload_cannot_break_says_why() -> None:
    numbers = {f"R{number}" for number in range(13)} | {"R3b"}

    assert numbers <= SOURCES.keys() | UNCHECKED.keys()
    assert all(reason.endswith(".") for reason in UNCHECKED.values())


@pytest.mark.parametrize(("made", "limits", "rule"), AVOIDED.values(), ids=AVOIDED.keys())
def test_what_merely_harms(made: Any, limits: ModelLimits | None, rule: str) -> None:
    found = OPENAI_RESPONSES.check_payload(made, limits=limits)

    assert [(v.rule, v.level) for v in found] == [(rule, "avoid")]
