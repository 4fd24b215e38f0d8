"""Skills: folders with SKILL.md, what the prompt has of them, and what became of each."""

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler import AssemblerConfig, ContextAssembler, Session
from context_assembler.errors import ConfigurationError
from context_assembler.ports import Skill
from context_assembler.prompt import (
    FolderSkills,
    ListedSkills,
    ShownSkills,
    SkillLister,
    follow_section,
    show_skills,
)


def count(text: str) -> int:
    return len(text.split())


def skill_file(
    name: str = "pdf", description: str = "Read PDFs.", more: str = "", body: str = "Do."
) -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}"


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def listed_of(folder: Path) -> FolderSkills:
    skills = FolderSkills(folder, now_ns=lambda: 10**19)
    skills.list_now()
    return skills


# ---- folders ----


def test_a_folder_is_a_skill(tmp_path: Path) -> None:
    more = "allowed-tools: Read, Bash(git add:*)\ntools:\n- {name: run, input_schema: {type: object}}\n"
    path = write(tmp_path, "pdf/SKILL.md", skill_file(more=more, body="\nFirst.\n"))

    [skill] = FolderSkills(tmp_path, priority=3).list_now()

    assert skill == Skill(
        name="pdf",
        description="Read PDFs.",
        path=str(path),
        instructions="First.",
        priority=3,
        tools=({"name": "run", "input_schema": {"type": "object"}},),
        allowed_tools=("Read", "Bash(git add:*)"),
    )


def test_skills_are_found_below_and_what_is_below_a_skill_belongs_to_it(tmp_path: Path) -> None:
    write(tmp_path, "b/SKILL.md", skill_file("b"))
    write(tmp_path, "a/inner/SKILL.md", skill_file("inner"))
    write(tmp_path, "b/deeper/SKILL.md", skill_file("deeper"))
    write(tmp_path, ".hidden/SKILL.md", skill_file("hidden"))

    assert [skill.name for skill in FolderSkills(tmp_path).list_now()] == ["b", "inner"]


PROBLEMS = {
    "no description": ("---\nname: a\n---\n", "no front matter with a description"),
    "no front matter": ("Do.", "no front matter with a description"),
    "never closed": ("---\nname: a\n", "no front matter with a description"),
    "a number": ("---\nname: a\ndescription: 5\n---\n", "a description that is text"),
}


@pytest.mark.parametrize(("text", "why"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_broken_skill_is_left_out_and_the_rest_stays(tmp_path: Path, text: str, why: str) -> None:
    write(tmp_path, "a/SKILL.md", text)
    write(tmp_path, "b/SKILL.md", skill_file("b"))

    skills = listed_of(tmp_path)

    assert [skill.name for skill in skills.list_now()] == ["b"]
    assert why in skills.problems[0].reason


NOTES = {
    "no name": ("---\ndescription: d\n---\n", "is not its folder's"),
    "capitals": (skill_file("PDF"), "lower-case letters, digits"),
    "another name": (skill_file("pfd"), "its name 'pfd' is not its folder's"),
    "long": (skill_file("a", "d" * 1_025), "longer than 1,024 characters"),
    "an odd tool": (
        skill_file("a", more="tools: [5]\n"),
        "5 is neither a spec nor a JSON file of specs",
    ),
    "no such file": (skill_file("a", more="tools: t.json\n"), "'t.json' is neither a spec"),
    "a file of text": (skill_file("a", more="tools: odd.json\n"), "'odd.json' is neither a spec"),
    "a file elsewhere": (
        skill_file("a", more="tools: ../../x.json\n"),
        "'../../x.json' is neither a spec",
    ),
}


@pytest.mark.parametrize(("text", "note"), NOTES.values(), ids=NOTES)
def test_what_is_odd_about_a_skill_is_noted(tmp_path: Path, text: str, note: str) -> None:
    write(tmp_path, "x.json", '{"name": "secret"}')
    write(tmp_path, "skills/a/odd.json", "[5]")
    write(tmp_path, "skills/a/SKILL.md", text)

    skills = listed_of(tmp_path / "skills")

    [one] = skills.list_now()
    assert one.tools == ()
    assert any(note in text for text in skills.notes)


def test_files_next_to_a_skill_hold_more_tools(tmp_path: Path) -> None:
    write(tmp_path, "a/SKILL.md", skill_file("a", more="tools: [one.json, two.json]\n"))
    write(tmp_path, "a/one.json", '{"tools": [{"name": "one"}]}')
    write(tmp_path, "a/two.json", '{"name": "two"}')

    [skill] = FolderSkills(tmp_path).list_now()

    assert [tool["name"] for tool in skill.tools] == ["one", "two"]


def test_of_two_skills_with_one_name_the_earlier_folders_wins(tmp_path: Path) -> None:
    write(tmp_path, "x/pdf/SKILL.md", skill_file(description="First."))
    write(tmp_path, "y/pdf/SKILL.md", skill_file(description="Second."))
    skills = FolderSkills(tmp_path / "x", tmp_path / "y", tmp_path / "gone")

    [skill] = skills.list_now()

    assert skill.description == "First."
    assert [one.rule for one in skills.problems] == ["duplicate", "broken"]


def test_links_out_of_the_folder_are_refused_and_circles_end(tmp_path: Path) -> None:
    write(tmp_path, "secret.md", skill_file("secret"))
    write(tmp_path, "in/a/b.txt", "")
    (tmp_path / "in/a/SKILL.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "in/loop").symlink_to(tmp_path / "in")

    skills = listed_of(tmp_path / "in")

    assert skills.list_now() == []
    assert "outside the folder" in skills.problems[0].reason


def test_a_folder_is_read_again_only_if_something_changed(tmp_path: Path) -> None:
    path = write(tmp_path, "pdf/SKILL.md", skill_file())
    skills = FolderSkills(tmp_path, now_ns=lambda: 10**19)
    first = skills.list_now()

    again = skills.list_now()
    path.write_text(skill_file(description="Write PDFs."), encoding="utf-8")
    edited = skills.list_now()
    write(tmp_path, "docx/SKILL.md", skill_file("docx"))

    assert again is first
    assert edited[0].description == "Write PDFs."
    assert [skill.name for skill in skills.list_now()] == ["docx", "pdf"]


# ---- providers ----


SESSION = Session(id="s")


class Provider:
    """Lists what it was given; fails as often as it is told to."""

    def __init__(self, *skills: Any, fails: int = 0) -> None:
        self.skills, self.fails = skills, fails

    async def list_skills(self, _session: Session) -> Sequence[Any]:
        if self.fails:
            self.fails -= 1
            raise ConnectionError("refused")
        return self.skills


class Silent:
    async def list_skills(self, _session: Session) -> Sequence[Skill]:
        await asyncio.Event().wait()
        raise AssertionError


def skill(name: str, description: str = "Do a thing.", **more: Any) -> Skill:
    return Skill(name=name, description=description, **more)


async def test_all_providers_are_asked_and_what_fails_is_named() -> None:
    lister = SkillLister(
        [Provider(skill("b"), skill("a\n")), Provider(fails=1), Provider(5), Silent()],
        timeout_seconds=0.01,
    )

    listed = await lister.list(SESSION)

    assert [one.name for one in listed.skills] == ["a", "b"]
    assert "Skill provider Provider failed: ConnectionError" in listed.warnings[0]
    assert "Skill provider Provider failed: AttributeError" in listed.warnings[1]
    assert listed.warnings[2] == "Skill provider Silent did not answer within 0.01 s."
    assert not lister.is_sync


async def test_a_provider_that_fails_is_taken_at_its_last_word() -> None:
    provider = Provider(skill("a"))
    lister = SkillLister(provider, now=lambda: datetime(2026, 11, 29, 12, tzinfo=UTC))
    before = await lister.list(SESSION)
    provider.fails = 1

    after = await lister.list(SESSION)

    assert after.skills == before.skills
    assert after.warnings[0].endswith("at 2026-11-29 12:00:00 UTC, still holds.")


async def test_folders_are_asked_without_a_loop_and_with_one_alike(tmp_path: Path) -> None:
    write(tmp_path, "pdf/SKILL.md", skill_file())
    lister = SkillLister([str(tmp_path), tmp_path / "gone"])

    assert lister.is_sync
    assert lister.list_now(SESSION) == await lister.list(SESSION)
    assert "there is no such folder" in lister.list_now(SESSION).warnings[0]
    assert SkillLister(None).list_now(SESSION) == ListedSkills()


def test_what_is_no_source_of_skills_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not a source of skills"):
        SkillLister(5)


# ---- the prompt ----


def show(*skills: Skill, **settings: Any) -> ShownSkills:
    settings.setdefault("count_text", count)
    return show_skills(ListedSkills(skills), **settings)


def fates(shown: ShownSkills) -> dict[str, tuple[str, str]]:
    return {entry.id: (entry.decision, entry.rule) for entry in shown.entries}


PDF = skill("pdf", "Read and write PDF files.", path="/pdf/SKILL.md", instructions="Use poppler.")
CSV = skill("csv", "Read tables.", path="/csv/SKILL.md", tools=({"name": "t"},))


def test_skills_are_listed_with_their_files_and_active_ones_in_full() -> None:
    shown = show(PDF, CSV, active=["pdf", "csv"])

    assert shown.text.startswith("# Skills\n\nEach skill has instructions for one kind")
    assert shown.text.endswith(
        "- csv (/csv/SKILL.md): Read tables.\n- pdf (/pdf/SKILL.md): Read and write PDF files.\n\n"
        '<skill name="pdf" file="/pdf/SKILL.md">\nUse poppler.\n</skill>'
    )
    assert shown.active == ("csv", "pdf")
    assert shown.with_tools == [CSV]
    assert fates(shown) == {"csv": ("kept", "active"), "pdf": ("kept", "active")}
    assert "with 1 tools of its own" in shown.entries[0].reason


def test_nothing_in_instructions_closes_their_tags_and_a_skill_from_code_has_no_file() -> None:
    shown = show(skill("a", instructions="x </skill> y"), active=["a"])

    assert "- a: Do a thing." in shown.text
    assert '<skill name="a">\nx &lt;/skill> y\n</skill>' in shown.text


FLAGS = {"true": True, "yes": True, '"true"': True, "false": False, "no": False, "": False}


@pytest.mark.parametrize("broken", ["", "x: a: b\n"])
@pytest.mark.parametrize(("flag", "is_hidden"), FLAGS.items())
def test_an_author_can_keep_a_skill_from_the_model(
    tmp_path: Path, flag: str, is_hidden: bool, broken: str
) -> None:
    more = f"disable-model-invocation: {flag}\nuser-invocable: false\nmodel: opus\n{broken}"
    write(tmp_path, "pdf/SKILL.md", skill_file(more=more))

    [one] = FolderSkills(tmp_path).list_now()

    assert one.is_hidden is is_hidden


def test_a_hidden_skill_is_shown_only_while_it_is_active() -> None:
    deploy = skill("deploy", instructions="Ship it.", is_hidden=True)

    idle, active, named = (
        show(PDF, deploy, **settings)
        for settings in (
            {},
            {"active": ["deploy"]},
            {"patterns": ["deploy"], "activates_named": True},
        )
    )

    assert "deploy" not in idle.text
    assert [one.name for one in idle.skills] == ["pdf"]
    assert fates(idle)["deploy"] == ("dropped", "hidden")
    assert "- deploy" not in active.text
    assert '<skill name="deploy">\nShip it.\n</skill>' in active.text
    assert fates(active)["deploy"] == ("kept", "active")
    assert named.text == '<skill name="deploy">\nShip it.\n</skill>'


FILTERS: dict[str, tuple[dict[str, Any], list[str], tuple[str, ...], str]] = {
    "all": ({}, ["csv", "pdf"], (), ""),
    "a pattern": ({"patterns": ["p*"]}, ["pdf"], (), ""),
    "a name makes active": ({"patterns": ["pdf"], "activates_named": True}, ["pdf"], ("pdf",), ""),
    "a pattern that matches none": ({"patterns": ["pfd"]}, [], (), "Did you mean 'pdf'?"),
    "a skill that is not there": (
        {"active": ["pfd"]},
        ["csv", "pdf"],
        (),
        "names 'pfd', which is no skill",
    ),
    "one that is left out": (
        {"patterns": ["csv"], "active": ["pdf"]},
        ["csv"],
        (),
        "names 'pdf', which is no skill",
    ),
    "all skipped": ({"skip_reason": "skip_skills is on", "active": ["pdf"]}, [], (), ""),
}


@pytest.mark.parametrize(("settings", "names", "active", "warns"), FILTERS.values(), ids=FILTERS)
def test_filters_decide_which_skills_are_shown(
    settings: dict[str, Any], names: list[str], active: tuple[str, ...], warns: str
) -> None:
    shown = show(PDF, CSV, **settings)

    assert [one.name for one in shown.skills] == names
    assert shown.active == active
    assert (warns in " ".join(shown.warnings)) if warns else not shown.warnings


def test_a_skill_with_nothing_to_add_is_not_active_and_priority_decides_between_two() -> None:
    shown = show(skill("a", priority=0), skill("a", "Better.", priority=1), active=["a"])

    assert "which is no skill that is offered and has instructions or tools" in shown.warnings[0]
    assert "Better." in shown.text
    assert [entry.rule for entry in shown.entries] == ["duplicate", "listed"]


def test_too_long_a_list_is_shortened_fairly_then_by_priority() -> None:
    long = skill("long", "word " * 200, priority=1)
    short = skill("short", "Few words.")

    fair, tight, none = (show(long, short, max_tokens=most) for most in (80, 44, 10))

    assert "Few words." in fair.text
    assert fates(fair) == {"long": ("shortened", "skill_budget"), "short": ("kept", "listed")}
    assert tight.text.endswith("- long: word…\n- … and 1 more skills")
    assert none.text == ""
    assert set(fates(none).values()) == {("dropped", "skill_budget")}


def test_secrets_of_skills_are_masked() -> None:
    def mask(text: str) -> tuple[str, list[str]]:
        return text.replace("SECRET", "***"), ["key"] * text.count("SECRET")

    shown = show(
        skill("a", "d SECRET", path="/a", instructions="i SECRET"), active=["a"], mask=mask
    )

    assert "SECRET" not in shown.text
    assert shown.warnings == ("/a: secrets were masked (key)",)


def test_a_section_that_was_cut_says_what_is_left_of_each_skill() -> None:
    shown = show(PDF, CSV, active=["pdf"])

    same = follow_section(shown, shown.text, count_text=count)
    cut = follow_section(shown, shown.text.partition("<skill")[0], count_text=count)
    gone = follow_section(shown, "", count_text=count, is_frozen=True)

    assert same is shown
    assert fates(cut) == {"csv": ("kept", "listed"), "pdf": ("shortened", "section.cut")}
    assert cut.active == ()
    assert set(fates(gone).values()) == {("dropped", "system.frozen")}


@given(
    skills=st.lists(
        st.tuples(st.text("abc", min_size=1, max_size=3), st.text(max_size=80)), max_size=6
    ),
    most=st.integers(0, 300),
)
def test_a_list_never_takes_more_than_its_tokens(skills: list[tuple[str, str]], most: int) -> None:
    given_skills = [skill(name, text) for name, text in skills]

    shown = show(*given_skills, max_tokens=most, count_text=len)

    assert len(shown.text) <= most
    assert sum(entry.rule != "duplicate" for entry in shown.entries) == len(
        {s.name for s in given_skills}
    )


CORPUS = Path(os.environ.get("CONTEXT_ASSEMBLER_CORPUS", "../shared/data")) / "instructions"


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the recorded corpus is not here")
def test_every_recorded_skill_is_listed_or_says_why_not() -> None:
    skills = FolderSkills(*(path for path in sorted(CORPUS.iterdir()) if path.is_dir()))
    listed = skills.list_now()

    assert len(listed) > 10
    assert all(problem.reason for problem in skills.problems)
    assert count(show(*listed, max_tokens=500).text) <= 500


# ---- skills from code ----


class Database:
    """Knows which skills an agent has, and which of them it needs now."""

    async def list_skills(self, session: Session) -> Sequence[Skill]:
        return [skill(f"{session.agent_id}-of-{session.id}", instructions="Do.", is_active=True)]


async def test_skills_come_from_code_for_the_agent_and_the_session() -> None:
    own = skill("own", instructions="Count twice.", examples=("2 + 2",))
    sources = [own, lambda session: [skill(f"plain-{session.id}")], Database()]
    assembler = ContextAssembler(skills=sources)
    await assembler.add_user("s", "Hello.")

    context = await assembler.assemble("s", "ada", model="gpt-5.5", active_skills=["own"])

    assert context.metadata.active_skills == ("ada-of-s", "own")
    assert context.system_prompt == (
        "# Skills\n\nEach skill has instructions for one kind of task: read its file, if it has one, "
        "before you begin a task that its description fits. Instructions of skills in use follow the "
        "list.\n\n"
        "- ada-of-s: Do a thing.\n- own: Do a thing.\n- plain-s: Do a thing.\n\n"
        '<skill name="ada-of-s">\nDo.\n</skill>\n\n<skill name="own">\nCount twice.\n</skill>'
    )


async def test_skills_are_in_order_of_priority_and_examples_are_shown_if_wanted() -> None:
    skills = [skill("a"), skill("z", priority=2, instructions="Add.", examples=("1 + 1", "2 + 2"))]
    config = AssemblerConfig(skills={"shows_examples": True})
    assembler = ContextAssembler(skills=skills, config=config)
    await assembler.add_user("s", "Hello.")

    prompt = assembler.assemble_sync("s", model="gpt-5.5", active_skills=["z"]).system_prompt

    assert "- z: Do a thing.\n- a: Do a thing." in prompt
    assert '<skill name="z">\nAdd.\n\nExamples:\n- 1 + 1\n- 2 + 2\n</skill>' in prompt


async def test_what_a_session_was_told_last_is_told_to_no_other() -> None:
    def list_skills(session: Session) -> list[Skill]:
        if session.id == "broken":
            raise ConnectionError("refused")
        return [skill(f"of-{session.id}")]

    assembler = ContextAssembler(skills=list_skills)
    for name in ("fine", "broken"):
        await assembler.add_user(name, "Hello.")

    fine, broken = [await assembler.assemble(one, model="gpt-5.5") for one in ("fine", "broken")]

    assert "of-fine" in fine.system_prompt
    assert broken.system_prompt == ""
    assert "refused" in broken.report.warnings[0]
