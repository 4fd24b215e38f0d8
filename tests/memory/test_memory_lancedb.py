"""Memories in LanceDB: its files, versions and vectors; the contract suite tests the rest."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_assembler.errors import (
    ConfigurationError,
    EmbeddingError,
    MemoryFormatError,
    MemoryUnavailableError,
    MissingExtraError,
    VectorModelError,
)
from context_assembler.memory.lancedb import open_lancedb, open_lancedb_url
from context_assembler.memory.lancedb_table import LanceTable
from context_assembler.memory.row_store import RowMemoryStore
from context_assembler.ports.embeddings import EmbedPurpose
from context_assembler.values.memories.records import MemoryFilters, MemoryRecord
from context_assembler.values.memories.vectors import Vector
from tests.memory.embedders import Compass

lancedb: Any = pytest.importorskip("lancedb")

EAST = Vector.pack("tiny", [1.0, 0.0])


def turns(*texts: str) -> list[MemoryRecord]:
    return [MemoryRecord(id=text, text=text, kind="events", session_id="s") for text in texts]


async def test_reading_creates_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "memories"
    async with open_lancedb(folder) as store:
        assert await store.search("pear", vector=EAST) == []
        assert await store.list_records() == []
        assert await store.neighbours(["a"]) == {}
        assert await store.forget(["a"]) == []
        await store.touch(["a"])
        await store.drop_vectors()
        assert (await store.stats()).records == 0

    assert not folder.exists()


async def test_what_one_store_keeps_another_finds(tmp_path: Path) -> None:
    async with open_lancedb(tmp_path) as mine, open_lancedb(tmp_path) as theirs:
        await mine.remember(turns("a pear"))
        assert [hit.record.id for hit in await theirs.search("pear")] == ["a pear"]
        await theirs.remember(turns("two pears"))
        found = await mine.search("pear")

    assert sorted(hit.record.id for hit in found) == ["a pear", "two pears"]
    async with open_lancedb(tmp_path) as again:
        assert len(await again.list_records()) == 2


async def test_a_store_can_be_used_after_it_was_closed(tmp_path: Path) -> None:
    store = open_lancedb(tmp_path)
    await store.remember(turns("a pear"))
    await store.close()
    await store.close()

    assert len(await store.search("pear")) == 1

    await store.close()


async def test_vectors_can_come_later_and_those_of_another_model_after_they_went(
    tmp_path: Path,
) -> None:
    async with open_lancedb(tmp_path) as store:
        await store.remember(turns("a pear"))
        assert await store.search("", vector=EAST) == []
        await store.remember([MemoryRecord(id="e", text="east", vector=EAST)])
        with pytest.raises(VectorModelError, match="'tiny' with 2"):
            await store.search("", vector=Vector.pack("large", [1.0, 0.0, 0.0]))

        await store.drop_vectors()
        assert (await store.stats()).vector_model is None
        north = Vector.pack("large", [0.0, 0.0, 1.0])
        await store.remember([MemoryRecord(id="n", text="north", vector=north)])

        [hit] = await store.search("", vector=north)
        stats = await store.stats()

    assert (hit.record.id, hit.record.vector, hit.similarity) == ("n", north, 1.0)
    assert (stats.records, stats.vectors, stats.vector_model) == (3, 1, "large")


async def test_a_model_gives_records_and_queries_their_vectors(tmp_path: Path) -> None:
    compass = Compass()
    async with open_lancedb(tmp_path, embed=compass) as store:
        await store.remember(
            [
                MemoryRecord(id="b", text="The boat leaves at nine."),
                MemoryRecord(id="t", text="Trains are late."),
                MemoryRecord(id="own", text="Mine.", vector=Vector.pack("compass", [-1.0, 0.0])),
            ]
        )
        hits = await store.search("When does the ferry go?", limit=1)

    assert [hit.record.id for hit in hits] == ["b"]
    assert [purpose for _, purpose in compass.told] == ["record", "record", "query"]


async def test_a_model_sees_no_secret(tmp_path: Path) -> None:
    secret = "AKIA" + "IOSFODNN7EXAMPLX"
    compass = Compass()
    async with open_lancedb(tmp_path, embed=compass) as store:
        await store.remember([MemoryRecord(text=f"use {secret} to log in")])

    assert secret not in compass.told[0][0]


async def test_a_model_that_miscounts_is_named_and_nothing_is_kept(tmp_path: Path) -> None:
    class Miscounting(Compass):
        async def embed(
            self, texts: Sequence[str], *, purpose: EmbedPurpose = "record"
        ) -> list[Vector | None]:
            return (await super().embed(texts, purpose=purpose))[1:]

    async with open_lancedb(tmp_path, embed=Miscounting()) as store:
        with pytest.raises(EmbeddingError, match="1 vectors for 2 texts"):
            await store.remember(turns("a", "b"))

    assert not (tmp_path / "memories.lance").exists()


async def test_many_small_writes_are_tidied_and_found(tmp_path: Path) -> None:
    table = LanceTable(tmp_path, table="memories", writes_between_tidyings=3)
    async with RowMemoryStore(table) as store:
        for number in range(7):
            await store.remember([MemoryRecord(text=f"pear {number}")])
        found = await store.search("pear")

    opened = lancedb.connect(tmp_path).open_table("memories")
    assert len(found) == 7
    assert opened.stats()["fragment_stats"]["num_fragments"] < 4


async def test_rows_that_wait_for_others_are_tidied_at_the_end(tmp_path: Path) -> None:
    def waiting() -> int:
        opened = lancedb.connect(tmp_path).open_table("memories")
        return int(opened.index_stats("words_idx").num_unindexed_rows)

    table = LanceTable(tmp_path, table="memories", rows_between_tidyings=2)
    async with RowMemoryStore(table) as store:
        await store.remember([MemoryRecord(text=f"pear {n}") for n in range(100)])
        assert waiting() == 0
        await store.remember([MemoryRecord(text=f"apple {n}") for n in range(3)])
        assert waiting() == 3

    assert waiting() == 0


async def test_an_export_reads_page_after_page(tmp_path: Path) -> None:
    async with open_lancedb(tmp_path) as store:
        records = [MemoryRecord(id=f"{n:04}", text=f"pear {n}") for n in range(1_203)]
        await store.remember(records)
        exported = [record.id async for record in store.export()]

    assert exported == [record.id for record in records]


async def test_a_table_of_something_else_is_left_alone(tmp_path: Path) -> None:
    lancedb.connect(tmp_path).create_table("docs", [{"text": "a pear"}])
    async with open_lancedb(tmp_path, table="docs") as store:
        with pytest.raises(MemoryUnavailableError, match="something else") as caught:
            await store.remember(turns("a"))

    assert "open_lancedb_table" in caught.value.remedy


async def test_a_table_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    schema = arrow.schema(
        [arrow.field("id", arrow.string())], metadata={"context_assembler_format": "9"}
    )
    lancedb.connect(tmp_path).create_table("memories", schema=schema)
    async with open_lancedb(tmp_path) as store:
        with pytest.raises(MemoryUnavailableError, match="version 9, this package reads 1"):
            await store.search("a")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"details": "{"}, "cannot be read"),
        ({"details": "[]"}, "its details are no object"),
        ({"importance": 7.0}, "importance must be from 0 to 1"),
        ({"format_version": 9}, "newer"),
        ({"kind": "dreams"}, "dreams"),
    ],
)
async def test_a_damaged_row_is_named(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    async with open_lancedb(tmp_path) as store:
        await store.remember([MemoryRecord(id="mine", text="a pear")])
        table = lancedb.connect(tmp_path).open_table("memories")
        table.update(where="id = 'mine'", values=change)
        with pytest.raises((MemoryFormatError, ConfigurationError), match=reason):
            await store.search("pear")


async def test_a_location_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    async with open_lancedb(tmp_path / "file") as store:
        with pytest.raises(MemoryUnavailableError, match="file#memories"):
            await store.remember(turns("a"))


async def test_a_table_that_cannot_be_named_so_is_said_so(tmp_path: Path) -> None:
    async with open_lancedb(tmp_path, table="no/name") as store:
        with pytest.raises(MemoryUnavailableError, match="no/name"):
            await store.search("a")


def test_of_a_table_that_is_gone_nothing_is_removed(tmp_path: Path) -> None:
    table = LanceTable(tmp_path, table="memories")

    table.remove(["a"])

    assert table.find_by_vector(EAST, [], limit=3) == []
    table.close()


async def test_who_lacks_the_package_is_told_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lancedb", None)
    store = open_lancedb(tmp_path)

    with pytest.raises(MissingExtraError, match=r"context-assembler\[lancedb\]"):
        await store.search("a")
    with pytest.raises(MissingExtraError, match="LanceDB"):
        async with open_lancedb(tmp_path):
            pass


def test_a_url_names_a_folder_and_maybe_a_table() -> None:
    assert open_lancedb_url("here").name == "memory"
    with pytest.raises(ConfigurationError, match="names no folder"):
        open_lancedb_url("#memories")


async def test_quotes_in_names_are_names(tmp_path: Path) -> None:
    named = "it's; -- `mine`"
    async with open_lancedb(tmp_path) as store:
        await store.remember([replace(turns("a pear")[0], id=named, namespace=named)])
        here = MemoryFilters(namespaces=(named,), excluded_ids=("o'ther",))
        hits = await store.search("pear", filters=here)

    assert [hit.record.id for hit in hits] == [named]
