"""Literal specs in every provider's shape."""

from typing import Any

import pytest

from context_assembler.errors import InvalidToolError
from context_assembler.tools.shapes import read_shape
from context_assembler.values.parts import JsonObject
from context_assembler.values.tools import ToolSpec

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}
SEARCH = ToolSpec(name="search", description="Find.", input_schema=SCHEMA)
BARE = {"name": "search", "description": "Find."}

FUNCTIONS: dict[str, JsonObject] = {
    "OpenAI chat": {"type": "function", "function": {**BARE, "parameters": SCHEMA}},
    "OpenAI chat without type": {"function": {**BARE, "parameters": SCHEMA}},
    "OpenAI responses": {"type": "function", **BARE, "parameters": SCHEMA},
    "OpenAI's first functions": {**BARE, "parameters": SCHEMA},
    "Anthropic": {**BARE, "input_schema": SCHEMA},
    "Anthropic with type": {**BARE, "type": "custom", "input_schema": SCHEMA},
    "MCP": {**BARE, "inputSchema": SCHEMA, "title": "Search", "outputSchema": SCHEMA},
    "Gemini": {
        "functionDeclarations": [
            {**BARE, "parameters": {"type": "OBJECT", "properties": {"q": {"type": "STRING"}}}}
        ]
    },
    "Gemini in snake case": {"function_declarations": [{**BARE, "parameters_json_schema": SCHEMA}]},
    "Gemini with a JSON schema": {
        "functionDeclarations": [{**BARE, "parametersJsonSchema": SCHEMA}]
    },
    "Bedrock": {"toolSpec": {**BARE, "inputSchema": {"json": SCHEMA}}},
}


@pytest.mark.parametrize("spec", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_a_function_reads_the_same_from_every_shape(spec: JsonObject) -> None:
    read = read_shape(spec)

    assert read.specs == (SEARCH,)
    assert read.notes == ()


OWN: dict[str, tuple[JsonObject, str, str]] = {
    "Anthropic's web search": (
        {"type": "web_search_20260209", "name": "web_search", "max_uses": 3},
        "anthropic",
        "web_search",
    ),
    "Anthropic's MCP toolset": (
        {"type": "mcp_toolset", "mcp_server_name": "docs"},
        "anthropic",
        "docs",
    ),
    "OpenAI's web search": ({"type": "web_search"}, "openai_responses", "web_search"),
    "OpenAI's MCP": ({"type": "mcp", "server_label": "wiki"}, "openai_responses", "wiki"),
    "OpenAI's custom tool": (
        {"type": "custom", "name": "sql", "format": {"type": "text"}},
        "openai_responses",
        "sql",
    ),
    "chat's custom tool": ({"type": "custom", "custom": {"name": "sql"}}, "openai_chat", "sql"),
    "a gateway's own": ({"type": "openrouter:web_search"}, "openai_chat", "openrouter_web_search"),
    "Gemini's search": ({"googleSearch": {}}, "gemini", "google_search"),
    "Gemini's code": ({"code_execution": {}}, "gemini", "code_execution"),
    "Bedrock's own": ({"systemTool": {"name": "nova"}}, "bedrock", "nova"),
}


@pytest.mark.parametrize(("spec", "provider", "name"), OWN.values(), ids=OWN.keys())
def test_a_providers_own_tool_is_for_that_provider_alone(
    spec: JsonObject, provider: str, name: str
) -> None:
    read = read_shape(spec)

    assert [tool.name for tool in read.specs] == [name]
    assert read.specs[0].native_specs == {provider: spec}


def test_gemini_may_list_functions_and_its_own_tools_together() -> None:
    read = read_shape(
        {
            "functionDeclarations": [{"name": "a"}, {"name": "b"}],
            "googleSearch": {},
            "retrieval": None,
        }
    )

    assert [tool.name for tool in read.specs] == ["a", "b", "google_search"]


def test_strictness_and_safety_are_read() -> None:
    strict = read_shape({"name": "a", "input_schema": SCHEMA, "strict": True}).specs[0]
    safe = read_shape({"name": "a", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}})
    unsafe = read_shape({"name": "a", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": 1}})

    assert strict.is_strict is True
    assert safe.specs[0].is_safe is True
    assert unsafe.specs[0].is_safe is None


def test_what_is_not_carried_over_is_said() -> None:
    read = read_shape(
        {"name": "a", "input_schema": SCHEMA, "input_examples": [], "cache_control": {}}
    )

    assert read.notes == ("Tool 'a': 'input_examples' is not carried over.",)


@pytest.mark.parametrize("shape", [{"input_schema": SCHEMA}, {"type": "function"}])
def test_a_spec_may_ask_to_be_deferred(shape: JsonObject) -> None:
    flat = read_shape({"name": "a", "defer_loading": True, **shape})
    nested = read_shape({"type": "function", "function": {"name": "a"}, "defer_loading": False})
    silent = read_shape({"name": "a", "defer_loading": "yes", **shape})

    asked = [read.specs[0].is_deferred for read in (flat, nested, silent)]
    assert asked == [True, False, None]
    assert flat.notes == ()


UNREADABLE: dict[str, tuple[JsonObject, str]] = {
    "nothing": ({}, "none of the known shapes"),
    "no name": ({"type": "function", "function": {"parameters": SCHEMA}}, "name is missing"),
    "an empty name": ({"name": " ", "input_schema": SCHEMA}, "name is missing"),
    "a name that is no text": ({"name": 3, "input_schema": SCHEMA}, "name is missing"),
    "a schema that is no object": ({"name": "a", "parameters": "x"}, "'a' .*no object"),
    "a declaration that is no object": ({"functionDeclarations": ["a"]}, "name is missing"),
    "a type in capitals that is none": (
        {"functionDeclarations": [{"name": "a", "parameters": {"type": "BLOB"}}]},
        "'BLOB'",
    ),
}


@pytest.mark.parametrize(("spec", "says"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_is_no_tool_is_refused(spec: JsonObject, says: str) -> None:
    with pytest.raises(InvalidToolError, match=says):
        read_shape(spec)
