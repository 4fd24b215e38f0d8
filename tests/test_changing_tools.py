"""Tools that come and go between the calls of a session, sent over real HTTP."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler import ContextAssembler
from context_assembler.config import AssemblerConfig
from context_assembler.testing import ProviderServer, ScriptedReply, serve_providers
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.context import AssembledContext
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import JsonObject, ToolCall
from context_assembler.values.report import ReportEntry
from context_assembler.values.tools import ToolSpec
from tests.adding_up import differences
from tests.calling import call_model

MODELS = ("claude-opus-5-5", "gpt-6.2-sol", "gpt-4.1", "gemini-4-argon", "claude-haiku-4-5")
ANNOUNCED = ("rewrite.tools",)


def make_tool(name: str, *, says: str = "", strict: bool = False) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    }
    return ToolSpec(
        name=name,
        description=says or f"Works on {name}.",
        input_schema=schema,
        is_strict=True if strict else None,
    )


READ, WRITE, SEARCH, MAIL = map(make_tool, ("fs.read", "fs_write", "search", "mail"))


async def play(
    model: str,
    steps: Sequence[Sequence[ToolSpec]],
    *,
    max_context_tokens: int | None = None,
    calls: bool = False,
    **tools: Any,
) -> list[AssembledContext]:
    """Make one call for each list of tools, and return the contexts."""
    told = [
        ScriptedReply(
            text=f"Answer {number}.",
            thinking=f"Thought {number}.",
            tool_calls=(ToolCall(call_id=f"c{number}", name=step[0].name, arguments={}),)
            if calls and step and step[0].name.isidentifier()
            else (),
        )
        for number, step in enumerate(steps)
    ]
    assembler = ContextAssembler("memory:", config=AssemblerConfig(tools=tools))
    contexts: list[AssembledContext] = []
    with serve_providers(told) as server:
        for number, step in enumerate(steps):
            await assembler.add_user("s", f"Question {number}. " + "Please. " * 150)
            context = await assembler.assemble(
                "s",
                model=model,
                additional_tools=tuple(step) or None,
                max_tokens=1_000,
                max_context_tokens=max_context_tokens,
            )
            reply = await call_model(server, context)
            answer = (await assembler.record("s", reply, context))[-1]
            for call in answer.tool_calls:
                await assembler.add_tool_result("s", call.call_id, "done")
            contexts.append(context)
        check_server(server, contexts)
    return contexts


def check_server(server: ProviderServer, contexts: Sequence[AssembledContext]) -> None:
    """Make sure that every payload was taken whole: no reasoning was left unused."""
    assert [seen.status for seen in server.requests] == [200] * len(contexts)
    assert [seen.left_out for seen in server.requests] == [()] * len(contexts)


def told(context: AssembledContext) -> tuple[Any, list[Any]]:
    """Return what of a payload stands in front of the conversation, and the conversation."""
    payload = _unmarked(context.to_request())
    config: JsonObject = payload.get("config", {})
    fixed = [
        *(payload.get(key) for key in ("system", "instructions", "tools")),
        *(config.get(key) for key in ("system_instruction", "tools")),
    ]
    return fixed, payload.get("messages") or payload.get("input") or payload["contents"]


def _unmarked(value: Any) -> Any:
    if is_object(value):
        kept = {key: inner for key, inner in value.items() if key != "cache_control"}
        return {key: _unmarked(inner) for key, inner in kept.items()}
    return [_unmarked(inner) for inner in value] if is_array(value) else value


def grows(before: AssembledContext, after: AssembledContext) -> bool:
    (fixed, messages), (fixed_after, messages_after) = told(before), told(after)
    return fixed == fixed_after and messages_after[: len(messages)] == messages


def rows(context: AssembledContext, *rules: str) -> list[ReportEntry]:
    return [row for row in context.report.entries if row.rule in rules]


pools = st.lists(
    st.sampled_from(
        [
            READ,
            WRITE,
            SEARCH,
            MAIL,
            make_tool("fs_read"),
            make_tool("search", says="Looks elsewhere."),
            make_tool("strict", strict=True),
            ToolSpec(
                name="web",
                native_specs={"anthropic": {"type": "web_search_20260209", "name": "web"}},
            ),
        ]
    ),
    unique_by=lambda tool: tool.name,
    max_size=5,
)


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    steps=st.lists(pools, min_size=2, max_size=5),
    max_context_tokens=st.sampled_from([None, None, 4_500]),
    calls=st.booleans(),
)
async def test_a_payload_begins_with_the_one_before_unless_the_report_says_otherwise(
    model: str, steps: list[list[ToolSpec]], max_context_tokens: int | None, calls: bool
) -> None:
    contexts = await play(model, steps, max_context_tokens=max_context_tokens, calls=calls)

    for before, after in pairwise(contexts):
        is_cut = before.metadata.cut_level != after.metadata.cut_level
        assert grows(before, after) or is_cut or rows(after, *ANNOUNCED)
    for context, step in zip(contexts, steps, strict=True):
        assert context.check() == []
        assert differences(context.report) == {}
        offered = {tool.name for tool in step if not tool.native_specs}
        assert {tool.name for tool in context.tools} >= offered


# ---- one by one ----


async def test_every_change_that_has_a_form_leaves_what_was_sent_as_it_is() -> None:
    steps = [[READ, WRITE], [READ, WRITE, SEARCH], [READ, SEARCH], [READ, WRITE, SEARCH]]

    for model in ("claude-opus-5-5", "gpt-6.2-sol"):
        contexts = await play(model, steps)

        assert all(grows(*pair) for pair in pairwise(contexts))
        assert not any(rows(context, "rewrite.tools") for context in contexts)
        assert [{t.name for t in c.tools} for c in contexts] == [{t.name for t in s} for s in steps]


async def test_a_rewrite_says_what_it_costs_and_the_next_call_goes_on_from_it() -> None:
    strict = make_tool("strict", strict=True)

    contexts = await play("claude-opus-5-5", [[READ], [READ, strict], [READ, strict, MAIL]])

    [row] = rows(contexts[1], "rewrite.tools")
    assert "added: strict" in row.reason
    assert f"{contexts[1].metadata.ledger.used_tokens:,} tokens" in row.reason
    assert grows(contexts[1], contexts[2])
    assert [row.id for row in rows(contexts[2], "tool.added")] == ["mail"]


async def test_after_a_cut_the_tools_are_those_of_that_time() -> None:
    steps = [[READ, WRITE], [READ, WRITE, SEARCH], *[[READ, SEARCH]] * 14]

    contexts = await play("claude-opus-5-5", steps, max_context_tokens=7_000)

    cut = next(context for context in contexts if context.metadata.cut_level)
    assert [tool.name for tool in cut.draft.tools] == ["fs.read", "search"]
    assert rows(cut, "rewrite.tools", "tool.change")
    assert not rows(contexts[-1], "tool.added", "tool.withdrawn")


async def test_by_setting_the_tools_are_declared_anew_each_time() -> None:
    steps = [[READ], [READ, SEARCH]]

    contexts = await play("claude-opus-5-5", steps, changes="rewrite")

    assert [tool.name for tool in contexts[1].draft.tools] == ["fs.read", "search"]
    assert rows(contexts[1], "rewrite.tools")


async def test_another_process_finds_the_same_in_the_store(tmp_path: Path) -> None:
    steps = [[READ, WRITE], [READ, SEARCH], [READ, SEARCH, MAIL]]
    store = f"sqlite:{tmp_path / 'agent.db'}"
    with serve_providers(
        [ScriptedReply(text=f"Answer {n}.", thinking="Hm.") for n in range(3)]
    ) as s:
        sent: list[AssembledContext] = []
        for number, step in enumerate(steps):
            options: dict[str, Any] = {
                "model": "claude-opus-5-5",
                "max_tokens": 1_000,
                "additional_tools": tuple(step),
            }
            async with ContextAssembler(store) as one:
                await one.add_user("s", f"Question {number}.")
                first = await one.assemble("s", **options)
            async with ContextAssembler(store) as other:
                context = await other.assemble("s", **options)
                await other.record("s", await call_model(s, context), context)
            assert json.dumps(first.to_request()) == json.dumps(context.to_request())
            sent.append(context)

        assert all(grows(*pair) for pair in pairwise(sent))
        check_server(s, sent)


async def test_a_session_that_moves_to_another_provider_is_told_of_all_tools() -> None:
    contexts = await play("claude-opus-5-5", [[READ], [READ, SEARCH], [SEARCH]])

    payload = contexts[-1].to_openai_responses()

    assert [tool["name"] for tool in payload["tools"]] == ["search"]
    assert "additional_tools" not in str(payload["input"])
    assert contexts[-1].check("openai_responses") == []


async def test_a_session_is_exported_with_what_its_notes_say() -> None:
    assembler = ContextAssembler("memory:")
    with serve_providers([ScriptedReply(text="One."), ScriptedReply(text="Two.")]) as server:
        for step in ([READ], [READ, SEARCH]):
            await assembler.add_user("s", "Go.")
            context = await assembler.assemble(
                "s", model="claude-opus-5-5", max_tokens=500, additional_tools=tuple(step)
            )
            await assembler.record("s", await call_model(server, context), context)
    events = [event async for event in assembler.sessions.load("s")]

    written = {name: format_.write(events) for name, format_ in TRANSCRIPTS.items()}

    silent = [name for name, text in written.items() if "can be called: search" not in text]
    assert silent == []


async def test_deferred_tools_stay_so_until_the_next_epoch() -> None:
    steps = [[MAIL, SEARCH, WRITE], [MAIL, SEARCH, WRITE], [MAIL, SEARCH, WRITE, READ]]

    contexts = await play("claude-opus-5-5", steps, calls=True, defers_above=2)

    assert all(grows(*pair) for pair in pairwise(contexts))
    assert [row.id for row in rows(contexts[0], "tool.deferred")] == ["fs_write", "mail", "search"]
    assert contexts[0].check() == []
    assert contexts[0].metadata.ledger.tokens_of("tools") == 0
    assert contexts[1].metadata.ledger.tokens_of("tools") > 0  # mail was called, so it is loaded
