"""A row that is damaged, or of tomorrow, costs the others nothing, and can be mended or forgotten."""

import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from context_assembler.errors import DamagedMemoryWarning, MemoryFormatError
from context_assembler.memory import SqliteMemoryStore, open_lancedb_table, open_qdrant
from context_assembler.memory.field_names import FieldNames
from context_assembler.memory.qdrant_collection import QdrantCollection
from context_assembler.memory.qdrant_connection import QdrantConnection
from context_assembler.memory.qdrant_points import point_id
from context_assembler.memory.row_store import RowMemoryStore
from context_assembler.memory.sqlite_index import add_to_index
from context_assembler.memory_assembler import MemoryAssembler
from context_assembler.values.memories.records import MemoryRecord, Retention
from context_assembler.values.memories.vectors import Vector

lancedb = pytest.importorskip("lancedb")

NORTH = Vector.pack("m", [0.0, 1.0])

DAMAGES: Mapping[str, str] = {
    "a text that is bytes": "text = x'ff00'",
    "a text that is no UTF-8": "text = CAST(x'ff41' AS TEXT)",
    "an unknown kind": "kind = 'dreams'",
    "a kind that is bytes": "kind = x'00'",
    "junk in the place of details": "details = x'ff'",
    "details that are text": "details = 'x'",
    "details that are no object": "details = CAST('[1, 2]' AS BLOB)",
    "details of another type": """details = CAST('{"metadata": 3}' AS BLOB)""",
    "details without an end": "details = CAST(replace(hex(zeroblob(50000)), '0', '[') AS BLOB)",
    "a time that is text": "created_at = 'now'",
    "a time that is bytes": "last_access_at = x'00'",
    "an importance beyond its bounds": "importance = 5",
    "an importance that is text": "importance = 'much'",
    "an endless importance": "importance = 9e999",
    "a count below zero": "access_count = -1",
    "a count that is text": "access_count = 'often'",
    "a short vector": "vector = x'01'",
    "a vector without a direction": "vector = x'0000'",
    "a vector that is text": "vector = 'ab'",
    "a newer version": "format_version = 99",
    "a version that is text": "format_version = 'x'",
    "a namespace that is bytes": "namespace = x'ff'",
    "an author that is bytes": "author = x'ff'",
    "an author that is no UTF-8": "author = CAST(x'ff' AS TEXT)",
    "a session that is bytes": "session_id = x'ff'",
}
every_damage = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())


def greetings() -> list[MemoryRecord]:
    return [
        MemoryRecord(
            id=f"r{number}",
            text=f"hello number {number}",
            kind="events",
            session_id="s",
            author="Ada",
            vector=Vector.pack("m", [1.0, float(number)]),
        )
        for number in range(6)
    ]


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


async def damaged_store(path: Path, damage: str) -> SqliteMemoryStore:
    async with SqliteMemoryStore(path) as store:
        await store.remember(greetings())
    change(path, f"UPDATE memory_records SET {damage} WHERE id = 'r3'")
    return SqliteMemoryStore(path)


def words_in(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    connection.execute(
        "CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, memory_words, instance)"
    )
    rows = connection.execute("SELECT term, doc, col, offset FROM words ORDER BY 1, 2, 3, 4")
    return rows.fetchall()


def is_indexed_anew(path: Path) -> bool:
    """Whether the index is what indexing every row anew would give."""
    with closing(sqlite3.connect(path)) as kept, closing(sqlite3.connect(":memory:")) as fresh:
        kept.backup(fresh)
        fresh.execute("INSERT INTO memory_words (memory_words) VALUES ('delete-all')")
        add_to_index(fresh, [key for (key,) in kept.execute("SELECT key FROM memory_records")])
        return words_in(kept) == words_in(fresh)


@every_damage
async def test_who_asks_for_a_damaged_memory_hears_its_id(tmp_path: Path, damage: str) -> None:
    async with await damaged_store(tmp_path / "m.db", damage) as store:
        asked: list[Callable[[], Awaitable[object]]] = [
            lambda: store.get("r3"),
            store.list_records,
            lambda: anext(aiter(store.export())),
        ]
        if not damage.startswith("kind"):  # of another kind it stands beside nobody
            asked.append(lambda: store.neighbours(["r2"]))
        for ask in asked:
            with pytest.raises(MemoryFormatError, match="The memory 'r3' cannot be read"):
                await ask()

        assert (await store.get("r2")).text == "hello number 2"


@every_damage
async def test_a_search_goes_on_without_a_damaged_memory(tmp_path: Path, damage: str) -> None:
    async with await damaged_store(tmp_path / "m.db", damage) as store:
        for vector in (None, NORTH):
            with pytest.warns(DamagedMemoryWarning, match="'r3' cannot be read"):
                hits = await store.search("hello number", vector=vector)

            assert {hit.record.id for hit in hits} == {"r0", "r1", "r2", "r4", "r5"}


@every_damage
async def test_a_damaged_memory_is_counted_and_pruned(tmp_path: Path, damage: str) -> None:
    async with await damaged_store(tmp_path / "m.db", damage) as store:
        assert (await store.stats()).records == 6
        await store.touch(["r3", "r4"])
        bounds = Retention(max_records=0, max_age_days=1, kept_importance=0.4)
        assert await store.prune(bounds) == []
        assert len(await store.prune(Retention(max_records=0))) == 6


@every_damage
async def test_a_damaged_memory_is_forgotten_with_its_words(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "m.db"
    async with await damaged_store(path, damage) as store:
        assert await store.forget(["r3"]) == ["r3"]
        hits = await store.search("number 3", vector=NORTH)

    assert {hit.record.id for hit in hits} == {"r0", "r1", "r2", "r4", "r5"}
    assert is_indexed_anew(path)


@every_damage
async def test_a_damaged_memory_is_mended_by_another_in_its_place(
    tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "m.db"
    async with await damaged_store(path, damage) as store:
        [kept] = await store.remember([MemoryRecord(id="r3", text="mended")])
        [hit] = await store.search("mended")
        before = await store.search("ada", limit=9)

    assert kept.outcome == "replaced"
    assert hit.record.id == "r3"
    assert "r3" not in {hit.record.id for hit in before}
    assert is_indexed_anew(path)


@pytest.mark.filterwarnings("ignore::context_assembler.errors.DamagedMemoryWarning")
@every_damage
async def test_a_session_goes_on_behind_a_damaged_memory(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "m.db"
    async with await damaged_store(path, damage) as store:
        await store.forget(["r5"])
        await store.forget(["r4"])
        more = [MemoryRecord(text=f"again {n}", kind="events", session_id="s") for n in range(3)]
        for record in more:
            await store.remember([record])
        await store.optimize()
        hits = await store.search("again")

    assert len(hits) == 3
    assert is_indexed_anew(path)


async def test_where_nothing_that_was_found_can_be_read_the_search_fails(tmp_path: Path) -> None:
    async with await damaged_store(tmp_path / "m.db", "importance = 'much'") as store:
        await store.forget(["r0", "r1", "r2", "r4", "r5"])
        with pytest.raises(MemoryFormatError, match="'r3' cannot be read: importance"):
            await store.search("hello")


async def test_words_of_a_row_that_is_gone_are_passed_over(tmp_path: Path) -> None:
    async with SqliteMemoryStore(tmp_path / "m.db") as store:
        await store.remember(greetings())
        change(tmp_path / "m.db", "DELETE FROM memory_records WHERE id = 'r3'")

        found = await store.search("hello number")

    assert {hit.record.id for hit in found} == {"r0", "r1", "r2", "r4", "r5"}


async def test_vectors_of_which_nothing_says_the_model_can_be_let_go(tmp_path: Path) -> None:
    async with SqliteMemoryStore(tmp_path / "m.db") as store:
        await store.remember(greetings())
        change(tmp_path / "m.db", "DELETE FROM memory_state")
        with pytest.raises(MemoryFormatError, match="drop_vectors"):
            await store.get("r3")
        await store.drop_vectors()

        assert (await store.get("r3")).text == "hello number 3"


PAYLOADS: Mapping[str, dict[str, object]] = {
    "a text that is a number": {"text": 3},
    "no text": {"text": None},
    "an unknown kind": {"kind": "dreams"},
    "a kind that is a list": {"kind": [3]},
    "details that are no JSON": {"details": "{"},
    "details that are no text": {"details": 3},
    "details that are no object": {"details": "[]"},
    "a time that is text": {"created_at": "now"},
    "no time": {"created_at": None},
    "an importance beyond its bounds": {"importance": 5},
    "an importance that is text": {"importance": "much"},
    "no importance": {"importance": None},
    "a count that is text": {"access_count": "often"},
    "a last use that is text": {"last_access_at": "now"},
    "a newer version": {"format_version": 99},
    "no version": {"format_version": None},
    "an author that is a number": {"author": 3},
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
async def test_a_damaged_point_costs_the_others_nothing(payload: dict[str, object]) -> None:
    connection = QdrantConnection(":memory:")
    async with RowMemoryStore(QdrantCollection(connection, collection="memories")) as store:
        await store.remember(greetings())
        client = connection.client(is_writing=True)
        client.set_payload("memories", payload, points=[point_id("r3")])

        with pytest.raises(MemoryFormatError, match="The memory 'r3' cannot be read"):
            await store.get("r3")
        for vector in (None, NORTH):
            with pytest.warns(DamagedMemoryWarning, match="'r3' cannot be read"):
                hits = await store.search("hello number", vector=vector)
            assert {hit.record.id for hit in hits} == {"r0", "r1", "r2", "r4", "r5"}
        assert (await store.stats()).records == 6
        await store.touch(["r3"])
        bounds = Retention(max_records=0, max_age_days=1, kept_importance=0.4)
        assert await store.prune(bounds) == []
        await store.remember([MemoryRecord(text="on we go", kind="events", session_id="s")])
        [kept] = await store.remember([MemoryRecord(id="r3", text="mended")])
        assert kept.outcome == "replaced"
        assert (await store.get("r3")).text == "mended"


async def test_a_damaged_point_is_forgotten() -> None:
    async with open_qdrant() as store:
        await store.remember(greetings())
        assert await store.forget(["r3"]) == ["r3"]


async def test_a_row_of_ones_own_that_is_damaged_costs_the_others_nothing(tmp_path: Path) -> None:
    rows = [{"text": f"a pear {n}", "weight": 7.0 if n == 1 else 0.5} for n in range(3)]
    lancedb.connect(tmp_path).create_table("docs", rows)
    fields = FieldNames(importance="weight")
    async with open_lancedb_table(tmp_path, table="docs", fields=fields) as source:
        with pytest.warns(DamagedMemoryWarning, match="importance must be from 0 to 1"):
            hits = await source.search("pear")

    assert [hit.record.text for hit in hits] == ["a pear 0", "a pear 2"]


async def test_a_recall_goes_on_where_a_damaged_memory_stands_around(tmp_path: Path) -> None:
    async with await damaged_store(tmp_path / "m.db", "importance = 'much'") as store:
        recalled = await MemoryAssembler(store).assemble_context("1", context_types="events")

    assert recalled.source_status["events"] == "ok"
    assert "'r3' cannot be read" in recalled.source_notes["events"]
    assert recalled.items[0].record.id == "r1"
