"""Whose a memory is: nobody reads, replaces or forgets what the filters keep from them."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid5

import pytest

from context_assembler import AssemblerConfig, ContextAssembler
from context_assembler.errors import InvalidParameterError, UnknownMemoryError
from context_assembler.memory import (
    NO_FILTERS,
    ExperienceMetadata,
    MemoryAssembler,
    MemoryFilters,
    MemoryHit,
    MemoryRecord,
    MemoryStore,
    RecallSettings,
    RelationMetadata,
    Retention,
    find_faded,
    open_memory,
)
from tests.conftest import new_schema
from tests.memory.test_stores import AT, DAY, EAST, ids_of, texts_of, turns

ADA: Final = MemoryFilters(namespaces=("ada",))
BOB: Final = MemoryFilters(namespaces=("bob",))
NOBODY: Final = MemoryFilters(namespaces=[])


def of(namespace: str, text: str, memory_id: str = "a", **more: Any) -> MemoryRecord:
    return MemoryRecord(id=memory_id, text=text, namespace=namespace, created_at=AT, **more)


def graph_of(namespace: str, far: str) -> list[MemoryRecord]:
    """Return the entity Acme, which owns another one, with the same ids for everybody."""
    owns = RelationMetadata(source_id="acme", target_id="far", relation="owns")
    return [
        of(namespace, f"Acme of {namespace or 'all'}", "acme", kind="entities"),
        of(namespace, f"Acme owns {far}", "owns", kind="relations", metadata=owns),
        of(namespace, far, "far", kind="entities"),
    ]


# ---- writes ----


async def test_an_id_is_one_of_its_namespace(store: MemoryStore) -> None:
    await store.remember([of("ada", "her pear", vector=EAST), of("", "a pear")])
    await store.touch(["a"], filters=ADA)

    [kept] = await store.remember([of("bob", "his pear")])
    [again] = await store.remember([of("ada", "her plum")])

    assert (kept.outcome, again.outcome) == ("added", "replaced")
    assert (await store.get("a", filters=BOB)).text == "his pear"
    hers = await store.get("a", filters=ADA)
    assert (hers.text, hers.access_count, hers.created_at) == ("her plum", 1, AT)
    assert texts_of(await store.list_records(filters=BOB)) == ["his pear"]
    assert sorted(texts_of(await store.search("pear"))) == ["a pear", "his pear"]
    assert texts_of(await store.search("pear", filters=ADA)) == []


async def test_one_batch_keeps_everybodys_record_of_an_id(store: MemoryStore) -> None:
    given = [of(name, f"pear {name}{n}") for n in (1, 2) for name in ("ada", "bob", "")]

    kept = await store.remember(given)

    assert [one.outcome for one in kept] == ["added"] * 3 + ["replaced"] * 3
    found = sorted(texts_of([record async for record in store.export()]))
    assert found == ["pear 2", "pear ada2", "pear bob2"]


async def test_an_id_that_several_have_is_forgotten_of_none_but_who_is_named(
    store: MemoryStore,
) -> None:
    await store.remember([of("ada", "hers"), of("bob", "his"), of("bob", "his too", "b")])

    for refused in (store.forget(["a"]), store.touch(["a"]), store.get("a")):
        with pytest.raises(InvalidParameterError, match="one namespace alone"):
            await refused
    gone = await store.forget(["a", "b"], filters=ADA)

    assert gone == ["a"]
    assert await store.forget(["a"], filters=NOBODY) == []
    assert texts_of([one async for one in store.export()]) == ["his", "his too"]
    assert await store.forget(["b", "a"]) == ["b", "a"]
    with pytest.raises(UnknownMemoryError):
        await store.get("a", filters=ADA)


async def test_to_prune_and_to_fade_take_nothing_of_others(store: MemoryStore) -> None:
    await store.remember([of("ada", "hers"), of("bob", "his", importance=0.1)])

    worth: dict[str, Any] = {"half_life_days": 1, "now": AT + 9 * DAY}
    faded = await find_faded(store, filters=ADA, **worth)

    assert [record.text for record in faded] == ["hers"]
    assert await find_faded(store, filters=NOBODY, **worth) == []
    assert await store.prune(Retention(max_records=0, filters=NOBODY)) == []
    assert await store.prune(Retention(max_records=0, filters=ADA)) == ["a"]
    assert texts_of([one async for one in store.export()]) == ["his"]


async def test_nobody_takes_anothers_name_by_what_no_text_may_hold(store: MemoryStore) -> None:
    for name in ("ada\0", "\0ada", "a\ud800da"):
        with pytest.raises(InvalidParameterError, match="namespace"):
            await store.remember([of(name, "forged")])

    assert [one async for one in store.export()] == []


async def test_names_that_are_nearly_the_same_are_two(store: MemoryStore) -> None:
    names = ["ada", "Ada", " ada", "ada ", "a%da", "_da", "ADA", "ad\u00e1", "ada'--"]
    await store.remember([of(name, f"pear of {at}", vector=EAST) for at, name in enumerate(names)])

    for at, name in enumerate(names):
        own = MemoryFilters(namespaces=[name])
        assert texts_of(await store.search("pear", filters=own, vector=EAST)) == [f"pear of {at}"]


async def test_the_filters_hold_for_what_stands_around(store: MemoryStore) -> None:
    for name in ("ada", "bob"):
        told = [replace(one, namespace=name, id=one.text) for one in turns("1", "2", "3")]
        await store.remember([replace(one, text=f"{name} {one.text}") for one in told])

    assert texts_of((await store.neighbours(["2"], filters=ADA))["2"]) == ["ada 1", "ada 3"]
    both = texts_of((await store.neighbours(["2"]))["2"])
    assert sorted(both) == ["ada 1", "ada 3", "bob 1", "bob 3"]
    assert await store.neighbours(["2"], filters=NOBODY) == {}


# ---- recall ----


async def recalled(memory: MemoryAssembler, query: str, **options: Any) -> list[str]:
    return sorted(
        one.record.text for one in (await memory.assemble_context(query, **options)).items
    )


async def test_relations_lead_to_what_is_of_their_namespace(store: MemoryStore) -> None:
    await store.remember([*graph_of("ada", "a boat"), *graph_of("bob", "a bank")])
    memory = MemoryAssembler(store, settings=RecallSettings(depth=2))

    hers = await recalled(memory, "Acme", filters=ADA)
    everybodys = await recalled(memory, "Acme")

    assert hers == ["Acme of ada", "Acme owns a boat", "a boat"]
    assert everybodys == sorted([*hers, "Acme of bob", "Acme owns a bank", "a bank"])


async def test_a_relation_that_names_anothers_id_leads_nowhere(store: MemoryStore) -> None:
    acme, owns, _ = graph_of("ada", "a boat")
    await store.remember([acme, owns, of("bob", "a bank", "far", kind="entities")])
    memory = MemoryAssembler(store)

    for filters in (ADA, MemoryFilters(namespaces=("ada", "bob")), NO_FILTERS):
        assert "a bank" not in await recalled(memory, "Acme", filters=filters)


@pytest.mark.parametrize(
    ("filters", "expected"),
    {
        "kinds": (MemoryFilters(kinds=("entities",)), ["Acme of ada", "a boat"]),
        "time": (MemoryFilters(until=AT + DAY), ["Acme of ada", "Acme owns a boat"]),
        "excluded": (MemoryFilters(excluded_ids=("far",)), ["Acme of ada", "Acme owns a boat"]),
        "importance": (MemoryFilters(least_importance=0.4), ["Acme of ada", "Acme owns a boat"]),
    }.items(),
    ids=lambda one: one[0] if isinstance(one, tuple) and isinstance(one[0], str) else "",
)
async def test_every_filter_holds_for_what_relations_reach(
    filters: str, expected: tuple[MemoryFilters, list[str]]
) -> None:
    _, (wanted, texts) = filters, expected
    acme, owns, far = graph_of("ada", "a boat")
    if not wanted.kinds:
        far = replace(far, created_at=AT + 2 * DAY, importance=0.3)
    async with open_memory("memory:") as store:
        await store.remember([acme, owns, far])
        found = await recalled(MemoryAssembler(store), "Acme", filters=wanted)

    assert found == texts


async def test_what_relations_do_not_reach_is_not_passed_either(store: MemoryStore) -> None:
    links = [("acme", "far"), ("far", "further")]
    given = [*graph_of("ada", "a boat"), of("ada", "a dock", "further", kind="entities")]
    given += [
        of("ada", f"{a} leads to {b}", f"{a}-{b}", kind="relations", metadata=metadata)
        for a, b in links
        for metadata in [RelationMetadata(source_id=a, target_id=b, relation="leads to")]
    ]
    await store.remember(given)
    memory = MemoryAssembler(store, settings=RecallSettings(depth=3))

    assert "a dock" in await recalled(memory, "Acme")
    barred = replace(ADA, excluded_ids=("far",))
    assert "a dock" not in await recalled(memory, "Acme", filters=barred)


async def test_of_an_empty_list_nothing_is_recalled_anywhere(store: MemoryStore) -> None:
    tried = ExperienceMetadata(domain="tea", succeeded=False, lesson="Boil it.")
    await store.remember(
        [
            of("ada", "tea"),
            of("", "tea", "b"),
            of("", "tea", "c", kind="experiences", metadata=tried),
        ]
    )
    memory = MemoryAssembler([store, Blind([of("", "tea"), of("ada", "tea")])])

    for query in ("tea", ""):
        assert (await memory.assemble_context(query, filters=NOBODY)).is_empty
    note = await memory.recall_note("tea", session_id="s", max_tokens=500, namespaces=[])
    assert note.text == ""
    assert (await memory.get_premortem_context("tea", filters=NOBODY)).is_empty
    assert not (await memory.get_premortem_context("tea")).is_empty
    assert await store.present_kinds(filters=NOBODY) == frozenset()
    agent = ContextAssembler(memory=memory, config=AssemblerConfig(memory={"namespaces": []}))
    assert (await agent.recall("tea")).is_empty
    assert not (await ContextAssembler(memory=memory).recall("tea")).is_empty


async def test_records_of_one_id_are_told_apart_in_one_recall(store: MemoryStore) -> None:
    await store.remember([of("ada", "pears are sweet"), of("bob", "pears were sold out today")])

    found = await recalled(MemoryAssembler(store), "pears")

    assert found == ["pears are sweet", "pears were sold out today"]


async def test_an_event_of_another_namespace_is_not_added_to_a_context(store: MemoryStore) -> None:
    await store.remember([of("ada", "pears are sweet")])
    memory = MemoryAssembler(store)
    context = await memory.assemble_context("pears", filters=ADA)

    same = memory.update_context(context, of("bob", "pears are his", "b"))
    more = memory.update_context(same, of("ada", "pears are hers", "b"))
    said = memory.update_context(more, "pears for all")

    assert "his" not in same.markdown
    assert any(one.memory_id == "b" and "filters" in one.reason for one in same.explanations)
    assert "pears are hers" in said.markdown
    assert "pears for all" in said.markdown


# ---- sources of one's own ----


class Blind:
    """A source that looks at no filter."""

    name = "own"

    def __init__(self, records: Sequence[MemoryRecord]) -> None:
        self.records = records

    async def search(self, query: str, **options: Any) -> list[MemoryHit]:
        _ = query, options
        return [MemoryHit(record, at, bm25=1.0) for at, record in enumerate(self.records)]

    async def list_records(self, **_options: Any) -> list[MemoryRecord]:
        return [*self.records]

    async def neighbours(self, ids: Sequence[str], **_sides: Any) -> dict[str, list[MemoryRecord]]:
        return {name: [*self.records] for name in ids}

    async def get(self, memory_id: str) -> MemoryRecord:
        return next(one for one in reversed(self.records) if one.id == memory_id)


@pytest.mark.parametrize("query", ["pears", ""])
async def test_what_a_source_should_not_have_answered_is_left_out_and_told(query: str) -> None:
    source = Blind([of("ada", "pears are hers"), of("bob", "pears are his", "b")])
    memory = MemoryAssembler(source)

    context = await memory.assemble_context(query, filters=ADA)
    note = await memory.recall_note("pears", session_id="s", max_tokens=500, namespaces=["ada"])

    assert [one.record.text for one in context.items] == ["pears are hers"]
    assert "his" not in context.markdown + note.text
    assert "1 record that the filters exclude" in context.source_notes["memories"]
    assert any("filters exclude" in warning for warning in note.warnings)


BARRED: Final = {
    "a kind": (MemoryFilters(kinds=("code",)), of("", "pears")),
    "a session": (MemoryFilters(session_ids=("s",)), of("", "pears", session_id="t")),
    "a parent": (MemoryFilters(parent_ids=("p",)), of("", "pears", parent_id="q")),
    "an author": (MemoryFilters(authors=("Ada",)), of("", "pears", author="Bob")),
    "a time": (MemoryFilters(since=AT + DAY), of("", "pears")),
    "an id": (MemoryFilters(excluded_ids=("a",)), of("", "pears")),
    "its own session": (
        MemoryFilters(excluded_session_ids=("s",)),
        of("", "pears", session_id="s"),
    ),
    "importance": (MemoryFilters(least_importance=0.6), of("", "pears")),
    "a namespace": (ADA, of("bob", "pears")),
}


@pytest.mark.parametrize(("filters", "record"), BARRED.values(), ids=BARRED.keys())
async def test_every_filter_holds_for_a_sources_answer(
    filters: MemoryFilters, record: MemoryRecord
) -> None:
    context = await MemoryAssembler(Blind([record])).assemble_context("pears", filters=filters)

    assert context.is_empty
    assert any("filters exclude" in note for note in context.source_notes.values())


async def test_what_a_record_leaves_open_excludes_nothing() -> None:
    source = Blind([MemoryRecord(text="pears are sweet")])
    filters = replace(ADA, session_ids=("s",), authors=("Ada",), since=AT)

    context = await MemoryAssembler(source).assemble_context("pears", filters=filters)

    assert [one.record.text for one in context.items] == ["pears are sweet"]
    assert not context.source_notes


async def test_relations_and_neighbours_of_a_source_stay_with_its_filters() -> None:
    acme, owns, _ = graph_of("ada", "a boat")
    source = Blind([acme, owns, of("bob", "a bank", "far", kind="entities")])

    context = await MemoryAssembler(source).assemble_context("Acme", filters=ADA)

    assert "a bank" not in context.markdown
    assert "Acme of ada" in context.markdown


# ---- files of earlier versions ----


async def test_a_sqlite_file_of_version_1_is_brought_on(tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    async with open_memory(old) as store:
        await store.remember([of("ada", "her pear", vector=EAST), *turns("a dog", "its name?")])
    with closing(sqlite3.connect(old, isolation_level=None)) as db:
        [(made,)] = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'memory_records'")
        indexes = db.execute(
            "SELECT sql FROM sqlite_schema WHERE tbl_name = 'memory_records' AND type = 'index' "
            "AND sql IS NOT NULL"
        ).fetchall()
        first = made.replace('"memory_records"', "memory_first").replace(
            "id TEXT NOT NULL", "id TEXT NOT NULL UNIQUE"
        )
        db.execute(first.replace(", UNIQUE (id, namespace)", ""))
        db.execute("INSERT INTO memory_first SELECT * FROM memory_records")
        db.execute("DROP TABLE memory_records")
        db.execute("ALTER TABLE memory_first RENAME TO memory_records")
        for (index,) in indexes:
            db.execute(index)
        # Until version 3 a turn was found by the words behind it as well.
        words = "INSERT INTO memory_words (rowid, text, context, tags) VALUES (2, 'plum', '', '')"
        db.execute(words)
        db.execute("UPDATE context_assembler_versions SET version = 1")
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("UPDATE memory_records SET id = 'a'")

    async with open_memory(old) as store:
        await store.remember([of("bob", "his pear")])
        assert sorted(texts_of(await store.search("pear"))) == ["her pear", "his pear"]
        assert texts_of(await store.search("dog")) == ["a dog", "its name?"]
        assert texts_of(await store.search("plum")) == []
        assert ids_of(await store.search("", vector=EAST)) == ["a"]
        [first, _] = await store.search("dog")
        await store.forget([first.record.id])
        assert texts_of(await store.search("dog name")) == ["its name?"]


async def test_tables_of_version_1_in_postgresql_are_brought_on(postgres_server: str) -> None:
    import psycopg

    with new_schema(postgres_server) as url:
        async with open_memory(url) as store:
            await store.remember([of("ada", "her pear", vector=EAST)])
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(
                "ALTER TABLE memory_records DROP CONSTRAINT memory_records_id_namespace_key, "
                "ADD UNIQUE (id)"
            )
            db.execute("UPDATE memory_state SET value = '1' WHERE name = 'version'")
        async with open_memory(url) as store:
            assert texts_of(await store.search("pear")) == ["her pear"]
            await store.remember([of("bob", "his pear")])
            assert sorted(texts_of(await store.search("pear"))) == ["her pear", "his pear"]


async def test_a_collection_of_version_1_in_qdrant_is_brought_on(tmp_path: Path) -> None:
    qdrant: Any = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    url = f"qdrant:{tmp_path / 'old'}"
    async with open_memory(url) as store:
        await store.remember([of("ada", "her pear", vector=EAST), of("", "a pear", "b")])
    client = qdrant.QdrantClient(path=str(tmp_path / "old"))
    points, _ = client.scroll("memories", with_vectors=True)
    space = UUID("6f8d7a1e-5b0c-4c52-9a57-1f7a5f1d2c3b")
    client.delete("memories", [point.id for point in points])
    for point in points:
        old = str(uuid5(space, point.payload["id"]))
        struct = qdrant.models.PointStruct(id=old, payload=point.payload, vector=point.vector)
        client.upsert("memories", [struct])
    model = client.get_collection("memories").config.metadata["model"]
    client.update_collection("memories", metadata={"version": 1})
    client.close()

    async with open_memory(url) as store:
        await store.remember([of("bob", "his pear")])
        found = [record async for record in store.export()]
        assert sorted(texts_of(found)) == ["a pear", "her pear", "his pear"]
        assert ids_of(await store.search("", vector=EAST)) == ["a"]
        assert await store.forget(["a"], filters=ADA) == ["a"]
        assert (await store.stats()).vector_model == model == "tiny"
