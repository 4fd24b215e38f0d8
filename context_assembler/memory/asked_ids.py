"""Which ids a store may be asked for."""

from collections.abc import Iterable

from context_assembler.errors import InvalidParameterError
from context_assembler.values.given import check_type
from context_assembler.values.memories.kept_names import can_be_kept


def asked_ids(given: Iterable[str]) -> list[str]:
    """Return those of the ids that a record can have, in order; no store has any of the others.

    Raises:
        InvalidParameterError: It is one text, or otherwise not several.
    """
    if isinstance(given, str):
        raise InvalidParameterError(
            "memory_ids", given, rule="must be a list of ids", remedy=f"Pass [{given!r}]."
        )
    check_type("memory_ids", given, Iterable, such_as="a list of ids")
    return [memory_id for memory_id in given if can_be_kept(memory_id)]
