"""Errors about counting tokens."""

from context_assembler.errors.base import AssemblyError


class RemoteCountError(AssemblyError, OSError):
    """A provider's endpoint did not say how many tokens a payload has."""

    def __init__(self, *, provider: str, reason: str) -> None:
        super().__init__(
            f"{provider} did not count the payload: {reason}.",
            remedy="Check the client's key and network, or count without exact=True.",
        )
        self.provider = provider
