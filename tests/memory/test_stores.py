"""What every store of memories promises, whatever engine keeps them."""

import asyncio
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler.errors import EventFormatError, UnknownMemoryError, VectorModelError
from context_assembler.memory import (
    CodeMetadata,
    EntityMetadata,
    EventMetadata,
    ExperienceMetadata,
    MemoryAssembler,
    MemoryFilters,
    MemoryHit,
    MemoryRecord,
    MemorySource,
    MemoryStore,
    Metadata,
    Retention,
    Vector,
    open_memory,
)

AT: Final = datetime(2026, 5, 4, 9, 30, 0, 123_456, tzinfo=UTC)
DAY: Final = timedelta(days=1)
EAST: Final = Vector.pack("tiny", [1.0, 0.0])
NORTH: Final = Vector.pack("tiny", [0.0, 1.0])
NORTH_EAST: Final = Vector.pack("tiny", [1.0, 1.0])

PEARS: Final = [
    replace(pear, created_at=AT + at * DAY, vector=EAST)
    for at, pear in enumerate(
        (
            MemoryRecord(id="a", text="a pear", namespace="shop", session_id="s1"),
            MemoryRecord(id="b", text="b pear", namespace="shop", author="Ada", kind="learnings"),
            MemoryRecord(id="c", text="c pear", parent_id="doc", importance=0.7),
        )
    )
]
FILTERED: Final[Mapping[str, tuple[MemoryFilters, list[str]]]] = {
    "nothing": (MemoryFilters(), ["a", "b", "c"]),
    "a kind": (MemoryFilters(kinds=("learnings",)), ["b"]),
    "kinds": (MemoryFilters(kinds=("learnings", "memories")), ["a", "b", "c"]),
    "a kind that is not there": (MemoryFilters(kinds=("code",)), []),
    "a namespace": (MemoryFilters(namespaces=("shop",)), ["a", "b"]),
    "no namespace": (MemoryFilters(namespaces=("",)), ["c"]),
    "several namespaces": (MemoryFilters(namespaces=["", "shop", "none"]), ["a", "b", "c"]),
    "nobody's": (MemoryFilters(namespaces=()), []),
    "nobody's, of a list": (MemoryFilters(namespaces=[]), []),
    "a name like another one, but for what no text may hold": (
        MemoryFilters(namespaces=["shop\0", "\0", "shop\udcff"]),
        [],
    ),
    "all namespaces": (MemoryFilters(namespaces=None), ["a", "b", "c"]),
    "ids": (MemoryFilters(ids=("a", "c")), ["a", "c"]),
    "an id of another namespace": (MemoryFilters(ids=("c",), namespaces=("shop",)), []),
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


def turns(*texts: str, session_id: str = "s") -> list[MemoryRecord]:
    return [MemoryRecord(text=text, kind="events", session_id=session_id) for text in texts]


def texts_of(found: Iterable[MemoryHit | MemoryRecord]) -> list[str]:
    return [one.record.text if isinstance(one, MemoryHit) else one.text for one in found]


def ids_of(hits: Sequence[MemoryHit]) -> list[str]:
    return [hit.record.id for hit in hits]


async def everything(store: MemoryStore) -> list[MemoryRecord]:
    return [record async for record in store.export()]


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
        importance=0.75,
        metadata=ExperienceMetadata(goal="fix the queue", surprise=0.7, succeeded=True),
        extras={"mood": ["calm"], "metadata": {"weather": 3}},
        vector=EAST,
        access_count=4,
        last_access_at=AT,
    )

    [kept] = await store.remember([record])

    assert isinstance(store, MemorySource)
    assert (kept.id, kept.outcome, kept.notices) == ("mine", "added", ())
    assert await store.get("mine") == record
    assert await everything(store) == [record]
    [hit] = await store.search("queue", vector=EAST)
    assert hit.record == record
    assert hit.bm25 is not None
    assert hit.bm25 > 0
    assert hit.similarity == pytest.approx(1.0)


async def test_a_store_that_holds_nothing_answers_and_creates_nothing(store: MemoryStore) -> None:
    assert await store.search("pear", vector=EAST) == []
    assert await store.list_records() == []
    assert await store.neighbours(["a"]) == {}
    assert await everything(store) == []
    assert (await store.stats()).records == 0
    with pytest.raises(UnknownMemoryError, match="'a'"):
        await store.get("a")


async def test_a_record_without_id_and_time_gets_both(store: MemoryStore) -> None:
    [kept] = await store.remember([MemoryRecord(text="The sky is blue.")])

    found = await store.get(kept.id)

    assert found.id
    assert found.created_at is not None


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=st.text(max_size=40), text=st.text(max_size=40))
async def test_any_text_can_be_kept_and_asked(store: MemoryStore, query: str, text: str) -> None:
    [kept] = await store.remember([MemoryRecord(text=text, kind="events", session_id="law")])

    hits = await store.search(query, limit=5)

    assert len(hits) <= 5
    assert (await store.get(kept.id)).text is not None


async def test_what_no_engine_can_keep_is_taken_out_and_said(store: MemoryStore) -> None:
    [kept] = await store.remember([MemoryRecord(text="a\0 pear\ud800", session_id="\0s")])

    assert "NUL" in kept.notices[0]
    assert (await store.get(kept.id)).text == "a pear\ufffd"
    assert await store.search("pear", filters=MemoryFilters(namespaces=("bad\udcff",))) == []
    assert await store.forget(["\0", "bad\udcff"]) == []


FOUND: Final[Mapping[str, tuple[str, list[str]]]] = {
    "any word is enough": ("zebra or horse", ["a horse ran"]),
    "endings make no difference": ("running horses", ["a horse ran"]),
    "accents make no difference": ("creme brulee", ["crème brûlée"]),
    "a part of an identifier": ("payload", ["see parsePayload()"]),
    "Chinese in pairs": ("天气怎么样", ["今天天气很好"]),
    "one Chinese character": ("气", ["今天天气很好"]),
    "no word at all": ("?! …", []),
}


async def test_words_are_found_in_any_script(store: MemoryStore) -> None:
    texts = ["a horse ran", "crème brûlée", "see parsePayload()", "今天天气很好"]
    await store.remember([MemoryRecord(text=text) for text in texts])

    for name, (query, expected) in FOUND.items():
        assert texts_of(await store.search(query)) == expected, name


async def test_a_turn_is_found_by_its_neighbours_words_but_after_its_own(
    store: MemoryStore, request: pytest.FixtureRequest
) -> None:
    if "qdrant" in request.node.name:
        pytest.skip("Qdrant finds a turn by its own words alone")
    await store.remember(turns("I got a dog.", "What is it called?", "Rex!"))
    await store.remember(turns("Unrelated.", session_id="other"))

    assert texts_of(await store.search("dog")) == ["I got a dog.", "What is it called?"]


async def test_neighbours_come_in_order_without_the_record_itself(store: MemoryStore) -> None:
    ids = [one.id for one in await store.remember(turns("a", "b", "c", "d", "e"))]
    await store.remember(turns("x", session_id="other"))

    around = await store.neighbours([ids[2], ids[0], "no such"], before=1, after=2)

    assert {key: texts_of(records) for key, records in around.items()} == {
        ids[2]: ["b", "d", "e"],
        ids[0]: ["b", "c"],
    }


async def test_a_turn_that_is_forgotten_replaced_or_moved_is_found_nowhere_else(
    store: MemoryStore,
) -> None:
    named = [replace(turn, id=turn.text) for turn in turns("one", "zebra", "three", "four")]
    await store.remember(named)
    await store.remember(turns("other", session_id="other"))

    await store.remember([replace(named[2], text="giraffe")])
    await store.remember([replace(named[3], session_id="other")])
    gone = await store.forget(["zebra", "no such", "zebra"])

    assert gone == ["zebra"]
    assert await store.search("zebra") == []
    assert await store.search("three") == []
    assert texts_of(await store.search("giraffe"))[0] == "giraffe"
    assert texts_of((await store.neighbours(["one"]))["one"]) == ["giraffe"]
    assert texts_of((await store.neighbours(["four"]))["four"]) == ["other"]
    assert "four" not in texts_of(await store.search("giraffe"))


async def test_a_record_of_a_known_id_takes_its_place_and_keeps_its_time(
    store: MemoryStore,
) -> None:
    await store.remember([MemoryRecord(id="a", text="one", created_at=AT)])
    await store.touch(["a"])
    used_at = (await store.get("a")).last_access_at

    [same] = await store.remember([MemoryRecord(id="a", text="two")])
    kept = await store.get("a")

    assert (same.outcome, same.notices) == ("replaced", ())
    assert (kept.text, kept.created_at, kept.access_count) == ("two", AT, 1)
    assert kept.last_access_at == used_at


async def test_what_was_said_already_is_not_kept_twice(store: MemoryStore) -> None:
    [first] = await store.remember([MemoryRecord(text="Tea, please.", importance=0.2)])

    again = await store.remember(
        [
            MemoryRecord(text="  tea,\n PLEASE. ", importance=0.8),
            MemoryRecord(text="Tea, please.", namespace="elsewhere"),
            MemoryRecord(text="Tea, please.", kind="learnings"),
            MemoryRecord(id="own", text="Tea, please."),
            *(
                MemoryRecord(text="pass", kind="code", metadata=CodeMetadata(path=path))
                for path in ("a.py", "b.py", "a.py")
            ),
        ]
    )

    outcomes = ["duplicate", *["added"] * 5, "duplicate"]
    assert [one.outcome for one in again] == outcomes
    assert again[0].id == first.id
    assert (await store.get(first.id)).importance == 0.8


async def test_of_turns_each_is_kept_even_if_it_says_the_same(store: MemoryStore) -> None:
    turn = replace(turns("ok")[0], created_at=AT)

    kept = [*await store.remember([turn, turn]), *await store.remember([turn])]

    assert [one.outcome for one in kept] == ["added"] * 3
    assert len({one.id for one in kept}) == 3


async def test_filters_hold_for_lists_exports_and_searches(store: MemoryStore) -> None:
    await store.remember(PEARS)
    for name, (filters, expected) in FILTERED.items():
        listed = await store.list_records(order="oldest", filters=filters)
        exported = [record.id async for record in store.export(filters=filters)]

        assert [record.id for record in listed] == expected, name
        assert exported == expected, name
        for vector in (None, EAST):
            hits = await store.search("pear", filters=filters, vector=vector)
            assert sorted(ids_of(hits)) == expected, name
        assert await store.present_kinds(filters=filters) >= {one.kind for one in listed}, name


TYPED: Final[Mapping[str, tuple[MemoryFilters, str]]] = {
    "a type of events": (MemoryFilters(event_types=["error"]), "crash fact ada acme"),
    "types of events": (MemoryFilters(event_types=("error", "test")), "crash test fact ada acme"),
    "a type of entities": (MemoryFilters(entity_types=["person"]), "crash test said fact ada"),
    "of both": (
        MemoryFilters(event_types=["test"], entity_types=["person", "city"]),
        "test fact ada",
    ),
    "of one kind": (MemoryFilters(kinds=["events"], event_types=["error"]), "crash"),
    "a type that nothing has": (MemoryFilters(kinds=["entities"], entity_types=["error"]), ""),
}


@pytest.mark.parametrize(("filters", "expected"), TYPED.values(), ids=TYPED.keys())
async def test_events_and_entities_are_filtered_by_type(
    store: MemoryStore, filters: MemoryFilters, expected: str
) -> None:
    kept: dict[str, Metadata | None] = {
        "crash": EventMetadata(event_type="error"),
        "test": EventMetadata(event_type="test"),
        "said": EventMetadata(),
        "fact": None,
        "ada": EntityMetadata(name="ada", entity_type="person"),
        "acme": EntityMetadata(name="acme", entity_type="firm"),
    }
    kinds = ["events"] * 3 + ["memories"] + ["entities"] * 2
    records = [
        MemoryRecord(id=name, text=f"pear {name}", kind=kind, metadata=metadata, vector=EAST)
        for kind, (name, metadata) in zip(kinds, kept.items(), strict=True)
    ]
    await store.remember(records)

    assert {*ids_of(await store.search("pear", filters=filters))} == {*expected.split()}
    assert {*ids_of(await store.search("", filters=filters, vector=EAST))} == {*expected.split()}
    assert {one.id for one in await store.list_records(filters=filters)} == {*expected.split()}
    assert {one.id for one in records if filters.admit(one)} >= {*expected.split()}


async def test_records_are_listed_by_time_importance_and_use(store: MemoryStore) -> None:
    old = MemoryRecord(id="old", text="1", created_at=AT, importance=0.9)
    new = MemoryRecord(id="new", text="2", created_at=AT + DAY, importance=0.1)
    await store.remember([old, new])
    await store.touch(["old", "old", "no such"])

    async def listed(**options: str | int) -> list[str]:
        return [record.id for record in await store.list_records(**options)]  # type: ignore[arg-type] # by name

    assert await listed() == ["new", "old"]
    assert await listed(order="oldest") == ["old", "new"]
    assert await listed(order="most_important") == ["old", "new"]
    assert await listed(order="last_accessed") == ["old"]
    assert await listed(limit=1) == ["new"]
    assert (await store.get("old")).access_count == 2


async def test_vectors_that_come_go_and_change_are_seen_at_once(store: MemoryStore) -> None:
    async def nearest() -> list[str]:
        return ids_of(await store.search("", vector=EAST, limit=1))

    seen: list[list[str]] = []
    for name, vector in (("a", NORTH_EAST), ("b", EAST), ("b", NORTH)):
        await store.remember([MemoryRecord(id=name, text=name, vector=vector)])
        seen.append(await nearest())
    for name in ("a", "b"):
        await store.forget([name])
        seen.append(await nearest())

    assert seen == [["a"], ["b"], ["a"], ["b"], []]


async def test_vectors_of_two_models_do_not_mix(store: MemoryStore) -> None:
    await store.remember([MemoryRecord(id="a", text="a", vector=EAST)])

    for vector in (Vector.pack("other", [1.0, 0.0]), Vector.pack("tiny", [1.0, 0.0, 0.0])):
        with pytest.raises(VectorModelError, match="keeps vectors of 'tiny' with 2"):
            await store.remember([MemoryRecord(text="b", vector=vector)])
        with pytest.raises(VectorModelError, match="'tiny'"):
            await store.search("a", vector=vector)
    assert texts_of(await everything(store)) == ["a"]

    await store.drop_vectors()
    other = Vector.pack("other", [1.0, 0.0, 0.0])
    await store.remember([MemoryRecord(id="c", text="c", vector=other)])
    assert ids_of(await store.search("", vector=other)) == ["c"]
    assert (await store.get("a")).vector is None


async def test_a_batch_is_kept_whole_or_not_at_all(store: MemoryStore) -> None:
    bad = MemoryRecord(id="bad", text="b", extras={"x": {1, 2}})

    with pytest.raises(EventFormatError, match="'bad' cannot be stored"):
        await store.remember([MemoryRecord(text="a"), bad])

    assert await everything(store) == []
    assert await store.remember([]) == []


async def test_retention_drops_the_oldest_and_spares_the_important(store: MemoryStore) -> None:
    now = datetime.now(UTC)
    days = {"a": 9, "b": 8, "c": 2, "d": 1, "e": 20}
    await store.remember(
        [
            MemoryRecord(
                id=name,
                text=f"pear {name}",
                created_at=now - ago * DAY,
                importance=1.0 if name == "a" else 0.5,
                namespace="elsewhere" if name == "e" else "",
            )
            for name, ago in days.items()
        ]
    )
    here = MemoryFilters(namespaces=("",))

    assert await store.prune(Retention()) == []
    by_age = await store.prune(Retention(max_age_days=5, kept_importance=0.9, filters=here))
    by_number = await store.prune(Retention(max_records=1, kept_importance=0.9, filters=here))

    assert (by_age, by_number) == (["b"], ["c"])
    assert sorted(ids_of(await store.search("pear"))) == ["a", "d", "e"]


async def test_a_store_says_what_it_holds(store: MemoryStore) -> None:
    await store.remember(
        [
            MemoryRecord(text="a", created_at=AT, vector=EAST, namespace="shop"),
            MemoryRecord(text="b", created_at=AT + DAY, kind="code"),
        ]
    )
    await store.optimize()

    stats = await store.stats()

    assert (stats.records, stats.vectors) == (2, 1)
    assert stats.by_kind == {"code": 1, "memories": 1}
    assert stats.by_namespace == {"": 1, "shop": 1}
    assert stats.vector_model == "tiny"


async def test_writers_and_readers_at_once_see_whole_batches(store: MemoryStore) -> None:
    async def write(number: int) -> None:
        await store.remember(turns(*[f"pear {number}"] * 4, session_id=str(number)))

    async def read() -> int:
        return len(await store.search("pear", limit=1_000))

    outcomes = await asyncio.gather(*(work for i in range(8) for work in (write(i), read())))

    assert {count % 4 for count in outcomes if isinstance(count, int)} == {0}
    assert await read() == 32


async def test_a_closed_store_opens_again(store: MemoryStore) -> None:
    await store.remember([MemoryRecord(id="a", text="a pear")])

    await store.close()

    assert texts_of(await store.search("pear")) == ["a pear"]


async def test_turns_of_one_moment_are_told_in_the_order_of_storing(store: MemoryStore) -> None:
    said = [
        *("Is a ferry booked?", "The ferry to Oslo is booked.", "Which ferry cabin?"),
        *("A ferry cabin with a window.", "The ferry price?", "The ferry costs ninety euros."),
    ]
    await store.remember([replace(turn, created_at=AT) for turn in turns(*said)])

    for query in ("what does the ferry cost", "ferry cabin", "a ferry to Oslo"):
        context = await MemoryAssembler(store).assemble_context(query)

        shown = [line.removeprefix("- ") for line in context.markdown.splitlines()]
        assert [line for line in shown if line in said] == said


async def test_marks_without_end_are_ordered_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    marked = "a" + "\u0301\u0323" * 32_000
    ordered: list[int] = []

    def normalize(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
        ordered.append(max(map(len, text.split()), default=0))
        return original(form, text)

    original = unicodedata.normalize
    monkeypatch.setattr(unicodedata, "normalize", normalize)
    async with open_memory("memory:") as store:
        memory = MemoryAssembler(store)
        kept = await memory.remember([marked, f"Café ①  {marked}", "CAFÉ 1", marked])
        [same] = await memory.remember(["cafe\u0301 \uff11"])

    assert [one.outcome for one in kept] == ["added", "added", "added", "duplicate"]
    assert same.id == kept[2].id
    assert 0 < max(ordered) <= 400
