"""Embedding models behind an endpoint that speaks OpenAI's protocol, through the official SDK."""

import asyncio
import inspect
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, Self

from context_assembler.embeddings.asked_texts import checked_texts
from context_assembler.embeddings.extras import load_extra
from context_assembler.errors import EmbeddingError, InvalidParameterError
from context_assembler.ports import EmbedPurpose
from context_assembler.values.given import check_type
from context_assembler.values.memories.answered_vectors import check_vectors
from context_assembler.values.memories.vectors import Vector

# A text has no more tokens than bytes, so that a batch of so many bytes is never refused for its
# length; a single text may be, above 8,192 tokens.
# Source: openai 3.57.0, resources/embeddings.py: at most 2,048 texts and 300,000 tokens a request,
# no text empty (read 2026-11-28)
MAX_TEXTS: Final = 2_048
MAX_BATCH_BYTES: Final = 300_000
_BATCH_TEXTS: Final = 128  # servers of one's own rarely take more at once
_MAX_REASON_CHARS: Final = 300
# Servers without keys want none, the SDK does.
_NO_KEY: Final = "none"


class OpenAICompatibleEmbedder:
    """Asks an endpoint for vectors: OpenAI, Ollama, vLLM, llama.cpp, text-embeddings-inference.

    Retries are the SDK's own. Texts of blanks alone are not sent.

    Args:
        base_url: Where the endpoint is, with its `/v1`; `None`: where the SDK looks by itself.
        model: The model's name there, which its vectors are named after.
        dimensions: How many numbers to ask for; `None` leaves it to the model.
        api_key: `None`: `OPENAI_API_KEY` where there is no `base_url`, and no key where there is.
        record_prefix: What the model wants in front of texts that are to be found.
        query_prefix: What it wants in front of a query, such as `"query: "` for E5 models.
        batch_texts: How many texts to send at once.
        max_chars: How much of a text is sent; the rest is left out. `None` sends all.
        timeout_seconds: How long one request may take.
        client: A client of the SDK, synchronous or not, in place of one of its own; it is not closed.
    """

    def __init__(
        self,
        *,
        base_url: str | None = None,
        model: str,
        dimensions: int | None = None,
        api_key: str | None = None,
        record_prefix: str = "",
        query_prefix: str = "",
        batch_texts: int = _BATCH_TEXTS,
        max_chars: int | None = None,
        timeout_seconds: float = 60.0,
        client: Any = None,
    ) -> None:
        check_type(
            "model", model, str, such_as="the model's name, such as 'text-embedding-3-small'"
        )
        check_type("base_url", base_url, str, type(None), such_as="'https://host/v1', or None")
        check_type("api_key", api_key, str, type(None), such_as="the key, or None")
        for name, prefix in (("record_prefix", record_prefix), ("query_prefix", query_prefix)):
            check_type(name, prefix, str, such_as="a string such as 'query: '")
        _check_range("batch_texts", batch_texts, most=MAX_TEXTS)
        if dimensions is not None:
            _check_range("dimensions", dimensions)
        if max_chars is not None:
            _check_range("max_chars", max_chars)
        check_type("timeout_seconds", timeout_seconds, int, float, such_as="a number of seconds")
        self.model = model
        self.dimension = dimensions
        self._seen_dimension = dimensions
        self._prefixes: dict[EmbedPurpose, str] = {"record": record_prefix, "query": query_prefix}
        self._batch_texts = batch_texts
        self._max_chars = max_chars
        self._base_url = base_url
        self._api_key = api_key if api_key or base_url is None else _NO_KEY
        self._timeout_seconds = timeout_seconds
        self._given_client = client
        self._own_client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def embed(
        self, texts: Sequence[str], *, purpose: EmbedPurpose = "record"
    ) -> list[Vector | None]:
        """Return a vector for each text, in order; `None` for one without words.

        Raises:
            EmbeddingError: The endpoint is not reached, refuses, or says something else.
            MissingExtraError: The `openai` extra is not installed.
        """
        texts = checked_texts(texts, purpose=purpose)
        prefix = self._prefixes[purpose]
        spoken = [i for i, text in enumerate(texts) if text.strip()]
        asked = [f"{prefix}{_sendable(texts[i][: self._max_chars])}" for i in spoken]
        answers = [await self._ask(batch) for batch in cut_batches(asked, self._batch_texts)]
        vectors: list[Vector | None] = [None] * len(texts)
        for place, vector in zip(spoken, chain.from_iterable(answers), strict=True):
            vectors[place] = vector
        return vectors

    async def close(self) -> None:
        """Close the connections; the next call opens them again."""
        client, self._own_client, loop = self._own_client, None, self._loop
        if client is not None and loop is asyncio.get_running_loop():
            await client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _ask(self, batch: Sequence[str]) -> list[Vector | None]:
        openai = load_extra("openai", what="Asking for embeddings", extra="openai")
        arguments: dict[str, Any] = {"model": self.model, "input": batch}
        if self.dimension is not None:
            arguments["dimensions"] = self.dimension
        try:
            create = self._client(openai).embeddings.create
            # A synchronous client waits for its answer right here, so it does so elsewhere. Floats
            # are asked for, as not every server knows the SDK's usual base64.
            answer = await asyncio.to_thread(create, **arguments, encoding_format="float")
            answer = (await answer) if inspect.isawaitable(answer) else answer
        except (openai.OpenAIError, ValueError) as failure:  # the latter for answers without JSON
            raise self._refused(failure) from failure
        vectors = await asyncio.to_thread(self._read, answer, len(batch))
        self._seen_dimension = check_vectors(
            vectors, model=self.model, dimension=self._seen_dimension, texts=len(batch)
        )
        return vectors

    def _client(self, openai: Any) -> Any:
        """Return a client whose connections belong to the running loop."""
        if self._given_client is not None:
            return self._given_client
        loop = asyncio.get_running_loop()
        if self._own_client is None or self._loop is not loop:
            self._own_client = openai.AsyncOpenAI(
                base_url=self._base_url, api_key=self._api_key, timeout=self._timeout_seconds
            )
            self._loop = loop
        return self._own_client

    def _read(self, answer: Any, count: int) -> list[Vector | None]:
        try:
            numbers = {row.index: row.embedding for row in answer.data}
            if len(answer.data) != count or sorted(numbers) != list(range(count)):
                raise self._garbled(f"{len(answer.data)} vectors for {count} texts")
            return [Vector.pack(self.model, numbers[i]) for i in range(count)]
        except (AttributeError, TypeError, InvalidParameterError) as error:
            raise self._garbled("something that is no list of vectors") from error

    def _refused(self, failure: Exception) -> EmbeddingError:
        reason = " ".join(str(failure).split())[:_MAX_REASON_CHARS] or type(failure).__name__
        return EmbeddingError(
            self.model,
            reason=reason,
            remedy="Check base_url, the name of the model, the key and the network; max_chars cuts "
            "texts that are too long for the model.",
        )

    def _garbled(self, answer: str) -> EmbeddingError:
        return EmbeddingError(
            self.model,
            reason=f"it answered {answer}",
            remedy="Check that base_url leads to an endpoint for embeddings in OpenAI's form.",
        )


def cut_batches(texts: Sequence[str], most: int) -> Iterator[list[str]]:
    """Cut texts into requests, in order, of at most `most` texts and `MAX_BATCH_BYTES`.

    A text that is larger by itself goes alone.
    """
    batch: list[str] = []
    free_bytes = MAX_BATCH_BYTES
    for text in texts:
        size_bytes = len(text.encode())
        if batch and (len(batch) == most or size_bytes > free_bytes):
            yield batch
            batch, free_bytes = [], MAX_BATCH_BYTES
        batch.append(text)
        free_bytes -= size_bytes
    if batch:
        yield batch


def _sendable(text: str) -> str:
    """Return the text without unpaired surrogates, which no request can carry."""
    return text.encode("utf-8", "replace").decode()


def _check_range(name: str, given: int, *, most: int | None = None) -> None:
    check_type(name, given, int, such_as="a whole number, or leave it out")
    if not (given >= 1 and (most is None or given <= most)):
        rule = "must be positive" if most is None else f"must be from 1 to {most}"
        raise InvalidParameterError(name, given, rule=rule, remedy="Leave it out, or correct it.")
