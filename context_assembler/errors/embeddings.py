"""Errors about embedding models."""

from context_assembler.errors.base import AssemblyError


class EmbeddingError(AssemblyError, OSError):
    """An embedding model that cannot be used, or whose answer cannot be what was asked for."""

    def __init__(self, model: str, *, reason: str, remedy: str) -> None:
        super().__init__(f"The embedding model {model!r} cannot be used: {reason}.", remedy=remedy)
        self.model = model
        self.reason = reason
