"""What the Messages API is sent for turns and parameters, and what its replies are read as."""

import json
from dataclasses import replace
from typing import Any

import pytest

from context_assembler.ports import ToolChange, ToolPlan, ToolSpec, change_part
from context_assembler.providers import PROVIDERS
from tests.providers.builders import (
    PICTURE,
    READ,
    SCHEMA,
    call,
    note,
    opaque,
    render,
    render_with_entries,
    reply,
    request,
    result,
    results,
    thought,
    user,
)

ANTHROPIC = PROVIDERS["anthropic"]
HAIKU = "claude-haiku-4-5"
SIGNED = thought({"type": "thinking", "thinking": "", "signature": "EqQB"})
UPLOADED = {"type": "file", "provider": "anthropic", "file_id": "f1"}
PNG_BLOCK = {"type": "image", "source": PICTURE["source"]}


def text(said: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **fields}


def messages(*turns: Any, **options: Any) -> list[tuple[str, Any]]:
    made = render("anthropic", *turns, **options)["messages"]
    return [(message["role"], message["content"]) for message in made]


def test_ids_and_names_are_such_that_the_api_takes_them_and_a_reply_reads_back() -> None:
    odd = replace(READ, name="fs.read")
    talk = [reply(call("a:1", "fs.read"), call("a:1", "fs.read")), results(*[result("a:1")] * 2)]

    payload = render("anthropic", user("a"), *talk, tools=(odd,))
    calls = payload["messages"][1]["content"]
    answer = {"type": "message", "content": [{**calls[0], "id": "t9"}]}
    read = ANTHROPIC.read_reply(answer, request("anthropic", tools=(odd,)))

    assert calls[0]["id"] != calls[1]["id"]
    assert calls[0]["name"] == payload["tools"][0]["name"] != "fs.read"
    assert read.parts[0]["name"] == "fs.read"


def test_the_oldest_pictures_make_way_and_thinking_that_they_bind_goes_with_them() -> None:
    shown = [turn for _ in range(31) for turn in (user(*[PICTURE] * 20), reply(SIGNED, "ok"))]

    payload, entries = render_with_entries("anthropic", *shown, user("go"))
    sent = json.dumps(payload)

    assert sent.count('"type": "image"') == 470
    assert "signature" not in sent
    assert ("shortened", "media.count") in entries


# ---- tools ----

NUMBERED = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
DOLLAR = {"properties": {"$top": {"type": "integer"}, "a": {}}, "required": ["$top", "a"]}


def test_tools_are_declared_in_their_order() -> None:
    native = {"type": "web_search_20250305", "name": "web_search", "cache_control": {}}
    tools = (
        replace(READ, is_strict=True),
        ToolSpec(name="count", input_schema=NUMBERED, is_strict=True),
        ToolSpec(name="other", native_specs={"gemini": {"google_search": {}}}),
        ToolSpec(name="search", native_specs={"anthropic": native}),
        ToolSpec(name="top", description="Tops.", input_schema=DOLLAR),
    )

    payload, entries = render_with_entries("anthropic", user("a"), tools=tools)
    strict, plain, search, top = payload["tools"]

    assert strict["strict"] is True
    assert "strict" not in plain
    assert search == {"type": "web_search_20250305", "name": "web_search"}
    assert top["input_schema"] == {"properties": {"a": {}}, "required": ["a"], "type": "object"}
    assert '{"$top":{"type":"integer"}}\nOf these are required: ["$top"]' in top["description"]
    assert entries == [
        ("dropped", "tool.native"),
        ("repaired", "tool.strict"),
        ("repaired", "tool.schema"),
    ]


def test_strict_tools_are_limited_together() -> None:
    many = tuple(replace(READ, name=f"t{i:02}", is_strict=True) for i in range(21))

    payload, entries = render_with_entries("anthropic", user("a"), tools=many)

    assert [tool.get("strict", False) for tool in payload["tools"]] == [True] * 20 + [False]
    assert entries == [("repaired", "tool.strict")]


def test_deferred_tools_are_found_by_a_search_that_is_not_deferred() -> None:
    payload = render("anthropic", user("a"), tools=(replace(READ, is_deferred=True),))

    assert payload["tools"][0]["name"] == "tool_search_tool_bm25"
    assert payload["tools"][1]["defer_loading"] is True


def test_tools_come_and_go_in_system_messages() -> None:
    write = ToolSpec(name="write", input_schema=SCHEMA)
    forms = ANTHROPIC.change_forms(request("anthropic").limits)
    plan = ToolPlan("anthropic", (READ,), (write,), (write, READ), forms=forms)
    changes = [change_part(ToolChange((write,), ("read",))), change_part(ToolChange((READ,)))]

    payload = render(
        "anthropic", user("a"), *(note(change, note="tools") for change in changes), plan=plan
    )

    definition = {"name": "write", "input_schema": SCHEMA}
    named = {"type": "tool_reference", "name": "read"}
    assert payload["messages"][-1]["content"] == [
        {"type": "tool_removal", "tool": named},
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}},
        {"type": "tool_addition", "tool": named},
    ]
    assert payload["extra_headers"] == {
        "anthropic-beta": "inline-tools-2026-09-15,mid-conversation-tool-changes-2026-07-01"
    }


def test_a_tool_that_was_told_in_words_is_not_taken_away() -> None:
    write = ToolSpec(name="write", input_schema=SCHEMA)
    forms = ANTHROPIC.change_forms(request("anthropic").limits)
    plan = ToolPlan("anthropic", (READ,), (write,), (READ,), forms=forms)
    comes, goes = (
        note(change_part(change), note="tools")
        for change in (ToolChange((write,)), ToolChange((), ("write",)))
    )

    fenced = render("anthropic", user("a"), comes, user("b"), goes, plan=plan)
    told = render("anthropic", user("a"), comes, reply("c"), user("b"), goes, plan=plan)

    assert "tool_removal" not in str(fenced["messages"])
    assert told["messages"][-1]["content"][0]["type"] == "tool_removal"


def test_without_a_plan_or_a_declared_tool_a_change_is_text() -> None:
    gone = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "gone"}}

    told = messages(user("a"), note(change_part(ToolChange((READ,)))))
    payload = render("anthropic", user("a"), note(opaque("anthropic", gone)))

    assert told[-1] == ("system", [text("From here on these tools can be called: read.")])
    assert payload["messages"][-1]["content"] == [text("[tool removal gone]")]


# ---- parameters ----

SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a level": (
        {"thinking_level": "low"},
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
    ),
    "a budget": (
        {"model": HAIKU, "thinking_budget": 2048},
        {"thinking": {"type": "enabled", "budget_tokens": 2048}},
    ),
    "no thinking": ({"model": HAIKU, "thinking_budget": 0}, {"thinking": {"type": "disabled"}}),
    "thinking between tools": (
        {"model": "claude-sonnet-5-5", "thinking_level": "none"},
        {"thinking": {"type": "between_tools"}},
    ),
    "sampling": (
        {"model": HAIKU, "temperature": 1.5},
        {"extra_headers": {"anthropic-version": "2023-06-01"}, "extra_body": {"temperature": 1.0}},
    ),
    "stop sequences": ({"stop_sequences": ["END\0"]}, {"stop_sequences": ["END"]}),
    "one tool": (
        {"model": HAIKU, "tool_choice": {"mode": "tool", "name": "read", "allows_parallel": False}},
        {"tool_choice": {"type": "tool", "name": "read", "disable_parallel_tool_use": True}},
    ),
    "some tools": (
        {"tool_choice": {"mode": "auto", "allowed": ("read",)}},
        {"tool_choice": {"type": "auto"}},
    ),
    "a compaction now": (
        {"provider_compaction": "now", "stop_sequences": ["x"], "context_edits": ({},)},
        {
            "extra_body": {"compaction": {"type": "summarize"}},
            "extra_headers": {"anthropic-beta": "compact-2026-09-04"},
        },
    ),
    "a compaction of another's": ({"model": "gpt-5.5", "provider_compaction": 9_999}, {}),
    "a choice without tools": ({"tools": (), "tool_choice": {"mode": "auto"}}, {}),
}
USUAL = {"model", "max_tokens", "system", "tools", "messages"}


@pytest.mark.parametrize(("options", "expected"), SETTINGS.values(), ids=SETTINGS.keys())
def test_parameters_become_arguments(options: dict[str, Any], expected: dict[str, Any]) -> None:
    payload = render("anthropic", user("a"), **options)

    assert {key: held for key, held in payload.items() if key not in USUAL} == expected


def test_a_loop_that_began_without_thinking_goes_on_without_a_budget() -> None:
    loop = [user("a"), reply(call("t1")), results(result("t1", "x"))]

    payload, entries = render_with_entries("anthropic", *loop, model=HAIKU, thinking_budget=2048)
    begun = render(
        "anthropic",
        user("a"),
        reply(SIGNED, call("t1")),
        loop[2],
        model=HAIKU,
        thinking_budget=2048,
    )

    assert "thinking" not in payload
    assert entries == [("dropped", "parameter.thinking_budget")]
    assert begun["thinking"] == {"type": "enabled", "budget_tokens": 2048}


def test_betas_are_asked_for_by_header() -> None:
    uploaded = {"type": "image", "source": UPLOADED}
    computer = ToolSpec(
        name="computer",
        native_specs={"anthropic": {"type": "computer_20250124", "name": "computer"}},
    )

    payload = render("anthropic", user("a", uploaded), tools=(computer,))

    assert payload["extra_headers"] == {
        "anthropic-beta": "computer-use-2025-01-24,files-api-2025-04-14"
    }


@pytest.mark.parametrize(("newest_at", "is_sent"), [(None, True), (0.0, True), (9e9, False)])
def test_a_container_goes_back_next_to_server_tools_until_it_expires(
    newest_at: float | None, is_sent: bool
) -> None:
    tool = ToolSpec(
        name="code", native_specs={"anthropic": {"type": "code_execution_20250825", "name": "code"}}
    )
    made_by = {"provider": "anthropic", "container": {"id": "c1", "expires_at": "2026-11-29T10:00"}}
    talk = [user("a"), reply("b", made_by=made_by), user("c")]

    payload, entries = render_with_entries("anthropic", *talk, tools=(tool,), newest_at=newest_at)

    assert payload.get("container") == ("c1" if is_sent else None)
    assert (("dropped", "parameter.expired") in entries) != is_sent
    assert "container" not in render("anthropic", *talk)


# ---- replies ----


# ---- messages as events ----


@pytest.mark.parametrize(
    "block",
    [
        *({**PNG_BLOCK, "source": source} for source in (None, {"type": "odd"}, {"type": "url"})),
        {"type": "tool_use", "id": 5},
        {"type": "tool_result"},
        {},
    ],
)
def test_a_block_that_cannot_be_read_is_kept_verbatim_and_noted(block: dict[str, Any]) -> None:
    notes: list[str] = []
    source = [{"role": "user", "content": [block]}]

    [(_, body)] = ANTHROPIC.read_messages(source, lambda where, _: notes.append(where))

    assert body["parts"][0]["block"] == block
    assert notes == ["messages[0].content[0]"]
