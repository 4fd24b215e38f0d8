"""Errors about memory records, and of the stores that keep them."""

from collections.abc import Collection
from typing import Literal

from context_assembler.errors.base import AssemblyError, ConfigurationError, brief, did_you_mean
from context_assembler.errors.credentials import without_credentials
from context_assembler.errors.stores import StoreError


class InvalidContextTypeError(ConfigurationError):
    """A kind of memory that does not exist."""

    def __init__(self, kind: object, *, known: Collection[str]) -> None:
        listed = ", ".join(known)
        super().__init__(
            f"There is no context type {brief(kind)}; valid are {listed}.",
            remedy=did_you_mean(
                kind if isinstance(kind, str) else "", known, otherwise="Use one of these."
            ),
        )
        self.kind = kind
        self.known = tuple(known)


class UnknownMemoryError(AssemblyError, LookupError):
    """The store holds no record of that id."""

    def __init__(self, memory_id: str) -> None:
        super().__init__(
            f"There is no memory {memory_id!r}.",
            remedy="It may have been forgotten: search for it by its words.",
        )
        self.memory_id = memory_id


class MemoryUnavailableError(StoreError, OSError):
    """The memory store's file or server cannot be used.

    Neither `location` nor `reason` tells what a URL holds secret.
    """

    def __init__(self, location: str, *, reason: str, remedy: str) -> None:
        location, reason = without_credentials(location), without_credentials(reason)
        super().__init__(f"The memory store {location!r} cannot be used: {reason}.", remedy=remedy)
        self.location = location
        self.reason = reason


class MemoryFormatError(StoreError, ValueError):
    """A memory record that cannot be stored, or that this version cannot decode.

    `line` counts from 1 where the record comes from a file.
    """

    def __init__(
        self,
        *,
        where: str,
        reason: str,
        remedy: str,
        line: int | None = None,
        act: Literal["read", "stored"] = "read",
    ) -> None:
        place = where if line is None else f"{where}, line {line},"
        super().__init__(f"{place} cannot be {act}: {reason}.", remedy=remedy)
        self.where = where
        self.reason = reason
        self.line = line


class DamagedMemoryWarning(UserWarning):
    """A memory that cannot be read, and that a search therefore left out of what it found.

    Whoever asks for that one by its id gets the `MemoryFormatError`. To be stopped by it in searches
    as well: `warnings.simplefilter("error", DamagedMemoryWarning)`.
    """


class VectorModelError(StoreError, ValueError):
    """Vectors of two models, which cannot be compared, would come together."""

    def __init__(self, given: str, *, kept: str) -> None:
        super().__init__(
            f"The store keeps vectors of {kept}, but was given one of {given}.",
            remedy="Use the same model, or call drop_vectors() and embed everything anew.",
        )
        self.given = given
        self.kept = kept
