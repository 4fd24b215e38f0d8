"""What a store may be asked for: so many records, in such an order."""

from typing import Final, get_args

from context_assembler.errors import InvalidParameterError
from context_assembler.memory.asked_bounds import check_filters
from context_assembler.values.given import check_known, check_type
from context_assembler.values.memories.records import MemoryOrder
from context_assembler.values.memories.vectors import Vector

MAX_LIMIT: Final = 10_000


def check_search(query: object, *, limit: object, filters: object, vector: object) -> None:
    """Refuse to search for what is no text, for no number of records, or by no filters.

    Raises:
        InvalidParameterError: One of them is none.
    """
    check_type("query", query, str, such_as="a string; '' finds nothing")
    check_record_count("limit", limit)
    check_filters(filters)
    check_type("vector", vector, Vector, type(None), such_as="Vector.pack('model', [0.1, …])")


def check_listing(*, order: object, limit: object, filters: object) -> None:
    """Refuse to list in no order, no number of records, or by no filters.

    Raises:
        InvalidParameterError: The number, or the filters, are none.
        UnknownOptionError: The order is none of `MemoryOrder`.
    """
    check_record_count("limit", limit)
    check_known(order, get_args(MemoryOrder), kind="order")
    check_filters(filters)


def check_record_count(name: str, given: object) -> None:
    """Refuse a number of records that nobody can want.

    Raises:
        InvalidParameterError: It is no whole number, negative, or too large.
    """
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= MAX_LIMIT:
        raise InvalidParameterError(
            name, given, rule=f"must be from 0 to {MAX_LIMIT}", remedy="Ask for fewer, or for any."
        )
