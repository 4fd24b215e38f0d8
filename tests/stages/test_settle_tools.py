"""How tools are told: declared, added, withdrawn, deferred, or declared anew."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from context_assembler import get_model_limits
from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.stages.settle_tools import (
    SettledTools,
    ToolSettler,
    goes_on,
    learnt_tools,
    note_of_withdrawn,
    tell_rewrite,
    tell_tools,
)
from context_assembler.stages.settle_tools.named_tools import WITHDRAWN_NOTE
from context_assembler.testing import WordCounter
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.epochs import EPOCH, Epoch, epoch_record
from context_assembler.values.events import (
    AssistantBody,
    Provenance,
    SessionEvent,
    SystemBody,
    UserBody,
    system_event,
    user_event,
)
from context_assembler.values.messages import Message
from context_assembler.values.parts import Opaque, Text, ToolCall
from context_assembler.values.report import ReportEntry
from context_assembler.values.tool_changes import (
    ASSEMBLER,
    TOOLS_NOTE,
    ToolChange,
    note_of_change,
)
from context_assembler.values.tools import ToolChoice, ToolSpec

CLAUDE, GPT, CHAT, GEMINI = "claude-opus-5-5", "gpt-6.2-sol", "gpt-4.1", "gemini-4-argon"
LLAMA = "openrouter/openai/gpt-4.1"
COUNTER = WordCounter()


def tool(name: str, description: str = "", **fields: Any) -> ToolSpec:
    return ToolSpec(name=name, description=description or f"Does {name}.", **fields)


A, B, C, D = map(tool, "abcd")
WEB = ToolSpec(name="web", native_specs={"anthropic": {"type": "web_search_20260209"}})
HUGE = tool("huge", input_schema={"type": "object", "maximum": 10**5000})


def told_of(model: str, tools: Sequence[ToolSpec], **made: Any) -> SessionEvent:
    """Return a reply whose call declared these tools."""
    limits = get_model_limits(model)
    made_by = Provenance(provider=provider_for(limits), model=limits.id, **made)
    record = epoch_record(Epoch(tools=tuple(tools)), before=None)
    body = AssistantBody(parts=(Text("Yes."),), made_by=made_by)
    return SessionEvent(body=body, seq=2, metadata={EPOCH: record})


def note(seq: int, *added: ToolSpec, removed: Sequence[str] = ()) -> SessionEvent:
    message = note_of_change(ToolChange(added=added, removed=tuple(removed)))
    return SessionEvent(body=SystemBody(parts=message.parts, note=TOOLS_NOTE), seq=seq)


def settle(
    model: str,
    wanted: Sequence[ToolSpec],
    events: Sequence[SessionEvent] = (),
    *,
    choice: ToolChoice | None = None,
    settler: ToolSettler | None = None,
) -> tuple[SettledTools, ...]:
    limits = get_model_limits(model)
    return (settler or ToolSettler()).settle(
        wanted, events, provider=PROVIDERS[provider_for(limits)], limits=limits, choice=choice
    )


def names(tools: Sequence[ToolSpec]) -> list[str]:
    return [one.name for one in tools]


# ---- the first call ----


def test_the_first_call_declares_what_is_offered() -> None:
    [settled] = settle(CLAUDE, [A, B], [replace(user_event("Go."), seq=1)])

    assert names(settled.plan.declared) == ["a", "b"]
    assert settled.plan.after_seq == 1
    assert not settled.change
    assert tell_tools(settled, (), counter=COUNTER) == ()
    assert tell_rewrite(settled, tokens=9) == ()


def test_what_does_not_change_is_told_as_before() -> None:
    [settled] = settle(CLAUDE, [replace(A, source="mcp"), B], [told_of(CLAUDE, [A, B])])

    assert not settled.needs_check
    assert not settled.why


@pytest.mark.parametrize("other", [CHAT, "claude-opus-4-8"])
def test_another_model_is_told_of_all_tools_anew(other: str) -> None:
    [settled] = settle(CLAUDE, [A], [told_of(other, [A, B])])

    assert names(settled.plan.declared) == ["a"]
    assert not settled.why


# ---- changes ----

ADDED: dict[str, tuple[str, list[ToolSpec], list[ToolSpec], list[str], list[str]]] = {
    "a tool came": (CLAUDE, [A, B], [A, B, C], ["c"], []),
    "a tool went": (CLAUDE, [A, B], [A], [], ["b"]),
    "one came, one went": (CLAUDE, [A, B], [A, C], ["c"], ["b"]),
    "a tool is defined anew": (CLAUDE, [A, B], [A, tool("b", "Else.")], ["b"], []),
    "a tool came, in Responses": (GPT, [A, B], [A, B, C], ["c"], []),
    "a tool went, in Responses": (GPT, [A, B], [A], [], []),
    "a tool went, in Chat Completions": (CHAT, [A, B], [A], [], []),
    "a tool went, with Gemini": (GEMINI, [A, B], [A], [], []),
}


@pytest.mark.parametrize(
    ("model", "before", "wanted", "added", "removed"), ADDED.values(), ids=ADDED.keys()
)
def test_a_change_is_told_behind_what_was_sent(
    model: str, before: list[ToolSpec], wanted: list[ToolSpec], added: list[str], removed: list[str]
) -> None:
    onward, anew = settle(model, wanted, [told_of(model, before)])

    assert onward.plan.declared == tuple(before)
    assert names(onward.change.added) == added
    assert list(onward.change.removed) == removed
    assert onward.needs_check
    assert names(anew.plan.declared) == names(wanted)
    assert anew.why


def test_what_the_choice_withdraws_is_named_beside_the_history() -> None:
    onward, _ = settle(GPT, [A, C], [told_of(GPT, [A, B]), note(3, C)])

    assert onward.plan.allowed == ("a", "c")
    assert not onward.change
    assert onward.notes == 1


def test_nothing_is_named_where_all_may_be_called() -> None:
    onward, _ = settle(GPT, [A, B, C], [told_of(GPT, [A, B])])

    assert onward.plan.allowed is None


def test_notes_of_the_epoch_add_up() -> None:
    events = [told_of(CLAUDE, [A, B]), note(3, C, removed=["b"]), note(5, B)]

    onward, _ = settle(CLAUDE, [A, B, C], events)

    assert not onward.change
    assert names(onward.plan.added) == ["c", "b"]
    assert onward.notes == 2


REWRITTEN: dict[str, tuple[str, list[ToolSpec], list[ToolSpec], ToolChoice | None, str]] = {
    "an added tool, where tools are told in front": (CHAT, [A], [A, B], None, "alone"),
    "a withdrawn tool, where no choice can be limited": (LLAMA, [A, B], [A], None, "alone"),
    "the first tools": (CLAUDE, [], [A], None, "first tools"),
    "the end of all tools": (CLAUDE, [A], [], None, "none are left"),
    "a tool of the provider's own comes": (CLAUDE, [A], [A, WEB], None, "'web' is a tool of"),
    "a tool of the provider's own goes": (CLAUDE, [A, WEB], [A], None, "'web' is a tool of"),
    "another definition, in Responses": (GPT, [A], [tool("a", "Else.")], None, "definition"),
    "a strict tool": (CLAUDE, [A], [A, tool("b", is_strict=True)], None, "strict"),
    "a forced call of what is added": (
        CLAUDE,
        [A],
        [A, B],
        ToolChoice(mode="tool", name="b"),
        "forced",
    ),
    "a schema that cannot be kept": (CLAUDE, [A], [A, HUGE], None, "no store can keep"),
    "more tools than are taken": (
        GPT,
        [tool(f"t{n:03}") for n in range(128)],
        [tool(f"t{n:03}") for n in range(129)],
        None,
        "more than 127",
    ),
}


@pytest.mark.parametrize(
    ("model", "before", "wanted", "choice", "why"), REWRITTEN.values(), ids=REWRITTEN.keys()
)
def test_anything_else_is_declared_anew_and_announced(
    model: str,
    before: list[ToolSpec],
    wanted: list[ToolSpec],
    choice: ToolChoice | None,
    why: str,
) -> None:
    [settled] = settle(model, wanted, [told_of(model, before)], choice=choice)

    [row] = tell_rewrite(settled, tokens=1_234)

    assert names(settled.plan.declared) == names(wanted)
    assert row.rule == "rewrite.tools"
    assert why in row.reason
    assert "1,234 tokens" in row.reason


def test_the_announcement_says_what_changed() -> None:
    before = [A, B, C]
    [settled] = settle(CHAT, [A, tool("b", "Else."), D], [told_of(CHAT, before)])

    [row] = tell_rewrite(settled, tokens=0)

    assert "(added: d; changed: b; removed: c)" in row.reason


CHANGES_IN_FRONT: dict[str, tuple[str, list[ToolSpec], list[SessionEvent], str]] = {
    "a tool that was added goes in front": (
        CLAUDE,
        [A, B, C],
        [told_of(CLAUDE, [A, B]), note(3, C)],
        "(told in front: c)",
    ),
    "one that was withdrawn is not told of any more": (
        CLAUDE,
        [A],
        [told_of(CLAUDE, [A, B]), note(3, removed=["b"])],
        "(no longer told: b)",
    ),
    "one that the choice withdraws is": (GPT, [A], [told_of(GPT, [A, B])], "(removed: b)"),
    "one that came and went": (
        CLAUDE,
        [A, B],
        [told_of(CLAUDE, [A, B]), note(3, C), note(4, removed=["c"])],
        "(the same ones)",
    ),
}


@pytest.mark.parametrize(
    ("model", "wanted", "events", "told"), CHANGES_IN_FRONT.values(), ids=CHANGES_IN_FRONT.keys()
)
def test_a_rewrite_for_another_reason_says_what_stands_in_front_since(
    model: str, wanted: list[ToolSpec], events: list[SessionEvent], told: str
) -> None:
    anew = settle(model, wanted, events)[-1]

    [row] = tell_rewrite(anew, tokens=0)

    assert told in row.reason
    assert "changed anyway" in row.reason


def test_a_forced_call_of_what_was_added_says_that_it_goes_in_front() -> None:
    events = [told_of(CLAUDE, [A]), note(3, B)]

    [settled] = settle(CLAUDE, [A, B], events, choice=ToolChoice(mode="tool", name="b"))

    assert "(told in front: b)" in tell_rewrite(settled, tokens=0)[0].reason


# ---- withdrawn tools that the system prompt names ----


def told_in_words(settled: SettledTools, text: str, *earlier: str) -> list[str]:
    messages = [
        Message(role="system", kind="note", note=WITHDRAWN_NOTE, parts=(Text(said),))
        for said in earlier
    ]
    sections = note_of_withdrawn(settled, system_text=text, messages=messages)
    return [section.content for section in sections]


NAMED: dict[str, tuple[str, str, tuple[str, ...], list[str]]] = {
    "a name in the prompt": (
        GPT,
        "Use fs.b and b.",
        (),
        ["At this time these tools cannot be called: b."],
    ),
    "no such name": (GPT, "Use fs.b, b-2 and abc.", (), []),
    "a note of the history tells it": (CLAUDE, "Use b.", (), []),
    "a provider of the choice alone": (
        CHAT,
        "- b",
        (),
        ["At this time these tools cannot be called: b."],
    ),
    "told before, and still so": (
        GPT,
        "",
        ("b",),
        ["At this time these tools cannot be called: b."],
    ),
}


@pytest.mark.parametrize(("model", "text", "earlier", "told"), NAMED.values(), ids=NAMED.keys())
def test_a_withdrawal_is_told_in_words_where_nothing_else_tells_it(
    model: str, text: str, earlier: tuple[str, ...], told: list[str]
) -> None:
    onward = settle(model, [A], [told_of(model, [A, B])])[0]

    assert told_in_words(onward, text, *earlier) == told


def test_when_all_tools_are_back_that_is_told_as_well() -> None:
    back = settle(GPT, [A, B], [told_of(GPT, [A, B])])[0]

    assert told_in_words(back, "Use b.", "b") == [
        "All tools that you are given can be called again."
    ]
    assert told_in_words(back, "Use b.") == []


# ---- what the session knows ----


def test_learnt_tools_are_those_of_the_epoch_with_those_that_went() -> None:
    again = tool("b", "Else.")
    events = [told_of(CLAUDE, [A, B]), note(3, C, again), note(4, removed=["c"])]

    assert learnt_tools(events) == (replace(A), again, C)


def test_nothing_is_learnt_before_the_first_reply() -> None:
    assert learnt_tools([replace(user_event("Go."), seq=1)]) == ()


def test_a_note_that_cannot_be_read_teaches_nothing() -> None:
    block = {"type": "tool_change", "added": [{"name": "x", "colour": "red"}]}
    body = SystemBody(parts=(Opaque(provider=ASSEMBLER, block=block),), note=TOOLS_NOTE)

    assert learnt_tools([told_of(CLAUDE, [A]), SessionEvent(body=body, seq=3)]) == (A,)


def test_tools_that_the_provider_does_not_take_take_no_room() -> None:
    many = [tool(f"t{number:03}") for number in range(130)]

    [settled] = settle(GPT, many)

    assert settled.unsent == {"t128", "t129"}
    assert len(settled.loaded) == 128


def test_by_setting_every_change_is_a_rewrite() -> None:
    events = [told_of(CLAUDE, [A, B])]

    [settled] = settle(CLAUDE, [A], events, settler=ToolSettler(policy="rewrite"))

    assert names(settled.plan.declared) == ["a"]
    assert settled.why


BEGINNINGS: dict[str, tuple[str, list[ToolSpec], list[SessionEvent], bool]] = {
    "a session's first call": (CLAUDE, [A], [], True),
    "a call of another model": (GPT, [A], [told_of(CLAUDE, [A])], True),
    "a change that cannot be added": (CHAT, [A, B], [told_of(CHAT, [A])], True),
    "a change that can": (CLAUDE, [A, B], [told_of(CLAUDE, [A])], False),
    "no change": (CHAT, [A], [told_of(CHAT, [A])], False),
}


@pytest.mark.parametrize(
    ("model", "wanted", "events", "expected"), BEGINNINGS.values(), ids=BEGINNINGS.keys()
)
def test_it_is_known_beforehand_whether_tools_are_declared_anew(
    model: str, wanted: list[ToolSpec], events: list[SessionEvent], *, expected: bool
) -> None:
    limits = get_model_limits(model)
    provider = PROVIDERS[provider_for(limits)]

    is_anew = ToolSettler().begins_anew(wanted, events, provider=provider, limits=limits)

    assert is_anew is expected


def test_a_strict_tool_is_added_in_responses() -> None:
    onward, _ = settle(GPT, [A, tool("b", is_strict=True)], [told_of(GPT, [A])])

    assert names(onward.change.added) == ["b"]


def test_a_note_of_a_newer_version_is_a_rewrite() -> None:
    block = {"type": "tool_change", "added": [{"name": "x", "colour": "red"}]}
    body = SystemBody(parts=(Opaque(provider=ASSEMBLER, block=block),), note=TOOLS_NOTE)

    [settled] = settle(CLAUDE, [A], [told_of(CLAUDE, [A]), SessionEvent(body=body, seq=3)])

    assert "cannot be read" in settled.why


# ---- where it holds ----


def draft_of(settled: SettledTools, messages: Sequence[Message], model: str = CLAUDE) -> Draft:
    return Draft(
        limits=get_model_limits(model),
        parameters=Parameters(max_tokens=100),
        messages=tuple(messages),
        tools=settled.plan.declared,
        tool_plan=settled.plan,
    )


GO = Message(role="user", parts=(Text("Go."),), seq=1)


def after_one_call(*, bound: str | None = None) -> tuple[SettledTools, list[Message]]:
    """Return what adds a tool to a call, and the messages of both."""
    plain = Draft(
        limits=get_model_limits(CLAUDE),
        parameters=Parameters(max_tokens=100),
        messages=(GO,),
        tools=(A,),
    )
    prefix = bound or PROVIDERS["anthropic"].fingerprints(plain)[-1]
    reply = told_of(CLAUDE, [A], prefix_fingerprint=prefix)
    settled = settle(CLAUDE, [A, B], [reply])[0]
    assert isinstance(reply.body, AssistantBody)
    said = Message(role="assistant", parts=reply.parts, made_by=reply.body.made_by, seq=2)
    more = Message(role="user", parts=(Text("More."),), seq=3)
    return settled, list(settled.place([GO, said, more]))


def test_an_addition_holds_where_all_is_sent_again() -> None:
    settled, messages = after_one_call()

    assert goes_on(settled, draft_of(settled, messages), provider=PROVIDERS["anthropic"])


BROKEN: dict[str, Callable[[list[Message]], list[Message]]] = {
    "another prefix": lambda messages: [replace(GO, parts=(Text("Run."),)), *messages[1:]],
    "the reply is gone": lambda messages: [GO, *messages[2:]],
    "the note is gone": lambda messages: messages[:-1],
    "the note is not the end of a turn": lambda messages: [*messages, GO],
    "the note follows a reply": lambda messages: [*messages[:2], messages[-1]],
}


@pytest.mark.parametrize("breaks", BROKEN.values(), ids=BROKEN.keys())
def test_it_does_not_hold_where_anything_else_is_sent(
    breaks: Callable[[list[Message]], list[Message]],
) -> None:
    settled, messages = after_one_call()

    draft = draft_of(settled, breaks(messages))

    assert not goes_on(settled, draft, provider=PROVIDERS["anthropic"])


def test_it_does_not_hold_where_nothing_was_sent_before() -> None:
    [settled] = settle(CLAUDE, [A])

    assert not goes_on(settled, draft_of(settled, [GO]), provider=PROVIDERS["anthropic"])


def test_notes_of_an_earlier_epoch_are_left_out_with_a_row() -> None:
    [settled] = settle(CLAUDE, [A, B], [replace(user_event("x"), seq=4)])
    old = replace(note_of_change(ToolChange(added=(B,))), seq=3, id="e3")

    kept, rows = settled.leave_out_old([GO, old])

    assert kept == (GO,)
    assert [(row.id, row.rule) for row in rows] == [("e3", "tool.change")]


# ---- what the report says ----


def test_the_report_has_a_row_for_every_tool_that_came_or_went() -> None:
    onward, _ = settle(CLAUDE, [A, C], [told_of(CLAUDE, [A, B])])
    known = ReportEntry(
        kind="tool", id="b", decision="dropped", reason="disabled_tools names it", rule="disabled"
    )

    rows = {row.id: row for row in tell_tools(onward, [known], counter=COUNTER)}

    assert rows["c"].rule == "tool.added"
    assert (rows["c"].tokens_before, rows["c"].tokens_after) == (COUNTER.count_tool(C), 0)
    assert rows["b"].rule == "disabled"
    assert rows["b"].reason.startswith("disabled_tools names it. It cannot be called any more")
    assert rows["b"].tokens_after == COUNTER.count_tool(B)


def test_a_withdrawn_tool_that_nobody_speaks_of_has_a_row() -> None:
    onward, _ = settle(CLAUDE, [A], [told_of(CLAUDE, [A, B])])

    [row] = tell_tools(onward, (), counter=COUNTER)

    assert (row.id, row.decision, row.rule) == ("b", "dropped", "tool.withdrawn")


# ---- deferral ----


def called(name: str) -> SessionEvent:
    body = AssistantBody(parts=(ToolCall(call_id="1", name=name),))
    return SessionEvent(body=body, seq=1)


def deferred(settled: SettledTools) -> list[str]:
    return [one.name for one in settled.plan.declared if one.is_deferred]


KEPT = tool("kept", is_deferred=False)
LATE = tool("late", is_deferred=True)
DEFERRED: dict[
    str, tuple[int | None, list[ToolSpec], list[SessionEvent], ToolChoice | None, list[str]]
] = {
    "not above the bound": (3, [A, B, C], [], None, []),
    "above the bound": (2, [A, B, C], [], None, ["a", "b", "c"]),
    "but not one that says no": (2, [A, B, KEPT], [], None, ["a", "b"]),
    "nor one that the history calls": (2, [A, B, C], [called("b")], None, ["a", "c"]),
    "nor one that must be called": (
        2,
        [A, B, C],
        [],
        ToolChoice(mode="tool", name="c"),
        ["a", "b"],
    ),
    "nor one of the provider's own": (1, [A, B, WEB], [], None, ["a", "b"]),
    "one that asks for it": (None, [A, LATE], [], None, ["late"]),
    "none by default": (None, [A, B], [], None, []),
}


@pytest.mark.parametrize(
    ("above", "tools", "events", "choice", "names_deferred"), DEFERRED.values(), ids=DEFERRED.keys()
)
def test_which_tools_are_deferred(
    above: int | None,
    tools: list[ToolSpec],
    events: list[SessionEvent],
    choice: ToolChoice | None,
    names_deferred: list[str],
) -> None:
    settler = ToolSettler(defers_above=above)

    [settled] = settle(CLAUDE, tools, events, choice=choice, settler=settler)

    assert deferred(settled) == names_deferred


def test_a_deferred_tool_costs_nothing_up_front() -> None:
    [settled] = settle(CLAUDE, [A, LATE])

    [row] = tell_tools(settled, (), counter=COUNTER)

    assert names(settled.loaded) == ["a"]
    assert (row.id, row.decision, row.rule) == ("late", "kept", "tool.deferred")
    assert (row.tokens_before, row.tokens_after) == (COUNTER.count_tool(LATE), 0)


def test_openai_shows_name_and_description_of_a_deferred_tool() -> None:
    late = replace(LATE, input_schema={"type": "object", "properties": {"long": {}}})

    [settled] = settle(GPT, [A, late])

    assert settled.loaded[1].input_schema == {}
    assert settled.loaded[1].description == late.description


def test_a_model_without_a_search_is_sent_all_tools_and_the_report_says_so() -> None:
    [settled] = settle(CHAT, [A, LATE, tool("later", is_deferred=True)])

    [row] = tell_tools(settled, (), counter=COUNTER)

    assert deferred(settled) == []
    assert row.rule == "tool.deferral"
    assert "2 of them" in row.reason


def test_within_an_epoch_a_tool_stays_deferred_and_counts_once_it_is_found() -> None:
    block = {
        "type": "tool_search_tool_result",
        "content": {"tool_references": [{"type": "tool_reference", "tool_name": "late"}]},
    }
    found = SessionEvent(
        body=AssistantBody(parts=(Opaque(provider="anthropic", block=block),)), seq=3
    )
    events = [told_of(CLAUDE, [replace(A, is_deferred=False), LATE]), found, called("late")]

    onward, anew = settle(CLAUDE, [A, LATE], events)

    assert deferred(onward) == ["late"]
    assert names(onward.loaded) == ["a", "late"]
    assert deferred(anew) == []
    assert "(loaded: late)" in tell_rewrite(anew, tokens=0)[0].reason


def test_other_blocks_and_events_tell_nothing_of_tools() -> None:
    other = SessionEvent(
        body=UserBody(parts=(Opaque(provider="anthropic", block={"type": "x"}),)), seq=3
    )
    clock = replace(system_event("It is noon.", note="clock"), seq=4)

    [settled] = settle(CLAUDE, [A], [told_of(CLAUDE, [A]), other, clock])

    assert settled.notes == 0
