"""All providers are asked, and none can harm the others."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from context_assembler.skills import ListedSkills, list_skills
from context_assembler.skills.folder import FolderSkills
from context_assembler.values.prompt import Skill


class Given:
    """Gives what it was given."""

    def __init__(self, *skills: Any, **attributes: Any) -> None:
        self._skills = skills
        vars(self).update(attributes)

    async def list_skills(self) -> Sequence[Skill]:
        return self._skills


class Broken:
    async def list_skills(self) -> Sequence[Skill]:
        raise ConnectionError("refused")


class Endless:
    async def list_skills(self) -> Sequence[Skill]:
        await asyncio.Event().wait()
        raise AssertionError


GOOD = Skill(name="good", description="Good.", path="good/SKILL.md")


async def test_a_provider_that_fails_is_named() -> None:
    listed = await list_skills([Broken(), Given(GOOD)])

    assert listed.skills == (GOOD,)
    assert listed.warnings == ("Skills of Broken failed: ConnectionError: refused.",)


async def test_a_provider_that_does_not_answer_is_named() -> None:
    listed = await list_skills([Endless(), Given(GOOD)], timeout_seconds=0.01)

    assert listed.skills == (GOOD,)
    assert listed.warnings == ("Skills of Endless did not come within 0.01 s.",)


class GivenUp:
    """A provider whose own work was cancelled by somebody else."""

    async def list_skills(self) -> list[Skill]:
        work = asyncio.create_task(asyncio.sleep(60))
        work.cancel()
        await work
        return []


async def test_a_provider_whose_own_work_was_cancelled_is_named() -> None:
    listed = await list_skills([GivenUp(), Given(GOOD)])

    assert listed.skills == (GOOD,)
    assert listed.warnings == ("Skills of GivenUp failed: CancelledError.",)


async def test_who_cancels_is_obeyed() -> None:
    task = asyncio.create_task(list_skills([Endless()]))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_broken_skill_has_a_row_and_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "bad" / "SKILL.md"
    path.parent.mkdir()
    path.write_text("Just text.")

    listed = await list_skills([FolderSkills(tmp_path)])

    reason = "its front matter has no description: the file does not begin with a line '---'"
    assert [(row.id, row.decision, row.reason, row.rule) for row in listed.entries] == [
        (str(path), "dropped", reason, "broken")
    ]
    assert listed.warnings[0] == f"Skill left out: {path}: {reason}."


def bad(**fields: Any) -> Skill:
    arguments: dict[str, Any] = {"name": "n", "description": "d", "path": "p", **fields}
    return Skill(**arguments)


BAD_SKILLS: dict[str, tuple[Any, str]] = {
    "nothing": (None, "None is no Skill"),
    "a dict": ({"name": "x"}, "{'name': 'x'} is no Skill"),
    "a name that is no text": (bad(name=3), "other than text"),
    "no name": (bad(name=" \n"), "lacks a name"),
    "no description": (bad(description="\0"), "lacks a name or a description"),
    "tools that are no list": (bad(tools=3), "are no list"),
    "allowed tools that are no names": (bad(allowed_tools=(3,)), "are no names"),
    "a priority that is no number": (bad(priority="high"), "is no whole number"),
}


@pytest.mark.parametrize(("given", "says"), BAD_SKILLS.values(), ids=BAD_SKILLS.keys())
async def test_what_is_no_skill_is_named_and_the_rest_stays(given: Any, says: str) -> None:
    listed = await list_skills([Given(given, GOOD)])

    assert listed.skills == (GOOD,)
    assert [(row.id, row.decision) for row in listed.entries] == [("Given", "dropped")]
    assert says in listed.entries[0].reason


async def test_problems_and_notes_of_any_provider_are_told() -> None:
    listed = await list_skills([Given(GOOD, problems=["x:\ny"], notes=["odd"])])

    assert [(row.id, row.reason) for row in listed.entries] == [("Given", "x: y")]
    assert listed.warnings == ("Skill left out: Given: x: y.", "odd.")


async def test_whatever_order_a_provider_lists_in_the_skills_come_sorted() -> None:
    other = Skill(name="another", description="Other.", path="o")
    twin = Skill(name="good", description="Good.", path="a/good")

    assert await list_skills([Given(GOOD, twin, other)]) == ListedSkills(skills=(other, twin, GOOD))


async def test_what_the_prompt_lists_is_one_line() -> None:
    forged = Skill(name="a\nb", description="c\r\n- d (e): f", path="p\tq", instructions="x\ny")

    listed = await list_skills([Given(forged)])

    assert listed.skills == (
        Skill(name="a b", description="c - d (e): f", path="p q", instructions="x\ny"),
    )
