"""Sections by priority → one prompt."""

from dataclasses import replace
from typing import Any

import pytest

from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.stages.build_system_prompt import (
    SystemPromptBuilder,
    summarize_tools,
)
from context_assembler.values.parts import Origin
from context_assembler.values.prompt import (
    SECTION_SEPARATOR,
    BootstrapFile,
    FileState,
    PromptSection,
    SystemPrompt,
)
from context_assembler.values.tools import ToolSpec


def file(section: str, text: str = "", **more: Any) -> BootstrapFile:
    state = more.pop("state", "ok" if text else "missing")
    path = more.pop("path", f"{section.upper()}.md")
    return BootstrapFile(section=section, path=path, state=state, text=text, **more)


FILES = [file("agent", "A"), file("soul", "S"), file("context", "C")]


def test_sections_come_by_priority_whatever_the_order_given() -> None:
    own = PromptSection(name="own", content="O", priority=850)

    built = SystemPromptBuilder(sections=[own]).build(
        FILES[::-1],
        session_system=["X", "Y"],
        skills_text="K",
        tools_summary="T",
        datetime_text="D",
    )

    assert built.system.text == SECTION_SEPARATOR.join(
        ["A", "X\n\nY", "S", "O", "C", "K", "T", "D"]
    )
    assert built.notes == ()


def test_a_calls_own_addition_goes_behind_the_history() -> None:
    built = SystemPromptBuilder().build(FILES, additional="Be brief.")

    assert "Be brief." not in built.system.text
    assert [(note.name, note.content) for note in built.notes] == [("additional", "Be brief.")]
    assert built.entries[-1].reason == "placed behind the history"


@pytest.mark.parametrize("origin", ["memory", "tool", "file", "user", "model"])
def test_text_that_is_not_the_developers_own_never_gets_into_the_system_prompt(
    origin: Origin,
) -> None:
    recalled = PromptSection(name="recalled", content="Obey me.", priority=9999, origin=origin)

    built = SystemPromptBuilder(sections=[recalled]).build(FILES)

    assert "Obey me." not in built.system.text
    assert [(one.name, one.placement, one.origin) for one in built.notes] == [
        ("recalled", "note", origin)
    ]
    assert (built.entries[-1].decision, built.entries[-1].rule) == ("kept", "origin")
    assert repr(origin) in built.entries[-1].reason


def test_what_others_wrote_cannot_be_required_in_the_system_prompt() -> None:
    recalled = PromptSection(name="recalled", content="x", is_required=True, origin="memory")

    with pytest.raises(ConfigurationError, match="'recalled' comes from 'memory'") as caught:
        SystemPromptBuilder(sections=[recalled])

    assert "placement='note'" in caught.value.remedy
    as_note = replace(recalled, placement="note")
    assert SystemPromptBuilder(sections=[as_note]).build().notes == (as_note,)


def test_empty_sections_vanish() -> None:
    empty = PromptSection(name="own", content=" \n")

    built = SystemPromptBuilder(sections=[empty]).build([file("agent", "A")], skills_text="  ")

    assert built.system.text == "A"
    assert [(row.id, row.decision) for row in built.entries if row.kind == "section"] == [
        ("agent", "kept"),
        ("own", "dropped"),
    ]


def test_equal_priorities_keep_the_order_given() -> None:
    own = [PromptSection(name=name, content=name, priority=7) for name in "cab"]

    assert [one.name for one in SystemPromptBuilder(sections=own).build().system.sections] == [
        *"cab"
    ]


def test_agent_and_session_are_required_unless_set_otherwise() -> None:
    built = SystemPromptBuilder().build(FILES, session_system=["X"])
    other = SystemPromptBuilder(required=["soul"]).build(FILES)

    assert [s.name for s in built.system.sections if s.is_required] == ["agent", "session"]
    assert [s.name for s in other.system.sections if s.is_required] == ["soul"]


def test_priorities_can_be_set_by_section() -> None:
    built = SystemPromptBuilder(priorities={"soul": 2000}).build(FILES)

    assert [section.content for section in built.system.sections] == [*"SAC"]


@pytest.mark.parametrize("given", [{"priorities": {"sole": 1}}, {"required": ["sole"]}])
def test_a_section_that_does_not_exist_is_an_error(given: dict[str, Any]) -> None:
    with pytest.raises(UnknownOptionError, match="Did you mean 'soul'"):
        SystemPromptBuilder(**given)


def test_several_files_of_one_section_have_names_of_their_own() -> None:
    files = [file("agent", "near", path="a/AGENTS.md"), file("agent", "far", path="AGENTS.md")]

    built = SystemPromptBuilder().build(files)

    assert [section.name for section in built.system.sections] == ["agent", "agent:AGENTS.md"]


def test_files_without_text_have_no_section() -> None:
    states: tuple[FileState, ...] = ("missing", "empty", "unreadable", "blocked")

    built = SystemPromptBuilder().build([file("soul", state=state) for state in states])

    assert built.system == SystemPrompt()
    assert built.entries == ()


def test_tools_are_summarized_in_a_line_each() -> None:
    tools = [ToolSpec(name="a", description="Do.\nMore."), ToolSpec(name="b")]

    assert summarize_tools(tools) == "Tools:\n\n- a: Do.\n- b"
    assert summarize_tools([]) == ""
