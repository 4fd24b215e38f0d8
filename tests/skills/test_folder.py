"""Folders of skills."""

import os
from pathlib import Path

import pytest

from context_assembler.errors import ConfigurationError
from context_assembler.skills import SKILL_PROVIDERS, open_skill_providers
from context_assembler.skills.folder import FolderSkills
from context_assembler.values.prompt import Skill


def write(root: Path, name: str, text: str | bytes) -> Path:
    path = root / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def skill(name: str, description: str = "Does things.") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n# How\n\nSteps.\n"


async def test_skills_are_read_sorted_by_name(tmp_path: Path) -> None:
    write(tmp_path, "b", skill("b"))
    path = write(tmp_path, "deep/a", "---\nname: a\ndescription: >\n  Two\n  lines.\n---\nSteps.\n")

    skills = await FolderSkills(tmp_path).list_skills()

    assert [one.name for one in skills] == ["a", "b"]
    assert skills[0] == Skill(
        name="a", description="Two lines.", path=str(path), instructions="Steps."
    )


async def test_a_broken_skill_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    write(outside, "x", skill("x"))
    write(tmp_path, "good", skill("good"))
    write(tmp_path, "no-description", "---\nname: no-description\n---\n")
    write(tmp_path, "no-front-matter", "Just text.")
    write(tmp_path, "long", b"a" * 1_000_001)
    (tmp_path / "folder" / "SKILL.md").mkdir(parents=True)
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "SKILL.md").symlink_to("SKILL.md")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "SKILL.md").symlink_to(outside / "x" / "SKILL.md")
    (tmp_path / "linked-folder").symlink_to(outside)
    (tmp_path / ".hidden").mkdir()
    write(tmp_path, ".hidden/h", skill("h"))
    provider = FolderSkills(tmp_path, tmp_path / "nowhere")

    skills = await provider.list_skills()

    assert [one.name for one in skills] == ["good"]
    for words in (
        "no-description/SKILL.md: its front matter has no description",
        "no-front-matter/SKILL.md: its front matter has no description",
        "long/SKILL.md: it is longer than",
        "folder/SKILL.md: it is no regular file",
        "loop/SKILL.md: it",
        "link/SKILL.md: it lies outside the folder",
        "nowhere: there is no such folder",
    ):
        assert any(words in str(problem) for problem in provider.problems), words


async def test_what_is_odd_is_noted_and_kept(tmp_path: Path) -> None:
    write(tmp_path, "one", skill("Not A Name"))
    write(tmp_path, "two", skill("other"))
    write(tmp_path, "three", "---\ndescription: no: name\n---\n")
    write(tmp_path, "four", skill("four").encode() + b"\xe9")
    provider = FolderSkills(tmp_path)

    skills = await provider.list_skills()

    assert [one.name for one in skills] == ["Not A Name", "four", "other", "three"]
    assert len(provider.notes) == 5
    assert provider.problems == ()


async def test_of_two_skills_with_one_name_the_earlier_folders_wins(tmp_path: Path) -> None:
    write(tmp_path / "first", "calendar", skill("calendar", "First."))
    write(tmp_path / "second", "calendar", skill("calendar", "Second."))
    provider = FolderSkills(tmp_path / "first", tmp_path / "second")

    skills = await provider.list_skills()

    assert [one.description for one in skills] == ["First."]
    assert "has the name 'calendar' already" in str(provider.problems[0])
    assert provider.problems[0].rule == "duplicate"


async def test_what_lies_below_a_skill_belongs_to_it(tmp_path: Path) -> None:
    write(tmp_path, ".", skill(tmp_path.name))
    write(tmp_path, "child", skill("child"))

    assert len(await FolderSkills(tmp_path).list_skills()) == 1


async def test_folders_are_searched_only_so_deep_and_a_note_tells(tmp_path: Path) -> None:
    write(tmp_path, "/".join("abcdefghij"), skill("j"))
    write(tmp_path, "/".join("uvwxyz"), skill("z"))
    folder = FolderSkills(tmp_path)

    assert [found.name for found in await folder.list_skills()] == ["z"]
    assert folder.notes == (
        f"{tmp_path}/a/b/c/d/e/f: what lies more than 6 levels down was not searched",
    )


async def test_an_unreadable_file_and_folder_do_not_end_the_search(tmp_path: Path) -> None:
    write(tmp_path, "good", skill("good"))
    (tmp_path / "file").write_text("no folder")

    assert len(await FolderSkills(tmp_path).list_skills()) == 1


def test_short_forms_open(tmp_path: Path) -> None:
    own = FolderSkills(tmp_path)

    opened = open_skill_providers([tmp_path, str(tmp_path), [own], None])

    assert len(opened) == 3
    assert opened[-1] is own
    assert list(SKILL_PROVIDERS) == ["folder"]
    with pytest.raises(ConfigurationError, match="no source of skills"):
        open_skill_providers(3)


async def test_a_file_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    path = write(tmp_path, "calendar", skill("calendar", "One."))
    later = path.stat().st_ctime_ns + 10_000_000_000
    provider = FolderSkills(tmp_path, now_ns=lambda: later)

    (first,) = await provider.list_skills()
    (second,) = await provider.list_skills()
    path.write_text(skill("calendar", "Another one."))
    (third,) = await provider.list_skills()

    assert first is second
    assert third.description == "Another one."


async def test_an_edit_right_after_a_listing_shows(tmp_path: Path) -> None:
    path = write(tmp_path, "calendar", skill("calendar", "One."))
    provider = FolderSkills(tmp_path)
    stamp = path.stat().st_mtime_ns

    await provider.list_skills()
    path.write_text(skill("calendar", "Two."))
    os.utime(path, ns=(stamp, stamp))
    (after,) = await provider.list_skills()

    assert after.description == "Two."


async def test_what_is_wrong_with_a_file_is_told_at_every_listing(tmp_path: Path) -> None:
    path = write(tmp_path, "bad", "Just text.")
    later = path.stat().st_ctime_ns + 10_000_000_000
    provider = FolderSkills(tmp_path, now_ns=lambda: later)

    await provider.list_skills()
    await provider.list_skills()

    assert len(provider.problems) == 1


async def test_a_linked_skill_inside_the_folder_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a", skill("a"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "SKILL.md").symlink_to(path)

    provider = FolderSkills(tmp_path)

    assert [one.name for one in await provider.list_skills()] == ["a"]
    assert [problem.rule for problem in provider.problems] == ["duplicate"]


SPEC = '{"name": "fill_form", "description": "Fill it.", "input_schema": {"type": "object"}}'


async def test_the_tools_of_a_file_follow_those_of_the_front_matter(tmp_path: Path) -> None:
    front = "---\nname: a\ndescription: d\ntools: [{name: look}, tools.json]\n---\n"
    path = write(tmp_path, "a", front)
    (path.parent / "tools.json").write_text(SPEC)

    (one,) = await FolderSkills(tmp_path).list_skills()

    assert [spec["name"] for spec in one.tools] == ["look", "fill_form"]


async def test_a_bad_tool_file_is_named_and_the_skill_stays(tmp_path: Path) -> None:
    write(tmp_path, "a", "---\nname: a\ndescription: d\ntools: [none.json, ../b.json]\n---\nSteps.")
    (tmp_path / "b.json").write_text(SPEC)
    provider = FolderSkills(tmp_path)

    (one,) = await provider.list_skills()

    assert one.tools == ()
    assert [note.partition("SKILL.md: ")[2] for note in provider.notes] == [
        "its tool file 'none.json' cannot be read: No such file or directory",
        "its tool file 'b.json' lies outside the skill's folder and was not read",
    ]


async def test_an_edited_or_added_tool_file_shows_though_the_skill_file_is_the_same(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, "a", "---\nname: a\ndescription: d\ntools: t.json\n---\n")
    later = path.stat().st_ctime_ns + 10_000_000_000
    provider = FolderSkills(tmp_path, now_ns=lambda: later)

    (missing,) = await provider.list_skills()
    (path.parent / "t.json").write_text(SPEC)
    (added,) = await provider.list_skills()
    (same,) = await provider.list_skills()
    (path.parent / "t.json").write_text(SPEC.replace("fill_form", "fill_the_form"))
    (edited,) = await provider.list_skills()
    (path.parent / "t.json").unlink()
    (gone,) = await provider.list_skills()

    assert missing.tools == gone.tools == ()
    assert missing.tools == ()
    assert [spec["name"] for spec in added.tools] == ["fill_form"]
    assert same is added
    assert [spec["name"] for spec in edited.tools] == ["fill_the_form"]


async def test_skills_have_the_priority_of_their_provider(tmp_path: Path) -> None:
    write(tmp_path, "a", skill("a"))

    (one,) = await FolderSkills(tmp_path, priority=7).list_skills()

    assert one.priority == 7


async def test_the_order_in_which_a_disk_lists_its_files_changes_nothing(tmp_path: Path) -> None:
    names = [f"skill-{number}" for number in range(20)]
    for root, order in (("up", names), ("down", names[::-1])):
        for name in order:
            write(tmp_path / root, name, skill(name, f"About {name}."))

    up = await FolderSkills(tmp_path / "up").list_skills()
    down = await FolderSkills(tmp_path / "down").list_skills()

    assert [(one.name, one.description) for one in up] == [
        (one.name, one.description) for one in down
    ]
