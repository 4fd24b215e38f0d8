"""Remembering where the projects are told that are looked in."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from context_assembler.memory_assembler.writing import Memorable, listed_records
from context_assembler.values.memories.records import Remembered


class _Remembering(Protocol):
    async def remember(self, records: Memorable, /) -> list[Remembered]: ...


async def remember_within(
    assembler: _Remembering, given: Memorable, namespaces: Sequence[str]
) -> list[Remembered]:
    """Keep records, or texts, and return what became of each.

    One that belongs to no project goes into the only one that is looked in; where there are several,
    a notice says that nobody will find it.

    Args:
        namespaces: The only ones that are looked in; none are all.
    """
    if not namespaces:
        return await assembler.remember(given)
    records = listed_records(given)
    if len(namespaces) == 1:
        records = [replace(r, namespace=r.namespace or namespaces[0]) for r in records]
    remembered = await assembler.remember(records)
    notice = (
        f"It has no namespace, and [memory] namespaces look in {', '.join(map(repr, namespaces))} "
        "alone: give it one of these, or it is not found."
    )
    return [
        one
        if record.namespace or "" in namespaces
        else replace(one, notices=(*one.notices, notice))
        for record, one in zip(records, remembered, strict=True)
    ]
