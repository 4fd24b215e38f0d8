"""Every text is asked about once, and a cache is never in the way."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler.embeddings import BundledEmbedder, CachedEmbedder
from context_assembler.embeddings.cache_file import CacheFile
from context_assembler.errors import EmbeddingError, InvalidParameterError, MemoryUnavailableError
from context_assembler.memory import SqliteMemoryStore
from context_assembler.ports import EmbedPurpose
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.memories.vectors import Vector


class Counting:
    """A real model that notes what it was asked."""

    def __init__(self, *, model: str | None = None, dimension: int | None = 128) -> None:
        self._inner = BundledEmbedder()
        self.model = model or self._inner.model
        self.dimension = dimension
        self.asked: list[str] = []
        self.closed = 0

    async def embed(
        self, texts: Sequence[str], *, purpose: EmbedPurpose = "record"
    ) -> list[Vector | None]:
        self.asked += texts
        found = await self._inner.embed(texts, purpose=purpose)
        return [v and Vector(model=self.model, codes=v.codes) for v in found]

    async def close(self) -> None:
        self.closed += 1


class Saying:
    """Answers with the vectors it was given, one list for each call."""

    def __init__(self, *answers: list[Vector | None]) -> None:
        self.model = "tiny"
        self.dimension = None
        self._answers = list(answers)

    async def embed(
        self,
        texts: Sequence[str],  # noqa: ARG002 - the port's
        *,
        purpose: EmbedPurpose = "record",  # noqa: ARG002 - the port's
    ) -> list[Vector | None]:
        return self._answers.pop(0)

    async def close(self) -> None:
        """There is nothing to close."""


EAST = Vector.pack("tiny", [1.0, 0.0])
UP = Vector.pack("tiny", [0.0, 0.0, 1.0])


async def test_a_text_is_asked_about_once() -> None:
    counting = Counting()
    cached = CachedEmbedder(counting)

    first = await cached.embed(["hello", "world", "hello", ""])
    again = await cached.embed(["world", "", "more"])

    assert counting.asked == ["hello", "world", "", "more"]
    assert first == await BundledEmbedder().embed(["hello", "world", "hello", ""])
    assert again[:2] == [first[1], None]
    assert (cached.stats().hits, cached.stats().misses, cached.stats().vectors) == (2, 4, 4)


async def test_queries_are_kept_apart_from_records() -> None:
    counting = Counting()
    cached = CachedEmbedder(counting)

    await cached.embed(["hello"])
    await cached.embed(["hello"], purpose="query")

    assert counting.asked == ["hello", "hello"]


async def test_it_answers_for_its_embedder() -> None:
    counting = Counting()
    cached = CachedEmbedder(counting)

    async with cached:
        assert (cached.model, cached.dimension) == (counting.model, counting.dimension)
        assert await cached.embed([]) == []

    assert counting.closed == 1


async def test_those_used_last_stay() -> None:
    counting = Counting()
    cached = CachedEmbedder(counting, max_vectors=2)

    await cached.embed(["a", "b"])
    await cached.embed(["a", "c"])
    await cached.embed(["a", "b"])

    assert counting.asked == ["a", "b", "c", "b"]
    assert cached.stats().vectors == 2


async def test_what_the_file_has_is_not_asked_again(tmp_path: Path) -> None:
    async with CachedEmbedder(Counting(), path=tmp_path / "cache.db") as cached:
        before = await cached.embed(["hello", "", "a\ud800b"])

    counting = Counting()
    async with CachedEmbedder(counting, path=tmp_path / "cache.db") as cached:
        after = await cached.embed(["hello", "", "a\ud800b"])

        assert cached.stats().file_hits == 3
        assert cached.stats().problem == ""
    assert after == before
    assert counting.asked == []


async def test_vectors_of_another_model_are_not_found(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    async with CachedEmbedder(Counting(), path=path) as cached:
        await cached.embed(["hello"])

    others = [Counting(model="other"), Counting(dimension=None)]
    for counting in others:
        async with CachedEmbedder(counting, path=path) as cached:
            [vector] = await cached.embed(["hello"])
            assert vector is not None
            assert vector.model == counting.model

    assert [counting.asked for counting in others] == [["hello"], ["hello"]]


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
async def test_the_file_may_be_a_memory_stores(tmp_path: Path, *, is_first: bool) -> None:
    path = tmp_path / "memory.db"
    cached, store = CachedEmbedder(Counting(), path=path), SqliteMemoryStore(path)
    if is_first:
        await cached.embed(["before there is a store"])

    await store.remember([MemoryRecord(text="the car is fast")])
    [vector] = await cached.embed(["the car is fast"])
    [record] = await store.list_records()
    await store.remember([MemoryRecord(id=record.id, text=record.text, vector=vector)])
    hits = await store.search("automobile", vector=vector)

    assert [hit.record.text for hit in hits] == ["the car is fast"]
    assert cached.stats().problem == ""
    await store.close()
    await cached.close()


async def test_the_file_stays_within_its_bound(tmp_path: Path) -> None:
    kept = CacheFile(tmp_path / "cache.db", max_vectors=3)
    keys = [bytes([number]) for number in range(5)]

    for key in keys:
        await kept.write({key: b"codes"})
    await kept.write({keys[2]: b"newer"})

    assert await kept.read(keys) == {keys[3]: b"codes", keys[4]: b"codes", keys[2]: b"newer"}
    await kept.close()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=5), max_size=8))
async def test_with_or_without_a_cache_the_vectors_are_the_same(
    texts: list[str], tmp_path: Path
) -> None:
    async with CachedEmbedder(Counting(), path=tmp_path / "c.db", max_vectors=3) as cached:
        assert await cached.embed(texts) == await BundledEmbedder().embed(texts)
        assert await cached.embed(texts) == await BundledEmbedder().embed(texts)


async def test_many_texts_are_looked_up_at_once(tmp_path: Path) -> None:
    texts = [f"number {n}" for n in range(1_200)]
    async with CachedEmbedder(Counting(), path=tmp_path / "cache.db") as before:
        await before.embed(texts)

    async with CachedEmbedder(Counting(), path=tmp_path / "cache.db") as cached:
        await cached.embed(texts)
        stats = cached.stats()

    assert (stats.file_hits, stats.misses) == (1_200, 0)


async def test_a_file_that_cannot_be_used_is_passed_over_and_told(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "cache.db"
    async with CachedEmbedder(Counting(), path=path) as cached:
        vectors = await cached.embed(["hello"])

        assert vectors == await BundledEmbedder().embed(["hello"])
        assert "does not exist" in cached.stats().problem
        assert await cached.embed(["hello"]) == vectors


async def test_a_file_that_is_damaged_later_is_passed_over_too(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    async with CachedEmbedder(Counting(), path=path) as cached:
        await cached.embed(["hello"])
        with closing(sqlite3.connect(path)) as other:
            other.execute("DROP TABLE embedding_cache")
        vectors = await cached.embed(["world"])

        assert vectors == await BundledEmbedder().embed(["world"])
        assert "no such table" in cached.stats().problem


async def test_another_programs_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.write_bytes(b"no database at all" * 100)
    kept = CacheFile(path, max_vectors=3)

    with pytest.raises(MemoryUnavailableError, match="not a SQLite database"):
        await kept.read([b"key"])

    assert path.read_bytes() == b"no database at all" * 100
    await kept.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([], "0 vectors for 1 texts"),
        ([EAST, EAST], "2 vectors for 1 texts"),
        ([Vector(model="other", codes=EAST.codes)], "a vector of 'other'"),
    ],
)
async def test_vectors_that_are_not_what_was_asked_for_are_refused(
    answer: list[Vector | None], reason: str
) -> None:
    with pytest.raises(EmbeddingError, match=reason):
        await CachedEmbedder(Saying(answer)).embed(["hello"])


async def test_a_model_that_changes_its_dimension_is_refused() -> None:
    cached = CachedEmbedder(Saying([EAST], [UP]))
    await cached.embed(["hello"])

    with pytest.raises(EmbeddingError, match="3 dimensions where 2 of its own belong"):
        await cached.embed(["world"])


async def test_kept_vectors_are_not_mixed_with_those_of_a_changed_model(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    async with CachedEmbedder(Saying([EAST]), path=path) as cached:
        await cached.embed(["hello"])

    async with CachedEmbedder(Saying([UP]), path=path) as cached:
        with pytest.raises(EmbeddingError, match="cannot be compared"):
            await cached.embed(["hello", "world"])


def test_bounds_of_nothing_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="max_vectors must be positive"):
        CachedEmbedder(Counting(), max_vectors=0)
    with pytest.raises(InvalidParameterError, match="max_file_vectors must be positive"):
        CachedEmbedder(Counting(), max_file_vectors=0)
