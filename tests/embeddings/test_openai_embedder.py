"""The official SDK asks a real server on this machine."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.embeddings import OpenAICompatibleEmbedder
from context_assembler.embeddings.openai_compatible import MAX_BATCH_BYTES, cut_batches
from context_assembler.errors import EmbeddingError, InvalidParameterError, MissingExtraError
from context_assembler.values.memories.vectors import Vector
from tests.embeddings.embedding_server import EmbeddingServer, numbers_of, refuse


def embedder_of(server: EmbeddingServer, **settings: Any) -> OpenAICompatibleEmbedder:
    return OpenAICompatibleEmbedder(base_url=server.base_url, model="tiny", **settings)


async def test_vectors_come_in_the_order_of_the_texts(server: EmbeddingServer) -> None:
    async with embedder_of(server) as embedder:
        vectors = await embedder.embed(["one", "two", "three"])

    assert vectors == [Vector.pack("tiny", numbers_of(t, 8)) for t in ("one", "two", "three")]
    assert server.requests[0]["path"] == "/v1/embeddings"
    assert server.requests[0]["encoding_format"] == "float"
    assert "dimensions" not in server.requests[0]


async def test_dimensions_are_asked_for(server: EmbeddingServer) -> None:
    async with embedder_of(server, dimensions=5) as embedder:
        [vector] = await embedder.embed(["one"])

    assert server.requests[0]["dimensions"] == 5
    assert vector is not None
    assert vector.dimension == embedder.dimension == 5


async def test_texts_are_sent_in_batches(server: EmbeddingServer) -> None:
    async with embedder_of(server, batch_texts=2) as embedder:
        vectors = await embedder.embed(["a", "b", "c", "d", "e"])

    assert [request["input"] for request in server.requests] == [["a", "b"], ["c", "d"], ["e"]]
    assert vectors[4] == Vector.pack("tiny", numbers_of("e", 8))


async def test_blank_texts_are_not_sent(server: EmbeddingServer) -> None:
    async with embedder_of(server) as embedder:
        vectors = await embedder.embed(["", "a", " \n"])
        nothing = await embedder.embed([" "])

    assert [request["input"] for request in server.requests] == [["a"]]
    assert [vector is None for vector in vectors] == [True, False, True]
    assert nothing == [None]


async def test_what_no_request_can_carry_is_replaced(server: EmbeddingServer) -> None:
    async with embedder_of(server) as embedder:
        await embedder.embed(["a\ud800b"])

    assert server.requests[0]["input"] == ["a?b"]


async def test_prefixes_tell_queries_from_records(server: EmbeddingServer) -> None:
    prefixes = {"record_prefix": "passage: ", "query_prefix": "query: "}
    async with embedder_of(server, **prefixes, max_chars=3) as embedder:
        await embedder.embed(["hello"])
        await embedder.embed(["hello"], purpose="query")

    assert [request["input"] for request in server.requests] == [["passage: hel"], ["query: hel"]]


async def test_a_key_goes_along(server: EmbeddingServer) -> None:
    async with embedder_of(server, api_key="sk-mine") as mine, embedder_of(server) as without:
        await mine.embed(["a"])
        await without.embed(["a"])

    assert server.keys == ["Bearer sk-mine", "Bearer none"]


async def test_the_key_of_the_environment_is_for_no_other_endpoint(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)

    async with OpenAICompatibleEmbedder(model="m") as usual, embedder_of(server) as other:
        await usual.embed(["a"])
        await other.embed(["a"])

    assert server.keys == ["Bearer sk-env", "Bearer none"]


async def test_the_sdk_tries_again(server: EmbeddingServer) -> None:
    server.instead = [lambda _body: refuse(429, "slow down", retry_after_ms="1")]

    async with embedder_of(server) as embedder:
        [vector] = await embedder.embed(["a"])

    assert vector is not None
    assert len(server.requests) == 2


async def test_a_refusal_is_told(server: EmbeddingServer) -> None:
    server.instead = [lambda _body: refuse(404, "model 'tiny' not found")]

    async with embedder_of(server) as embedder:
        with pytest.raises(EmbeddingError, match="model 'tiny' not found") as caught:
            await embedder.embed(["a"])

    assert "the name of the model" in caught.value.remedy
    assert caught.value.model == "tiny"


async def test_an_endpoint_that_is_not_there_is_told() -> None:
    client = openai.AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key="x", max_retries=0)

    async with client:
        with pytest.raises(EmbeddingError, match="Connection error"):
            await OpenAICompatibleEmbedder(model="tiny", client=client).embed(["a"])


async def test_a_missing_key_is_told() -> None:
    with pytest.raises(EmbeddingError, match="OPENAI_API_KEY"):
        await OpenAICompatibleEmbedder(model="tiny").embed(["a"])


def reply(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": list(rows), "model": "tiny"}


FIRST = {"object": "embedding", "index": 0, "embedding": [1.0, 2.0]}
GARBLED: dict[str, Any] = {
    "too few": reply(FIRST),
    "the same twice": reply(FIRST, FIRST),
    "none": reply(),
    "no list": {"object": "error"},
    "a page of text": "<html>not found</html>",
    "rows of something else": reply({"index": 0}, {"index": 1}),
    "no numbers": reply({**FIRST, "embedding": ["a"]}, {**FIRST, "index": 1}),
    "zeros": reply({**FIRST, "embedding": [0.0, 0.0]}, {**FIRST, "index": 1}),
}


@pytest.mark.parametrize("said", GARBLED.values(), ids=GARBLED.keys())
async def test_an_answer_of_another_kind_is_told(server: EmbeddingServer, said: Any) -> None:
    server.instead = [lambda _body: (200, said, {})]

    async with embedder_of(server) as embedder:
        with pytest.raises(EmbeddingError) as caught:
            await embedder.embed(["a", "b"])

    assert caught.value.remedy


async def test_a_model_that_changes_its_dimension_is_told(server: EmbeddingServer) -> None:
    async with embedder_of(server) as embedder:
        await embedder.embed(["a"])
        server.instead = [lambda _body: (200, reply(FIRST), {})]

        with pytest.raises(EmbeddingError, match="2 dimensions where 8 of its own belong"):
            await embedder.embed(["b"])


async def test_a_client_of_ones_own_is_used_and_left_open(server: EmbeddingServer) -> None:
    with openai.OpenAI(base_url=server.base_url, api_key="sync") as client:
        embedder = OpenAICompatibleEmbedder(model="tiny", client=client)
        [vector] = await embedder.embed(["a"])
        await embedder.close()

        assert not client.is_closed()
    assert vector == Vector.pack("tiny", numbers_of("a", 8))


def test_it_goes_on_in_another_event_loop(server: EmbeddingServer) -> None:
    embedder = embedder_of(server)

    first = asyncio.run(embedder.embed(["a"]))
    second = asyncio.run(embedder.embed(["a"]))
    asyncio.run(embedder.close())

    assert first == second


WRONG: dict[str, Callable[[], object]] = {
    "batch_texts must be from 1": lambda: OpenAICompatibleEmbedder(model="tiny", batch_texts=0),
    "to 2048; got 2049": lambda: OpenAICompatibleEmbedder(model="tiny", batch_texts=2_049),
    "dimensions must be positive": lambda: OpenAICompatibleEmbedder(model="tiny", dimensions=0),
    "max_chars must be positive": lambda: OpenAICompatibleEmbedder(model="tiny", max_chars=-1),
}


@pytest.mark.parametrize("reason", WRONG)
def test_settings_that_cannot_work_are_refused(reason: str) -> None:
    with pytest.raises(InvalidParameterError, match=reason):
        WRONG[reason]()


async def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)

    with pytest.raises(MissingExtraError, match=r"context-assembler\[openai\]"):
        await OpenAICompatibleEmbedder(model="tiny").embed(["a"])


@given(st.lists(st.text(max_size=6).map(lambda text: text * 20_000), max_size=6), st.integers(1, 3))
def test_batches_hold_every_text_once_and_are_never_too_large(texts: list[str], most: int) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]

    batches = list(cut_batches(texts, most))

    assert [text for batch in batches for text in batch] == texts
    for batch in batches:
        size_bytes = sum(len(text.encode()) for text in batch)
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or size_bytes <= MAX_BATCH_BYTES
