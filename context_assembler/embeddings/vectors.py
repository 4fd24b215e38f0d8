"""Vectors from what models return, and whether they are what was asked for."""

from collections.abc import Sequence
from typing import Any

from context_assembler.embeddings.extras import load_numpy
from context_assembler.errors import EmbeddingError
from context_assembler.values.memories.vectors import Vector


def pack_rows(model: str, rows: Any) -> list[Vector | None]:
    """Return the vector of each row of a numpy array, as `Vector.pack` does; `None` for zeros."""
    numpy = load_numpy()
    largest = numpy.abs(rows).max(axis=1, keepdims=True)
    codes = numpy.rint(rows / numpy.where(largest > 0, largest, 1) * 127).astype(numpy.int8)
    return [
        Vector(model=model, codes=row.tobytes()) if has_direction else None
        for row, has_direction in zip(codes, largest[:, 0] > 0, strict=True)
    ]


def check_vectors(
    vectors: Sequence[Vector | None], *, model: str, dimension: int | None, texts: int
) -> int | None:
    """Refuse vectors that cannot be compared with others of the model, and return their dimension.

    Args:
        dimension: What it must be; `None` where no vector was seen yet.
        texts: How many vectors there must be.

    Raises:
        EmbeddingError: There are more or fewer, or some are of another model or dimension.
    """
    if len(vectors) != texts:
        raise EmbeddingError(
            model,
            reason=f"it returned {len(vectors)} vectors for {texts} texts",
            remedy="Return one vector, or None, for each text, in order.",
        )
    for vector in vectors:
        if vector is None:
            continue
        dimension = vector.dimension if dimension is None else dimension
        if (vector.model, vector.dimension) != (model, dimension):
            raise EmbeddingError(
                model,
                reason=f"it returned a vector of {vector.model!r} with {vector.dimension} dimensions "
                f"where {dimension} of its own belong",
                remedy="Vectors of two models cannot be compared: give each model its own name.",
            )
    return dimension
