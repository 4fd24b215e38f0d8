"""Sessions that do not simply grow: every step is the one that a new assembler makes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from context_assembler import ContextAssembler, InvalidParameterError
from context_assembler.config import AssemblerConfig
from context_assembler.sessions import InMemoryStore
from context_assembler.values.context import AssembledContext
from context_assembler.values.events import SessionEvent, assistant_event, user_event
from context_assembler.values.options import TruncationSettings

MODEL = "gpt-5.5"
ROOM_TOKENS = 2_000
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def turn(number: int, *, at: datetime | None = None) -> list[SessionEvent]:
    told = user_event(f"question {number} " + "word " * 60)
    events = [assistant_event(f"Answer {number}: " + "so " * 40), told]
    return [replace(event, created_at=at) for event in events] if at else events


def sharing(store: InMemoryStore, step_share: float = 1 / 3) -> ContextAssembler:
    truncation = TruncationSettings(step_share=step_share)
    return ContextAssembler(store, config=AssemblerConfig(truncation=truncation))


async def sent(assembler: ContextAssembler) -> AssembledContext:
    return await assembler.assemble("s", model=MODEL, max_context_tokens=ROOM_TOKENS)


async def agree(old: ContextAssembler, new: ContextAssembler) -> AssembledContext:
    """Return what both send; the new one has seen nothing before."""
    context, anew = await sent(old), await sent(new)
    assert context.to_openai_responses() == anew.to_openai_responses()
    assert context.metadata.cut_level == anew.metadata.cut_level
    return context


async def filled(turns: Sequence[int]) -> InMemoryStore:
    store = InMemoryStore()
    for number in turns:
        await store.append("s", turn(number))
    return store


@pytest.mark.parametrize("turns", [range(9), [*range(20), *range(90, 110)], range(40)])
async def test_a_history_that_shrank_or_forked_is_cut_as_it_stands(turns: Sequence[int]) -> None:
    store = await filled(range(40))
    old = sharing(store)
    await agree(old, sharing(store))

    await store.delete("s")
    for number in turns:
        await store.append("s", turn(number))

    await agree(old, sharing(store))
    await store.append("s", turn(200))
    await agree(old, sharing(store))


async def test_two_settings_on_one_session_do_not_disturb_each_other() -> None:
    store = InMemoryStore()
    shares = (0.15, 0.7)
    assemblers = {share: sharing(store, share) for share in shares}
    levels: dict[float, set[int]] = {share: set() for share in shares}

    for number in range(40):
        await store.append("s", turn(number))
        for share, assembler in assemblers.items():
            context = await agree(assembler, sharing(store, share))
            levels[share].add(context.metadata.cut_level)

    assert len(levels[0.15]) > len(levels[0.7]) > 1


@pytest.mark.parametrize("hours", [-30, 30])
async def test_a_clock_that_jumps_changes_nothing_that_was_sent(hours: int) -> None:
    store = InMemoryStore()
    assembler = sharing(store)
    previous: AssembledContext | None = None

    for number in range(30):
        jump = timedelta(hours=hours if number % 7 == 6 else 0, minutes=number)
        await store.append("s", turn(number, at=NOON + jump))
        context = await agree(assembler, sharing(store))
        if previous is not None and previous.metadata.cut_level == context.metadata.cut_level:
            before = previous.to_openai_responses()["input"]
            assert context.to_openai_responses()["input"][: len(before)] == before
        previous = context


async def test_a_step_of_all_the_room_is_cut_and_a_larger_one_is_refused() -> None:
    store = await filled(range(40))

    context = await agree(sharing(store, 1.0), sharing(store, 1.0))

    assert context.metadata.truncated
    assert "question 39" in context.messages[-1].text
    with pytest.raises(InvalidParameterError, match="step_share"):
        sharing(store, 1.01)
