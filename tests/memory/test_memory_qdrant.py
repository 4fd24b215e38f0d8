"""Memories in Qdrant: folders, servers and refusals; the contract suite tests the rest."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_assembler.errors import (
    ConfigurationError,
    MemoryUnavailableError,
    MissingExtraError,
    VectorModelError,
)
from context_assembler.memory.qdrant import open_qdrant, open_qdrant_url
from context_assembler.memory.qdrant_collection import QdrantCollection
from context_assembler.memory.qdrant_connection import QdrantConnection
from context_assembler.memory.row_store import RowMemoryStore
from context_assembler.values.memories.records import MemoryOrder, MemoryRecord
from context_assembler.values.memories.vectors import Vector
from tests.memory.embedders import Compass
from tests.memory.qdrant_server import QdrantServer, serve_qdrant

qdrant: Any = pytest.importorskip("qdrant_client")

EAST = Vector.pack("tiny", [1.0, 0.0])


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with serve_qdrant() as serving:
        yield serving


def turns(*texts: str) -> list[MemoryRecord]:
    return [MemoryRecord(id=text, text=text, kind="events", session_id="s") for text in texts]


async def test_reading_creates_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "memories"
    async with open_qdrant(folder) as store:
        assert await store.search("pear", vector=EAST) == []
        assert await store.list_records() == []
        assert await store.neighbours(["a"]) == {}
        assert await store.forget(["a"]) == []
        await store.touch(["a"])
        await store.drop_vectors()
        assert (await store.stats()).records == 0

    assert not folder.exists()


async def test_a_folder_keeps_what_was_stored(tmp_path: Path) -> None:
    async with open_qdrant(tmp_path) as store:
        await store.remember([*turns("a pear"), MemoryRecord(id="e", text="east", vector=EAST)])

    async with open_qdrant(tmp_path) as again:
        [hit] = await again.search("pear", limit=1)
        [near] = await again.search("", vector=EAST)

    assert (hit.record.id, near.record.vector) == ("a pear", EAST)


SEARCH_IN_PROCESS = """
import asyncio, sys
from context_assembler.errors import MemoryUnavailableError
from context_assembler.memory.qdrant import open_qdrant

try:
    asyncio.run(open_qdrant(sys.argv[1]).search("a"))
except MemoryUnavailableError as error:
    print(error)
"""


async def test_a_second_process_is_told_that_the_folder_is_taken(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SEARCH_IN_PROCESS, str(tmp_path)]
    async with open_qdrant(tmp_path) as store:
        await store.remember(turns("a"))
        said = await asyncio.to_thread(subprocess.check_output, command, timeout=60)

    assert b"already accessed" in said
    assert b"several need a server" in said


async def test_vectors_can_come_later_and_those_of_another_model_after_they_went() -> None:
    async with open_qdrant() as store:
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


async def test_a_model_gives_records_and_queries_their_vectors() -> None:
    async with open_qdrant(embed=Compass()) as store:
        await store.remember(
            [MemoryRecord(id="b", text="The boat leaves at nine."), MemoryRecord(text="Trains.")]
        )
        [hit] = await store.search("When does the ferry go?", limit=1)

    assert hit.record.id == "b"


@pytest.mark.parametrize("order", ["newest", "oldest", "most_important"])
async def test_of_rows_alike_the_next_column_decides(order: MemoryOrder) -> None:
    records = [MemoryRecord(id=f"{n:03}", text=f"pear {n}") for n in range(90)]
    async with open_qdrant(clock=lambda: 0.0) as store:
        await store.remember(records)
        listed = [record.id for record in await store.list_records(order=order, limit=7)]
        exported = [record.id async for record in store.export()]

    ids = [record.id for record in records]
    assert exported == ids
    assert listed == (ids if order == "oldest" else ids[::-1])[:7]


async def test_equal_scores_beyond_the_limit_come_in_the_order_of_storing() -> None:
    async with open_qdrant() as store:
        records = [MemoryRecord(id=f"{n:03}", text="pear", vector=EAST) for n in range(150)]
        await store.remember(records)
        hits = await store.search("pear", vector=EAST, limit=5)

    assert [hit.record.id for hit in hits] == ["000", "001", "002", "003", "004"]


async def test_a_server_keeps_memories_under_names_with_indexes(server: QdrantServer) -> None:
    async with open_qdrant_url_of(server, "#pears") as store:
        await store.remember([MemoryRecord(id="p", text="a pear", vector=EAST)])
        [hit] = await store.search("pear", vector=EAST)
        await store.touch(["p"])
        assert (await store.get("p")).access_count == 1
        assert await store.forget(["p"]) == ["p"]

    assert (hit.record.id, hit.similarity) == ("p", 1.0)
    assert {"namespace", "session_id", "created_at", "importance"} <= set(server.indexed)


def open_qdrant_url_of(server: QdrantServer, rest: str = "") -> RowMemoryStore:
    return open_qdrant_url(f"{server.url}{rest}")


async def test_nobody_at_the_address_is_said_so() -> None:
    store = open_qdrant("http://127.0.0.1:9", timeout_seconds=1)

    with pytest.raises(MemoryUnavailableError, match="refused") as caught:
        await store.search("a")

    assert "Check that the server runs" in caught.value.remedy


async def test_a_key_comes_from_the_caller_or_the_environment(
    server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.api_key = "hush"
    with pytest.warns(UserWarning, match="insecure connection"):
        assert await open_qdrant(server.url, api_key=lambda: "hush").search("a") == []
    with pytest.raises(MemoryUnavailableError, match="Must provide an API key") as caught:
        await open_qdrant(server.url).search("a")
    monkeypatch.setenv("QDRANT_API_KEY", "hush")
    with pytest.warns(UserWarning, match="insecure connection"):
        assert await open_qdrant(server.url).search("a") == []

    assert "QDRANT_API_KEY" in caught.value.remedy


async def test_a_server_that_is_too_old_is_refused(server: QdrantServer) -> None:
    server.version = "1.9.2"

    with pytest.raises(MemoryUnavailableError, match=r"the server is Qdrant 1\.9\.2") as caught:
        await open_qdrant(server.url).remember(turns("a"))

    assert "1.16 or newer" in caught.value.remedy


REFUSALS = {
    "it does not know how": ("path not found", "adds no vectors", "1.18"),
    "it cannot": ("disk full", "answers 400: disk full", "server's log"),
}


@pytest.mark.parametrize(("said", "problem", "remedy"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_server_that_adds_no_vectors_is_said_so(
    server: QdrantServer, said: str, problem: str, remedy: str
) -> None:
    server.refusal = said
    async with open_qdrant(server.url) as store:
        await store.remember(turns("a"))
        with pytest.raises(MemoryUnavailableError, match=problem) as caught:
            await store.remember([MemoryRecord(text="east", vector=EAST)])

    assert remedy in caught.value.remedy


async def test_a_server_that_refuses_is_quoted(server: QdrantServer) -> None:
    async with open_qdrant(server.url) as store:
        await store.remember([MemoryRecord(id="p", text="a", vector=EAST)])
        server.refusal = "it is read only."
        with pytest.raises(MemoryUnavailableError, match=r"answers 400: it is read only\."):
            await store.drop_vectors()
        server.api_key = "hush"
        with pytest.raises(MemoryUnavailableError, match="Must provide an API key"):
            await store.search("a")
        server.plain_answer = b"Busy."
        with pytest.raises(MemoryUnavailableError, match=r"answers 503: Busy\."):
            await store.search("a")


async def test_of_a_collection_that_is_gone_nothing_is_removed() -> None:
    collection = QdrantCollection(QdrantConnection(":memory:"), collection="memories")

    collection.remove(["a"])

    assert collection.find_by_vector(EAST, [], limit=3) == []
    collection.close()


async def test_a_collection_of_something_else_is_left_alone(server: QdrantServer) -> None:
    client = qdrant.QdrantClient(url=server.url, check_compatibility=False)
    client.create_collection("docs", vectors_config={})
    client.create_collection(
        "newer", vectors_config={}, metadata={"context_assembler": {"format": 9}}
    )
    client.close()

    with pytest.raises(MemoryUnavailableError, match="something else") as caught:
        await open_qdrant(server.url, collection="docs").remember(turns("a"))
    with pytest.raises(MemoryUnavailableError, match="version 9, this package reads 1"):
        await open_qdrant(server.url, collection="newer").search("a")

    assert "open_qdrant_collection" in caught.value.remedy


async def test_who_lacks_the_package_is_told_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("qdrant_client")]:
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingExtraError, match=r"context-assembler\[qdrant\]"):
        await open_qdrant().search("a")
    with pytest.raises(MissingExtraError, match="Qdrant"):
        async with open_qdrant():
            pass


def test_a_url_names_a_place_and_maybe_a_collection() -> None:
    assert open_qdrant_url(":memory:").name == "memory"
    with pytest.raises(ConfigurationError, match="names no server"):
        open_qdrant_url("")


async def test_who_hears_that_records_were_not_kept_hears_how_many_were(
    server: QdrantServer,
) -> None:
    server.room_points = 1_200
    async with open_qdrant(server.url) as store:
        with pytest.raises(MemoryUnavailableError, match="; 1,000 of 1,300 records were kept"):
            await store.remember([MemoryRecord(id=f"r{n}", text=f"pear {n}") for n in range(1_300)])

        assert (await store.stats()).records == 1_000


async def test_a_refusal_before_anything_was_kept_speaks_of_no_rest(server: QdrantServer) -> None:
    server.room_points = 0
    async with open_qdrant(server.url) as store:
        with pytest.raises(MemoryUnavailableError, match="No space left on device") as caught:
            await store.remember([MemoryRecord(text="a pear")])

    assert "kept before" not in str(caught.value)
