"""An embedding model for tests, which knows two directions."""

from collections.abc import Sequence

from context_assembler.ports.embeddings import EmbedPurpose
from context_assembler.values.memories.vectors import Vector


class Compass:
    """Sends texts about boats east, other words north, and notes what it was told."""

    model = "compass"
    dimension = 2

    def __init__(self) -> None:
        self.told: list[tuple[str, EmbedPurpose]] = []

    async def embed(
        self, texts: Sequence[str], *, purpose: EmbedPurpose = "record"
    ) -> list[Vector | None]:
        self.told.extend((text, purpose) for text in texts)
        return [self._place(text) for text in texts]

    async def close(self) -> None:
        """Nothing is open."""

    def _place(self, text: str) -> Vector | None:
        if not text.strip():
            return None
        is_afloat = any(word in text.lower() for word in ("boat", "ship", "ferry"))
        return Vector.pack(self.model, [1.0, 0.1] if is_afloat else [0.1, 1.0])
