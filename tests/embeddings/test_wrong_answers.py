"""An embedder that fails or answers something else: recall goes by words, writing says so."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from context_assembler.embeddings import (
    BundledEmbedder,
    CachedEmbedder,
    MiniLmEmbedder,
    OpenAICompatibleEmbedder,
    open_embedder,
)
from context_assembler.errors import EmbeddingError, VectorModelError
from context_assembler.memory import SqliteMemoryStore, open_qdrant
from context_assembler.memory_assembler import MemoryAssembler
from context_assembler.ports import EmbedPurpose
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.memories.vectors import Vector
from tests.wrong_types import Call, call_of, find_bare_errors


class Answering:
    """Answers whatever it is told to, or raises it."""

    model = "odd"
    dimension = None

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def embed(
        self,
        texts: Sequence[str],  # noqa: ARG002 - the port's
        *,
        purpose: EmbedPurpose = "record",  # noqa: ARG002 - the port's
    ) -> list[Vector | None]:
        if isinstance(self._answer, Exception):
            raise self._answer
        answer: list[Vector | None] = self._answer
        return answer

    async def close(self) -> None:
        """There is nothing to close."""


ODD = Vector.pack("odd", [1.0, 0.0])
ANSWERS: Mapping[str, tuple[Any, str]] = {
    "its own error": (ZeroDivisionError("oh"), "it failed with ZeroDivisionError: oh"),
    "nothing": (None, "it returned None where a list"),
    "a number": (5, "it returned 5 where a list"),
    "text": ("v", "it returned 'v' where a list"),
    "a generator": ((ODD for _ in range(1)), "where a list"),
    "a vector alone": (ODD, "where a list"),
    "numbers": ([[1.0, 0.0]], "in the place of a vector"),
    "too many": ([None, None], "2 vectors for 1 texts"),
    "too few": ([], "0 vectors for 1 texts"),
    "vectors of another model": ([Vector.pack("even", [1.0])], "a vector of 'even'"),
}
every_answer = pytest.mark.parametrize(("answer", "reason"), ANSWERS.values(), ids=ANSWERS.keys())


@every_answer
async def test_a_recall_goes_by_words(answer: Any, reason: str) -> None:
    async with SqliteMemoryStore(None) as store:
        await store.remember([MemoryRecord(text="a window seat", vector=ODD)])
        recalled = await MemoryAssembler(store, embed=Answering(answer)).assemble_context("window")

    assert len(recalled.items) == 1
    assert "searched by words alone" in recalled.source_notes["embedding"]
    assert reason in recalled.source_notes["embedding"]


@every_answer
async def test_what_cannot_be_embedded_is_not_kept(answer: Any, reason: str) -> None:
    embed = Answering(answer)
    async with SqliteMemoryStore(None) as store, open_qdrant(embed=embed) as embedding:
        acts: tuple[Callable[[], Any], ...] = (
            lambda: MemoryAssembler(store, embed=embed).remember("a window seat"),
            lambda: embedding.remember([MemoryRecord(text="a window seat")]),
            lambda: embedding.search("window"),
            lambda: CachedEmbedder(embed).embed(["a window seat"]),
        )
        for act in acts:
            with pytest.raises(EmbeddingError, match=reason):
                await act()

        assert await store.list_records() == []


async def test_arrays_of_numbers_are_no_vectors() -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(EmbeddingError, match="where a list of vectors belongs"):
        await CachedEmbedder(Answering(numpy.ones((1, 2)))).embed(["a"])


KEPT: Mapping[str, Any] = {
    "of another length": b"\1" * 5,
    "without a direction": b"\0" * 128,
    "text": "text",
    "a number": 5,
}


@pytest.mark.parametrize("codes", KEPT.values(), ids=KEPT.keys())
@pytest.mark.parametrize("dimension", [128, None])
async def test_a_damaged_vector_in_the_file_is_asked_for_anew(
    tmp_path: Path, codes: Any, dimension: int | None
) -> None:
    path, model = tmp_path / "cache.db", BundledEmbedder()
    model.dimension = dimension  # type: ignore[assignment] # as of a model that tells none
    async with CachedEmbedder(model, path=path) as cached:
        before = await cached.embed(["hello", "world"])
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE embedding_cache SET codes = ? WHERE number = 1", (codes,))
    async with CachedEmbedder(model, path=path) as cached:
        assert await cached.embed(["hello", "world"]) == before
        assert "damaged vectors" in cached.stats().problem
    async with CachedEmbedder(model, path=path) as cached:
        assert await cached.embed(["hello", "world"]) == before
        assert (cached.stats().problem, cached.stats().misses) == ("", 0)


async def test_passages_are_only_compared_with_a_vector_of_the_same_model() -> None:
    with pytest.raises(VectorModelError, match="'odd' with 2 dimensions"):
        await BundledEmbedder().compare_passages(ODD, ["a"])


CALLS: Mapping[str, Callable[[], Call]] = {
    "bundled": lambda: call_of(BundledEmbedder),
    "bundled.embed": lambda: call_of(BundledEmbedder().embed, ["a pear"]),
    "bundled.embed_now": lambda: call_of(BundledEmbedder().embed_now, ["a pear"]),
    "minilm": lambda: call_of(MiniLmEmbedder),
    "openai": lambda: call_of(OpenAICompatibleEmbedder, model="m", without=["client"]),
    "openai.embed": lambda: call_of(
        OpenAICompatibleEmbedder(model="m", base_url="http://127.0.0.1:9/v1").embed, []
    ),
    "cached": lambda: call_of(CachedEmbedder, BundledEmbedder()),
    "cached.embed": lambda: call_of(CachedEmbedder(BundledEmbedder()).embed, ["a pear"]),
    "open": lambda: call_of(open_embedder, "bundled"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_no_embedder_raises_a_bare_error(name: str) -> None:
    assert await find_bare_errors(CALLS[name]()) == []


async def test_no_comparison_of_passages_raises_a_bare_error() -> None:
    embedder = BundledEmbedder()
    [query] = await embedder.embed(["a pear"], purpose="query")

    assert await find_bare_errors(call_of(embedder.compare_passages, query, ["a pear"])) == []
