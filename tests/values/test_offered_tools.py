"""Which tools a draft tells whom of, and what a note of changed tools says."""

import pytest

from context_assembler import get_model_limits
from context_assembler.errors import InvalidParameterError
from context_assembler.providers import PROVIDERS
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.offered_tools import (
    callable_tools,
    declared_tools,
    known_tools,
)
from context_assembler.values.parts import JsonObject, Opaque, Text
from context_assembler.values.tool_changes import (
    ASSEMBLER,
    ToolChange,
    ToolPlan,
    changes_in,
    find_change,
    note_of_change,
    read_change,
)
from context_assembler.values.tool_choices import parse_tool_choice
from context_assembler.values.tools import ToolChoice, ToolSpec

A, B, C = (ToolSpec(name=name) for name in "abc")


def draft(plan: ToolPlan | None) -> Draft:
    limits = get_model_limits("claude-opus-5-5")
    parameters = Parameters(max_tokens=100)
    return Draft(limits=limits, parameters=parameters, tools=(A, B), tool_plan=plan)


def test_without_a_plan_the_tools_are_all_there_are() -> None:
    plain = draft(None)

    told = (callable_tools(plain), declared_tools(plain, provider="gemini"), known_tools(plain))

    assert told == ((A, B),) * 3


def test_a_plan_is_for_its_provider_alone() -> None:
    plan = ToolPlan(provider="anthropic", declared=(A, B), offered=(A, C), added=(C,))
    planned = draft(plan)

    assert declared_tools(planned, provider="anthropic") == (A, B)
    assert declared_tools(planned, provider="gemini") == (A, C)
    assert callable_tools(planned) == (A, C)
    assert {tool.name for tool in known_tools(planned)} == {"a", "b", "c"}


def test_a_note_says_what_it_was_made_of() -> None:
    change = find_change([A, B], [A, C])

    note = note_of_change(change)

    assert list(changes_in(note)) == [change]
    [part] = note.parts
    assert isinstance(part, Opaque)
    assert part.text == (
        "From here on these tools can be called: c.\nFrom here on these tools cannot be called: b."
    )


UNREADABLE: dict[str, Opaque] = {
    "another provider's": Opaque(provider="anthropic", block={"type": "tool_change"}),
    "another kind": Opaque(provider=ASSEMBLER, block={"type": "x"}),
    "a newer version": Opaque(
        provider=ASSEMBLER, block={"type": "tool_change", "added": [{"name": "x", "colour": 1}]}
    ),
}


@pytest.mark.parametrize("part", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_anything_else_tells_no_change(part: Opaque) -> None:
    assert read_change(part) is None


def test_damage_in_a_change_is_left_aside() -> None:
    block = {"type": "tool_change", "added": None, "removed": ["a", 3, ""]}

    assert read_change(Opaque(provider=ASSEMBLER, block=block)) == ToolChange(removed=("a",))


ALLOWED: dict[str, tuple[JsonObject, ToolChoice]] = {
    "our own": ({"mode": "any", "allowed": ["b", "a"]}, ToolChoice(mode="any", allowed=("a", "b"))),
    "Responses": (
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "a"}, 3],
        },
        ToolChoice(mode="any", allowed=("a",)),
    ),
    "Chat Completions": (
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "auto",
                "tools": [{"type": "function", "function": {"name": "a"}}],
            },
        },
        ToolChoice(allowed=("a",)),
    ),
    "without a mode": ({"allowed": []}, ToolChoice(allowed=())),
}


@pytest.mark.parametrize(("given", "choice"), ALLOWED.values(), ids=ALLOWED.keys())
def test_a_choice_among_some_tools_is_read_in_every_shape(
    given: JsonObject, choice: ToolChoice
) -> None:
    assert parse_tool_choice(given) == choice


def test_a_choice_among_no_list_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="names no known mode"):
        parse_tool_choice({"type": "allowed_tools", "tools": "all"})


def test_openai_is_not_sent_the_tools_that_a_gateway_runs() -> None:
    spec = {"type": "openrouter:web_search"}
    own = ToolSpec(name="web", native_specs={"openai_chat": spec})
    given = Draft(
        limits=get_model_limits("gpt-4.1"), parameters=Parameters(max_tokens=9), tools=(A, own)
    )

    adapted, rows = PROVIDERS["openai_chat"].adapt(given)

    assert adapted.tools == (A,)
    assert [(row.id, row.rule, row.decision) for row in rows] == [("web", "tool.native", "dropped")]


def test_a_text_tells_no_change() -> None:
    note = note_of_change(ToolChange(removed=("a",)))

    assert list(changes_in(type(note)(role="system", parts=(Text("x"),)))) == []
