"""Recalls that wait in line for a source which answers one after another."""

import asyncio
from collections.abc import Sequence

from context_assembler.memory import SqliteMemoryStore
from context_assembler.memory_assembler import MemoryAssembler
from context_assembler.recall.ask_sources import Ask, ask_sources
from context_assembler.recall.read_signals import read_signals
from context_assembler.sqlite.line import Line
from context_assembler.values.memories.records import (
    NO_FILTERS,
    MemoryFilters,
    MemoryHit,
    MemoryRecord,
)
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.recall import SourceAnswer
from tests.recall.building import Alarm, Answering, hit, record

EACH, ALL = 2.0, 5.0


class InLine(Answering):
    """Lets one recall ask at a time."""

    def __init__(self, *answers: Sequence[MemoryHit]) -> None:
        super().__init__(*answers, waits=True)
        self.recall_line = Line(at_once=1)


class Noting(Alarm):
    """Notes which times have begun."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.begun.append(seconds)
        await super().__call__(seconds)


def asking(source: Answering, alarm: Alarm) -> "asyncio.Future[list[SourceAnswer]]":
    ask = Ask(name="memories", source=source, kind="memories", filters=NO_FILTERS, limit=10)
    return asyncio.ensure_future(
        ask_sources(
            [ask],
            read_signals("dog"),
            seconds_per_source=EACH,
            seconds_in_all=ALL,
            sleep=alarm,
        )
    )


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_time_of_a_source_begins_when_it_is_ones_turn() -> None:
    source, alarm = InLine([hit(record("a dog"), bm25=1.0)]), Noting()
    recalls = [asking(source, alarm) for _ in range(3)]
    await settle()
    begun = alarm.begun.count(EACH)

    source.gate.set()
    answers = await asyncio.gather(*recalls)

    assert (begun, alarm.begun.count(EACH)) == (1, 3)
    assert [answer.state for [answer] in answers] == ["ok"] * 3


async def test_nobody_waits_in_line_beyond_the_time_of_all() -> None:
    source, alarm, patient = InLine([hit(record("a dog"), bm25=1.0)]), Alarm(), Alarm()
    first, second = asking(source, patient), asking(source, alarm)
    await settle()
    alarm.bell(ALL).set()

    [late] = await second
    source.gate.set()
    [answer] = await first
    [later] = await asking(source, patient)

    assert late.state == "timed_out"
    assert late.reason == "the time of all sources together was over"
    assert (answer.state, later.state) == ("ok", "ok")


async def test_whoever_is_cancelled_in_line_holds_nobody_up() -> None:
    source, alarm = InLine([hit(record("a dog"), bm25=1.0)]), Alarm()
    recalls = [asking(source, alarm) for _ in range(3)]
    await settle()

    for recall in recalls[:2]:
        recall.cancel()
    source.gate.set()
    [answer] = await recalls[2]

    assert answer.state == "ok"


def test_a_store_has_a_line_in_each_event_loop() -> None:
    store = SqliteMemoryStore(None)

    async def burst() -> list[bool]:
        await store.remember([MemoryRecord(text="a dog", id="dog")])
        recall = MemoryAssembler(store, sleep=Alarm())
        contexts = await asyncio.gather(*(recall.assemble_context("dog") for _ in range(20)))
        await store.close()
        return [context.is_empty for context in contexts]

    assert asyncio.run(burst()) == asyncio.run(burst()) == [False] * 20


async def test_of_many_recalls_a_store_is_asked_by_a_few_at_a_time() -> None:
    inside, most = set[str](), 0

    class Watched(SqliteMemoryStore):
        async def search(
            self,
            query: str,
            *,
            limit: int = 20,
            filters: MemoryFilters = NO_FILTERS,
            vector: Vector | None = None,
        ) -> list[MemoryHit]:
            nonlocal most
            inside.add(query)
            most = max(most, len(inside))
            try:
                return await super().search(query, limit=limit, filters=filters, vector=vector)
            finally:
                inside.discard(query)

    async with Watched(None) as store:
        await store.remember([MemoryRecord(text=f"dog{n}") for n in range(40)])
        recall = MemoryAssembler(store, sleep=Alarm())

        found = await asyncio.gather(*(recall.assemble_context(f"dog{n}") for n in range(40)))

    assert not any(context.is_empty for context in found)
    assert most <= 4
