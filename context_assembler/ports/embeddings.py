"""The socket of embedding models."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from context_assembler.values.memories.vectors import Vector

EmbedPurpose: TypeAlias = Literal["record", "query"]
"""Whether a text is to be found, or is what something is looked for with."""


class Embed(Protocol):
    """Says where texts lie in the space of one embedding model.

    A vector depends on the text, the purpose and the model alone, so that it can be kept. Only
    vectors of the same model and dimension can be compared: both travel with every vector.
    """

    @property
    def model(self) -> str:
        """The name of the space; another name for other vectors."""
        ...

    @property
    def dimension(self) -> int | None:
        """How many numbers a vector is asked to have; `None`: as many as the model gives."""
        ...

    async def embed(
        self, texts: Sequence[str], *, purpose: EmbedPurpose = "record"
    ) -> list[Vector | None]:
        """Return a vector for each text, in order; `None` for one that says nothing.

        Raises:
            EmbeddingError: The model cannot be used.
            MissingExtraError: A package that it needs is not installed.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
