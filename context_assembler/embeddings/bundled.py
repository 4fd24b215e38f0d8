"""The embedding model that travels with the package: small, offline, without an extra beside numpy."""

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from context_assembler.embeddings.asked_texts import check_size, checked_texts
from context_assembler.embeddings.extras import load_numpy
from context_assembler.embeddings.latin_texts import can_be_read
from context_assembler.embeddings.passages import split_passages
from context_assembler.embeddings.static_model import DIMENSION, MODEL_NAME, load_static_model
from context_assembler.embeddings.vectors import pack_rows
from context_assembler.errors import VectorModelError
from context_assembler.ports import EmbedPurpose
from context_assembler.values.given import check_type
from context_assembler.values.memories.vectors import Vector

MAX_TEXT_CHARS: Final = 20_000
_TEXTS_PER_BLOCK: Final = 1_024
_KEPT_TEXTS: Final = 1_024  # of which the passages are known: ten kilobytes each


class BundledEmbedder:
    """Means of token vectors that were distilled from all-MiniLM-L6-v2.

    It knows words, not their order: good beside a search by words, weak in its place. The first
    call loads four megabytes; the same text gets the same vector in every process.

    Args:
        max_chars: How much of a text is read, so that one text never takes long.
    """

    def __init__(self, *, max_chars: int = MAX_TEXT_CHARS) -> None:
        check_size("max_chars", max_chars)
        self.model = MODEL_NAME
        self.dimension = DIMENSION
        self.max_chars = max_chars

    async def embed(
        self, texts: Sequence[str], *, purpose: EmbedPurpose = "record"
    ) -> list[Vector | None]:
        """Return a vector for each text, in order; `None` for one without a known word.

        Texts that are not mostly in Latin letters have none either: the model learnt English.

        Args:
            purpose: Records and queries are embedded alike.

        Raises:
            MissingExtraError: numpy is not installed.
        """
        return await asyncio.to_thread(self.embed_now, texts, purpose=purpose)

    def embed_now(
        self, texts: Sequence[str], *, purpose: EmbedPurpose = "record"
    ) -> list[Vector | None]:
        """Return what `embed` does, for callers without an event loop."""
        texts = checked_texts(texts, purpose=purpose)
        vectors: list[Vector | None] = []
        for start in range(0, len(texts), _TEXTS_PER_BLOCK):
            model = load_static_model()
            block = texts[start : start + _TEXTS_PER_BLOCK]
            read = [text[: self.max_chars] for text in block]
            sums = [model.sum_rows(text if can_be_read(text) else "") for text in read]
            vectors += pack_rows(self.model, load_numpy().array(sums))
        return vectors

    async def compare_passages(self, vector: Vector, texts: Sequence[str]) -> list[float | None]:
        """Return for each text how alike its most alike passage is to a vector of this model.

        It is a cosine; `None` for a text that says nothing, or is mostly not in Latin letters. Of a
        very long text the beginning is read.

        Raises:
            VectorModelError: The vector is of another model.
            MissingExtraError: numpy is not installed.
        """
        check_type("vector", vector, Vector, such_as="what embed() returned for a query")
        if (vector.model, vector.dimension) != (MODEL_NAME, DIMENSION):
            raise VectorModelError(
                f"{vector.model!r} with {vector.dimension} dimensions",
                kept=f"{MODEL_NAME!r} with {DIMENSION}",
            )
        texts = checked_texts(texts, purpose="record")
        return await asyncio.to_thread(_most_alike, vector, texts)

    async def close(self) -> None:
        """There is nothing to let go of."""


def _most_alike(vector: Vector, texts: Sequence[str]) -> list[float | None]:
    numpy = load_numpy()
    wanted = numpy.frombuffer(vector.codes, dtype=numpy.int8).astype(numpy.float64)
    wanted /= numpy.sqrt(wanted @ wanted)
    rows_by_text = [_passage_rows(text) for text in texts]
    return [float((rows @ wanted).max()) if len(rows) else None for rows in rows_by_text]


@lru_cache(_KEPT_TEXTS)
def _passage_rows(text: str) -> Any:
    """Return the directions of the text's passages, those left out that have none."""
    numpy, model = load_numpy(), load_static_model()
    passages = split_passages(text) if can_be_read(text) else []
    rows = numpy.array([model.sum_rows(passage) for passage in passages]).reshape(-1, DIMENSION)
    lengths = numpy.sqrt((rows * rows).sum(axis=1))
    return rows[lengths > 0] / lengths[lengths > 0, None]
