"""What holds for every source of memories, over every row of `STORES` and `SOURCES`."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler.errors import InvalidParameterError, VectorModelError
from context_assembler.ports import MemorySource
from context_assembler.values.memories.kinds import KINDS
from context_assembler.values.memories.metadata import CodeMetadata, ExperienceMetadata
from context_assembler.values.memories.records import MemoryFilters, MemoryRecord
from context_assembler.values.memories.vectors import Vector
from tests.contracts.memory_factories import (
    AT,
    EAST,
    FILTERED,
    NORTH,
    NORTH_EAST,
    PEARS,
    SOURCES,
    STORES,
    FilledSource,
    Place,
    facts,
    open_source,
    texts_of,
    turns,
)


@pytest.fixture(params=[*STORES, *SOURCES])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FilledSource]:
    async with open_source(request.param, Place(tmp_path, request)) as opened:
        yield opened


async def test_every_source_has_a_name(memory: FilledSource) -> None:
    assert isinstance(memory.source, MemorySource)
    assert memory.source.name


async def test_a_hit_holds_the_whole_record(memory: FilledSource) -> None:
    record = MemoryRecord(
        id="mine",
        kind="experiences",
        text="Restarting the worker helped.",
        namespace="shop",
        session_id="s",
        parent_id="p",
        author="Ada",
        created_at=AT,
        importance=0.75,
        metadata=ExperienceMetadata(goal="fix the queue", surprise=0.7, succeeded=True),
        extras={"mood": ["calm"], "metadata": {"weather": 3}},
        vector=EAST,
    )
    await memory.fill([record])

    [hit] = await memory.source.search("worker", vector=EAST)

    assert hit.record == record


async def test_any_of_the_words_is_enough_and_more_are_better(memory: FilledSource) -> None:
    await memory.fill(facts("red apples", "green apples and pears", "a bus"))

    hits = await memory.source.search("Where are the green pears, not the apples?")

    assert texts_of(hits) == ["green apples and pears", "red apples"]
    scores = [hit.bm25 or 0 for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)
    assert hits[0].order > hits[1].order  # stored later


QUERIES_WITH_ONE_ANSWER = {
    "another ending": ("parsing", "The parser parses tools."),
    "another case, no accent": ("CAFE", "We met in the Café."),
    "a part of an identifier": ("tool calls", "see parseToolCalls"),
    "a whole identifier": ("parseToolCalls", "see parseToolCalls"),
    "a part of a snake": ("max_tokens", "the setting max_tokens"),
    "two Chinese characters": ("徒步", "我喜欢徒步和长跑"),
    "one Chinese character": ("跑", "我喜欢徒步和长跑"),
    "a Japanese word": ("東京タワー", "昨日東京タワーに行きました"),
    "a Korean word without its particle": ("학교", "나는 학교에 갔다"),
    "a Thai word": ("อาหาร", "ฉันชอบอาหารไทย"),
    "a Russian word": ("кошка", "Наша кошка спит"),
    "only a stop word": ("the", "Tell me about the"),
    "quotes and operators": ('"pears" AND ( NOT NEAR(', "pears"),
    "a NUL inside": ("pe\0ars pears", "pears"),
}


@pytest.mark.parametrize(
    ("query", "text"), QUERIES_WITH_ONE_ANSWER.values(), ids=QUERIES_WITH_ONE_ANSWER.keys()
)
async def test_a_text_is_found_by(memory: FilledSource, query: str, text: str) -> None:
    await memory.fill(facts("Nothing of interest here", text))

    assert texts_of(await memory.source.search(query)) == [text]


@pytest.mark.parametrize("query", ["", "  ", '"', "*", "\0", "\ud800", "((()))", "¿?!", "zebra"])
async def test_a_query_that_fits_nothing_finds_nothing(memory: FilledSource, query: str) -> None:
    assert await memory.source.search(query) == []

    await memory.fill(facts("apples"))

    assert await memory.source.search(query) == []


async def test_an_endless_query_is_answered_by_what_stands_at_its_ends(
    memory: FilledSource,
) -> None:
    await memory.fill(facts("a zebra", "an okapi"))

    hits = await memory.source.search("zebra " + "x y " * 250_000 + " okapi")

    assert sorted(texts_of(hits)) == ["a zebra", "an okapi"]


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=st.text(max_size=40), text=st.text(max_size=40))
async def test_any_text_can_be_filled_in_and_asked(
    memory: FilledSource, query: str, text: str
) -> None:
    await memory.fill([MemoryRecord(text=text, kind="events", session_id="law")])

    hits = await memory.source.search(query, limit=5)

    assert len(hits) <= 5
    assert len({hit.record.id for hit in hits}) == len(hits)


async def test_a_search_keeps_its_limit_and_nothing_is_a_limit_too(memory: FilledSource) -> None:
    await memory.fill(facts(*(f"apple {i}" for i in range(30))))

    assert len(await memory.source.search("apple", limit=7)) == 7
    assert await memory.source.search("apple", limit=0) == []
    with pytest.raises(InvalidParameterError, match="limit must be from 0"):
        await memory.source.search("apple", limit=-1)
    with pytest.raises(InvalidParameterError, match="limit must be from 0"):
        await memory.source.search("apple", limit=True)


async def test_equals_are_found_in_the_order_of_storing(memory: FilledSource) -> None:
    await memory.fill([replace(turn, id=f"t{i}") for i, turn in enumerate(turns(*["yes"] * 5))])

    first = await memory.source.search("yes")

    assert await memory.source.search("yes") == first
    assert len(first) == 5


async def test_metadata_and_author_are_found_too(memory: FilledSource) -> None:
    code = MemoryRecord(
        text="def run(): ...", kind="code", metadata=CodeMetadata(path="src/billing_report.py")
    )
    await memory.fill([code, replace(facts("I like tea.")[0], author="Grace")])

    assert texts_of(await memory.source.search("billing")) == ["def run(): ..."]
    assert texts_of(await memory.source.search("what does Grace like")) == ["I like tea."]


@pytest.mark.parametrize(("filters", "expected"), FILTERED.values(), ids=FILTERED.keys())
async def test_filters_hold_for_words_and_vectors(
    memory: FilledSource, filters: MemoryFilters, expected: list[str]
) -> None:
    await memory.fill(PEARS)

    by_words = await memory.source.search("pear", filters=filters)
    by_vector = await memory.source.search("", filters=filters, vector=EAST)

    assert sorted(hit.record.id for hit in by_words) == expected
    assert sorted(hit.record.id for hit in by_vector) == expected


async def test_a_vector_finds_what_no_word_does(memory: FilledSource) -> None:
    await memory.fill(
        [
            MemoryRecord(id="east", text="a boat", vector=EAST),
            MemoryRecord(id="north", text="a train", vector=NORTH),
            MemoryRecord(id="plain", text="a train, too"),
        ]
    )

    by_meaning = await memory.source.search("", vector=NORTH_EAST, limit=5)
    both = await memory.source.search("train", vector=EAST, limit=5)

    assert [round(hit.similarity or 0, 3) for hit in by_meaning] == [0.707, 0.707]
    assert [hit.bm25 for hit in by_meaning] == [None, None]
    assert {hit.record.id: hit.similarity for hit in both} == {
        "plain": None,
        "north": 0.0,
        "east": 1.0,
    }
    assert len(await memory.source.search("train", vector=EAST, limit=1)) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_is_kept_and_found(memory: FilledSource, kind: str) -> None:
    record = MemoryRecord(text="a zebra", kind=kind, metadata=KINDS[kind].metadata())  # type: ignore[arg-type, index, unused-ignore]  # a key of the table

    await memory.fill([record])

    assert [hit.record.kind for hit in await memory.source.search("zebra")] == [kind]


async def test_a_vector_of_another_model_is_refused(memory: FilledSource) -> None:
    await memory.fill([MemoryRecord(text="a", vector=EAST)])

    for vector in (Vector.pack("other", [1.0, 0.0]), Vector.pack("tiny", [1.0, 0.0, 0.0])):
        with pytest.raises(VectorModelError, match="keeps vectors of 'tiny' with 2"):
            await memory.source.search("a", vector=vector)
