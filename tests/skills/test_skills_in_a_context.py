"""What skills bring to a request, through the facade."""

import json
from pathlib import Path
from typing import Any

import pytest

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ContextAssembler,
    InMemoryStore,
    PromptSection,
    Session,
)
from context_assembler.values.report import ReportEntry

CLAUDE = "claude-opus-5-5"
SPEC = {
    "name": "fill_form",
    "description": "Fill a form.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
}


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    for name, more in (("pdf", "tools: tools.json\nallowed-tools: Bash(git:*) Read"), ("web", "")):
        folder = root / name
        folder.mkdir(parents=True)
        front = f"---\nname: {name}\ndescription: Makes {name} files.\n{more}\n---\n"
        (folder / "SKILL.md").write_text(f"{front}Steps for {name}.", encoding="utf-8")
    (root / "pdf" / "tools.json").write_text(json.dumps([SPEC]), encoding="utf-8")
    return root


async def assembled(
    skills: Any,
    *,
    defaults: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    **given: Any,
) -> AssembledContext:
    store = InMemoryStore()
    await store.create(Session(id="trip", defaults=defaults or {}))
    assembler = ContextAssembler(store, skills=skills, **given)
    await assembler.add_user("trip", "Hello")
    asked: dict[str, Any] = {"model": CLAUDE, **(options or {})}
    return await assembler.assemble("trip", **asked)


def rows_of(context: AssembledContext, kind: str) -> dict[str, ReportEntry]:
    return {row.id: row for row in context.report.entries if row.kind == kind}


WAYS: dict[str, dict[str, Any]] = {
    "an option": {"options": {"active_skills": ["pdf"]}},
    "the filter of the request": {"options": {"skill_filter": ["pdf"]}},
    "the defaults of the session": {"defaults": {"active_skills": ["pdf"]}},
}


@pytest.mark.parametrize("given", WAYS.values(), ids=WAYS.keys())
async def test_an_active_skill_brings_instructions_and_tools(
    skills: Path, given: dict[str, Any]
) -> None:
    context = await assembled(skills, **given)

    payload = context.to_anthropic()
    assert "Steps for pdf." in str(payload["system"])
    assert [tool["name"] for tool in payload["tools"]] == ["fill_form"]
    assert context.tools[0].source == "skill pdf"
    assert rows_of(context, "tool")["fill_form"].decision == "kept"
    assert context.metadata.active_skills == ("pdf",)
    assert context.metadata.skill_allowed_tools == {"pdf": ("Bash(git:*)", "Read")}
    assert 'allowed-tools="Bash(git:*) Read"' in context.system_prompt


async def test_an_agent_activates_skills_by_its_settings(skills: Path) -> None:
    config = AssemblerConfig(agents={"clerk": {"active_skills": ["pdf"]}})

    context = await assembled(skills, config=config, options={"agent_id": "clerk"})
    other = await assembled(skills, config=config)

    assert context.metadata.active_skills == ("pdf",)
    assert (other.metadata.active_skills, other.tools) == ((), ())


async def test_the_request_can_switch_the_sessions_skills_off(skills: Path) -> None:
    context = await assembled(
        skills, defaults={"active_skills": ["pdf"]}, options={"active_skills": []}
    )

    assert context.metadata.active_skills == ()
    assert context.tools == ()


async def test_what_a_skill_wants_approved_limits_nothing(skills: Path) -> None:
    def search(query: str) -> str:
        """Search."""
        return query

    context = await assembled(skills, tools=[search], options={"active_skills": ["pdf"]})

    assert [tool.name for tool in context.tools] == ["fill_form", "search"]


async def test_the_tools_of_skills_are_filtered_as_all_tools_are(skills: Path) -> None:
    active = {"active_skills": ["pdf"]}

    fates = [
        rows_of(await assembled(skills, options={**active, **more}), "tool")["fill_form"].rule
        for more in (
            {"disabled_tools": ["fill_form"]},
            {"permissions": ["fs.*"]},
            {"sandbox_mode": True},
        )
    ]

    assert fates == ["disabled", "permission", "sandbox"]


async def test_a_function_of_the_application_wins_over_a_skills_tool_of_its_name(
    skills: Path,
) -> None:
    def fill_form(path: str) -> str:
        """Fill it my way."""
        return path

    literal = {**SPEC, "description": "Fill it as listed."}

    context = await assembled(skills, tools=[fill_form], options={"active_skills": ["pdf"]})
    listed = await assembled(skills, tools=[literal], options={"active_skills": ["pdf"]})

    assert [tool.source for tool in context.tools] == ["functions", "skill pdf"]
    assert context.tools[1].name == "skill_pdf_fill_form"
    assert [tool.source for tool in listed.tools] == ["skill pdf", "listed"]


async def test_one_bad_spec_of_a_skill_is_left_out_by_name(skills: Path) -> None:
    bad = {"name": "broken", "input_schema": {"type": "array"}}
    (skills / "pdf" / "tools.json").write_text(json.dumps([bad, SPEC]), encoding="utf-8")

    context = await assembled(skills, options={"active_skills": ["pdf"]})

    assert [tool.name for tool in context.tools] == ["fill_form"]
    assert rows_of(context, "tool")["broken"].rule == "schema"
    assert any("(source: skill pdf)" in warning for warning in context.report.warnings)


async def test_a_broken_skill_has_a_row(skills: Path) -> None:
    (skills / "web" / "SKILL.md").write_text("Just text.", encoding="utf-8")

    context = await assembled(skills)

    row = rows_of(context, "skill")[str(skills / "web" / "SKILL.md")]
    assert (row.decision, row.rule) == ("dropped", "broken")


async def test_the_order_of_discovery_changes_no_byte(skills: Path) -> None:
    class Shuffled:
        def __init__(self, found: Any) -> None:
            self.found = found

        async def list_skills(self) -> Any:
            return self.found

    from context_assembler.skills.folder import FolderSkills  # noqa: PLC0415 - used here alone

    found = list(await FolderSkills(skills).list_skills())
    options = {"active_skills": ["web", "pdf"]}

    up = await assembled(Shuffled(found), options=options)
    down = await assembled(Shuffled(found[::-1]), options={"active_skills": ["pdf", "web"]})

    assert json.dumps(up.to_anthropic()) == json.dumps(down.to_anthropic())


async def test_folders_of_skills_may_stand_in_the_settings(skills: Path) -> None:
    config = AssemblerConfig(folder=skills.parent, skills={"folders": ["skills"]})

    context = await assembled(None, config=config)
    other = await assembled([], config=config)

    assert list(rows_of(context, "skill")) == ["pdf", "web"]
    assert rows_of(other, "skill") == {}


# ---- what it costs ----


async def test_tokens_of_sections_skills_and_tools_add_up_with_the_ledger(skills: Path) -> None:
    def search(query: str) -> str:
        """Search."""
        return query

    bad_type = {"name": "odd", "input_schema": {"properties": {"a": {"type": "strnig"}}}}
    sections = [PromptSection(name="house", content="Rules of the house.\n" * 20, priority=850)]

    context = await assembled(
        skills,
        tools=[search, bad_type],
        prompt_sections=sections,
        options={"active_skills": ["pdf"]},
        config=AssemblerConfig(prompt={"max_tokens": {"house": 40}, "summarizes_tools": True}),
    )

    ledger = context.metadata.ledger
    tokens = {
        kind: sum(row.tokens_after for row in rows_of(context, kind).values())
        for kind in ("section", "skill", "tool")
    }
    by_name = {row.name: row.tokens for row in ledger.rows if row.kind == "system"}
    assert tokens["section"] == ledger.tokens_of("system")
    assert tokens["tool"] == ledger.tokens_of("tools") > 0
    assert tokens["skill"] == by_name["skills"] > 0
    assert all(row.tokens_after for row in rows_of(context, "skill").values())


async def test_where_the_section_is_cut_the_rows_of_skills_tell_what_is_left(
    skills: Path,
) -> None:
    steps = "\n".join(f"Step {number} of the work." for number in range(2_000))
    front = "---\nname: web\ndescription: Makes web files.\n---\n"
    (skills / "web" / "SKILL.md").write_text(f"{front}{steps}", encoding="utf-8")
    options = {"active_skills": ["web"], "max_context_tokens": 4_000}

    context = await assembled(skills, options=options)
    config = AssemblerConfig(clock={"is_enabled": False})
    tiny = await assembled(skills, config=config, options={**options, "max_context_tokens": 150})

    rows = rows_of(context, "skill")
    assert rows_of(context, "section")["skills"].decision == "shortened"
    assert (rows["web"].decision, rows["web"].rule) == ("shortened", "section.cut")
    assert rows["web"].tokens_before > 10_000
    assert rows["pdf"].decision == "kept"
    assert sum(row.tokens_after for row in rows.values()) == sum(
        row.tokens for row in context.metadata.ledger.rows if row.name == "skills"
    )
    assert context.metadata.active_skills == ("web",)
    assert {row.decision for row in rows_of(tiny, "skill").values()} == {"dropped"}
    assert tiny.metadata.active_skills == ()


async def test_a_section_over_its_budget_and_over_the_window_has_one_row_with_both_reasons(
    tmp_path: Path,
) -> None:
    text = "\n".join(f"Line {number}." for number in range(3_000))
    section = PromptSection(name="house", content=text)
    config = AssemblerConfig(prompt={"max_tokens": {"house": 3_000}})

    context = await assembled(
        None, prompt_sections=[section], config=config, options={"max_context_tokens": 2_000}
    )

    (row,) = (row for row in context.report.entries if row.kind == "section")
    assert (row.decision, row.rule) == ("shortened", "system.shorten")
    assert row.tokens_before > 9_000
    assert "budget of the section 'house'" in row.reason
    assert "leave too little for the history" in row.reason
    assert row.tokens_after == context.metadata.ledger.tokens_of("system")
