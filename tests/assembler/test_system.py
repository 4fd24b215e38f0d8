"""`system=`, `notes=` and sections that are functions: in the prompt, and then payloads only grow."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from context_assembler import AssembledContext, AssemblerConfig, ContextAssembler, InMemoryStore
from context_assembler.errors import ConfigurationError, InvalidParameterError
from context_assembler.events import Session
from context_assembler.ports import PromptSection
from tests.core import sessions

MODEL = "claude-opus-5-5"


@dataclass
class Told:
    """A text that functions return; another one from time to time."""

    text: str = "You are terse."
    error: Exception | None = None
    sessions: list[str] = field(default_factory=list[str])

    def plain(self, session: Session) -> str:
        self.sessions.append(session.id)
        if self.error is not None:
            raise self.error
        return self.text

    async def awaited(self, session: Session) -> str:
        return self.plain(session)


class Talk:
    """A session that goes on by one exchange with each call, and holds that payloads only grow."""

    def __init__(self, **given: Any) -> None:
        self.store = given.pop("sessions", None) or InMemoryStore()
        self.assembler = ContextAssembler(self.store, **given)
        self.number, self.before = 0, list[Any]()

    async def step(self, words: str = "Go on.", **options: Any) -> AssembledContext:
        self.number += 1
        await self.assembler.add_user("s", f"{words} {self.number}")
        context = await self.assembler.assemble("s", model=MODEL, **options)
        reply = sessions.answer(sessions.text(f"Reply {self.number}"), id=str(self.number))
        await self.assembler.record("s", reply, context)
        return context

    async def grown(self, **options: Any) -> list[str]:
        """Return the texts that a step adds to the payload, which is otherwise the one before."""
        sent = (await self.step(cache="off", **options)).to_request()
        prompt, messages = sent.get("system"), sent["messages"]
        system, old = self.before or (prompt, [])
        assert prompt == system
        assert messages[: len(old)] == old
        self.before = [prompt, messages]
        added = messages[len(old) :]
        return [
            block["text"] for one in added for block in one["content"] if one["role"] == "system"
        ]


FORMS: list[Callable[[Told], Any]] = [lambda told: told.plain, lambda told: told.awaited]


@pytest.mark.parametrize("form", FORMS)
async def test_what_a_function_changes_becomes_a_note(form: Callable[[Told], Any]) -> None:
    told = Told()
    talk = Talk(system=form(told), config=AssemblerConfig(clock={"is_enabled": False}))

    assert await talk.grown() == []
    assert talk.before[0][0]["text"] == "You are terse."
    for text in ("You are kind.", "You are kind.", "You are terse.", "You are terse."):
        is_new, told.text = text != told.text, text
        assert await talk.grown() == ([text] if is_new else [])
    assert set(told.sessions) == {"s"}


async def test_the_next_rewrite_point_takes_the_new_text_in() -> None:
    told = Told()
    talk = Talk(system=told.plain)
    await talk.step("word " * 3_000)
    told.text = "You are kind."

    held = await talk.step("word " * 3_000)
    cut = await talk.step("word " * 3_000, max_context_tokens=9_000, reserve_tokens=1_000)

    assert held.system_prompt == "You are terse."
    [entry] = [one for one in held.report.entries if one.rule == "system.note"]
    assert (entry.id, entry.decision) == ("agent", "kept")
    assert cut.metadata.truncated
    assert cut.system_prompt == "You are kind."


@pytest.mark.parametrize("form", FORMS)
async def test_a_function_that_fails_loses_no_instruction(form: Callable[[Told], Any]) -> None:
    told = Told()
    talk = Talk(system=form(told))
    await talk.step()
    told.error = OSError("the database is down")

    warm = await talk.step()
    cold = await Talk(sessions=talk.store, system=form(told)).step()

    assert warm.system_prompt == cold.system_prompt == "You are terse."
    assert "'agent' failed: OSError: the database is down" in str(warm.report.warnings)
    assert "'agent' failed: OSError: the database is down" in str(cold.report.warnings)
    never = await Talk(system=form(told)).step()
    [entry] = [one for one in never.report.entries if one.rule == "failed"]
    assert (entry.id, entry.decision, never.system_prompt) == ("agent", "dropped", "")


async def test_a_function_that_is_late_is_not_waited_for() -> None:
    is_over = Event()

    async def late(_: Session) -> str:
        await asyncio.Event().wait()
        return "never"

    def blocked(_: Session) -> str:
        is_over.wait()
        return "never"

    config = AssemblerConfig(prompt={"timeout_seconds": 0.01})
    sections = [PromptSection(name="blocked", text_of=blocked, placement="note")]
    try:
        context = await Talk(system=late, prompt_sections=sections, config=config).step()
        alone = await Talk(prompt_sections=sections, config=config).step()
    finally:
        is_over.set()

    assert "'agent' did not answer within 0.01 s" in str(context.report.warnings)
    for one in (context, alone):
        assert "'blocked' did not answer within 0.01 s" in str(one.report.warnings)


async def test_plain_functions_need_no_event_loop() -> None:
    talk = Talk(
        system=Told().plain, prompt_sections=[PromptSection(name="x", text_of=Told("x").plain)]
    )
    await talk.assembler.add_user("s", "Hello.")

    context = talk.assembler.assemble_sync("s", model=MODEL)

    assert context.system_prompt == "You are terse.\n\n---\n\nx"


async def test_the_nearest_layer_gives_the_system_prompt_and_a_file_comes_first(
    tmp_path: Path,
) -> None:
    talk = Talk(system="of the application")
    await talk.store.create(Session(id="own", defaults={"system": "of the session"}))
    for name in ("s", "own"):
        await talk.assembler.add_user(name, "Hello.")

    async def prompt(name: str, **options: Any) -> str:
        return (await talk.assembler.assemble(name, model=MODEL, **options)).system_prompt

    assert await prompt("s") == "of the application"
    assert await prompt("own") == "of the session"
    assert await prompt("own", system="of the call") == "of the call"
    section = PromptSection(name="agent", text_of=Told("of a section").plain)
    both = await Talk(system=Told("of system").plain, prompt_sections=[section]).step()
    assert both.system_prompt == "of system"
    assert (await Talk(prompt_sections=[section]).step()).system_prompt == "of a section"
    (tmp_path / "AGENT.md").write_text("of the file")
    file = await Talk(system="of the application", bootstrap=tmp_path).step(system="of the call")
    assert file.system_prompt == "of the file"
    [entry] = [one for one in file.report.entries if one.rule == "overridden"]
    assert (entry.id, entry.decision) == ("agent:own", "dropped")


async def test_each_note_is_sent_once_until_it_changes() -> None:
    told = Told("- plan the trip")
    talk = Talk(config=AssemblerConfig(clock={"is_enabled": False}))

    for text, mood, added in (
        ("- plan the trip", "calm", ["- plan the trip", "calm"]),
        ("- plan the trip", "calm", []),
        ("- book the trip", "calm", ["- book the trip"]),
        ("", "angry", ["angry"]),
    ):
        told.text = text
        assert await talk.grown(notes={"plan": told.plain, "mood": mood}) == added


@pytest.mark.parametrize("given", [{"system": 3}, {"notes": "text"}, {"notes": {"plan": 3}}])
async def test_what_is_no_text_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError, match=next(iter(given))):
        await Talk().step(**given)
    numbers = await Talk(system=lambda _: 3).step()
    assert "must return text, not int" in str(numbers.report.warnings)
    with pytest.raises(ConfigurationError, match="'clock'"):
        await Talk().step(notes={"clock": "noon"})
