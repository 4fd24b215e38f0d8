"""Calls that Claude's servers run, next to calls of the client's: what goes out until they answer."""

from dataclasses import replace
from typing import Any

import pytest

from context_assembler import ContextAssembler, ReportEntry, SessionEvent, Text, Thinking, ToolCall
from context_assembler.events import Provenance
from tests.core.sessions import HAIKU, OPUS, QUIET, add, assembled, opened, stored
from tests.history.talk import block, result

SONNET = "claude-sonnet-4-6"  # takes no system message after the history
ASKED = block("anthropic", type="server_tool_use", id="srvtoolu_1", name="web_search", input={})
FOUND = block("anthropic", type="web_search_tool_result", tool_use_id="srvtoolu_1", content=[])
ANSWER = {"type": "text", "text": "42"}
LIMITED: dict[str, Any] = {"max_tokens": 50, "on_overflow": "shorten"}


def program(call_id: str) -> ToolCall:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    return ToolCall(call_id=call_id, name="look", extras={"anthropic": {"caller": caller}})


def said(*parts: Any) -> SessionEvent:
    return SessionEvent(type="assistant", parts=parts, origin="model")


def answer(call_id: str) -> SessionEvent:
    return SessionEvent(type="tool_result", parts=(result(call_id, "one"),), origin="tool")


def blocks_in(payload: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for message in payload["messages"] for one in message["content"]]


def rounds(count: int) -> list[SessionEvent]:
    """Return a turn in which a program calls a tool of the client's so often."""
    events = [said(ASKED, program("c0")), answer("c0")]
    for n in range(1, count):
        events += [said(program(f"c{n}")), answer(f"c{n}")]
    return events


@pytest.mark.parametrize("model", [OPUS, SONNET])
def test_payloads_grow_while_a_program_calls_and_when_it_has_ended(model: str) -> None:
    store, before = stored("U go"), list[dict[str, Any]]()
    assembler = opened(store, **QUIET)
    for event in (*rounds(4), said(FOUND)):
        add(store, event)
        if event.type == "assistant":
            continue  # its call has no result yet
        context = assembler.assemble_sync("s", model=model, cache="off")
        sent = context.to_request()["messages"]
        assert context.check().refused == []
        assert sent[: len(before)] == before
        before = sent


@pytest.mark.parametrize("model", [OPUS, SONNET])
@pytest.mark.parametrize("events", [[said(ASKED)], rounds(1)], ids=["paused", "mixed"])
def test_notes_wait_until_a_server_tool_has_answered(
    model: str, events: list[SessionEvent]
) -> None:
    held = assembled("U go", *events, model=model, additional_system_prompt="Be brief.")
    told = assembled(
        "U go", *events, said(FOUND), "U b", model=model, additional_system_prompt="Be brief."
    )

    assert "Be brief." not in str(held.to_request()["messages"])
    assert "Be brief." in str(told.to_request()["messages"])
    assert [one.rule for one in waiting(held.report.entries)] == ["note.waits"]
    assert held.check().refused == told.check().refused == []


def waiting(entries: tuple[ReportEntry, ...]) -> list[ReportEntry]:
    return [entry for entry in entries if entry.kind == "note" and entry.decision == "dropped"]


@pytest.mark.parametrize("flaw", ["id", "name", "input"])
def test_a_paused_call_that_cannot_be_sent_does_not_end_the_payload(flaw: str) -> None:
    broken = block("anthropic", **{**ASKED.block, flaw: "call x" if flaw == "id" else ""})

    context = assembled("U go", said(broken))

    assert context.to_request()["messages"][-1]["role"] == "user"
    assert context.check().refused == []


@pytest.mark.parametrize("is_pinned", [False, True])
@pytest.mark.parametrize("room", range(200, 700, 100))
def test_a_cut_through_a_program_leaves_a_valid_rest(room: int, *, is_pinned: bool) -> None:
    first, *others = [*rounds(6), said(FOUND)]
    talk: list[Any] = [
        "U go",
        replace(first, is_pinned=is_pinned),
        *others,
        "U next",
        "A done",
        "U more",
    ]

    for end in range(1, len(talk) + 1):
        context = assembled(*talk[:end], model=OPUS, max_context_tokens=room, **LIMITED)
        kept = [one.decision for one in context.report.entries if one.id == "marker"]
        assert context.check().refused == []
        assert ("kept" in kept) == ("left out here" in str(context.to_request()["messages"]))
        assert len(kept) <= 1


def test_a_call_names_its_program_only_where_that_is_sent() -> None:
    whole = assembled("U go", *rounds(1), said(FOUND), "U b").to_request()
    lost = assembled("U go", said(program("c0")), answer("c0"), "U b")

    [called] = [one for one in blocks_in(whole) if one["type"] == "tool_use"]
    assert called["caller"]["tool_id"] == "srvtoolu_1"
    assert "caller" not in str(lost.to_request()["messages"])
    assert "content.caller" in [entry.rule for entry in lost.report.entries]
    assert lost.check().refused == []


def test_what_a_search_found_names_only_tools_that_are_declared() -> None:
    def look() -> str:
        """Look."""
        return ""

    asks = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25"}
    names = [{"type": "tool_reference", "tool_name": name} for name in ("look", "gone")]
    content = {"type": "tool_search_tool_search_result", "tool_references": names}
    finds = {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": content}
    reply = said(block("anthropic", **asks, input={}), block("anthropic", **finds))
    assembler = ContextAssembler(stored("U go", reply, "U b"), tools=[look])

    context = assembler.assemble_sync("s", model=OPUS)

    [sent] = [one for one in blocks_in(context.to_request()) if "tool_use_id" in one]
    assert sent["content"]["tool_references"] == names[:1]
    assert context.check().refused == []


def test_calls_of_an_mcp_server_go_back_only_next_to_its_tools() -> None:
    asks = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "ask", "server_name": "wiki"}
    answer = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": [ANSWER]}
    blocks = block("anthropic", **asks, input={}), block("anthropic", **answer)
    reply = said(*(replace(one, text="told") for one in blocks), Text("42."))
    toolset: Any = {"type": "mcp_toolset", "mcp_server_name": "wiki"}

    sent: dict[bool, list[str]] = {}
    for has_tools in (True, False):
        tools = [toolset] if has_tools else []
        context = ContextAssembler(stored("U a", reply, "U b"), tools=tools).assemble_sync(
            "s", model=OPUS
        )
        sent[has_tools] = [one["type"] for one in context.to_request()["messages"][1]["content"]]
        assert context.check().refused == []

    assert sent == {True: ["mcp_tool_use", "mcp_tool_result", "text"], False: ["text"] * 3}


@pytest.mark.parametrize("is_signed", [True, False])
def test_text_behind_a_call_goes_in_front_of_it_unless_the_turn_is_signed(is_signed: bool) -> None:
    thought = {"type": "thinking", "thinking": "", "signature": "c2ln"}
    parts: list[Any] = [ToolCall(call_id="c1", name="look"), Text("Looking."), Text("Wait.")]
    if is_signed:
        parts.insert(0, Thinking(provider="anthropic", block=thought))
    made_by = Provenance(provider="anthropic" if is_signed else "gemini", model=HAIKU)
    reply = SessionEvent(type="assistant", parts=tuple(parts), made_by=made_by)

    context = assembled("U a", reply, answer("c1"), model=HAIKU)

    kinds = [one["type"] for one in context.to_request()["messages"][1]["content"]]
    signed, moved = ["thinking", "tool_use", "text", "text"], ["text", "text", "tool_use"]
    assert kinds == (signed if is_signed else moved)
    assert context.check().refused == []
