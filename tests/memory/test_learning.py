"""Facts and the turns that they were read from: their link, and what reads them."""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from context_assembler import ContextAssembler, SessionEvent, Text, ToolCall
from context_assembler.errors import ConfigurationError, InvalidParameterError
from context_assembler.memory import MemoryAssembler, MemoryFilters, MemoryRecord

SECRET: Final = "sk-ant-api03-" + "aB3" * 31


def said(kind: Any, text: str, *calls: str, seq: int) -> SessionEvent:
    made = (ToolCall(call_id=one, name="look", arguments={}) for one in calls)
    return SessionEvent(type=kind, parts=(Text(text=text), *made), id=f"e{seq}", seq=seq)


EVENTS: Final = [
    said("user", f"I like tea. {SECRET}", seq=1),
    said("assistant", "Noted.", "c1", seq=2),
    said("tool_result", "the output", seq=2),
    said("assistant", "Tea it is.", seq=3),
    said("user", "And two mugs.", seq=4),
    said("assistant", "Two mugs.", seq=5),
    said("user", "Wait", seq=6),
    said("assistant", "I look.", "c2", seq=7),
]


class Reader:
    """Notes the turns that it was given, and reads one fact in each."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, turn: MemoryRecord) -> list[str]:
        self.read.append(turn.text)
        return [f"Fact {len(self.read)}", " "]

    async def later(self, turn: MemoryRecord) -> list[str]:
        return self(turn)


@pytest.mark.parametrize("by", ["record", "id"])
async def test_facts_of_a_turn_are_linked_with_it_and_take_what_they_leave_open(by: str) -> None:
    async with MemoryAssembler("memory:") as memory:
        turn = MemoryRecord(id="t1", text="I like tea.", namespace="ada", session_id="s")
        await memory.remember(turn)
        facts: list[MemoryRecord | str] = [
            "Ada likes tea.",
            MemoryRecord(text="Ada is here.", session_id="other"),
        ]
        done = await memory.remember(facts, facts_of=turn if by == "record" else "t1")
        kept = [await memory.get(one.id) for one in done]

    told = [(one.parent_id, one.namespace, one.session_id) for one in kept]
    assert told == [("t1", "ada", "s"), ("t1", "ada", "other")]


async def test_facts_may_be_of_an_event_that_is_no_memory_but_not_of_nothing() -> None:
    async with ContextAssembler(memory="memory:") as assembler:
        [done] = await assembler.remember("Ada likes tea.", facts_of="event-7")
        assert (await assembler.memory.get(done.id)).parent_id == "event-7"
        with pytest.raises(InvalidParameterError, match="must have an id"):
            await assembler.remember("A fact", facts_of=MemoryRecord(text="unstored"))


@pytest.mark.parametrize("is_async", [False, True])
async def test_each_finished_turn_is_read_once_also_after_a_restart(
    tmp_path: Path, is_async: bool
) -> None:
    reader = Reader()
    extract: Any = reader.later if is_async else reader
    url = f"sqlite:{tmp_path}/memory.db"
    async with MemoryAssembler(url, extract=extract) as memory:
        first, second = await memory.learn_from("s", EVENTS, namespace="ada")
        assert await memory.learn_from("s", EVENTS, namespace="ada") == []
    async with MemoryAssembler(url, extract=extract) as memory:
        later = [*EVENTS, said("assistant", "Yes?", seq=8)]
        [third] = await memory.learn_from("s", later, namespace="ada")
        fact = await memory.get(first.fact_ids[0])
        turn = await memory.get(first.turn_id)

    assert (first.problem, len(first.fact_ids), second.turn_id) == (None, 1, "turn:s:e4")
    assert third.turn_id == "turn:s:e6"
    assert (fact.text, fact.parent_id, fact.namespace) == ("Fact 1", turn.id, "ada")
    assert (turn.kind, turn.session_id) == ("events", "s")
    assert reader.read[1:] == [
        "User: And two mugs.\nAssistant: Two mugs.",
        "User: Wait\nAssistant: I look.\nAssistant: Yes?",
    ]
    assert reader.read[0].endswith("Assistant: Noted.\nAssistant: Tea it is.")
    assert SECRET not in reader.read[0]


async def test_what_fails_or_is_late_is_reported_and_read_again_later() -> None:
    async def stuck(turn: MemoryRecord) -> str:
        if "mugs" in turn.text:
            await asyncio.Event().wait()
        raise ValueError("no model")

    async with MemoryAssembler("memory:", extract=stuck, extract_seconds=0.01) as memory:
        first, second = await memory.learn_from("s", EVENTS)
        stats = await memory.sources["memory"].search("tea mugs", filters=MemoryFilters())
        assert len(await memory.learn_from("s", EVENTS)) == 2

    assert (first.problem, stats) == ("ValueError: no model", [])
    assert str(second.problem).startswith("TimeoutError")


async def test_without_a_function_nothing_is_learned() -> None:
    with pytest.raises(ConfigurationError, match="extract="):
        await MemoryAssembler("memory:").learn_from("s", EVENTS)
