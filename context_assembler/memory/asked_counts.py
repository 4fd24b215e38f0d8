"""What a store may be asked for: so many records, in such an order."""

from typing import Final, get_args

from context_assembler.errors import InvalidParameterError, UnknownOptionError
from context_assembler.values.memories.records import MemoryOrder

MAX_LIMIT: Final = 10_000


def check_count(name: str, given: object) -> None:
    """Refuse a number of records that nobody can want.

    Raises:
        InvalidParameterError: It is no whole number, negative, or too large.
    """
    if not isinstance(given, int) or not 0 <= given <= MAX_LIMIT:
        raise InvalidParameterError(
            name, given, rule=f"must be from 0 to {MAX_LIMIT}", remedy="Ask for fewer, or for any."
        )


def check_order(order: str) -> None:
    """Refuse an order that no store knows.

    Raises:
        UnknownOptionError: It is none of `MemoryOrder`.
    """
    if order not in (known := get_args(MemoryOrder)):
        raise UnknownOptionError(order, kind="order", known=known)
