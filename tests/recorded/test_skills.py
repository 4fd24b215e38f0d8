"""Real skills, read together: each is told of, or named with a reason."""

from pathlib import Path

import pytest

from context_assembler import ContextAssembler
from context_assembler.skills.folder import FolderSkills

pytestmark = pytest.mark.recorded


@pytest.fixture
def folders(corpus: Path) -> list[Path]:
    return sorted({path.parent for path in (corpus / "instructions").rglob("SKILL.md")})


async def test_every_real_skill_is_in_the_prompt_or_has_a_row_with_a_reason(
    folders: list[Path],
) -> None:
    assembler = ContextAssembler(skills=FolderSkills(*folders))
    await assembler.add_user("s", "Hello")

    context = await assembler.assemble("s", model="claude-opus-5-5")

    rows = [row for row in context.report.entries if row.kind == "skill"]
    told = [row for row in rows if row.decision != "dropped"]
    assert len(rows) == len(folders) > 25
    assert len(told) >= len(rows) - 5
    assert all(f"\n- {row.id} (" in context.system_prompt for row in told)
    assert all(row.reason and row.rule for row in rows)
    assert sum(row.tokens_after for row in told) == context.metadata.ledger.tokens_of("system")


async def test_every_real_skill_can_be_active(folders: list[Path]) -> None:
    skills = await FolderSkills(*folders).list_skills()
    assembler = ContextAssembler(skills=FolderSkills(*folders))
    await assembler.add_user("s", "Hello")
    names = [one.name for one in skills]

    context = await assembler.assemble("s", model="claude-opus-5-5", active_skills=names)

    active = context.metadata.active_skills
    assert set(active) == {one.name for one in skills if one.instructions}
    assert context.system_prompt.count("\n</skill>") == len(active)
    assert context.system_prompt.count("\n<skill ") == len(active)
    assert context.check() == []


async def test_what_real_skills_want_approved_is_read(folders: list[Path]) -> None:
    skills = {one.name: one for one in await FolderSkills(*folders).list_skills()}

    wanted = {name: one.allowed_tools for name, one in skills.items() if one.allowed_tools}

    assert wanted["valid-skill"] == ("web-search", "file-read")
    assert wanted["adding-a-provider-api-feature"][:2] == ("Bash(git:*)", "Bash(gh:*)")
    assert wanted["circular-import-analysis"][0] == "Bash"
