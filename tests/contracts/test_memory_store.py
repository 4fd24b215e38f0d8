"""What holds for every store of memories, over every row of `STORES`."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler.errors import (
    ConfigurationError,
    InvalidParameterError,
    MemoryFormatError,
    UnknownMemoryError,
    UnknownOptionError,
    VectorModelError,
)
from context_assembler.memory import forget_faded
from context_assembler.memory_assembler import MemoryAssembler
from context_assembler.ports import MemorySource, MemoryStore
from context_assembler.values.memories.metadata import CodeMetadata, ExperienceMetadata
from context_assembler.values.memories.records import (
    FIRST_MOMENT,
    LAST_MOMENT,
    MAX_COUNT,
    MemoryFilters,
    MemoryRecord,
    Retention,
)
from context_assembler.values.memories.vectors import Vector
from tests.contracts.memory_factories import (
    AT,
    DAY,
    EAST,
    FILTERED,
    NORTH,
    NORTH_EAST,
    PEARS,
    STORES,
    Place,
    facts,
    texts_of,
    turns,
)


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryStore]:
    opened = STORES[request.param](Place(tmp_path, request))
    yield opened
    await opened.close()


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


@pytest.mark.parametrize("moment", [FIRST_MOMENT, LAST_MOMENT])
async def test_the_first_and_the_last_moment_that_there_are_can_be_kept(
    store: MemoryStore, moment: datetime
) -> None:
    await store.remember([MemoryRecord(id="a", text="a pear", created_at=moment)])

    hits = await MemoryAssembler(store).assemble_context("pear")
    stats = await store.stats()

    assert [record.created_at for record in await everything(store)] == [moment]
    assert len(hits.items) == 1
    assert stats.oldest_at == stats.newest_at == moment
    before, since = MemoryFilters(until=AT), MemoryFilters(since=AT)
    assert len(await store.search("pear", filters=before)) == (moment < AT)
    assert len(await store.search("pear", filters=since)) == (moment > AT)


async def test_the_largest_count_can_be_kept_and_counted_on(store: MemoryStore) -> None:
    await store.remember([MemoryRecord(id="a", text="a", access_count=MAX_COUNT - 1)])
    await store.touch(["a"])

    assert (await store.get("a")).access_count == MAX_COUNT


@pytest.mark.parametrize("no_name", ["bad\udcff", "\0", "\ud800"])
async def test_ids_that_nothing_can_have_are_not_there(store: MemoryStore, no_name: str) -> None:
    await store.remember(facts("The sky is blue."))

    with pytest.raises(UnknownMemoryError):
        await store.get(no_name)
    assert await store.forget([no_name]) == []
    assert await store.neighbours([no_name]) == {}
    await store.touch([no_name])
    for name in ("namespaces", "session_ids", "parent_ids", "authors"):
        unheard_of = MemoryFilters(**{name: (no_name,)})  # type: ignore[arg-type]
        assert await store.search("sky", filters=unheard_of) == []
        assert await store.list_records(filters=unheard_of) == []
    excluding = MemoryFilters(excluded_ids=(no_name,), excluded_session_ids=(no_name,))
    assert len(await store.search("sky", filters=excluding)) == 1


@pytest.mark.parametrize(
    "given", ["tea", {"text": "tea"}, [{"text": "tea"}], [MemoryRecord(text="tea"), "tea"], 7]
)
async def test_what_is_no_record_is_refused_and_nothing_kept(
    store: MemoryStore, given: Any
) -> None:
    with pytest.raises(ConfigurationError, match="cannot be remembered"):
        await store.remember(given)

    assert await everything(store) == []


async def test_one_id_is_no_list_of_ids(store: MemoryStore) -> None:
    for act in (store.forget, store.touch, store.neighbours):
        with pytest.raises(InvalidParameterError, match="must be a list of ids"):
            await act("mem_1")


async def test_a_record_without_id_and_time_gets_both(store: MemoryStore) -> None:
    [kept] = await store.remember(facts("The sky is blue."))

    found = await store.get(kept.id)

    assert kept.id
    assert found.created_at is not None
    assert found.text == "The sky is blue."


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=st.text(max_size=40), text=st.text(max_size=40))
async def test_any_text_can_be_kept(store: MemoryStore, query: str, text: str) -> None:
    [kept] = await store.remember([MemoryRecord(text=text, kind="events", session_id="law")])

    hits = await store.search(query, limit=5)

    assert len(hits) <= 5
    assert (await store.get(kept.id)).text is not None


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


async def test_whose_memory_is_replaced_is_told(store: MemoryStore) -> None:
    def of(namespace: str, text: str) -> MemoryRecord:
        return MemoryRecord(id="door", text=text, namespace=namespace)

    [first] = await store.remember([of("ada", "one")])
    [same] = await store.remember([of("ada", "two")])
    [other] = await store.remember([of("bob", "three")])
    batch = await store.remember([of("bob", "four"), of("", "five")])

    assert (first.notices, same.notices, batch[0].notices) == ((), (), ())
    assert [one.outcome for one in (same, other, *batch)] == ["replaced"] * 4
    assert "of the namespace 'ada'" in other.notices[0]
    assert "of the namespace 'bob'" in batch[1].notices[0]


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


async def test_what_is_nearly_the_same_is_merged_where_that_is_wanted(store: MemoryStore) -> None:
    said = "The deployment of the billing service runs every Friday at noon, after the backup."
    again = said.replace("noon", "noon sharp")
    await store.remember([MemoryRecord(id="first", text=said)])
    recall = MemoryAssembler(store, merges_alike=0.9)

    kept = await recall.remember(
        [
            again,
            "Something else entirely: tea is at four.",
            "Something else entirely! tea is at four.",
            MemoryRecord(text=again, namespace="elsewhere"),
            MemoryRecord(text=again, kind="events", session_id="s"),
            MemoryRecord(id="own", text=again),
        ]
    )

    assert [row.outcome for row in kept] == ["duplicate", "added", "duplicate", *["added"] * 3]
    assert (kept[0].id, kept[2].id) == ("first", kept[1].id)
    assert kept[0].notices == ("Nearly the same is kept as first.",)
    assert len(await everything(store)) == 5


async def test_what_states_other_facts_is_not_merged_however_alike_it_is(
    store: MemoryStore,
) -> None:
    recall = MemoryAssembler(store, merges_alike=0.9)
    first = ["Order 1001 was shipped on 3 May.", "Ada is allergic to nuts, as her doctor says."]
    await recall.remember(first)

    kept = await recall.remember(
        [
            "Order 1002 was shipped on 3 May.",
            "Order 1003 was shipped on 3 May.",
            "Ada is not allergic to nuts, as her doctor says.",
            "Order 1001 was shiped on 3 May.",
        ]
    )

    assert [row.outcome for row in kept] == [*["added"] * 3, "duplicate"]


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


@pytest.mark.parametrize(("filters", "expected"), FILTERED.values(), ids=FILTERED.keys())
async def test_filters_hold_for_lists_and_exports(
    store: MemoryStore, filters: MemoryFilters, expected: list[str]
) -> None:
    await store.remember(PEARS)

    listed = await store.list_records(order="oldest", filters=filters)
    exported = [record.id async for record in store.export(filters=filters)]

    assert [record.id for record in listed] == expected
    assert exported == expected


@pytest.mark.parametrize("count", ["5", 2.5, None])
async def test_counts_are_whole_numbers(store: MemoryStore, count: Any) -> None:
    with pytest.raises(InvalidParameterError, match="limit must be from 0"):
        await store.search("pear", limit=count)


async def test_an_order_that_there_is_not_is_told_with_those_that_there_are(
    store: MemoryStore,
) -> None:
    order: Any = "newset"
    with pytest.raises(UnknownOptionError, match="Did you mean 'newest'"):
        await store.list_records(order=order)


async def test_counts_that_are_out_of_range_are_refused(store: MemoryStore) -> None:
    assert await store.list_records(limit=0) == []
    with pytest.raises(InvalidParameterError, match="limit must be from 0"):
        await store.list_records(limit=-1)
    with pytest.raises(InvalidParameterError, match="before must be from 0"):
        await store.neighbours(["a"], before=-1)
    with pytest.raises(InvalidParameterError, match="after must be from 0"):
        await store.neighbours(["a"], after=10_001)


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


async def test_a_store_that_was_emptied_takes_vectors_as_a_new_one(store: MemoryStore) -> None:
    await store.remember([MemoryRecord(id="a", text="a boat")])
    await store.forget(["a"])

    await store.remember([MemoryRecord(id="b", text="a boat", vector=EAST)])

    [found] = await store.search("boat", vector=EAST)
    assert found.record.id == "b"
    assert found.similarity == pytest.approx(1.0)


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


async def test_what_is_neither_important_nor_used_fades(store: MemoryStore) -> None:
    day = timedelta(days=1)
    await store.remember(
        [
            MemoryRecord(id="old", text="one", created_at=AT - 90 * day),
            MemoryRecord(id="dear", text="two", created_at=AT - 90 * day, importance=1.0),
            MemoryRecord(
                id="used", text="three", created_at=AT - 90 * day, last_access_at=AT - day
            ),
            MemoryRecord(id="new", text="four", created_at=AT - day),
            MemoryRecord(id="ahead", text="five", created_at=AT + 900 * day),
            MemoryRecord(id="spared", text="six", created_at=AT - 90 * day, namespace="other"),
        ]
    )
    mine = MemoryFilters(namespaces=("",))

    fading = partial(forget_faded, store, half_life_days=30, now=AT, least_worth=0.1, filters=mine)
    told = await fading(is_dry_run=True)
    gone = await fading()

    assert told == gone == ["old"]
    assert sorted(r.id for r in await everything(store)) == [
        *("ahead", "dear", "new", "spared", "used")
    ]


@pytest.mark.parametrize("half_life_days", [0, -1, float("nan")])
async def test_a_half_life_is_positive(store: MemoryStore, half_life_days: float) -> None:
    with pytest.raises(InvalidParameterError, match="half_life_days"):
        await forget_faded(store, half_life_days=half_life_days, now=AT)


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
    assert empty.bytes == 0
    assert (stats.records, stats.vectors) == (2, 1)
    assert stats.by_kind == {"code": 1, "memories": 1}
    assert stats.by_namespace == {"": 1, "shop": 1}
    assert (stats.vector_model, stats.vector_dimension) == ("tiny", 2)
    assert (stats.oldest_at, stats.newest_at) == (AT, AT + DAY)
    assert stats.bytes > 0


async def test_writers_and_readers_at_once_see_whole_batches(store: MemoryStore) -> None:
    async def write(number: int) -> None:
        await store.remember(turns(*[f"pear {number}"] * 4, session_id=str(number)))

    async def read() -> int:
        return len(await store.search("pear", limit=1_000))

    outcomes = await asyncio.gather(*(work for i in range(15) for work in (write(i), read())))

    assert {count % 4 for count in outcomes if isinstance(count, int)} == {0}
    assert await read() == 60
