"""What `generate_content` is sent for turns and parameters, and what its replies are read as."""

from dataclasses import replace
from typing import Any

import pytest

from context_assembler.ports import ToolPlan, ToolSpec
from context_assembler.providers import PROVIDERS
from tests.providers.builders import (
    READ,
    SCHEMA,
    render,
    render_with_entries,
    reply,
    request,
    result,
    results,
    user,
)

GEMINI = PROVIDERS["gemini"]
OLDER = "gemini-2.5-pro"


# ---- tools and parameters ----

REFERRING = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/A", "description": "An a."}},
    "$defs": {"A": {"type": "string"}},
}


def test_tools_are_one_list_of_functions_and_the_servers_own() -> None:
    tools = (
        replace(READ, name="2nd.read", is_strict=True),
        ToolSpec(name="refer", input_schema=REFERRING),
        ToolSpec(name="lost", input_schema={"properties": {"a": {"$ref": "https://a.org/b"}}}),
        ToolSpec(name="search", native_specs={"gemini": {"google_search": {}}}),
        ToolSpec(name="other", native_specs={"anthropic": {}}),
    )

    payload, entries = render_with_entries("gemini", user("a"), tools=tools)
    functions, search = payload["config"]["tools"]
    read, refer = functions["function_declarations"]

    assert read["name"].startswith("_2nd_read_")
    assert read["parameters_json_schema"] == SCHEMA
    assert refer["parameters_json_schema"]["properties"] == {
        "a": {"description": "An a.", "anyOf": [{"$ref": "#/$defs/A"}]}
    }
    assert search == {"google_search": {}}
    assert payload["config"]["tool_config"] == {"include_server_side_tool_invocations": True}
    assert payload["config"]["automatic_function_calling"] == {"disable": True}
    assert entries == [
        ("dropped", "tool.native"),
        ("repaired", "tool.strict"),
        ("dropped", "tool.schema"),
    ]


CALLING = "function_calling_config"
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a level": (
        {"thinking_level": "low"},
        {"thinking_config": {"thinking_level": "LOW", "include_thoughts": True}},
    ),
    "a budget": (
        {"model": OLDER, "thinking_budget": 99},
        {"thinking_config": {"thinking_budget": 99, "include_thoughts": True}},
    ),
    "no thinking": (
        {"model": "gemini-2.5-flash", "thinking_level": "none"},
        {"thinking_config": {"thinking_budget": 0}},
    ),
    "sampling": ({"model": OLDER, "top_k": 5}, {"top_k": 5}),
    "sampling that is ignored": ({"temperature": 0.5}, {}),
    "stop sequences": ({"stop_sequences": ["END"]}, {"stop_sequences": ["END"]}),
    "any tool": (
        {"tool_choice": {"mode": "any", "allows_parallel": False}},
        {"tool_config": {CALLING: {"mode": "ANY"}}},
    ),
    "one tool": (
        {"tool_choice": {"mode": "tool", "name": "read"}},
        {"tool_config": {CALLING: {"mode": "ANY", "allowed_function_names": ["read"]}}},
    ),
    "some tools": (
        {"tool_choice": {"mode": "auto", "allowed": ("read", "gone")}},
        {"tool_config": {CALLING: {"mode": "VALIDATED", "allowed_function_names": ["read"]}}},
    ),
}
USUAL = {"system_instruction", "tools", "automatic_function_calling", "max_output_tokens"}


@pytest.mark.parametrize(("options", "expected"), SETTINGS.values(), ids=SETTINGS.keys())
def test_parameters_become_the_config(options: dict[str, Any], expected: dict[str, Any]) -> None:
    config = render("gemini", user("a"), **options)["config"]

    assert {key: held for key, held in config.items() if key not in USUAL} == expected


def test_tools_are_withdrawn_by_naming_those_that_stay() -> None:
    write = replace(READ, name="write")
    forms = GEMINI.change_forms(request("gemini").limits)
    plan = ToolPlan("gemini", (READ, write), (READ,), forms=forms)

    config = render("gemini", user("a"), tools=(READ, write), plan=plan)["config"]

    assert config["tool_config"][CALLING]["allowed_function_names"] == ["read"]
    assert GEMINI.tool_search(request("gemini").limits) is None


# ---- replies ----


def chunk(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **fields}]}


def piece(name: str = "", **fields: Any) -> dict[str, Any]:
    return chunk({"functionCall": {**({"name": name, "id": "c1"} if name else {}), **fields}})


SAYS_A: Any = [{"jsonPath": "$.a", "numberValue": 1}]
PIECES: dict[str, list[dict[str, Any]]] = {
    "a name, then arguments": [
        *(piece("read", willContinue=True), piece(partialArgs=SAYS_A, willContinue=True), piece())
    ],
    "an end that says so": [
        *(piece("read", willContinue=True), piece(partialArgs=SAYS_A, willContinue=False))
    ],
    "all in one": [piece("read", partialArgs=SAYS_A)],
    "the SDK's names": [
        *(piece("read", will_continue=True), piece(partial_args=SAYS_A, will_continue=False))
    ],
    "broken off": [piece("read", willContinue=True)],
}


@pytest.mark.parametrize("chunks", PIECES.values(), ids=PIECES.keys())
def test_a_call_in_pieces_is_unfinished_and_no_piece_is_a_call(chunks: list[Any]) -> None:
    read = GEMINI.read_reply([*chunks, chunk(finishReason="STOP")])

    called = [part for part in read.parts if part["type"] == "tool_call"]
    assert [(part["call_id"], part["name"]) for part in called] == [("c1", "read")]
    assert read.unfinished_calls == ("c1",)
    payload = render("gemini", user("a"), reply(*read.parts), results(result("c1")))
    assert [*payload["contents"][1]["parts"][0]] == ["function_call", "thought_signature"]
    assert len(payload["contents"][1]["parts"]) == 1


# ---- contents as events ----


@pytest.mark.parametrize("between", [[], [{"role": "model", "parts": [{"text": "b"}]}]])
def test_calls_in_several_contents_are_answered_in_one(between: list[Any]) -> None:
    calls = [{"role": "model", "parts": [{"functionCall": {"name": name}}]} for name in "fg"]
    answers = [{"functionResponse": {"name": name, "response": {"output": name}}} for name in "fg"]
    asked = {"role": "user", "parts": [{"text": "a"}]}
    contents = [asked, calls[0], *between, calls[1], {"role": "user", "parts": answers}]

    events = GEMINI.read_messages(contents)

    parts = [part for _, body in events for part in body["parts"]]
    called = [part["call_id"] for part in parts if part["type"] == "tool_call"]
    assert [part["call_id"] for part in parts if part["type"] == "tool_result"] == called
    assert len({*called}) == 2


def test_a_part_of_a_reply_that_is_odd_is_kept_and_not_sent() -> None:
    read = GEMINI.read_reply(chunk({}, {"text": 5, "thoughtSignature": "c2ln"}, {"text": "b"}))

    payload, entries = render_with_entries("gemini", user("a"), reply(*read.parts), user("c"))

    assert [part.get("block") for part in read.parts] == [
        {},
        {"text": 5, "thoughtSignature": "c2ln"},
        None,
    ]
    assert payload["contents"][1]["parts"] == [{"text": "b"}]
    assert entries == [("shortened", "content.fields")]


@pytest.mark.parametrize("value", [None, 5, "text", {"text": "lone"}, [5, "x"]])
def test_parts_of_any_shape_are_read(value: Any) -> None:
    [(kind, body)] = GEMINI.read_messages([{"role": "model", "parts": value}])

    assert kind == "assistant"
    assert all(part["type"] == "text" for part in body["parts"])
