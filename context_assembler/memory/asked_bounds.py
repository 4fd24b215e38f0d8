"""Which records a store may be asked for, and which it may let go of."""

from context_assembler.values.given import check_type
from context_assembler.values.memories.records import MemoryFilters, Retention


def check_filters(given: object) -> None:
    """Refuse what filters nothing, for nobody asked for everything.

    Raises:
        InvalidParameterError: It is no `MemoryFilters`.
    """
    check_type("filters", given, MemoryFilters, such_as="MemoryFilters(kinds=(…))")


def check_retention(given: object) -> None:
    """Refuse what bounds nothing.

    Raises:
        InvalidParameterError: It is no `Retention`.
    """
    check_type("retention", given, Retention, such_as="Retention(max_records=…)")
