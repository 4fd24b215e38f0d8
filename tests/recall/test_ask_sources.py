"""Asking sources: what each says, in time or not."""

import asyncio
from collections.abc import Mapping, Sequence

from context_assembler.errors import VectorModelError
from context_assembler.ports import MemorySource
from context_assembler.recall.ask_sources import Ask, ask_sources
from context_assembler.recall.read_signals import read_signals
from context_assembler.values.memories.records import (
    NO_FILTERS,
    MemoryFilters,
    MemoryHit,
    MemoryRecord,
)
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.recall import SourceAnswer
from tests.recall.building import Alarm, Answering, Listing, hit, record

EACH, ALL = 2.0, 5.0
FOUND = [hit(record("a dog"), bm25=1.0)]


def ask(source: MemorySource, *, name: str = "memories", vector: Vector | None = None) -> Ask:
    return Ask(
        name=name, source=source, kind="memories", filters=NO_FILTERS, limit=10, vector=vector
    )


async def answers(*asks: Ask, query: str = "dog", alarm: Alarm | None = None) -> list[SourceAnswer]:
    return await ask_sources(
        asks,
        read_signals(query),
        seconds_per_source=EACH,
        seconds_in_all=ALL,
        sleep=alarm or Alarm(),
    )


class Beside(Answering):
    """Also says what stands around, in the end or never."""

    never = False

    async def neighbours(
        self, memory_ids: Sequence[str], *, before: int = 2, after: int = 2
    ) -> Mapping[str, tuple[MemoryRecord, ...]]:
        if self.never:
            await asyncio.Event().wait()
        around = [record("first"), record("second")]
        return dict.fromkeys(memory_ids, tuple(around[: before or after]))


async def test_answers_come_in_the_order_of_asking() -> None:
    slow, quick = Answering(FOUND, waits=True), Answering([])
    asking = asyncio.ensure_future(answers(ask(slow, name="slow"), ask(quick, name="quick")))
    await asyncio.sleep(0)
    slow.gate.set()

    found = await asking

    assert [(a.source, a.state) for a in found] == [("slow", "ok"), ("quick", "empty")]


async def test_a_source_that_fails_costs_the_others_nothing() -> None:
    broken, fine = Answering(RuntimeError("no\nroute")), Answering(FOUND)

    failed, ok = await answers(ask(broken), ask(fine))

    assert (failed.state, failed.reason) == ("failed", "RuntimeError: no route")
    assert ok.hits == tuple(FOUND)


async def test_a_source_that_is_late_times_out_alone() -> None:
    alarm = Alarm()
    slow, fine = Answering(FOUND, waits=True), Answering(FOUND)
    alarm.bell(EACH).set()

    late, _ = await answers(ask(slow), ask(fine), alarm=alarm)

    assert late.state == "timed_out"
    assert late.reason == "the time of the source was over"


async def test_the_time_of_all_ends_them_all() -> None:
    alarm = Alarm()
    alarm.bell(ALL).set()

    late, other = await answers(
        ask(Answering(FOUND, waits=True)), ask(Answering(FOUND, waits=True)), alarm=alarm
    )

    assert (late.state, other.state) == ("timed_out", "timed_out")
    assert late.reason == "the time of all sources together was over"


async def test_what_was_found_in_time_is_kept() -> None:
    alarm, source = Alarm(), Beside(FOUND)
    source.never = True
    asking = asyncio.ensure_future(answers(ask(source), alarm=alarm))
    for _ in range(5):
        await asyncio.sleep(0)
    alarm.bell(EACH).set()

    [late] = await asking

    assert (late.state, late.hits) == ("timed_out", tuple(FOUND))


class Stubborn(Answering):
    """Fails when it is told to end."""

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        filters: MemoryFilters = NO_FILTERS,
        vector: Vector | None = None,
    ) -> Sequence[MemoryHit]:
        try:
            return await super().search(query, limit=limit, filters=filters, vector=vector)
        except asyncio.CancelledError:
            raise RuntimeError("I will not") from None


async def test_a_source_that_will_not_end_is_not_waited_for() -> None:
    alarm = Alarm()
    asking = asyncio.ensure_future(answers(ask(Stubborn(FOUND, waits=True)), alarm=alarm))
    for _ in range(5):
        await asyncio.sleep(0)
    alarm.bell(EACH).set()

    [late] = await asking
    await asyncio.sleep(0)

    assert late.state == "timed_out"


async def test_neighbours_are_told_with_their_distance() -> None:
    [found] = await answers(ask(Beside(FOUND)))

    distances = [neighbour.distance for neighbour in found.neighbours["a dog"]]
    assert distances == [-2, -1, 1, 2]


async def test_without_a_query_a_source_lists_or_is_skipped() -> None:
    listed, skipped = await answers(ask(Listing(record("a dog"))), ask(Answering(FOUND)), query="")

    assert [found.record.text for found in listed.hits] == ["a dog"]
    assert (skipped.state, skipped.reason) == (
        "skipped",
        "it lists nothing, and there is no query",
    )


async def test_names_of_speakers_are_taken_out_of_the_question() -> None:
    source = Answering([hit(record("Ann: I have a dog"), bm25=1.0)])

    await answers(ask(source), query="Which dog has Ann's sister?")

    assert [query.split() for query, _ in source.asked] == [
        ["Which", "dog", "has", "Ann's", "sister?"],
        ["Which", "dog", "has", "sister?"],
    ]


async def test_a_name_alone_is_looked_for() -> None:
    source = Answering([hit(record("Ann: I have a dog"), bm25=1.0)])

    [found] = await answers(ask(source), query="Ann")

    assert len(source.asked) == 1
    assert found.hits


async def test_where_nothing_else_is_found_the_name_counts() -> None:
    source = Answering([hit(record("Ann: hello"), bm25=1.0)], [])

    [found] = await answers(ask(source), query="What says Ann?")

    assert [h.record.text for h in found.hits] == ["Ann: hello"]


async def test_vectors_of_another_model_leave_the_words() -> None:
    source = Answering(VectorModelError("b", kept="a"), [hit(record("Ann: a dog"), bm25=1.0)])
    vector = Vector.pack("b", [1.0, 0.0])

    [found] = await answers(ask(source, vector=vector), query="the dog of Ann")

    assert found.state == "ok"
    assert found.reason is not None
    assert found.reason.startswith("searched by words alone")
    assert [given for _, given in source.asked] == [vector, None, None]
