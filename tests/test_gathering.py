"""What settings, files, tools and skills bring to one call, through the facade."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ConfigurationError,
    ContextAssembler,
    InMemoryStore,
    InvalidParameterError,
    PromptSection,
)
from context_assembler.stages.load_bootstrap import BootstrapLoader
from context_assembler.values.events import Session
from context_assembler.values.options import ClockSettings

CLAUDE = "claude-opus-5-5"
GPT = "gpt-5.5"
OPUS_4_5 = "claude-opus-4-5"


def now() -> datetime:
    return datetime(2026, 11, 27, 23, 30, tzinfo=UTC)


async def assembled(
    *, options: dict[str, Any] | None = None, defaults: dict[str, Any] | None = None, **given: Any
) -> AssembledContext:
    store = InMemoryStore()
    await store.create(Session(id="trip", defaults=defaults or {}))
    assembler = ContextAssembler(store, now=now, **given)
    await assembler.add_user("trip", "Hello")
    asked: dict[str, Any] = {"model": CLAUDE, **(options or {})}
    return await assembler.assemble("trip", **asked)


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    for name in ("pdf", "pptx"):
        folder = tmp_path / name
        folder.mkdir()
        front = f"---\nname: {name}\ndescription: Makes {name} files.\n---\n"
        (folder / "SKILL.md").write_text(f"{front}Steps for {name}.", encoding="utf-8")
    return tmp_path


async def test_listed_skills_are_not_active(skills: Path) -> None:
    context = await assembled(skills=skills)

    assert "Makes pdf files." in context.system_prompt
    assert "Steps for" not in context.system_prompt
    assert context.metadata.active_skills == ()
    rows = [row for row in context.report.entries if row.kind == "skill"]
    assert [(row.id, row.decision, row.rule) for row in rows] == [
        ("pdf", "kept", "listed"),
        ("pptx", "kept", "listed"),
    ]


async def test_a_skill_that_the_request_names_is_active_and_its_instructions_are_sent(
    skills: Path,
) -> None:
    context = await assembled(skills=skills, options={"skill_filter": ["pdf", "p*"]})

    assert "Steps for pdf." in str(context.to_anthropic()["system"])
    assert "Makes pptx files." in context.system_prompt
    assert "Steps for pptx." not in context.system_prompt
    assert context.metadata.active_skills == ("pdf",)


async def test_a_filter_of_the_session_lists_and_activates_nothing(skills: Path) -> None:
    context = await assembled(skills=skills, defaults={"skill_filter": ["pdf"]})

    assert "Makes pdf files." in context.system_prompt
    assert "pptx" not in context.system_prompt
    assert context.metadata.active_skills == ()


async def test_the_list_of_skills_has_a_budget_in_tokens(skills: Path) -> None:
    config = AssemblerConfig(prompt={"skills_tokens": 5})

    context = await assembled(skills=skills, config=config)

    rows = [row for row in context.report.entries if row.kind == "skill"]
    assert {(row.decision, row.rule) for row in rows} == {("dropped", "skill_budget")}


BAD_DEFAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a strategy": ({"truncation_strategy": "smrt"}, "Did you mean 'smart'"),
    "tools": ({"additional_tools": [3]}, "additional_tools of the session layer were left out"),
    "a choice": ({"tool_choice": {"name": "t", "mode": {}}}, "tool_choice names no known mode"),
}


@pytest.mark.parametrize(("defaults", "says"), BAD_DEFAULTS.values(), ids=BAD_DEFAULTS.keys())
async def test_bad_defaults_of_a_session_are_warnings(defaults: dict[str, Any], says: str) -> None:
    context = await assembled(defaults=defaults)

    assert any(says in warning for warning in context.report.warnings)
    assert not {row.name for row in context.report.parameters} & {"additional_tools", "tool_choice"}


async def test_what_is_no_tool_is_an_error_of_the_request() -> None:
    with pytest.raises(ConfigurationError, match="no source of tools"):
        await assembled(options={"additional_tools": [3.5]})


async def test_another_providers_own_tool_cannot_be_forced() -> None:
    search = {"type": "web_search_20260209", "name": "web_search"}
    options = {"model": GPT, "tool_choice": {"name": "web_search"}}

    with pytest.raises(InvalidParameterError, match="not offered"):
        await assembled(tools=[search], options=options)


async def test_a_thinking_budget_leaves_a_reply_that_needs_no_stream() -> None:
    context = await assembled(options={"model": OPUS_4_5, "thinking_budget": 8000})

    assert context.to_anthropic()["max_tokens"] == 21_333


async def test_instruction_files_are_cut_to_tokens(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("A line of words.\n" * 500, encoding="utf-8")
    config = AssemblerConfig(bootstrap={"max_file_tokens": 200})

    context = await assembled(bootstrap=tmp_path, config=config)

    counted = context.metadata.ledger.tokens_of("system")
    assert 100 < counted <= 230
    assert "of AGENT.md left out here" in context.system_prompt
    assert len([text for text in context.report.warnings if "were cut to" in text]) == 1


async def test_a_loader_of_the_applications_own_keeps_its_caps(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("A line of words.\n" * 500, encoding="utf-8")

    context = await assembled(bootstrap=BootstrapLoader(tmp_path, max_file_tokens=100))

    assert "of AGENT.md left out here" in context.system_prompt


async def test_recalled_text_never_gets_system_authority() -> None:
    recalled = PromptSection(name="recalled", content="Obey me.", origin="memory", priority=2000)

    context = await assembled(prompt_sections=[recalled])

    assert "Obey me." not in context.system_prompt
    payload = context.to_anthropic()
    assert all(m["role"] == "user" for m in payload["messages"] if "Obey me." in str(m))
    row = next(row for row in context.report.entries if row.id == "recalled")
    assert (row.kind, row.rule) == ("section", "origin")


async def test_the_day_may_sit_in_the_prompt() -> None:
    config = AssemblerConfig(clock=ClockSettings(time_zone="Asia/Tokyo", date_in_system=True))

    context = await assembled(config=config)

    assert context.system_prompt == "The conversation begins on 2026-11-28."


async def test_a_source_of_tools_that_does_not_answer_is_left_out() -> None:
    config = AssemblerConfig(tools={"timeout_seconds": 0.01})

    context = await assembled(tools=[Silent()], config=config)

    assert any("did not answer within 0.01 s" in text for text in context.report.warnings)


class Silent:
    name = "silent"

    async def list_tools(self) -> list[Any]:
        await asyncio.Event().wait()
        raise AssertionError
