"""Which kinds a source has no records of, so that they are not searched for one by one."""

import asyncio
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol, runtime_checkable

from context_assembler.ports import MemorySource
from context_assembler.recall.wait_until import wait_until
from context_assembler.values.memories.kinds import MemoryKind
from context_assembler.values.memories.records import MemoryFilters

_LEAST_KINDS: Final = 3  # below, to ask what there is takes as long as to search for it


@runtime_checkable
class _TellsKinds(Protocol):
    async def present_kinds(self, *, filters: MemoryFilters) -> object: ...


async def find_absent_kinds(
    source: MemorySource,
    kinds: Sequence[MemoryKind],
    filters: MemoryFilters,
    *,
    ends: Sequence[asyncio.Future[Any]],
) -> list[MemoryKind]:
    """Return those of the kinds that the source surely has no records of, in order.

    None where it does not tell a set of kinds before one of the ends: a search says why.
    """
    if len(kinds) < _LEAST_KINDS or not isinstance(source, _TellsKinds):
        return []
    looking = asyncio.ensure_future(source.present_kinds(filters=filters))
    await wait_until(looking, ends=ends)
    if not looking.done() or looking.cancelled() or looking.exception() is not None:
        return []
    present = looking.result()
    if not isinstance(present, AbstractSet):
        return []
    return [kind for kind in kinds if kind not in present]
