"""What Responses is sent for turns and parameters, and what its replies are read as."""

import json
from typing import Any

import pytest

from context_assembler.ports import ToolChange, ToolPlan, ToolSpec, change_part
from context_assembler.providers import PROVIDERS
from tests.providers.builders import (
    READ,
    SCHEMA,
    note,
    opaque,
    render,
    render_with_entries,
    reply,
    request,
    user,
)

NAME = "openai_responses"
RESPONSES = PROVIDERS[NAME]
COMPACTION = {"type": "compaction", "id": "cmp_1", "encrypted_content": "Z0FB"}


def items(*turns: Any, **options: Any) -> list[dict[str, Any]]:
    made = render(NAME, *turns, system="", **options)["input"]
    plain: list[dict[str, Any]] = json.loads(json.dumps(made))
    return plain


def said(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **fields}


def opaque_own(block: dict[str, Any], text: str = "") -> dict[str, Any]:
    return opaque(NAME, block, text)


@pytest.mark.parametrize(("supports", "is_marked"), [("gpt-6.2-sol", True), ("gpt-4o", False)])
def test_a_long_system_prompt_is_the_first_message_with_a_cache_mark(
    supports: str, is_marked: bool
) -> None:
    payload = render(NAME, user("a"), model=supports, system="Be brief. " * 400, cache="auto")

    first = payload["input"][0]
    assert (first["role"], "instructions" in payload) == ("developer", False)
    assert ("prompt_cache_breakpoint" in str(first["content"])) is is_marked
    assert payload["prompt_cache_key"] == "trip-42"


PARAMETERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gpt-6.2-sol: nothing is stored": (
        {},
        {"store": False, "max_output_tokens": 4000, "include": ["reasoning.encrypted_content"]},
    ),
    "gpt-6.2-sol: effort": ({"thinking_level": "low"}, {"reasoning": {"effort": "low"}}),
    "gpt-5.5: no reasoning": ({"thinking_budget": 0}, {"reasoning": {"effort": "none"}}),
    "gpt-4o: sampling": ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
    "gpt-5.5: a threshold": (
        {"provider_compaction": 9_999},
        {"context_management": [{"type": "compaction", "compact_threshold": 9_999}]},
    ),
    "gpt-4o: a forced call": (
        {"tool_choice": {"mode": "tool", "name": "read"}},
        {"tool_choice": {"type": "function", "name": "read"}},
    ),
    "gpt-4o: an own tool is chosen by its kind": (
        {
            "tool_choice": {"mode": "tool", "name": "w"},
            "tools": (
                ToolSpec(name="w", native_specs={NAME: {"type": "mcp", "server_label": "l"}}),
            ),
        },
        {"tool_choice": {"type": "mcp", "server_label": "l"}},
    ),
    "gpt-4o: some tools only": (
        {"tool_choice": {"mode": "any", "allowed": ("read",)}},
        {
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "read"}],
            }
        },
    ),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name: str) -> None:
    given, sent = PARAMETERS[name]

    payload = render(NAME, user("a"), model=name.partition(":")[0], **given)

    assert {key: payload.get(key) for key in sent} == sent


def test_tools_say_whether_they_are_strict_and_deferred_ones_are_searched_for() -> None:
    deferred = ToolSpec(name="later", input_schema=SCHEMA, is_deferred=True)
    untyped = ToolSpec(name="u", native_specs={NAME: {}})

    payload, entries = render_with_entries(NAME, user("a"), tools=(READ, deferred, untyped))

    function = {"type": "function", "name": "read", "description": "Read one file."}
    later = {"type": "function", "name": "later", "parameters": SCHEMA, "strict": False}
    assert list(payload["tools"]) == [
        {"type": "tool_search"},
        {**function, "parameters": SCHEMA, "strict": False},
        {**later, "defer_loading": True},
    ]
    assert entries == [("dropped", "tool.native")]


def test_tools_that_came_are_added_behind_the_history() -> None:
    new = ToolSpec(name="new", input_schema=SCHEMA, is_strict=True)
    forms = RESPONSES.change_forms(request(NAME).limits)
    offered = (READ, new)
    plan = ToolPlan(NAME, declared=(READ,), offered=offered, added=(new,), forms=forms)
    told = note(change_part(ToolChange(added=(new,))), note="tools")

    added = items(user("a"), reply("b"), told, user("c"), plan=plan)
    elsewhere = items(user("a"), told, plan=plan._replace(provider="anthropic"))

    tool = {"type": "function", "name": "new", "parameters": SCHEMA, "strict": True}
    assert added[2] == {"type": "additional_tools", "role": "developer", "tools": [tool]}
    assert elsewhere[1] == said("developer", "From here on these tools can be called: new.")


def test_the_prefix_hash_restarts_at_a_compaction() -> None:
    def prefix(*turns: Any) -> str:
        wire = RESPONSES.Wire(request(NAME))
        for turn in turns:
            wire.add(turn)
        return str(wire.prefix())

    compacted = (reply(opaque_own(COMPACTION), "b"), user("c"))

    assert prefix(user("a"), *compacted) == prefix(user("other"), *compacted)
    assert prefix(user("a"), reply("b")) != prefix(user("other"), reply("b"))


# ---- replies ----
