"""What holds for every memory store, over every row of `MEMORY_STORES`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler.errors import (
    InvalidParameterError,
    MemoryFormatError,
    UnknownMemoryError,
    VectorModelError,
)
from context_assembler.memory import MEMORY_STORES, open_memory
from context_assembler.ports import MemorySource, MemoryStore
from context_assembler.values.memories.kinds import KINDS
from context_assembler.values.memories.metadata import CodeMetadata, ExperienceMetadata
from context_assembler.values.memories.records import (
    MemoryFilters,
    MemoryHit,
    MemoryRecord,
    Retention,
)
from context_assembler.values.memories.vectors import Vector

LOCATIONS: dict[str, Callable[[Path], str]] = {
    "memory": lambda _folder: "memory:",
    "sqlite": lambda folder: f"sqlite:{folder / 'memory.db'}",
}
AT = datetime(2026, 5, 4, 9, 30, 0, 123_456, tzinfo=UTC)
DAY = timedelta(days=1)
EAST = Vector.pack("tiny", [1.0, 0.0])
NORTH = Vector.pack("tiny", [0.0, 1.0])
NORTH_EAST = Vector.pack("tiny", [1.0, 1.0])


@pytest.fixture(params=MEMORY_STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryStore]:
    opened = open_memory(LOCATIONS[request.param](tmp_path))
    yield opened
    await opened.close()


def facts(*texts: str) -> list[MemoryRecord]:
    return [MemoryRecord(text=text) for text in texts]


def turns(*texts: str, session_id: str = "s") -> list[MemoryRecord]:
    return [MemoryRecord(text=text, kind="events", session_id=session_id) for text in texts]


def texts_of(found: Sequence[MemoryHit | MemoryRecord]) -> list[str]:
    return [hit.record.text if isinstance(hit, MemoryHit) else hit.text for hit in found]


async def everything(store: MemoryStore) -> list[MemoryRecord]:
    return [record async for record in store.export()]


async def test_every_store_is_a_source_with_a_name(store: MemoryStore) -> None:
    assert isinstance(store, MemorySource)
    assert store.name


async def test_a_record_comes_back_with_everything_in_it(store: MemoryStore) -> None:
    record = MemoryRecord(
        id="mine",
        kind="experiences",
        text="Restarting the worker helped.",
        namespace="shop",
        session_id="s",
        parent_id="p",
        author="Ada",
        created_at=AT,
        importance=0.9,
        metadata=ExperienceMetadata(goal="fix the queue", surprise=0.7, succeeded=True),
        extras={"mood": ["calm"], "metadata": {"weather": 3}},
        vector=EAST,
        access_count=4,
        last_access_at=AT,
    )

    [kept] = await store.remember([record])

    assert (kept.id, kept.outcome, kept.notices) == ("mine", "added", ())
    assert await store.get("mine") == record
    assert await everything(store) == [record]


async def test_a_record_without_id_and_time_gets_both(store: MemoryStore) -> None:
    [kept] = await store.remember(facts("The sky is blue."))

    found = await store.get(kept.id)

    assert kept.id
    assert found.created_at is not None
    assert found.text == "The sky is blue."


async def test_any_of_the_words_is_enough_and_more_are_better(store: MemoryStore) -> None:
    await store.remember(facts("red apples", "green apples and pears", "a bus"))

    hits = await store.search("Where are the green pears, not the apples?")

    assert texts_of(hits) == ["green apples and pears", "red apples"]
    scores = [hit.bm25 or 0 for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)
    assert [hit.order for hit in hits] == [2, 1]


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
async def test_a_text_is_found_by(store: MemoryStore, query: str, text: str) -> None:
    await store.remember(facts("Nothing of interest here", text))

    assert texts_of(await store.search(query)) == [text]


@pytest.mark.parametrize("query", ["", "  ", '"', "*", "\0", "\ud800", "((()))", "¿?!", "zebra"])
async def test_a_query_that_fits_nothing_finds_nothing(store: MemoryStore, query: str) -> None:
    assert await store.search(query) == []

    await store.remember(facts("apples"))

    assert await store.search(query) == []


async def test_an_endless_query_is_answered_by_what_stands_at_its_ends(store: MemoryStore) -> None:
    await store.remember(facts("a zebra", "an okapi"))

    hits = await store.search("zebra " + "x y " * 250_000 + " okapi")

    assert sorted(texts_of(hits)) == ["a zebra", "an okapi"]


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=st.text(max_size=40), text=st.text(max_size=40))
async def test_any_text_can_be_kept_and_asked(store: MemoryStore, query: str, text: str) -> None:
    [kept] = await store.remember([MemoryRecord(text=text, kind="events", session_id="law")])

    hits = await store.search(query, limit=5)

    assert len(hits) <= 5
    assert (await store.get(kept.id)).text is not None


async def test_a_limit_is_kept_and_nothing_is_a_limit_too(store: MemoryStore) -> None:
    await store.remember(facts(*(f"apple {i}" for i in range(30))))

    assert len(await store.search("apple", limit=7)) == 7
    assert await store.search("apple", limit=0) == []
    assert await store.list_records(limit=0) == []
    with pytest.raises(InvalidParameterError, match="limit must be from 0"):
        await store.search("apple", limit=-1)


async def test_equals_are_found_in_the_order_of_storing(store: MemoryStore) -> None:
    await store.remember([replace(turn, id=f"t{i}") for i, turn in enumerate(turns(*["yes"] * 5))])

    first = await store.search("yes")

    assert await store.search("yes") == first
    assert len(first) == 5


async def test_metadata_and_author_are_found_too(store: MemoryStore) -> None:
    code = MemoryRecord(
        text="def run(): ...", kind="code", metadata=CodeMetadata(path="src/billing_report.py")
    )
    await store.remember([code, replace(facts("I like tea.")[0], author="Grace")])

    assert texts_of(await store.search("billing")) == ["def run(): ..."]
    assert texts_of(await store.search("what does Grace like")) == ["I like tea."]


async def test_a_turn_is_found_by_its_neighbours_words_but_after_them(store: MemoryStore) -> None:
    await store.remember(turns("I got a dog.", "What is it called?", "Rex!"))
    await store.remember(turns("Unrelated.", session_id="other"))

    hits = await store.search("dog")

    assert texts_of(hits) == ["I got a dog.", "What is it called?"]


async def test_neighbours_come_in_order_without_the_record_itself(store: MemoryStore) -> None:
    kept = await store.remember(turns("a", "b", "c", "d", "e"))
    await store.remember(turns("x", session_id="other"))
    ids = [row.id for row in kept]

    around = await store.neighbours([ids[2], ids[0], "no such"], before=1, after=2)

    assert {key: texts_of(rows) for key, rows in around.items()} == {
        ids[2]: ["b", "d", "e"],
        ids[0]: ["b", "c"],
    }
    assert await store.neighbours([]) == {}


async def test_a_turn_that_is_forgotten_is_in_no_neighbour_any_more(store: MemoryStore) -> None:
    kept = await store.remember(turns("first", "a zebra", "third"))

    assert await store.forget([kept[1].id, "no such"]) == [kept[1].id]

    assert await store.search("zebra") == []
    assert sorted(texts_of(await store.search("third"))) == ["first", "third"]
    with pytest.raises(UnknownMemoryError, match="no memory"):
        await store.get(kept[1].id)


async def test_a_record_of_a_known_id_takes_its_place(store: MemoryStore) -> None:
    await store.remember([replace(turn, id=turn.text) for turn in turns("one", "two", "three")])

    [kept] = await store.remember(
        [MemoryRecord(id="two", text="a zebra", kind="events", session_id="s")]
    )

    assert kept.outcome == "replaced"
    assert texts_of(await everything(store)) == ["one", "a zebra", "three"]
    assert await store.search("two") == []
    assert texts_of(await store.search("zebra"))[0] == "a zebra"


async def test_a_record_that_is_replaced_keeps_its_time_and_how_often_it_was_used(
    store: MemoryStore,
) -> None:
    await store.remember([MemoryRecord(id="a", text="one", created_at=AT)])
    await store.touch(["a"])
    used_at = (await store.get("a")).last_access_at

    await store.remember([MemoryRecord(id="a", text="two")])
    kept = await store.get("a")
    await store.remember([MemoryRecord(id="a", text="three", created_at=AT + DAY)])

    assert (kept.text, kept.created_at, kept.access_count) == ("two", AT, 1)
    assert kept.last_access_at == used_at
    assert (await store.get("a")).created_at == AT + DAY


async def test_a_record_can_move_to_another_session(store: MemoryStore) -> None:
    await store.remember([replace(turn, id=turn.text) for turn in turns("one", "two", "three")])
    await store.remember(turns("four", session_id="other"))

    await store.remember([MemoryRecord(id="two", text="two", kind="events", session_id="other")])

    assert texts_of((await store.neighbours(["one"]))["one"]) == ["three"]
    assert texts_of((await store.neighbours(["two"]))["two"]) == ["four"]
    assert sorted(texts_of(await store.search("four"))) == ["four", "two"]
    assert sorted(texts_of(await store.search("one"))) == ["one", "three"]


async def test_what_was_said_already_is_not_kept_twice(store: MemoryStore) -> None:
    [first] = await store.remember([MemoryRecord(text="Tea, please.", importance=0.2)])

    again = await store.remember(
        [
            MemoryRecord(text="  tea,\n PLEASE. ", importance=0.8),
            MemoryRecord(text="Tea, please.", namespace="elsewhere"),
            MemoryRecord(text="Tea, please.", kind="learnings"),
            MemoryRecord(id="own", text="Tea, please."),
        ]
    )

    assert [row.outcome for row in again] == ["duplicate", "added", "added", "added"]
    assert again[0].id == first.id
    assert (await store.get(first.id)).importance == 0.8


async def test_the_same_code_in_two_files_is_two_records(store: MemoryStore) -> None:
    places = [CodeMetadata(path="a.py"), CodeMetadata(path="b.py"), CodeMetadata(path="a.py")]

    kept = await store.remember(
        [MemoryRecord(text="pass", kind="code", metadata=place) for place in places]
    )

    assert [row.outcome for row in kept] == ["added", "added", "duplicate"]


async def test_of_turns_each_is_kept_even_if_it_says_the_same(store: MemoryStore) -> None:
    turn = replace(turns("ok")[0], created_at=AT)

    kept = await store.remember([turn, turn, turn])

    assert [row.outcome for row in kept] == ["added"] * 3
    assert len({row.id for row in kept}) == 3


FILTERED: dict[str, tuple[MemoryFilters, list[str]]] = {
    "nothing": (MemoryFilters(), ["a", "b", "c"]),
    "a kind": (MemoryFilters(kinds=("learnings",)), ["b"]),
    "kinds": (MemoryFilters(kinds=("learnings", "memories")), ["a", "b", "c"]),
    "a kind that is not there": (MemoryFilters(kinds=("code",)), []),
    "a namespace": (MemoryFilters(namespaces=("shop",)), ["a", "b"]),
    "no namespace": (MemoryFilters(namespaces=("",)), ["c"]),
    "a session": (MemoryFilters(session_ids=("s1",)), ["a"]),
    "a parent": (MemoryFilters(parent_ids=("doc",)), ["c"]),
    "an author": (MemoryFilters(authors=("Ada",)), ["b"]),
    "since, itself included": (MemoryFilters(since=AT + DAY), ["b", "c"]),
    "until, itself excluded": (MemoryFilters(until=AT + DAY), ["a"]),
    "importance": (MemoryFilters(least_importance=0.6), ["c"]),
    "excluded ids": (MemoryFilters(excluded_ids=("a", "c")), ["b"]),
    "excluded sessions": (MemoryFilters(excluded_session_ids=("s1",)), ["b", "c"]),
    "several at once": (MemoryFilters(namespaces=("shop",), since=AT + DAY), ["b"]),
}


@pytest.mark.parametrize(("filters", "expected"), FILTERED.values(), ids=FILTERED.keys())
async def test_filters_hold_for_every_way_of_finding(
    store: MemoryStore, filters: MemoryFilters, expected: list[str]
) -> None:
    await store.remember(
        [
            MemoryRecord(
                id="a", text="a pear", namespace="shop", session_id="s1", created_at=AT, vector=EAST
            ),
            MemoryRecord(
                id="b",
                text="b pear",
                namespace="shop",
                author="Ada",
                kind="learnings",
                created_at=AT + DAY,
                vector=EAST,
            ),
            MemoryRecord(
                id="c",
                text="c pear",
                parent_id="doc",
                created_at=AT + 2 * DAY,
                importance=0.7,
                vector=EAST,
            ),
        ]
    )

    by_words = await store.search("pear", filters=filters)
    by_vector = await store.search("", filters=filters, vector=EAST)
    listed = await store.list_records(order="oldest", filters=filters)
    exported = [record.id async for record in store.export(filters=filters)]

    assert sorted(hit.record.id for hit in by_words) == expected
    assert sorted(hit.record.id for hit in by_vector) == expected
    assert [record.id for record in listed] == expected
    assert exported == expected


async def test_records_are_listed_by_time_importance_and_use(store: MemoryStore) -> None:
    await store.remember(
        [
            MemoryRecord(id="old", text="1", created_at=AT, importance=0.9),
            MemoryRecord(id="new", text="2", created_at=AT + DAY, importance=0.1),
        ]
    )
    await store.touch(["old", "old", "no such"])

    old = await store.get("old")

    assert [r.id for r in await store.list_records()] == ["new", "old"]
    assert [r.id for r in await store.list_records(order="oldest")] == ["old", "new"]
    assert [r.id for r in await store.list_records(order="most_important")] == ["old", "new"]
    assert [r.id for r in await store.list_records(order="last_accessed")] == ["old"]
    assert old.access_count == 2
    assert old.last_access_at is not None


async def test_a_vector_finds_what_no_word_does(store: MemoryStore) -> None:
    await store.remember(
        [
            MemoryRecord(id="east", text="a boat", vector=EAST),
            MemoryRecord(id="north", text="a train", vector=NORTH),
            MemoryRecord(id="plain", text="a train, too"),
        ]
    )

    by_meaning = await store.search("", vector=NORTH_EAST, limit=5)
    both = await store.search("train", vector=EAST, limit=5)

    assert [round(hit.similarity or 0, 3) for hit in by_meaning] == [0.707, 0.707]
    assert [hit.bm25 for hit in by_meaning] == [None, None]
    assert {hit.record.id: hit.similarity for hit in both} == {
        "plain": None,
        "north": 0.0,
        "east": 1.0,
    }
    assert len(await store.search("train", vector=EAST, limit=1)) == 1


async def test_vectors_that_come_go_and_change_are_seen_at_once(store: MemoryStore) -> None:
    async def nearest() -> list[str]:
        return [hit.record.id for hit in await store.search("", vector=EAST, limit=1)]

    assert await nearest() == []
    await store.remember([MemoryRecord(id="a", text="a", vector=NORTH_EAST)])
    assert await nearest() == ["a"]
    await store.remember([MemoryRecord(id="b", text="b", vector=EAST)])
    assert await nearest() == ["b"]
    await store.remember([MemoryRecord(id="b", text="b", vector=NORTH)])
    assert await nearest() == ["a"]
    await store.forget(["a"])
    assert await nearest() == ["b"]
    await store.forget(["b"])
    assert await nearest() == []


async def test_vectors_of_two_models_do_not_mix(store: MemoryStore) -> None:
    await store.remember([MemoryRecord(text="a", vector=EAST)])
    other_model = Vector.pack("other", [1.0, 0.0])
    longer = Vector.pack("tiny", [1.0, 0.0, 0.0])

    for vector in (other_model, longer):
        with pytest.raises(VectorModelError, match="keeps vectors of 'tiny' with 2"):
            await store.remember([MemoryRecord(text="b", vector=vector)])
        with pytest.raises(VectorModelError, match="'tiny'"):
            await store.search("a", vector=vector)

    assert texts_of(await everything(store)) == ["a"]


async def test_a_batch_is_kept_whole_or_not_at_all(store: MemoryStore) -> None:
    bad = MemoryRecord(id="bad", text="b", extras={"x": {1, 2}})

    with pytest.raises(MemoryFormatError, match="'bad' cannot be stored: extras"):
        await store.remember([*facts("a"), bad])

    assert await everything(store) == []
    assert await store.remember([]) == []


async def test_retention_drops_the_oldest_and_spares_the_important(store: MemoryStore) -> None:
    now = datetime.now(UTC)
    await store.remember(
        [
            MemoryRecord(id="a", text="pear 1", created_at=now - 9 * DAY, importance=1.0),
            MemoryRecord(id="b", text="pear 2", created_at=now - 8 * DAY),
            MemoryRecord(id="c", text="pear 3", created_at=now - 2 * DAY),
            MemoryRecord(id="d", text="pear 4", created_at=now - DAY),
            MemoryRecord(id="e", text="pear 5", created_at=now - 20 * DAY, namespace="elsewhere"),
        ]
    )
    here = MemoryFilters(namespaces=("",))

    assert await store.prune(Retention()) == []
    by_age = await store.prune(Retention(max_age_days=5, kept_importance=0.9, filters=here))
    by_number = await store.prune(Retention(max_records=1, kept_importance=0.9, filters=here))

    assert (by_age, by_number) == (["b"], ["c"])
    assert sorted(hit.record.id for hit in await store.search("pear")) == ["a", "d", "e"]


async def test_a_store_tells_what_it_holds(store: MemoryStore) -> None:
    empty = await store.stats()
    await store.remember(
        [
            MemoryRecord(text="a", created_at=AT, vector=EAST, namespace="shop"),
            MemoryRecord(text="b", created_at=AT + DAY, kind="code"),
        ]
    )

    stats = await store.stats()

    assert (empty.records, empty.newest_at, empty.vector_model) == (0, None, None)
    assert (stats.records, stats.vectors) == (2, 1)
    assert stats.by_kind == {"code": 1, "memories": 1}
    assert stats.by_namespace == {"": 1, "shop": 1}
    assert (stats.vector_model, stats.vector_dimension) == ("tiny", 2)
    assert (stats.oldest_at, stats.newest_at) == (AT, AT + DAY)
    assert stats.bytes > 0


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_is_kept_and_found(store: MemoryStore, kind: str) -> None:
    record = MemoryRecord(text="a zebra", kind=kind, metadata=KINDS[kind].metadata())  # type: ignore[arg-type, index, unused-ignore]  # a key of the table

    await store.remember([record])

    assert [hit.record.kind for hit in await store.search("zebra")] == [kind]


async def test_writers_and_readers_at_once_see_whole_batches(store: MemoryStore) -> None:
    async def write(number: int) -> None:
        await store.remember(turns(*[f"pear {number}"] * 4, session_id=str(number)))

    async def read() -> int:
        return len(await store.search("pear", limit=1_000))

    outcomes = await asyncio.gather(*(work for i in range(15) for work in (write(i), read())))

    assert {count % 4 for count in outcomes if isinstance(count, int)} == {0}
    assert await read() == 60
