"""Whether the vectors that a model returns are what was asked for."""

from context_assembler.errors import EmbeddingError
from context_assembler.values.json_bounds import shown
from context_assembler.values.json_shapes import is_array
from context_assembler.values.memories.vectors import Vector


def check_vectors(vectors: object, *, model: str, dimension: int | None, texts: int) -> int | None:
    """Refuse vectors that cannot be compared with others of the model, and return their dimension.

    Args:
        dimension: What it must be; `None` where no vector was seen yet.
        texts: How many vectors there must be.

    Raises:
        EmbeddingError: They are none, more or fewer, or some are of another model or dimension.
    """
    if not is_array(vectors):
        raise _refusal(model, f"it returned {shown(vectors)} where a list of vectors belongs")
    if len(vectors) != texts:
        raise _refusal(model, f"it returned {len(vectors)} vectors for {texts} texts")
    for vector in vectors:
        if vector is None:
            continue
        if not isinstance(vector, Vector):
            raise _refusal(model, f"it returned {shown(vector)} in the place of a vector")
        dimension = vector.dimension if dimension is None else dimension
        if (vector.model, vector.dimension) != (model, dimension):
            raise EmbeddingError(
                model,
                reason=f"it returned a vector of {vector.model!r} with {vector.dimension} dimensions "
                f"where {dimension} of its own belong",
                remedy="Vectors of two models cannot be compared: give each model its own name.",
            )
    return dimension


def _refusal(model: str, reason: str) -> EmbeddingError:
    remedy = "Return a list of Vector.pack(model, numbers), or None, one for each text, in order."
    return EmbeddingError(model, reason=reason, remedy=remedy)
