"""Tools that came, went, or are searched for, as each provider is told of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from context_assembler import get_model_limits
from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.values.deferral import ToolSearch
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import JsonObject, Text
from context_assembler.values.tool_changes import (
    NO_CHANGES,
    ToolChange,
    ToolPlan,
    apply_changes,
    note_of_change,
)
from context_assembler.values.tools import ToolChoice, ToolSpec

CLAUDE, GPT = get_model_limits("claude-opus-5-5"), get_model_limits("gpt-6.2-sol")
CHAT, GEMINI = get_model_limits("gpt-4.1"), get_model_limits("gemini-4-argon")
OTHER = get_model_limits("openrouter/mistralai/mistral-large-2512", unknown="conservative")
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}


def tool(name: str, description: str = "Works.", **fields: Any) -> ToolSpec:
    return ToolSpec(name=name, description=description, input_schema=SCHEMA, **fields)


A, B, DOTTED = tool("a"), tool("b"), tool("fs.read")


def said(role: Any, text: str) -> Message:
    return Message(role=role, parts=(Text(text),))


def telling(
    limits: ModelLimits,
    changes: Sequence[ToolChange] = (),
    *,
    declared: tuple[ToolSpec, ...] = (A, B),
    offered: tuple[ToolSpec, ...] | None = None,
    choice: ToolChoice | None = None,
) -> Draft:
    """Return a draft of as many turns as there are changes, each told at the end of one."""
    provider = PROVIDERS[provider_for(limits)]
    messages: list[Message] = [said("user", "Go.")]
    for change in changes:
        messages += [said("assistant", "Done."), said("user", "More."), note_of_change(change)]
    plan = ToolPlan(
        provider=provider.name,
        declared=declared,
        offered=tuple(apply_changes(declared, changes)) if offered is None else offered,
        added=tuple(one for change in changes for one in change.added),
        forms=provider.change_forms(limits),
    )
    return Draft(
        limits=limits,
        parameters=Parameters(max_tokens=1_000, tool_choice=choice),
        messages=tuple(messages),
        tools=declared,
        tool_plan=plan,
    )


def render(draft: Draft, provider: str | None = None) -> dict[str, Any]:
    """Return the payload; the provider takes it."""
    chosen = PROVIDERS[provider or provider_for(draft.limits)]
    payload = chosen.render(draft)
    refused = [
        v for v in chosen.check_payload(payload, limits=draft.limits) if v.level == "refused"
    ]
    assert refused == []
    return payload


def names(payload: JsonObject) -> list[str]:
    told = payload.get("tools") or payload["config"]["tools"][0]["function_declarations"]
    return [
        one.get("name") or one.get("function", one).get("name", one.get("type")) for one in told
    ]


# ---- Anthropic ----


def test_claude_is_told_of_changes_in_system_messages() -> None:
    changes = [
        ToolChange(added=(DOTTED,), removed=("b",)),
        ToolChange(added=(B,)),
        ToolChange(added=(tool("a", "Else."),)),
    ]

    payload = render(telling(CLAUDE, changes))

    blocks = [b for m in payload["messages"] if m["role"] == "system" for b in m["content"]]
    reference = {"type": "tool_reference", "name": "b"}
    assert names(payload) == ["a", "b"]
    assert blocks[0] == {"type": "tool_removal", "tool": reference}
    assert blocks[1]["tool"]["definition"]["name"].startswith("fs_read_")
    assert blocks[2] == {"type": "tool_addition", "tool": reference}
    assert blocks[3]["tool"]["definition"]["description"] == "Else."
    assert "inline-tools-2026-09-15" in payload["extra_headers"]["anthropic-beta"]


def test_parameters_of_an_added_tool_that_claude_cannot_name_are_told() -> None:
    schema: JsonObject = {"type": "object", "properties": {"$top": {"type": "integer"}}}
    odd = replace(tool("c"), input_schema=schema)
    draft = telling(CLAUDE, [ToolChange(added=(odd,))])

    payload = render(draft)
    _, rows = PROVIDERS["anthropic"].adapt(draft)

    definition = payload["messages"][-1]["content"][0]["tool"]["definition"]
    assert definition["input_schema"]["properties"] == {}
    assert '"$top"' in definition["description"]
    assert [(row.id, row.rule) for row in rows] == [("c", "tool.schema")]


def test_what_claude_calls_gets_its_own_name_back() -> None:
    draft = telling(CLAUDE, [ToolChange(added=(DOTTED,))])
    sent = render(draft)["messages"][-1]["content"][0]["tool"]["definition"]["name"]
    call: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": sent, "input": {}}
    body: dict[str, Any] = {"type": "message", "content": [call], "stop_reason": "tool_use"}

    adapted, _ = PROVIDERS["anthropic"].adapt(draft)
    reply = PROVIDERS["anthropic"].read_reply(body, adapted)

    assert getattr(reply.parts[0], "name", None) == "fs.read"


@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses", "gemini"])
def test_any_other_provider_is_told_in_words_and_of_all_tools(provider: str) -> None:
    change = ToolChange(added=(tool("c"),), removed=("b",))

    payload = render(telling(CLAUDE, [change]), provider)

    assert names(payload) == ["a", "c"]
    assert "these tools can be called: c" in str(payload)
    assert "these tools cannot be called: b" in str(payload)


def test_claude_is_told_in_words_of_changes_made_for_others() -> None:
    draft = telling(GPT, [ToolChange(added=(tool("c"),))])
    draft = replace(draft, limits=replace(CLAUDE, thinking=GPT.thinking))

    payload = render(draft, "anthropic")

    assert names(payload) == ["a", "b", "c"]
    assert "these tools can be called: c" in str(payload["messages"])


def test_a_draft_without_a_plan_says_what_changed() -> None:
    draft = replace(telling(CLAUDE, [ToolChange(removed=("b",))]), tool_plan=None)

    assert "cannot be called: b" in str(render(draft)["messages"])


# ---- OpenAI ----


def test_responses_is_told_of_added_tools_in_an_item() -> None:
    loose = tool("c", is_strict=True)
    bad = replace(loose, name="d", input_schema={"type": "object", "properties": {"x": {}}})
    draft = telling(GPT, [ToolChange(added=(loose, bad))])

    payload = render(draft)
    _, rows = PROVIDERS["openai_responses"].adapt(draft)

    item = payload["input"][-1]
    assert names(payload) == ["a", "b"]
    assert (item["type"], item["role"]) == ("additional_tools", "developer")
    assert [(one["name"], one["strict"]) for one in item["tools"]] == [("c", True), ("d", False)]
    assert [(row.id, row.rule) for row in rows] == [("d", "tool.strict")]
    assert "tool_choice" not in payload


def test_a_note_without_new_tools_is_words_for_responses() -> None:
    payload = render(telling(GPT, [ToolChange(removed=("b",))], offered=(A,)))

    assert payload["input"][-1]["role"] == "developer"
    assert payload["tool_choice"]["tools"] == [{"type": "function", "name": "a"}]


WITHDRAWN: dict[str, tuple[ModelLimits, ToolChoice | None, Any]] = {
    "Chat Completions": (
        CHAT,
        None,
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "auto",
                "tools": [{"type": "function", "function": {"name": "a"}}],
            },
        },
    ),
    "Chat Completions, a call is forced": (
        CHAT,
        ToolChoice(mode="any"),
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "function": {"name": "a"}}],
            },
        },
    ),
    "Chat Completions, no call": (CHAT, ToolChoice(mode="none"), "none"),
    "Chat Completions, one tool": (
        CHAT,
        ToolChoice(mode="tool", name="a"),
        {"type": "function", "function": {"name": "a"}},
    ),
    "Responses": (
        GPT,
        ToolChoice(),
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "a"}]},
    ),
    "Responses, no call": (GPT, ToolChoice(mode="none"), "none"),
    "Gemini": (GEMINI, None, {"mode": "VALIDATED", "allowed_function_names": ["a"]}),
    "Gemini, a call is forced": (
        GEMINI,
        ToolChoice(mode="any"),
        {"mode": "ANY", "allowed_function_names": ["a"]},
    ),
    "Gemini, no call": (GEMINI, ToolChoice(mode="none"), {"mode": "NONE"}),
}


@pytest.mark.parametrize(("limits", "choice", "expected"), WITHDRAWN.values(), ids=WITHDRAWN.keys())
def test_a_withdrawn_tool_stays_declared_and_cannot_be_called(
    limits: ModelLimits, choice: ToolChoice | None, expected: Any
) -> None:
    payload = render(telling(limits, offered=(A,), choice=choice))

    config = payload.get("config", {}).get("tool_config", {}).get("function_calling_config")
    assert names(payload) == ["a", "b"]
    assert payload.get("tool_choice", config) == expected


@pytest.mark.parametrize("limits", [CHAT, GPT, GEMINI], ids=lambda limits: limits.id)
def test_a_caller_may_name_the_tools_that_alone_may_be_called(limits: ModelLimits) -> None:
    draft = telling(limits, choice=ToolChoice(allowed=("b", "gone")), offered=(A, B))

    payload = render(draft)

    assert "'a'" not in str(payload.get("tool_choice") or payload["config"]["tool_config"])


def test_what_is_withdrawn_is_not_among_those_a_caller_names() -> None:
    payload = render(telling(GPT, choice=ToolChoice(allowed=("a", "b")), offered=(A,)))

    assert payload["tool_choice"]["tools"] == [{"type": "function", "name": "a"}]


@pytest.mark.parametrize("limits", [CHAT, GPT], ids=lambda limits: limits.id)
def test_where_none_of_the_named_tools_is_there_the_choice_is_the_usual_one(
    limits: ModelLimits,
) -> None:
    payload = render(telling(limits, choice=ToolChoice(allowed=("gone",)), offered=(A, B)))

    assert payload["tool_choice"] == "auto"


@pytest.mark.parametrize("limits", [CLAUDE, OTHER], ids=lambda limits: limits.id)
def test_a_provider_that_cannot_be_told_so_leaves_it_out_with_a_row(limits: ModelLimits) -> None:
    draft = telling(limits, choice=ToolChoice(allowed=("a",)), offered=(A, B))

    payload = render(draft)
    _, rows = PROVIDERS[provider_for(limits)].adapt(draft)

    assert "allowed" not in str(payload.get("tool_choice"))
    assert [row.rule for row in rows] == ["parameter.allowed_tools"]


# ---- what a model can be told, and search for ----


@pytest.mark.parametrize(
    "model",
    ["claude-haiku-4-5", "bedrock/anthropic.claude-opus-5-5", "azure/gpt-6.2-sol", "mistral-large"],
)
def test_where_nothing_is_known_tools_are_told_in_front(model: str) -> None:
    limits = get_model_limits(model, unknown="conservative")

    assert PROVIDERS[provider_for(limits)].change_forms(limits) == NO_CHANGES


SEARCHES = {
    "claude-opus-5-5": ToolSearch(),
    "claude-haiku-4-5": None,
    "bedrock/anthropic.claude-opus-5-5": None,
    "gpt-6.2-sol": ToolSearch(shows_descriptions=True),
    "azure/gpt-6.2-sol": ToolSearch(shows_descriptions=True),
    "gpt-4.1": None,
    "gemini-4-argon": None,
}


@pytest.mark.parametrize(("model", "search"), SEARCHES.items())
def test_which_models_search_for_tools(model: str, search: ToolSearch | None) -> None:
    limits = get_model_limits(model)

    assert PROVIDERS[provider_for(limits)].tool_search(limits) == search


LATE = tool("late", is_deferred=True)
BM25 = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
REGEX = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}


def test_claude_searches_for_deferred_tools() -> None:
    payload = render(telling(CLAUDE, declared=(LATE,)))

    assert payload["tools"][0] == BM25
    assert payload["tools"][1]["defer_loading"] is True


def test_claude_is_given_no_second_search() -> None:
    own = ToolSpec(name="find", native_specs={"anthropic": REGEX})

    payload = render(telling(CLAUDE, declared=(own, LATE)))

    assert payload["tools"][0] == REGEX
    assert len(payload["tools"]) == 2


def test_the_search_has_a_name_of_its_own() -> None:
    payload = render(telling(CLAUDE, declared=(tool(BM25["name"]), LATE)))

    assert payload["tools"][0] == REGEX


def test_responses_searches_for_deferred_tools() -> None:
    payload = render(telling(GPT, declared=(A, LATE), offered=(LATE,)))

    assert payload["tools"][0] == {"type": "tool_search"}
    assert [one.get("defer_loading") for one in payload["tools"]] == [None, None, True]
    assert {"type": "tool_search"} in payload["tool_choice"]["tools"]


def test_responses_is_given_no_second_search() -> None:
    own = ToolSpec(name="find", native_specs={"openai_responses": {"type": "tool_search"}})

    payload = render(telling(GPT, declared=(own, LATE)))

    assert [one["type"] for one in payload["tools"]] == ["tool_search", "function"]


@pytest.mark.parametrize(
    "limits", [CHAT, GEMINI, get_model_limits("claude-haiku-4-5")], ids=lambda limits: limits.id
)
def test_a_model_that_cannot_search_is_sent_all_tools(limits: ModelLimits) -> None:
    payload = render(telling(limits, declared=(A, LATE)))

    assert names(payload) == ["a", "late"]
    assert "defer_loading" not in str(payload)
