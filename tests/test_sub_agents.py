"""Agents that inherit some of the prompt, through the facade."""

from pathlib import Path

import pytest

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ContextAssembler,
    PromptSection,
    UnknownOptionError,
)

HOUSE = PromptSection(name="house", content="Rules of the house.")


@pytest.fixture
def bootstrap(tmp_path: Path) -> Path:
    for name, text in {
        "AGENT.md": "You plan.",
        "AGENT.researcher.md": "You look things up.",
        "SOUL.md": "You are kind.",
        "CONTEXT.md": "The shop sells mugs.",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    skill = tmp_path / "skills" / "pdf" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: pdf\ndescription: Makes files.\n---\nSteps.", encoding="utf-8")
    return tmp_path


async def assembled(
    bootstrap: Path, agent_id: str | None, *, inherits: dict[str, list[str]]
) -> AssembledContext:
    assembler = ContextAssembler(
        bootstrap=bootstrap,
        skills=bootstrap / "skills",
        prompt_sections=[HOUSE],
        config=AssemblerConfig(prompt={"inherits": inherits}),
    )
    await assembler.add_user("task", "Who makes mugs?", agent_id=agent_id)
    return await assembler.assemble("task", model="gpt-5.5", additional_system_prompt="Be brief.")


async def test_a_sub_agent_gets_what_it_inherits_and_its_own_file(bootstrap: Path) -> None:
    context = await assembled(bootstrap, "researcher", inherits={"researcher": ["agent", "house"]})

    assert context.system_prompt == "You look things up.\n\n---\n\nRules of the house."
    assert "Be brief." in context.messages[-1].text
    left_out = {row.id: row.reason for row in context.report.entries if row.rule == "inherits"}
    assert left_out == dict.fromkeys(
        ("soul", "context"), "the agent 'researcher' does not inherit it"
    )


async def test_skills_that_are_not_inherited_are_left_out_with_a_reason(bootstrap: Path) -> None:
    context = await assembled(bootstrap, "researcher", inherits={"researcher": ["agent"]})

    rows = [row for row in context.report.entries if row.kind == "skill"]
    assert [(row.id, row.decision, row.reason) for row in rows] == [
        ("pdf", "dropped", "the agent 'researcher' does not inherit them")
    ]


async def test_an_agent_that_is_not_named_gets_all(bootstrap: Path) -> None:
    context = await assembled(bootstrap, "writer", inherits={"researcher": ["agent"]})

    for text in ("You plan.", "You are kind.", "mugs", "Rules of the house.", "- pdf ("):
        assert text in context.system_prompt


async def test_a_section_that_does_not_exist_is_an_error(bootstrap: Path) -> None:
    with pytest.raises(UnknownOptionError, match="Did you mean 'house'"):
        await assembled(bootstrap, None, inherits={"researcher": ["huose"]})
