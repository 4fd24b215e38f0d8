"""Rows that cannot be read: named where they are asked for, left out of what a search finds."""

import warnings
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from context_assembler.errors import AssemblyError, DamagedMemoryWarning, MemoryFormatError
from context_assembler.values.memories.codec import MEMORY_FORMAT_VERSION

_Row = TypeVar("_Row")
_Record = TypeVar("_Record")

DAMAGES: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading a row may raise in which other things stand than were ever stored."""

REPAIR: Final = "Forget this memory, or restore it from a backup."
UPGRADE: Final = "Upgrade the package: pip install --upgrade context-assembler"


def unreadable(memory_id: object, reason: object, remedy: str = REPAIR) -> MemoryFormatError:
    """Return the error of a row.

    Args:
        reason: A sentence without its end, or what reading the row raised.
    """
    if isinstance(reason, MemoryFormatError):
        return reason
    if isinstance(reason, AssemblyError):
        reason = reason.problem.rstrip(".")
    return MemoryFormatError(where=f"The memory {memory_id!r}", reason=str(reason), remedy=remedy)


def newer_or_damaged(memory_id: object, version: object) -> MemoryFormatError:
    """Return the error of a row of another format version than this package writes."""
    is_newer = isinstance(version, int) and version > MEMORY_FORMAT_VERSION
    reason = f"it has format version {version!r}, this package reads {MEMORY_FORMAT_VERSION}"
    return unreadable(memory_id, reason, UPGRADE if is_newer else REPAIR)


def read_found(
    found: Iterable[_Row], read: Callable[[_Row], _Record]
) -> list[tuple[_Row, _Record]]:
    """Return what a search found with the record of each, in order.

    What cannot be read is left out with a `DamagedMemoryWarning`.

    Raises:
        MemoryFormatError: Nothing of what was found can be read.
    """
    records: list[tuple[_Row, _Record]] = []
    damaged: list[MemoryFormatError] = []
    for row in found:
        try:
            records.append((row, read(row)))
        except MemoryFormatError as error:
            damaged.append(error)
    if damaged and not records:
        raise damaged[0]
    for left_out in damaged:
        warn_of_damage(left_out)
    return records


def warn_of_damage(error: MemoryFormatError) -> None:
    """Tell that a search went on without a memory."""
    warnings.warn(
        f"{error.problem} A search went on without it. {error.remedy}",
        DamagedMemoryWarning,
        stacklevel=2,
    )
