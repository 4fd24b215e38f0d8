"""The window divided between what is fixed, the reply and the history."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.errors import ContextOverflowError, InvalidParameterError
from context_assembler.limits import ModelRegistry
from context_assembler.stages.split_window import (
    add_messages,
    anchor,
    check_feasible,
    count_draft,
    fit_system,
    measure_window,
)
from context_assembler.stages.split_window.input_budget import input_budget
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.events import Provenance, Usage
from context_assembler.values.ledger import Ledger
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import Opaque, Text
from context_assembler.values.prompt import SECTION_SEPARATOR, PromptSection, SystemPrompt
from context_assembler.values.tools import ToolChoice, ToolSpec
from tests.truncation.conversations import WordCounter, user, words

COUNTER = WordCounter()
SHARED = ModelLimits(id="m", provider="p", window_tokens=1000)
CAPPED = replace(SHARED, input_tokens=700)
SEPARATE = replace(SHARED, window_kind="separate")


def prompt(*sections: PromptSection) -> SystemPrompt:
    return SystemPrompt(
        text=SECTION_SEPARATOR.join(section.content for section in sections), sections=sections
    )


def section(name: str, size: int, *, priority: int = 0, is_required: bool = False) -> PromptSection:
    return PromptSection(name=name, content=words(size), priority=priority, is_required=is_required)


def tool(name: str, size: int, *, source: str = "listed") -> ToolSpec:
    return ToolSpec(name=name, description=words(size), source=source)


def measured(system: SystemPrompt | None = None, *tools: ToolSpec, max_tokens: int = 100) -> Ledger:
    return measure_window(
        SHARED, system=system or SystemPrompt(), tools=tools, counter=COUNTER, max_tokens=max_tokens
    )


# limits, max_tokens, max_context_tokens, reserve_tokens → budget
BUDGETS = {
    "the reply comes off a shared window": (SHARED, 100, None, None, 900),
    "a given reserve takes the place of the reply": (SHARED, 100, None, 300, 700),
    "an input limit holds as well": (CAPPED, 100, None, None, 700),
    "a large reply goes below the input limit": (CAPPED, 500, None, None, 500),
    "a separate window is all input": (SEPARATE, 100, None, None, 1000),
    "a separate input limit is all input": (
        replace(SEPARATE, input_tokens=800),
        100,
        None,
        50,
        800,
    ),
    "an upper bound caps the input": (SHARED, 100, 500, None, 500),
    "an upper bound above the window changes nothing": (SHARED, 100, 5000, None, 900),
    "a reserve given with a bound comes off the bound": (SHARED, 100, 500, 200, 300),
    "the reserve comes off the window in any case": (SHARED, 100, 950, 200, 750),
    "a separate window heeds bound and reserve": (SEPARATE, 100, 500, 200, 300),
    "a reserve of nothing is a reserve": (SHARED, 100, 1000, 0, 1000),
    "a reserve above the window leaves less than nothing": (SHARED, 1100, None, None, -100),
}


@pytest.mark.parametrize(
    ("limits", "max_tokens", "bound", "reserve", "budget"), BUDGETS.values(), ids=BUDGETS.keys()
)
def test_the_input_gets_what_is_left(
    limits: ModelLimits, max_tokens: int, bound: int | None, reserve: int | None, budget: int
) -> None:
    assert (
        input_budget(
            limits, max_tokens=max_tokens, max_context_tokens=bound, reserve_tokens=reserve
        )
        == budget
    )


@pytest.mark.parametrize("name", ["max_tokens", "max_context_tokens", "reserve_tokens"])
def test_a_negative_number_is_refused(name: str) -> None:
    with pytest.raises(InvalidParameterError, match=name):
        input_budget(SHARED, **{"max_tokens": 1, name: -1})


def test_the_ledger_has_a_row_for_every_section_tool_and_overhead() -> None:
    ledger = measured(prompt(section("agent", 30), section("soul", 10)), tool("read", 20))

    assert [(row.kind, row.name) for row in ledger.rows] == [
        ("system", "agent"),
        ("system", "soul"),
        ("tools", "read"),
        ("overhead", "tools"),
        ("overhead", "request"),
    ]
    assert (ledger.window_tokens, ledger.reserve_tokens, ledger.budget_tokens) == (1000, 100, 900)
    assert (ledger.counter, ledger.is_exact) == ("words", True)


@given(sizes=st.lists(st.integers(1, 60), max_size=6))
def test_the_rows_of_the_system_prompt_add_up_to_its_count(sizes: list[int]) -> None:
    system = prompt(*(section(f"s{number}", size) for number, size in enumerate(sizes)))

    ledger = measured(system)

    assert ledger.tokens_of("system") == COUNTER.count_system(system.text)
    assert all(row.tokens > 0 for row in ledger.rows)


def test_a_system_prompt_without_sections_is_one_row() -> None:
    ledger = measured(SystemPrompt(text=words(8)))

    assert [(row.name, row.tokens) for row in ledger.rows] == [("system", 10), ("request", 3)]


def test_nothing_fixed_but_the_request_is_one_row() -> None:
    assert [row.name for row in measured().rows] == ["request"]


def test_a_section_that_weighs_nothing_does_not_upset_the_shares() -> None:
    blank = PromptSection(name="blank", content=" ")

    ledger = measured(prompt(blank))

    assert ledger.tokens_of("system") == COUNTER.count_system(" ")


def test_a_window_with_room_is_feasible() -> None:
    ledger = measured(prompt(section("agent", 100)))

    check_feasible(ledger, ())

    assert ledger.room_tokens == 900 - ledger.fixed_tokens


def test_a_system_prompt_over_the_budget_is_named_with_its_sections() -> None:
    system = prompt(section("agent", 3000), section("soul", 10))

    with pytest.raises(ContextOverflowError) as caught:
        check_feasible(measured(system), ())

    assert caught.value.culprit == "section 'agent'"
    assert set(caught.value.sizes_tokens) == {
        "section 'agent'",
        "section 'soul'",
        "request overhead",
    }
    assert "Shorten that section" in caught.value.remedy


def test_tools_over_the_budget_are_named_by_where_they_come_from() -> None:
    tools = [tool("a", 500, source="mcp"), tool("b", 500, source="mcp"), tool("c", 9)]

    with pytest.raises(ContextOverflowError, match="tools from mcp") as caught:
        check_feasible(measured(None, *tools), tools)

    assert caught.value.sizes_tokens["tools from mcp"] > 1000
    assert "disabled_tools" in caught.value.remedy


def test_a_reserve_that_takes_the_window_is_the_culprit() -> None:
    with pytest.raises(ContextOverflowError, match="reserve of 1,000") as caught:
        check_feasible(measured(max_tokens=1000), ())

    assert "Lower max_tokens" in caught.value.remedy


def test_a_budget_smaller_than_the_overhead_is_an_overflow() -> None:
    with pytest.raises(ContextOverflowError, match="request overhead") as caught:
        check_feasible(measured(max_tokens=997), ())

    assert caught.value.remedy.startswith("Raise")


AGENT = section("agent", 200, priority=1000, is_required=True)
SKILLS = section("skills", 400, priority=500)
EXTRA = section("extra", 300, priority=300)


def test_sections_that_leave_enough_are_left_alone() -> None:
    fitted = fit_system([AGENT, SKILLS, EXTRA], counter=COUNTER, budget_tokens=2000)

    assert fitted.sections == (AGENT, SKILLS, EXTRA)
    assert fitted.entries == ()


def test_the_least_important_section_is_shortened_first() -> None:
    fitted = fit_system([AGENT, SKILLS, EXTRA], counter=COUNTER, budget_tokens=1000)

    assert fitted.sections[:2] == (AGENT, SKILLS)
    assert "300 tokens in full" in fitted.sections[2].content
    assert [(e.id, e.decision, e.rule) for e in fitted.entries] == [
        ("extra", "shortened", "system.shorten")
    ]
    assert 700 < joined(fitted.sections) <= 800


def joined(sections: tuple[PromptSection, ...]) -> int:
    return COUNTER.count_system(SECTION_SEPARATOR.join(s.content for s in sections))


def test_what_cannot_be_shortened_enough_is_dropped_in_order_of_priority() -> None:
    fitted = fit_system(
        [AGENT, SKILLS, EXTRA], counter=COUNTER, budget_tokens=1000, other_fixed_tokens=450
    )

    assert [s.name for s in fitted.sections] == ["agent", "skills"]
    assert [(e.id, e.decision) for e in fitted.entries] == [
        ("skills", "shortened"),
        ("extra", "dropped"),
    ]
    assert all(
        entry.reason and entry.tokens_after < entry.tokens_before for entry in fitted.entries
    )


def test_required_sections_and_notes_are_never_touched() -> None:
    note = replace(section("clock", 300), placement="note")

    fitted = fit_system([AGENT, EXTRA, note], counter=COUNTER, budget_tokens=100)

    assert fitted.sections == (AGENT, note)


def test_of_equal_priorities_the_later_section_goes_first() -> None:
    fitted = fit_system([section("a", 100), section("b", 100)], counter=COUNTER, budget_tokens=150)

    assert [s.name for s in fitted.sections] == ["a"]


@given(
    sizes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9), st.booleans()), max_size=6),
    budget=st.integers(0, 1500),
)
def test_sections_fit_or_only_required_ones_are_left(
    sizes: list[tuple[int, int, bool]], budget: int
) -> None:
    sections = [
        section(f"s{number}", size, priority=priority, is_required=is_required)
        for number, (size, priority, is_required) in enumerate(sizes)
    ]

    fitted = fit_system(sections, counter=COUNTER, budget_tokens=budget)
    filled = tuple(s for s in fitted.sections if s.content)

    assert joined(filled) <= int(budget * 0.8) or all(s.is_required for s in filled)
    assert [s for s in sections if s.is_required] == [s for s in fitted.sections if s.is_required]


class DearSystemCounter(WordCounter):
    """Counts text in the system prompt double."""

    def count_system(self, text: str) -> int:
        return 2 * super().count_system(text)


def test_the_joined_prompt_is_what_has_to_fit() -> None:
    counter = DearSystemCounter()

    fitted = fit_system([AGENT, EXTRA], counter=counter, budget_tokens=1000)
    wider = fit_system([AGENT, EXTRA], counter=counter, budget_tokens=1100)

    assert fitted.sections == (AGENT,)
    assert "300 tokens in full" in wider.sections[1].content


CLAUDE = ModelRegistry(overrides=[]).get("claude-sonnet-4-5")
FORCED = Parameters(max_tokens=10, tool_choice=ToolChoice(mode="any"), thinking_budget=5)


def test_what_a_provider_adds_for_the_settings_is_overhead() -> None:
    def overhead(*tools: ToolSpec) -> dict[str, int]:
        ledger = measure_window(
            CLAUDE,
            system=SystemPrompt(),
            tools=tools,
            counter=COUNTER,
            max_tokens=10,
            parameters=FORCED,
        )
        return {row.name: row.tokens for row in ledger.rows if row.kind == "overhead"}

    assert overhead(tool("look", 5)).items() >= {"tool choice": 92, "thinking": 28}.items()
    assert "tool choice" not in overhead()


def test_a_whole_request_has_the_tokens_of_its_ledger() -> None:
    draft = Draft(
        limits=CLAUDE,
        parameters=FORCED,
        system=prompt(section("agent", 30)),
        messages=(user(words(20)),),
        tools=(tool("look", 5),),
    )
    fixed = measure_window(
        CLAUDE,
        system=draft.system,
        tools=draft.tools,
        counter=COUNTER,
        max_tokens=10,
        parameters=FORCED,
    )

    tokens = count_draft(draft, counter=COUNTER)

    assert tokens == add_messages(fixed, draft.messages, counter=COUNTER).used_tokens


def answered(
    *, fingerprint: str | None = "f1", tokens: int = 500, model: str = "m", parts: int = 0
) -> Message:
    made_by = Provenance(
        provider="p",
        model=model,
        prefix_fingerprint=fingerprint,
        usage=Usage(input_tokens=tokens),
    )
    blocks = tuple(Opaque(provider="p", block={}) for _ in range(parts))
    return Message(role="assistant", parts=(Text(words(7)), *blocks), made_by=made_by)


def anchored(*messages: Message) -> int | None:
    ledger = measured()
    prints = [f"f{n}" for n in range(len(messages) + 1)]
    return anchor(
        ledger, messages, fingerprints=prints, limits=SHARED, counter=COUNTER
    ).anchored_tokens


def test_the_total_is_what_was_charged_last_and_what_came_since() -> None:
    reply, question = answered(), user(words(30))

    assert anchored(user("hi"), reply, question) == 500 + sum(
        map(COUNTER.count_message, (reply, question))
    )


def test_the_latest_call_counts() -> None:
    last = answered(fingerprint="f3", tokens=900)

    assert anchored(user("hi"), answered(), user("go"), last) == 900 + COUNTER.count_message(last)


UNANCHORED: dict[str, Message] = {
    "a changed prefix": answered(fingerprint="another"),
    "an imported reply": answered(fingerprint=None),
    "a call without usage": answered(tokens=0),
    "another model's reply": answered(model="other"),
    "a call in which the provider's tools worked": answered(parts=1),
    "a reply of unknown origin": Message(role="assistant", parts=(Text("hi"),)),
}


@pytest.mark.parametrize("reply", UNANCHORED.values(), ids=UNANCHORED.keys())
def test_there_is_no_anchor_in_what_says_nothing_about_this_prompt(reply: Message) -> None:
    assert anchored(user("hi"), reply, user("go")) is None


def test_an_earlier_call_is_an_anchor_where_the_last_is_none() -> None:
    reply, odd = answered(), answered(fingerprint="another")

    assert anchored(user("hi"), reply, user("go"), odd) == 500 + sum(
        map(COUNTER.count_message, (reply, user("go"), odd))
    )


def test_the_expected_total_is_the_count_where_there_is_no_anchor() -> None:
    ledger = measured(None, tool("look", 5))

    assert ledger.expected_tokens == ledger.used_tokens
    assert replace(ledger, anchored_tokens=7).expected_tokens == 7
