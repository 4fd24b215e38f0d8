"""Asking an embedder that anybody may have written, and looking at what it answers."""

from collections.abc import Sequence
from typing import Final

from context_assembler.errors import AssemblyError, EmbeddingError
from context_assembler.ports.embeddings import Embed, EmbedPurpose
from context_assembler.values.foreign_errors import tell_problem
from context_assembler.values.memories.answered_vectors import check_vectors
from context_assembler.values.memories.vectors import Vector

_OWN_FAULT: Final = "Look where the embedder comes from: the error is its own."


async def ask_embedder(
    embedder: Embed,
    texts: Sequence[str],
    *,
    purpose: EmbedPurpose = "record",
    dimension: int | None = None,
) -> list[Vector | None]:
    """Return a vector for each text, in order; `None` for one that says nothing.

    Args:
        dimension: What the vectors must have; `None` where none was seen yet.

    Raises:
        EmbeddingError: It failed, or its answer cannot be what it was asked for.
        MissingExtraError: A package that it needs is not installed.
    """
    try:
        answered = await embedder.embed(texts, purpose=purpose)
    except AssemblyError:
        raise
    except Exception as error:
        reason = f"it failed with {tell_problem(error)}".rstrip(".")
        raise EmbeddingError(_name_of(embedder), reason=reason, remedy=_OWN_FAULT) from error
    check_vectors(answered, model=_name_of(embedder), dimension=dimension, texts=len(texts))
    return list(answered)


def _name_of(embedder: object) -> str:
    name = getattr(embedder, "model", None)
    return name if isinstance(name, str) else type(embedder).__name__
