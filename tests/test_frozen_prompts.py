"""Under `freeze` the report tells the truth: what waits, why, and of which file it is the text."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ContextAssembler,
    PromptSection,
    TemplateError,
)
from context_assembler.values.events import CompactionBody, SessionEvent, system_event
from context_assembler.values.report import ReportEntry
from tests.test_edited_instructions import HAIKU, OPUS, reply_of

LARGE: dict[str, Any] = {}
SMALL: dict[str, Any] = {"max_context_tokens": 5_000}
SMALLER: dict[str, Any] = {"max_context_tokens": 3_000}
LONG = "\n".join(f"Office rule {number}: lock the door." for number in range(500))
LOOK = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}


class Desk:
    """A session on disk; each step comes from a process of its own, as after a restart."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder / "repo" / "app"
        self.folder.mkdir(parents=True)
        (folder / "repo" / ".git").mkdir()
        self.database = f"sqlite:///{folder / 'sessions.db'}"
        self.bootstrap: dict[str, Any] = {"policy": "freeze", **settings.pop("bootstrap", {})}
        self.settings: dict[str, Any] = {"prompt": {"inherits": {}}, **settings}
        self.skills: Path | None = None
        self.sections: list[PromptSection] = []
        self._turns = 0

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def open(self) -> ContextAssembler:
        """Return an assembler as a process that has just begun has it."""
        config = AssemblerConfig(bootstrap=self.bootstrap, **self.settings)
        return ContextAssembler(
            self.database,
            bootstrap=self.folder,
            skills=self.skills,
            tools=[LOOK],
            config=config,
            prompt_sections=self.sections,
        )

    async def step(self, *, records: bool = True, **options: Any) -> AssembledContext:
        self._turns += 1
        async with self.open() as assembler:
            await assembler.add_user("s", f"Question {self._turns}")
            asked: dict[str, Any] = {"model": OPUS, "max_tokens": 500, **options}
            context = await assembler.assemble("s", **asked)
            if records:
                reply = reply_of(str(asked["model"]), f"Answer {self._turns}")
                await assembler.record("s", reply, context)
        return context


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.write("AGENT.md", "Book trips.")
    made.write("CONTEXT.md", LONG)
    return made


def rows_of(context: AssembledContext, kind: str) -> dict[str, ReportEntry]:
    return {row.id: row for row in context.report.entries if row.kind == kind}


def rewrites_of(context: AssembledContext) -> list[str]:
    return [row.reason for row in context.report.entries if row.rule == "rewrite.system"]


def claims_of(context: AssembledContext) -> str:
    """Return everything that the report says in words."""
    reasons = [row.reason for row in context.report.entries]
    return "\n".join([*reasons, *context.report.warnings])


# ---- windows ----


async def test_a_larger_window_restores_what_a_smaller_one_had_shortened_and_announces_it(
    desk: Desk,
) -> None:
    contexts = [await desk.step(**window) for window in (LARGE, SMALL, LARGE, LARGE)]

    assert [LONG in one.system_prompt for one in contexts] == [True, False, True, True]
    assert [len(rewrites_of(one)) for one in contexts] == [0, 1, 1, 0]
    assert "(context cut to another length)" in rewrites_of(contexts[2])[0]
    assert all("changed on disk" not in claims_of(one) for one in contexts)
    assert all("It has changed" not in claims_of(one) for one in contexts)


async def test_a_smaller_window_that_cuts_more_than_the_last_cuts_the_whole_text(
    desk: Desk,
) -> None:
    contexts = [await desk.step(**window) for window in (SMALL, SMALLER, SMALLER)]
    [fresh] = [await desk.step(refresh=True, **SMALLER)]

    assert contexts[1].system_prompt == contexts[2].system_prompt == fresh.system_prompt
    assert contexts[1].system_prompt.count("lines left out here") == 1
    assert "changed on disk" not in claims_of(contexts[2])
    assert rows_of(contexts[2], "section")["context"].decision == "shortened"


async def test_a_window_that_is_a_little_larger_lets_the_shortened_text_stay(desk: Desk) -> None:
    contexts = [await desk.step(max_context_tokens=5_000 + more) for more in (0, 200, 100)]

    assert len({one.system_prompt for one in contexts}) == 1
    row = rows_of(contexts[1], "section")["context"]
    assert (row.decision, row.rule) == ("shortened", "system.held_short")
    assert "as it was shortened in an earlier call" in row.reason
    assert row.tokens_before > row.tokens_after > 1_000
    assert "changed" not in claims_of(contexts[1])


async def test_an_edit_of_a_section_that_the_window_left_out_is_told_as_one(desk: Desk) -> None:
    desk.write("SOUL.md", "word " * 3_000)
    before = await desk.step(max_context_tokens=1_200)
    desk.write("CONTEXT.md", f"{LONG} And wave.")
    after = await desk.step(max_context_tokens=1_200)

    assert "context" not in {one.name for one in before.draft.system.sections}
    assert after.system_prompt == before.system_prompt
    row = rows_of(after, "section")["context"]
    assert (row.decision, row.rule, row.tokens_after) == ("dropped", "system.frozen", 0)
    assert "changed on disk" in rows_of(after, "file")[str(desk.folder / "CONTEXT.md")].reason
    assert "appeared" not in claims_of(after)


async def test_a_file_that_grew_elsewhere_does_not_make_another_one_look_gone(desk: Desk) -> None:
    first = await desk.step(max_context_tokens=12_000)
    desk.write("AGENT.md", "word " * 9_000)
    second = await desk.step(max_context_tokens=12_000)

    assert second.system_prompt == first.system_prompt
    assert rows_of(second, "section")["context"].rule == ""
    assert rows_of(second, "section")["agent"].rule == "system.frozen"
    assert [row.decision for row in rows_of(second, "section").values()] == ["kept", "kept"]


async def test_settings_that_cut_a_file_otherwise_are_no_change_on_disk(desk: Desk) -> None:
    await desk.step()
    desk.bootstrap["max_file_tokens"] = 300
    context = await desk.step()

    assert LONG in context.system_prompt
    row = rows_of(context, "file")[str(desk.folder / "CONTEXT.md")]
    assert row.decision == "kept"
    assert "what the settings make of it changed" in row.reason
    assert "changed on disk" not in claims_of(context)


async def test_a_template_that_is_filled_otherwise_did_not_change_on_disk(
    desk: Desk, skills: "Skills"
) -> None:
    desk.write("SOUL.md", "---\ntemplate: jinja2\n---\nKnows {{ skills | join(', ') }}.")
    first = await desk.step()
    skills.remove("letters")
    waiting = await desk.step()
    desk.write("SOUL.md", "---\ntemplate: jinja2\n---\nHas {{ skills | join(', ') }}.")
    edited = await desk.step()

    assert {one.system_prompt for one in (waiting, edited)} == {first.system_prompt}
    name = str(desk.folder / "SOUL.md")
    assert "what it is filled with changed" in rows_of(waiting, "file")[name].reason
    assert "changed on disk" in rows_of(edited, "file")[name].reason


# ---- which file ----


@pytest.fixture
def tree(tmp_path: Path) -> Desk:
    made = Desk(tmp_path, bootstrap={"searches_upward": True})
    made.write("AGENT.md", "Near: book trips.")
    made.write("../AGENT.md", "Far: be brief.")
    return made


async def test_a_nearest_file_that_is_gone_is_not_taken_for_the_one_above(tree: Desk) -> None:
    first = await tree.step()
    (tree.folder / "AGENT.md").unlink()
    context = await tree.step()

    near, far = str(tree.folder / "AGENT.md"), str(tree.folder.parent / "AGENT.md")
    assert context.system_prompt == first.system_prompt
    files, sections = rows_of(context, "file"), rows_of(context, "section")
    assert "it is gone" in files[near].reason
    assert files[near].tokens_after == rows_of(first, "file")[near].tokens_after
    assert files[far] == rows_of(first, "file")[far]
    assert (sections["agent"].decision, sections["agent"].rule) == ("kept", "system.frozen")
    assert sections[f"agent:{far}"] == rows_of(first, "section")[f"agent:{far}"]


async def test_a_file_above_that_is_gone_has_its_row_as_long_as_it_is_sent(tree: Desk) -> None:
    first = await tree.step()
    far = tree.folder.parent / "AGENT.md"
    far.unlink()
    context = await tree.step()

    assert context.system_prompt == first.system_prompt
    row = rows_of(context, "file")[str(far)]
    assert (row.decision, row.tokens_after) == (
        "kept",
        rows_of(first, "file")[str(far)].tokens_after,
    )
    assert "it is gone" in row.reason
    assert f"{far}: it is gone" in "\n".join(context.report.warnings)


async def test_a_nearest_file_that_appears_waits_under_its_own_name(tree: Desk) -> None:
    near, far = tree.folder / "AGENT.md", tree.folder.parent / "AGENT.md"
    near.unlink()
    first = await tree.step()
    near.write_text("Near: book trips.")
    context = await tree.step()

    assert first.system_prompt == context.system_prompt == "Far: be brief."
    sections = rows_of(context, "section")
    assert list(sections) == ["agent", f"agent:{near}"]
    assert (sections["agent"].decision, sections["agent"].rule) == ("kept", "")
    assert (sections[f"agent:{near}"].decision, sections[f"agent:{near}"].tokens_after) == (
        "dropped",
        0,
    )
    files = rows_of(context, "file")
    assert (files[str(near)].decision, files[str(near)].rule) == ("dropped", "file.waiting")
    assert files[str(far)] == rows_of(first, "file")[str(far)]


async def test_another_name_that_takes_the_place_of_a_file_is_told_as_what_it_is(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path, bootstrap={"agent_names": ["AGENTS.md", "CLAUDE.md"]})
    old = desk.write("AGENTS.md", "Agents: book trips.")
    new = desk.write("CLAUDE.md", "Claude: be brief.")
    first = await desk.step()
    old.unlink()
    context = await desk.step()

    assert context.system_prompt == first.system_prompt == "Agents: book trips."
    files = rows_of(context, "file")
    assert "it is gone" in files[str(old)].reason
    assert files[str(old)].tokens_after > 0
    assert (files[str(new)].decision, files[str(new)].tokens_after) == ("dropped", 0)


async def test_a_file_under_another_name_with_the_same_text_is_no_change(tmp_path: Path) -> None:
    desk = Desk(tmp_path, bootstrap={"agent_names": ["AGENTS.md", "CLAUDE.md"]})
    old = desk.write("AGENTS.md", "Book trips.")
    await desk.step()
    old.rename(desk.folder / "CLAUDE.md")
    context = await desk.step()

    assert context.report.warnings == ()
    assert not rewrites_of(context)
    assert {row.rule for row in rows_of(context, "section").values()} == {""}


@pytest.mark.parametrize("policy", ["freeze", "refresh"])
async def test_a_folder_that_was_moved_with_all_that_is_in_it_is_no_change(
    tree: Desk, policy: str
) -> None:
    tree.bootstrap["policy"] = policy
    first = await tree.step()
    repository = tree.folder.parent
    repository.rename(repository.with_name("moved"))
    tree.folder = repository.with_name("moved") / "app"
    context = await tree.step()

    assert context.system_prompt == first.system_prompt
    assert context.report.warnings == ()
    assert not rewrites_of(context)


# ---- skills ----


SPEC = {
    "name": "check_vat_id",
    "description": "Whether a VAT id exists.",
    "input_schema": {"type": "object", "properties": {"vat_id": {"type": "string"}}},
}


class Skills:
    """A folder of skills that is edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, steps: str, *, tools: tuple[dict[str, Any], ...] = ()) -> None:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        brought = "tools: tools.json\n" if tools else ""
        front = f"---\nname: {name}\ndescription: Makes {name}.\n{brought}---\n"
        (folder / "SKILL.md").write_text(f"{front}{steps}", encoding="utf-8")
        (folder / "tools.json").write_text(json.dumps(list(tools)), encoding="utf-8")

    def remove(self, name: str) -> None:
        for path in (self.folder / name).iterdir():
            path.unlink()
        (self.folder / name).rmdir()


@pytest.fixture
def skills(desk: Desk, tmp_path: Path) -> Skills:
    made = Skills(tmp_path / "skills")
    desk.skills = made.folder
    desk.write("CONTEXT.md", "The office is closed.")
    made.write("invoices", "Every invoice has a number.", tools=(SPEC,))
    made.write("letters", "Sign every letter.")
    return made


ACTIVE: dict[str, Any] = {"active_skills": ["invoices"]}


async def test_a_skill_that_was_edited_waits_and_is_not_called_cut(
    desk: Desk, skills: Skills
) -> None:
    first = await desk.step(**ACTIVE)
    skills.write("invoices", "Every invoice has a date.", tools=(SPEC,))
    context = await desk.step(**ACTIVE)

    assert context.system_prompt == first.system_prompt
    rows = rows_of(context, "skill")
    assert (rows["invoices"].decision, rows["invoices"].rule) == ("kept", "system.frozen")
    assert "It has changed" in rows["invoices"].reason
    assert rows["letters"] == rows_of(first, "skill")["letters"]
    assert context.metadata.active_skills == ("invoices",)
    assert "section.cut" not in {row.rule for row in context.report.entries}
    assert "does not hold all of it" not in claims_of(context)


async def test_a_skill_that_is_gone_has_its_row_and_its_tools_are_offered_no_more(
    desk: Desk, skills: Skills
) -> None:
    first = await desk.step(**ACTIVE)
    skills.remove("invoices")
    context = await desk.step(**ACTIVE)

    assert context.system_prompt == first.system_prompt
    assert [tool.name for tool in context.tools] == ["look"]
    rows = rows_of(context, "skill")
    assert (rows["invoices"].decision, rows["invoices"].rule) == ("kept", "system.frozen")
    assert "It is gone" in rows["invoices"].reason
    assert "none of its tools is offered" in rows["invoices"].reason
    [section] = [row for row in context.metadata.ledger.rows if row.name == "skills"]
    assert sum(row.tokens_after for row in rows.values()) == section.tokens


async def test_a_skill_that_appeared_waits(desk: Desk, skills: Skills) -> None:
    first = await desk.step(**ACTIVE)
    skills.write("archive", "Keep everything.")
    context = await desk.step(**ACTIVE)

    assert context.system_prompt == first.system_prompt
    rows = rows_of(context, "skill")
    assert (rows["archive"].decision, rows["archive"].rule) == ("dropped", "system.frozen")
    assert [rows[name] for name in ("invoices", "letters")] == [
        rows_of(first, "skill")[name] for name in ("invoices", "letters")
    ]


async def test_an_active_skill_that_appeared_brings_its_tools_before_its_text(
    desk: Desk, skills: Skills
) -> None:
    skills.remove("invoices")
    first = await desk.step(**ACTIVE)
    skills.write("invoices", "Every invoice has a number.", tools=(SPEC,))
    context = await desk.step(**ACTIVE)

    assert context.system_prompt == first.system_prompt
    assert {tool.name for tool in context.tools} == {"check_vat_id", "look"}
    row = rows_of(context, "skill")["invoices"]
    assert (row.decision, row.rule) == ("dropped", "system.frozen")
    assert "its tools are offered already" in row.reason
    assert context.metadata.active_skills == ("invoices",)


async def test_a_list_that_would_be_shortened_by_a_new_skill_is_sent_as_it_was(
    desk: Desk, skills: Skills
) -> None:
    desk.settings["prompt"]["skills_tokens"] = 120
    first = await desk.step()
    for number in range(8):
        skills.write(f"new-{number}", "Steps.")
    context = await desk.step()

    assert context.system_prompt == first.system_prompt
    rows = rows_of(context, "skill")
    assert [rows[name] for name in ("invoices", "letters")] == [
        rows_of(first, "skill")[name] for name in ("invoices", "letters")
    ]
    assert {rows[f"new-{number}"].decision for number in range(8)} == {"dropped"}


async def test_a_rewrite_point_lets_edited_skills_in(desk: Desk, skills: Skills) -> None:
    await desk.step(**ACTIVE)
    skills.write("invoices", "Every invoice has a date.", tools=(SPEC,))
    await desk.step(**ACTIVE)
    context = await desk.step(refresh=True, **ACTIVE)

    assert "has a date" in context.system_prompt
    assert rows_of(context, "skill")["invoices"].rule == "active"
    assert "(skills changed)" in rewrites_of(context)[0]


# ---- other sections ----


async def test_sections_in_another_order_are_announced_as_that(desk: Desk) -> None:
    desk.bootstrap["policy"] = "refresh"
    desk.write("SOUL.md", "Kind.")
    await desk.step(model=HAIKU)
    desk.settings["prompt"]["priorities"] = {"soul": 2_000}
    context = await desk.step(model=HAIKU)

    assert context.system_prompt.startswith("Kind.")
    assert "(the order of its sections changed)" in rewrites_of(context)[0]


async def test_two_processes_that_answer_at_once_make_a_rewrite_point(
    desk: Desk,
) -> None:
    first = await desk.step()
    desk.write("CONTEXT.md", "Open.")
    async with desk.open() as one, desk.open() as other:
        await one.add_user("s", "Both answer this.")
        held = await one.assemble("s", model=OPUS, max_tokens=500)
        refreshed = await other.assemble("s", model=OPUS, max_tokens=500, refresh=True)
        await other.record("s", reply_of(OPUS, "Mine."), refreshed)
        await one.record("s", reply_of(OPUS, "Mine!"), held)
    third, fourth = await desk.step(), await desk.step()

    assert held.system_prompt == first.system_prompt != refreshed.system_prompt
    assert third.system_prompt == fourth.system_prompt == refreshed.system_prompt
    assert "(context changed)" in rewrites_of(third)[0], "the reply recorded last had the old one"
    assert not rewrites_of(fourth)


# ---- secrets ----


DATABASE = "postgres://app:hunter2@db/shop"


@pytest.fixture
def guarded(tmp_path: Path) -> Desk:
    """Return a session whose files and skills are masked."""
    made = Desk(tmp_path, safety={"masks_secrets_in": ["files"]})
    made.write("AGENT.md", "Book trips.")
    return made


async def test_what_looks_like_a_secret_in_a_section_given_in_code_lets_edits_wait(
    guarded: Desk,
) -> None:
    guarded.sections = [PromptSection(name="shop", content=f"Use {DATABASE}.")]
    first = await guarded.step()
    guarded.write("AGENT.md", "Cancel trips.")
    second = await guarded.step()

    assert DATABASE in first.system_prompt
    assert second.system_prompt == first.system_prompt
    assert rows_of(second, "section")["agent"].rule == "system.frozen"


async def test_what_looks_like_a_secret_in_an_imported_system_message_lets_edits_wait(
    guarded: Desk,
) -> None:
    async with guarded.open() as assembler:
        await assembler.sessions.append("s", [system_event(f"Use {DATABASE}.")])
    first = await guarded.step()
    guarded.write("AGENT.md", "Cancel trips.")
    second = await guarded.step()

    assert DATABASE in first.system_prompt
    assert second.system_prompt == first.system_prompt


async def test_a_template_that_is_filled_with_what_looks_like_a_secret_lets_other_edits_wait(
    guarded: Desk,
) -> None:
    front = "---\ntemplate: jinja2\n---\n"
    guarded.write("SOUL.md", front + "Use postgres://app:{{ session }}@db/shop.")
    first = await guarded.step()
    guarded.write("AGENT.md", "Cancel trips.")
    second = await guarded.step()

    assert "app:s@db" in first.system_prompt
    assert second.system_prompt == first.system_prompt


@pytest.mark.parametrize("kind", ["file", "skill"])
async def test_a_secret_that_is_masked_by_now_lets_all_edits_in_and_the_report_says_why(
    desk: Desk, skills: "Skills", kind: str
) -> None:
    if kind == "file":
        desk.write("SOUL.md", f"Use {DATABASE}.")
    else:
        skills.write("invoices", f"Use {DATABASE}.")
    before = await desk.step(**ACTIVE)
    desk.settings["safety"] = {"masks_secrets_in": ["files"]}
    desk.write("AGENT.md", "Cancel trips.")
    after, later = await desk.step(**ACTIVE), await desk.step(**ACTIVE)

    assert DATABASE in before.system_prompt
    assert after.system_prompt == later.system_prompt
    assert "Cancel trips." in after.system_prompt
    assert DATABASE not in after.system_prompt
    [row] = [row for row in after.report.entries if row.rule == "system.not_held"]
    assert {"file": "soul", "skill": "skills"}[kind] in row.reason
    assert "no edit waits in this call" in row.reason
    assert len(rewrites_of(after)) == 1
    assert "system.not_held" not in {row.rule for row in later.report.entries}


async def test_a_rewrite_point_needs_no_other_reason(desk: Desk) -> None:
    desk.write("SOUL.md", f"Use {DATABASE}.")
    await desk.step()
    desk.settings["safety"] = {"masks_secrets_in": ["files"]}
    context = await desk.step(refresh=True)

    assert DATABASE not in context.system_prompt
    assert "system.not_held" not in {row.rule for row in context.report.entries}


# ---- templates that do not render ----


BROKEN = "---\ntemplate: jinja2\n---\nKind {% if"


async def cut(desk: Desk, context: AssembledContext) -> AssembledContext:
    """Return the first later call whose history is cut otherwise than in this one."""
    level = context.metadata.cut_level
    for _ in range(8):
        async with desk.open() as assembler:
            await assembler.add_user("s", "word " * 600)
        context = await desk.step(max_context_tokens=4_500, model=HAIKU)
        if context.metadata.cut_level != level:
            return context
    raise AssertionError("never cut")


async def test_the_fault_of_a_template_stands_in_the_rows_and_the_warnings(desk: Desk) -> None:
    desk.write("CONTEXT.md", "Closed.")
    await desk.step()
    path = desk.write("CONTEXT.md", BROKEN)
    context = await desk.step()

    fault = "template does not render: "
    assert fault in rows_of(context, "file")[str(path)].reason
    assert fault in rows_of(context, "section")["context"].reason
    told = [one for one in context.report.warnings if one.startswith(str(path))]
    assert [fault in one for one in told] == [True, False], "what is wrong, and what that means"
    assert (await desk.step()).report.warnings == ()
    desk.write("CONTEXT.md", BROKEN.replace("Kind", "Stern"))
    assert len((await desk.step()).report.warnings) == 2, "another state of the file"


async def test_a_template_that_does_not_render_leaves_the_prompt_as_it_was_at_a_cut(
    desk: Desk,
) -> None:
    desk.write("CONTEXT.md", "Closed.")
    first = await desk.step(max_context_tokens=4_500, model=HAIKU)
    path = desk.write("CONTEXT.md", BROKEN)
    context = await cut(desk, first)

    assert context.system_prompt == first.system_prompt
    row = rows_of(context, "file")[str(path)]
    assert "its template does not render: " in row.reason
    assert row.tokens_after > 0
    desk.write("CONTEXT.md", "Open.")
    assert "Open." in (await cut(desk, context)).system_prompt


async def test_a_template_that_does_not_render_leaves_the_prompt_as_it_was_at_a_compaction(
    desk: Desk,
) -> None:
    desk.write("CONTEXT.md", "Closed.")
    first = await desk.step()
    desk.write("CONTEXT.md", BROKEN)
    async with desk.open() as assembler:
        body = CompactionBody(summary="They talked.", first_seq=1, last_seq=2)
        await assembler.sessions.append("s", [SessionEvent(body=body)])
        check = await assembler.check_compaction("s", model=OPUS)
    context = await desk.step()

    assert check.floor_tokens > 0
    assert context.system_prompt == first.system_prompt


async def test_instructions_that_are_gone_are_missed_when_they_are_no_longer_sent(
    desk: Desk,
) -> None:
    soul = desk.write("SOUL.md", "Kind.")
    desk.bootstrap["required"] = ["soul"]
    first = await desk.step()
    soul.unlink()

    held, later = await desk.step(), await desk.step(refresh=True)

    assert held.system_prompt == first.system_prompt
    assert not any("lacks 'soul'" in one for one in held.report.warnings)
    assert any("lacks 'soul'" in one for one in later.report.warnings)


REBUILDING: dict[str, dict[str, Any]] = {
    "a refresh": {"refresh": True},
    "another model": {"model": HAIKU},
    "another agent": {"agent_id": "bot"},
    "a window that the prompt does not fit": SMALLER,
}


@pytest.mark.parametrize("options", REBUILDING.values(), ids=REBUILDING.keys())
async def test_a_template_that_does_not_render_is_an_error_where_another_prompt_is_needed(
    desk: Desk, options: dict[str, Any]
) -> None:
    first = await desk.step()
    desk.write("SOUL.md", BROKEN)

    with pytest.raises(TemplateError, match=r"SOUL\.md:4"):
        await desk.step(**options)
    assert (await desk.step()).system_prompt == first.system_prompt


async def test_a_template_that_does_not_render_leaves_a_shortened_prompt_short_in_a_larger_window(
    desk: Desk,
) -> None:
    first = await desk.step(**SMALL)
    desk.write("SOUL.md", BROKEN)
    context = await desk.step()

    assert LONG not in first.system_prompt
    assert context.system_prompt == first.system_prompt
    assert rows_of(context, "section")["context"].rule == "system.held_short"


async def test_a_template_that_never_rendered_is_an_error_in_a_first_call(desk: Desk) -> None:
    desk.write("SOUL.md", BROKEN)

    with pytest.raises(TemplateError):
        await desk.step()


# ---- what the rows of sections say ----


async def test_the_row_of_a_section_says_what_the_row_of_its_file_says(tmp_path: Path) -> None:
    desk = Desk(tmp_path, bootstrap={"agent_names": ["AGENTS.md", "CLAUDE.md"]})
    agent = desk.write("CLAUDE.md", "Book trips.")
    soul, office = desk.write("SOUL.md", "Kind."), desk.write("CONTEXT.md", "Closed.")
    first = await desk.step()
    desk.write("AGENTS.md", "Cancel trips.")
    desk.write("SOUL.md", "")
    office.unlink()
    office.symlink_to("AGENTS.md")
    context = await desk.step()

    assert context.system_prompt == first.system_prompt
    files, sections = rows_of(context, "file"), rows_of(context, "section")
    told = {"agent": agent, "soul": soul, "context": office}
    for name, path in told.items():
        happened = files[str(path)].reason.partition("; it applies")[0]
        assert happened.lower() in sections[name].reason.lower(), name
    assert "another file is read in its place" in sections["agent"].reason
    assert "nothing is left of it" in sections["soul"].reason
    assert sections["context"].reason.startswith("The same text as")
    assert all("or rendered" not in row.reason for row in sections.values())


async def test_a_section_given_in_code_that_is_gone_is_called_gone(desk: Desk) -> None:
    desk.sections = [PromptSection(name="shop", content="Open.")]
    first = await desk.step()
    desk.sections = []
    context = await desk.step()

    assert context.system_prompt == first.system_prompt
    row = rows_of(context, "section")["shop"]
    assert row.reason.startswith("It is gone, and the text that the epoch began with is sent; ")


async def test_sections_that_code_puts_in_another_order_wait_with_a_row(desk: Desk) -> None:
    one, other = (PromptSection(name=name, content=f"{name}.") for name in ("shop", "bank"))
    desk.sections = [one, other]
    first = await desk.step()
    desk.sections = [other, one]
    waiting, refreshed = await desk.step(), await desk.step(refresh=True)

    assert waiting.system_prompt == first.system_prompt != refreshed.system_prompt
    [row] = [row for row in waiting.report.entries if row.rule == "system.frozen"]
    assert (row.kind, row.id, row.decision) == ("note", "system", "kept")
    assert "(agent, context, bank, shop)" in row.reason
    assert "(the order of its sections changed)" in rewrites_of(refreshed)[0]


async def test_sections_in_another_order_do_not_wait_longer_than_to_the_next_cut(
    desk: Desk,
) -> None:
    desk.write("CONTEXT.md", "Closed.")
    one, other = (PromptSection(name=name, content=f"{name}.") for name in ("shop", "bank"))
    desk.sections = [one, other]
    first = await desk.step(max_context_tokens=4_500, model=HAIKU)
    desk.sections = [other, one]

    assert (await cut(desk, first)).system_prompt.endswith("bank.\n\n---\n\nshop.")


# ---- laws ----


NAMES = ("AGENT.md", "SOUL.md", "CONTEXT.md", "../AGENT.md")
TEMPLATE = "---\ntemplate: jinja2\n---\n{{ skills }}"
TEXTS = ("", "Be brief.", "Rule.\nNever lie.", LONG, TEMPLATE, BROKEN)
edits = st.dictionaries(st.sampled_from(NAMES), st.none() | st.sampled_from(TEXTS), max_size=2)
skill_edits = st.dictionaries(
    st.sampled_from(["invoices", "letters"]), st.none() | st.sampled_from(["A.", "B."]), max_size=1
)
windows = st.sampled_from([LARGE, LARGE, SMALL, SMALLER, {"refresh": True}])
steps = st.lists(st.tuples(edits, skill_edits, windows), min_size=1, max_size=5)


def apply(desk: Desk, files: dict[str, str | None], skills: dict[str, str | None]) -> None:
    for name, text in files.items():
        if text is None:
            (desk.folder / name).unlink(missing_ok=True)
        else:
            desk.write(name, text)
    assert desk.skills is not None
    kept = Skills(desk.skills)
    for name, text in skills.items():
        if text is not None:
            kept.write(name, text, tools=(SPEC,) if name == "invoices" else ())
        elif (desk.skills / name).is_dir():
            kept.remove(name)


def check_claims(context: AssembledContext, touched: set[str]) -> None:
    """Make sure that only files and skills that were touched are said to have changed."""
    for name, row in rows_of(context, "file").items():
        if "changed on disk" in row.reason or "it is gone" in row.reason:
            assert any(Path(name).match(Path(one).name) for one in touched), row
    for name, row in rows_of(context, "skill").items():
        assert row.rule != "system.frozen" or name in touched, row


def check_sizes(context: AssembledContext) -> None:
    """Make sure that every section that is sent has its row, and no other one has a size."""
    sizes = {row.name: row.tokens for row in context.metadata.ledger.rows if row.kind == "system"}
    sizes.pop("system", None)
    rows = rows_of(context, "section")
    assert {name: row.tokens_after for name, row in rows.items() if row.tokens_after} == sizes
    sent = {one.name for one in context.draft.system.sections}
    assert {name for name, row in rows.items() if row.decision != "dropped"} == sent
    skills = sum(row.tokens_after for row in rows_of(context, "skill").values())
    assert skills == sizes.get("skills", 0)


@given(given_steps=steps)
@settings(max_examples=25)
async def test_whatever_is_edited_the_report_says_what_is_sent_and_why(
    given_steps: list[tuple[dict[str, str | None], dict[str, str | None], dict[str, Any]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder), bootstrap={"searches_upward": True, "required": ()})
        desk.skills = Path(folder) / "skills"
        apply(desk, {"AGENT.md": "Book trips."}, {"invoices": "A."})
        before = await desk.step(**ACTIVE)
        touched: set[str] = set()
        for files, skills, window in given_steps:
            apply(desk, files, skills)
            touched |= {*files, *skills}
            try:
                context = await desk.step(**ACTIVE, **window)
            except TemplateError:
                assert window, "without a choice of the caller's the prompt stays what it was"
                continue

            check_claims(context, touched)
            check_sizes(context)
            assert bool(rewrites_of(context)) is (context.system_prompt != before.system_prompt)
            before = context
            if rewrites_of(context):
                touched.clear()
