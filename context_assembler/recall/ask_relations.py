"""Asking sources for the relations of entities, and for what they lead to."""

import asyncio
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from context_assembler.errors import AssemblyError
from context_assembler.ports import MemorySource
from context_assembler.recall.sieve_answers import sieve_hits, usable_record
from context_assembler.recall.walk_relations import Reached, walk_relations
from context_assembler.values.memories.metadata import RelationMetadata
from context_assembler.values.memories.records import MemoryFilters, MemoryRecord

_RELATIONS_PER_PLACE = 64
_PLACES_PER_ROUND = 16


@runtime_checkable
class _Lookup(Protocol):
    async def get(self, memory_id: str) -> MemoryRecord: ...


async def ask_relations(
    source: MemorySource, start_ids: Sequence[str], *, depth: int, filters: MemoryFilters
) -> tuple[list[Reached], dict[str, MemoryRecord]]:
    """Return what is reached from the entities over relations, and the records by id.

    Relations whose ends name ids are found by these; places that the source does not have any more
    are left out. A source that cannot look up ids reaches nothing.
    """
    if not isinstance(source, _Lookup):
        return [], {}
    relations: dict[str, MemoryRecord] = {}
    reached: list[Reached] = []
    frontier = list(start_ids)
    for _ in range(depth):
        found = await asyncio.gather(
            *(_relations_of(source, place, filters) for place in frontier[:_PLACES_PER_ROUND])
        )
        relations |= {record.id: record for group in found for record in group}
        known = {step.memory_id for step in reached}
        reached = walk_relations(start_ids, relations.values(), depth=depth)
        frontier = [step.memory_id for step in reached if step.memory_id not in known]
    records = await asyncio.gather(*(_get(source, step.memory_id) for step in reached))
    by_id = {record.id: record for record in records if record is not None}
    by_id |= {step.via_id: relations[step.via_id] for step in reached if step.memory_id in by_id}
    return [step for step in reached if step.memory_id in by_id], by_id


async def _relations_of(
    source: MemorySource, place: str, filters: MemoryFilters
) -> list[MemoryRecord]:
    answered = await source.search(place, limit=_RELATIONS_PER_PLACE, filters=filters)
    return [
        hit.record
        for hit in sieve_hits(answered, limit=_RELATIONS_PER_PLACE).found
        if isinstance(hit.record.metadata, RelationMetadata)
        and place in (hit.record.metadata.source_id, hit.record.metadata.target_id)
    ]


async def _get(source: _Lookup, memory_id: str) -> MemoryRecord | None:
    try:
        return usable_record(await source.get(memory_id))
    except (AssemblyError, TypeError):  # an end that is not kept any more, or cannot be used
        return None
