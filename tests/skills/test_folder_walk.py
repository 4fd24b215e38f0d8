"""Folders of skills made to harm: the walk ends, reads nothing twice, and says what it left."""

import os
from pathlib import Path

import pytest

from context_assembler.skills import folder, folder_walk
from context_assembler.skills.folder import FolderSkills
from context_assembler.skills.folder_walk import FolderWalk
from context_assembler.skills.listing import list_skills


def write(root: Path, name: str, text: str = "") -> Path:
    path = root / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or f"---\nname: {name}\ndescription: d\n---\nSteps.\n")
    return path


def walk_of(root: Path) -> FolderWalk:
    return FolderWalk(root=os.path.realpath(root))


async def test_links_that_lead_back_are_followed_once(tmp_path: Path) -> None:
    write(tmp_path, "good")
    for number in range(30):
        (tmp_path / f"again-{number:02}").symlink_to(".")
    walk = walk_of(tmp_path)
    provider = FolderSkills(tmp_path)

    found = list(walk.skill_files())

    assert len(found) == 1
    assert len(walk.entered) == 2
    assert len(walk.notes) == 30
    assert f"again-00: the same folder as {walk.root}, which was searched" in walk.notes[0]
    assert [one.name for one in await provider.list_skills()] == ["good"]
    assert len(provider.notes) == 30
    assert provider.problems == ()


async def test_folders_that_link_to_each_other_are_entered_once_each(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(30)]
    for name in names:
        (tmp_path / name / "links").mkdir(parents=True)
        for other in names:
            (tmp_path / name / "links" / other).symlink_to(tmp_path / other)
    write(tmp_path / "f7", "deep")
    walk = walk_of(tmp_path)
    provider = FolderSkills(tmp_path)

    found = list(walk.skill_files())
    skills = await provider.list_skills()

    assert len(found) == len(skills) == 1
    assert len(walk.entered) == 1 + 2 * 30 + 1
    assert len(provider.notes) == 51
    assert provider.notes[-1] == f"skills: {len(walk.notes) - 50:,} more notes of this kind"


async def test_a_skill_that_links_lead_to_twice_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, "real")
    (tmp_path / "current").symlink_to("real")
    provider = FolderSkills(tmp_path)

    [skill] = await provider.list_skills()

    assert skill.path.endswith("/real/SKILL.md")
    assert provider.problems == ()
    assert len(provider.notes) == 1
    assert "current: the same folder as" in provider.notes[0]


async def test_what_is_wrong_with_many_skills_is_counted(tmp_path: Path) -> None:
    for number in range(60):
        write(tmp_path, f"bad{number:02}", "Just text.")
    write(tmp_path, "good")

    listed = await list_skills([FolderSkills(tmp_path)])

    assert [skill.name for skill in listed.skills] == ["good"]
    assert len(listed.entries) == 51
    assert listed.entries[-1].reason == "10 more were left out"
    assert "skills: 10 more notes of this kind." in listed.warnings


async def test_only_so_many_skills_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_walk, "MAX_SKILLS", 3)
    for name in "abcde":
        write(tmp_path, name)
    provider = FolderSkills(tmp_path)

    skills = await provider.list_skills()

    assert [skill.name for skill in skills] == ["a", "b", "c"]
    assert [one.reason for one in provider.problems] == [
        "only the first 3 skills below it were read"
    ]


async def test_only_so_many_folders_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_walk, "MAX_FOLDERS", 3)
    for name in "abcde":
        write(tmp_path, name)
    provider = FolderSkills(tmp_path)

    skills = await provider.list_skills()

    assert [skill.name for skill in skills] == ["a", "b"]
    assert [one.reason for one in provider.problems] == [
        "only the first 3 folders below it were searched"
    ]


async def test_a_folder_with_too_many_entries_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_walk, "MAX_ENTRIES", 3)
    for name in "abcd":
        write(tmp_path / "crowded", name)
    write(tmp_path, "good")
    provider = FolderSkills(tmp_path)

    skills = await provider.list_skills()

    assert [skill.name for skill in skills] == ["good"]
    [problem] = provider.problems
    assert problem.path.endswith("/crowded")
    assert problem.reason == "it has more than 3 entries, and what lies below was not searched"


async def test_all_skills_together_are_read_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "MAX_READ_BYTES", 100)
    write(tmp_path, "a")
    write(tmp_path, "b", "x" * 100)
    provider = FolderSkills(tmp_path)

    skills = await provider.list_skills()

    assert [skill.name for skill in skills] == ["a"]
    assert [one.reason for one in provider.problems] == ["more than 100 bytes of skills in all"]


async def test_a_link_in_a_circle_hides_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "nowhere").symlink_to("gone")
    write(tmp_path, "good")
    provider = FolderSkills(tmp_path)

    skills = await provider.list_skills()

    assert [skill.name for skill in skills] == ["good"]
    assert provider.problems == ()
