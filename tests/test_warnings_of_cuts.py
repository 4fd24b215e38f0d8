"""Warnings of instructions and messages that have to stay and do not fit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ContextAssembler,
    assistant_event,
    user_event,
)

_TASK = "THE TASK. " + " ".join(f"Requirement {i}: field f{i} is checked." for i in range(300))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "AGENT.md").write_text("Be kind. " * 33)
    (tmp_path / "SOUL.md").write_text("Speak softly to all.\n" * 160)
    (tmp_path / "CONTEXT.md").write_text("A shop of hats.\n" * 60)
    return tmp_path


async def _ask(
    assembler: ContextAssembler, max_context_tokens: int | None = None
) -> AssembledContext:
    await assembler.add_user("s", "Hello.")
    return await assembler.assemble(
        "s", model="gpt-5.5", max_context_tokens=max_context_tokens, max_tokens=200
    )


async def test_a_section_without_room_is_told_of_with_its_tokens(folder: Path) -> None:
    context = await _ask(ContextAssembler(bootstrap=folder), 900)

    soul, shop = context.report.warnings
    row = next(row for row in context.report.entries if (row.kind, row.id) == ("section", "soul"))
    assert "'soul'" in soul
    assert f"from {row.tokens_before:,} to {row.tokens_after:,} tokens" in soul
    assert "'context'" in shop
    assert "was left out (" in shop
    assert all(
        "max_context_tokens" in one and "[bootstrap] required" in one for one in (soul, shop)
    )


async def test_what_its_own_setting_shortens_is_no_surprise(folder: Path) -> None:
    config = AssemblerConfig(prompt={"max_tokens": {"soul": 100}})

    context = await _ask(ContextAssembler(bootstrap=folder, config=config))

    assert context.report.warnings == ()


async def test_a_prompt_that_stays_short_is_told_of_in_every_call(folder: Path) -> None:
    config = AssemblerConfig(bootstrap={"policy": "freeze"})
    assembler = ContextAssembler(bootstrap=folder, config=config)
    first = await _ask(assembler, 900)
    reply: dict[str, Any] = {"object": "response", "id": "r", "output": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    said: dict[str, Any] = {"type": "output_text", "text": "Good.", "annotations": []}
    await assembler.record("s", {**reply, "output": [{**message, "content": [said]}]}, first)

    held = await _ask(assembler, 1000)

    assert "system.held_short" in [row.rule for row in held.report.entries]
    assert held.system_prompt == first.system_prompt
    assert held.report.warnings == first.report.warnings


async def test_the_task_that_was_shortened_is_told_of_with_its_tokens() -> None:
    assembler = ContextAssembler()
    await assembler.add_user("s", _TASK)
    said = assistant_event("I looked. " * 20)
    await assembler.sessions.append("s", [said, user_event("Go on.")])

    context = await assembler.assemble(
        "s", model="claude-opus-5-5", max_context_tokens=400, max_tokens=200
    )

    (row,) = (row for row in context.report.entries if row.rule == "overflow.shorten")
    (warning,) = context.report.warnings
    assert f"{row.tokens_before:,} → {row.tokens_after:,} tokens" in warning
    assert "the user's task" in warning


async def test_many_messages_that_were_shortened_share_a_warning() -> None:
    assembler = ContextAssembler()
    await assembler.add_user("s", "Begin.")
    said = [user_event(f"{number}: {'word ' * 400}") for number in range(9)]
    pinned = [replace(event, is_pinned=True) for event in said]
    await assembler.sessions.append("s", [*pinned, user_event("Go on.")])

    context = await assembler.assemble(
        "s",
        model="claude-opus-5-5",
        max_context_tokens=2_000,
        max_tokens=200,
        on_overflow="shorten",
    )

    rows = [row for row in context.report.entries if row.rule == "overflow.shorten"]
    (warning,) = context.report.warnings
    assert len(rows) == 9
    assert warning.count("→") == 5
    assert "and 4 more" in warning


async def test_a_warm_step_warns_as_a_fresh_assembler_does(folder: Path, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 's.db'}"
    assembler = ContextAssembler(url, bootstrap=folder)
    steps = [await _ask(assembler, 900) for _ in range(4)]
    fresh = await ContextAssembler(url, bootstrap=folder).assemble(
        "s", model="gpt-5.5", max_context_tokens=900, max_tokens=200
    )

    assert len(fresh.report.warnings) == 2
    assert {step.report.warnings for step in steps} == {fresh.report.warnings}


async def test_each_step_behind_a_shortened_task_warns_as_a_fresh_assembler_does(
    tmp_path: Path,
) -> None:
    url = f"sqlite:{tmp_path / 's.db'}"
    assembler = ContextAssembler(url)
    asked: dict[str, Any] = {"model": "gpt-5.5", "max_context_tokens": 900, "max_tokens": 200}
    await assembler.add_user("s", _TASK)
    for number in range(12):
        said = assistant_event(f"I looked at {number}. " * 9)
        await assembler.sessions.append("s", [said, user_event("Go on.")])

        warm = await assembler.assemble("s", **asked)
        fresh = await ContextAssembler(url).assemble("s", **asked)

        assert "the user's task" in warm.report.warnings[0]
        assert warm.report.warnings == fresh.report.warnings
        assert list(warm.report.entries) == list(fresh.report.entries)
