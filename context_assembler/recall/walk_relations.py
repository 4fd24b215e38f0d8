"""The step that walks from entities that were found to what they are connected with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from context_assembler.values.memories.metadata import RelationMetadata
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import Candidate

RELATION_FACTOR: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A record at the end of a walk.

    Attributes:
        distance: How many relations lie between, at least 1.
        start_id: Where the walk began.
        via_id: The relation that led here.
    """

    memory_id: str
    distance: int
    start_id: str
    via_id: str


def walk_relations(
    start_ids: Sequence[str], relations: Iterable[MemoryRecord], *, depth: int
) -> list[Reached]:
    """Return what is reached over at most `depth` relations, nearest first, starts left out.

    Relations are walked in both directions, each record is reached once, by the shortest way; of
    two such ways by the one of the better start.
    """
    ends_by_id = _ends(relations)
    seen = set(start_ids)
    starts = {memory_id: memory_id for memory_id in start_ids}
    frontier, reached = list(dict.fromkeys(start_ids)), list[Reached]()
    for distance in range(1, depth + 1):
        following: list[str] = []
        for place in frontier:
            for target, via in ends_by_id.get(place, ()):
                if target in seen:
                    continue
                seen.add(target)
                starts[target] = starts[place]
                following.append(target)
                reached.append(
                    Reached(memory_id=target, distance=distance, start_id=starts[place], via_id=via)
                )
        frontier = following
    return reached


def relate(
    reached: Iterable[Reached], records: Mapping[str, MemoryRecord], ranked: Sequence[Candidate]
) -> list[Candidate]:
    """Return candidates for what is connected with those that were found, and for the connections.

    Each step away halves the score of where the walk began.
    """
    by_id = {candidate.record.id: candidate for candidate in ranked}
    related: dict[str, Candidate] = {}
    for step in reached:
        start = by_id[step.start_id]
        for memory_id in (step.via_id, step.memory_id):
            if memory_id in by_id or memory_id in related:
                continue
            related[memory_id] = replace(
                start,
                record=records[memory_id],
                score=start.score * RELATION_FACTOR**step.distance,
                reason="it is connected with what fits the query",
            )
    return list(related.values())


def _ends(relations: Iterable[MemoryRecord]) -> Mapping[str, list[tuple[str, str]]]:
    """Return by place where relations lead, the heaviest first."""
    found: dict[str, list[tuple[float, str, str]]] = {}
    for relation in relations:
        metadata = relation.metadata
        if not isinstance(metadata, RelationMetadata):
            continue
        source, target = metadata.source_id, metadata.target_id
        if source is None or target is None:
            continue
        weight = -(1.0 if metadata.weight is None else metadata.weight)
        found.setdefault(source, []).append((weight, target, relation.id))
        found.setdefault(target, []).append((weight, source, relation.id))
    return {
        place: [(target, via) for _, target, via in sorted(ends)] for place, ends in found.items()
    }
