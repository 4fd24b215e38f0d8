"""An agent whose name is nearly one with settings says so: it would be free of its restrictions."""

import pytest

from context_assembler import AssemblerConfig, ContextAssembler

CONFIG = AssemblerConfig(
    defaults={"model": "gpt-4.1"},
    agents={"researcher": {"permissions": ["web.*"]}, "qa": {"permissions": ["tests.*"]}},
    prompt={"inherits": {"reviewer": ["agent"]}},
)


async def warnings_of(agent_id: str | None) -> list[str]:
    assembler = ContextAssembler("memory:", config=CONFIG)
    await assembler.add_user("s", "Look it up.", agent_id=agent_id)
    report = await assembler.explain("s")
    return [warning for warning in report.warnings if "agent" in warning]


@pytest.mark.parametrize(
    ("agent_id", "meant"),
    [
        ("reseacher", "researcher"),
        ("Researcher", "researcher"),
        ("RESEACHER", "researcher"),
        ("QA", "qa"),
        ("reviewr", "reviewer"),
    ],
)
async def test_a_name_that_is_nearly_another_is_warned_of(agent_id: str, meant: str) -> None:
    [warning] = await warnings_of(agent_id)

    assert f"Did you mean {meant!r}?" in warning


@pytest.mark.parametrize("agent_id", [None, "researcher", "reviewer", "planner"])
async def test_a_name_of_its_own_needs_no_settings(agent_id: str | None) -> None:
    assert await warnings_of(agent_id) == []


async def test_the_agent_of_one_call_is_looked_at_too() -> None:
    assembler = ContextAssembler("memory:", config=CONFIG)
    await assembler.add_user("s", "Look it up.", agent_id="researcher")

    report = await assembler.explain("s", "reseacher")

    assert any("Did you mean 'researcher'?" in warning for warning in report.warnings)
