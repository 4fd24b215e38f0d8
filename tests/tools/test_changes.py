"""Tools that come and go between the calls of a session: which way they are sent, and what is said."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.ports import (
    ChangeForms,
    ToolChange,
    ToolChoice,
    ToolSearch,
    ToolSpec,
    change_part,
    read_change,
)
from context_assembler.tools import (
    SentTools,
    SettledTools,
    find_change,
    settle_tools,
    tool_entries,
    tools_rewrite_entry,
)


def tool(name: str, **more: Any) -> ToolSpec:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return ToolSpec(name=name, input_schema=schema, **more)


READ, WRITE, SEARCH, MAIL = map(tool, ("fs.read", "fs_write", "search", "mail"))
BY_NOTE = ChangeForms(adds=True, redefines=True, withdraws="note")
BY_CHOICE = ChangeForms(adds=True, max_tools=4, withdraws="choice")
NATIVE = ToolSpec(name="web", native_specs={"anthropic": {"type": "web_search_20260209"}})


def settle(
    wanted: Sequence[ToolSpec], before: SentTools | None = None, **more: Any
) -> tuple[SettledTools, ...]:
    more.setdefault("forms", BY_NOTE)
    return settle_tools(wanted, before=before, provider="p", last_seq=9, **more)


def names(tools: Sequence[ToolSpec]) -> list[str]:
    return [one.name for one in tools]


def sent(*tools: ToolSpec) -> SentTools:
    return SentTools(tools, after_seq=1)


def test_the_first_call_declares_its_tools() -> None:
    [first] = settle([READ, WRITE])

    assert first.plan.declared == first.plan.offered == (READ, WRITE)
    assert (first.is_anew, first.why, first.change) == (True, "", ToolChange())
    assert first.sent == SentTools((READ, WRITE), after_seq=9)


def test_a_call_with_the_same_tools_goes_on_as_it_was() -> None:
    [same] = settle([READ, replace(WRITE, source="elsewhere")], sent(READ, WRITE))

    assert not same.is_anew
    assert same.plan.declared == (READ, WRITE)
    assert same.sent == sent(READ, WRITE)


def test_what_came_and_went_is_a_note_and_declaring_again_is_the_other_way() -> None:
    onward, anew = settle([READ, SEARCH], sent(READ, WRITE))

    assert onward.change == ToolChange((SEARCH,), ("fs_write",))
    assert onward.plan.declared == (READ, WRITE)
    assert onward.plan.added == (SEARCH,)
    assert onward.plan.after_seq == 1
    assert names(onward.withdrawn) == ["fs_write"]
    assert (anew.is_anew, anew.why) == (True, "what was sent before has changed anyway")


def test_a_change_is_reported_once_and_what_was_added_stays_known() -> None:
    first = settle([READ, SEARCH], sent(READ, WRITE))[0].sent
    second = settle([READ, SEARCH], first)[0]
    third = settle([READ, WRITE, SEARCH], second.sent)[0]

    assert second.change == ToolChange()
    assert third.change == ToolChange((WRITE,))
    assert names(list(third.sent.known.values())) == ["fs.read", "fs_write", "search"]
    assert third.sent.offered == [READ, WRITE, SEARCH]


def test_withdrawing_by_the_choice_names_what_may_be_called() -> None:
    onward = settle([READ], sent(READ, WRITE), forms=BY_CHOICE)[0]

    assert onward.change == ToolChange()
    assert onward.plan.allowed == ("fs.read",)
    assert settle([READ], sent(READ), forms=BY_CHOICE)[0].plan.allowed is None
    assert settle([READ], sent(READ, WRITE))[0].plan.allowed is None


FORCED = ToolChoice(mode="tool", name="mail")
OBJECTIONS: dict[str, tuple[list[ToolSpec], SentTools, dict[str, Any], str]] = {
    "no form": ([READ, MAIL], sent(READ), {"forms": ChangeForms()}, "before the history only"),
    "no form to withdraw": ([READ], sent(READ, MAIL), {"forms": ChangeForms(adds=True)}, "only"),
    "the first tools": ([READ], sent(), {}, "there were none before"),
    "none left": ([], sent(READ), {}, "none are left"),
    "a native tool": ([READ, NATIVE], sent(READ), {}, "'web' is a tool of the provider's own"),
    "another definition": (
        *([replace(READ, description="New.")], sent(READ)),
        *({"forms": BY_CHOICE}, "another definition"),
    ),
    "a strict tool": ([READ, tool("s", is_strict=True)], sent(READ), {}, "strict"),
    "too many": (
        *([*map(tool, "abcde")], sent(tool("a")), {"forms": BY_CHOICE}, "more than 4 tools"),
    ),
    "a forced call": ([READ, MAIL], sent(READ), {"choice": FORCED}, "forced"),
}


@pytest.mark.parametrize(("wanted", "before", "more", "why"), OBJECTIONS.values(), ids=OBJECTIONS)
def test_what_has_no_form_is_declared_again(
    wanted: list[ToolSpec], before: SentTools, more: dict[str, Any], why: str
) -> None:
    [anew] = settle(wanted, before, **more)
    entry = tools_rewrite_entry(anew, tokens=1_234)

    assert anew.is_anew
    assert why in anew.why
    assert entry is not None
    assert entry.rule == "rewrite.tools"
    assert f"because {anew.why}" in entry.reason
    assert "1,234 tokens" in entry.reason


def test_a_rewrite_names_what_changed() -> None:
    before = settle([READ, SEARCH], sent(READ, WRITE))[0].sent
    wanted = [replace(READ, description="New."), MAIL]

    [anew] = settle(wanted, before, forms=ChangeForms())
    entry = tools_rewrite_entry(anew, tokens=1)

    assert entry is not None
    assert "(new or changed: fs.read, mail; removed: search)" in entry.reason
    assert tools_rewrite_entry(settle([READ])[0], tokens=1) is None


# ---- deferral ----

SHOWN, HIDDEN = ToolSearch(shows_descriptions=True), ToolSearch()
ALL, FEW, OVER = ["fs.read", "mail", "search"], ["fs.read", "search"], {"defers_above": 2}
MANY: dict[str, Any] = {**OVER, "search": HIDDEN}
DEFERRAL: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "many": (MANY, ALL, []),
    "not what was called": (MANY | {"called": lambda: {"mail"}}, FEW, ["mail"]),
    "not what is forced": (MANY | {"choice": FORCED}, FEW, ["mail"]),
    "what was found is loaded": (MANY | {"found": lambda: {"mail"}}, ALL, ["mail"]),
    "with descriptions": (MANY | {"search": SHOWN}, ALL, ALL),
    "few": (MANY | {"defers_above": 3}, [], ALL),
    "no search": (OVER, [], ALL),
}


@pytest.mark.parametrize(("more", "deferred", "loaded"), DEFERRAL.values(), ids=DEFERRAL)
def test_of_many_tools_the_model_searches(
    more: dict[str, Any], deferred: list[str], loaded: list[str]
) -> None:
    [first] = settle([READ, MAIL, SEARCH], **more)

    assert [one.name for one in first.plan.declared if one.is_deferred] == deferred
    assert names(first.loaded) == loaded


def test_a_tool_may_ask_to_be_deferred_or_not_to_be() -> None:
    asking = replace(MAIL, is_deferred=True)
    [first] = settle([READ, asking, replace(SEARCH, is_deferred=False)], search=HIDDEN)

    assert [one.is_deferred for one in first.plan.declared] == [None, True, False]


# ---- the report, and the note in words ----


def count(one: ToolSpec) -> int:
    return 10 if one.input_schema else 3


def test_tools_that_are_not_sent_whole_have_entries() -> None:
    before = SentTools((replace(MAIL, is_deferred=True), READ), after_seq=1)
    onward = settle([MAIL, WRITE], before, search=SHOWN)[0]

    entries = tool_entries(onward, [], count_tool=count)

    assert [(e.id, e.decision, e.rule, e.tokens_before, e.tokens_after) for e in entries] == [
        ("mail", "shortened", "tool.deferred", 10, 3),
        ("fs_write", "kept", "tool.added", 10, 0),
        ("fs.read", "dropped", "tool.withdrawn", 10, 10),
    ]


# ---- laws ----

pools = st.lists(
    st.sampled_from([READ, WRITE, SEARCH, MAIL, NATIVE, replace(READ, description="New.")]),
    unique_by=lambda one: one.name,
    max_size=4,
).map(lambda tools: sorted(tools, key=lambda one: one.name))


@given(steps=st.lists(pools, min_size=1, max_size=6), forms=st.sampled_from([BY_NOTE, BY_CHOICE]))
def test_whatever_changes_the_model_ends_up_with_the_tools_that_are_offered(
    steps: list[list[ToolSpec]], forms: ChangeForms
) -> None:
    before: SentTools | None = None
    for wanted in steps:
        best = settle(wanted, before, forms=forms)[0]
        allowed = best.plan.allowed
        callable_names = names(best.sent.offered) if allowed is None else list(allowed)

        assert callable_names == names(wanted)
        assert {name: one for name, one in best.sent.known.items() if name in names(wanted)} == {
            one.name: one for one in wanted
        }
        assert SentTools.read(best.sent.text()) == best.sent
        before = best.sent


@given(before=pools, after=pools)
def test_a_change_leads_from_one_list_to_the_other(
    before: list[ToolSpec], after: list[ToolSpec]
) -> None:
    change = find_change(before, after)

    assert SentTools(tuple(before), (change,)).offered == after
    assert read_change(change_part(change)) == change
    assert bool(change) is (before != after)


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '[[{"nome": 1}], [], 0]', "[[], [{}], 0]"])
def test_what_a_newer_version_kept_is_not_read(text: str) -> None:
    assert SentTools.read(text) is None
