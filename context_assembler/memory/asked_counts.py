"""How many records a store may be asked for."""

from typing import Final

from context_assembler.errors import InvalidParameterError

MAX_LIMIT: Final = 10_000


def check_count(name: str, given: int) -> None:
    """Refuse a number of records that nobody can want.

    Raises:
        InvalidParameterError: It is negative, or too large.
    """
    if not 0 <= given <= MAX_LIMIT:
        raise InvalidParameterError(
            name, given, rule=f"must be from 0 to {MAX_LIMIT}", remedy="Ask for fewer, or for any."
        )
