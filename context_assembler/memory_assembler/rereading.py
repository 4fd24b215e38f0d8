"""A closer look at long records whose vector blurs what single passages of them say."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol, runtime_checkable

from context_assembler.embeddings.passages import LONG_CHARS
from context_assembler.memory_assembler.deadlines import Deadline
from context_assembler.ports import Embed
from context_assembler.values.memories.records import MemoryHit
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.recall import SourceAnswer

_READ_AGAIN: Final = 64  # of the long records of each answer, the best


@runtime_checkable
class _PassageReader(Protocol):
    async def compare_passages(
        self, vector: Vector, texts: Sequence[str]
    ) -> list[float | None]: ...


async def read_again(
    answers: Sequence[SourceAnswer],
    embed: Embed | None,
    vector: Vector | None,
    *,
    deadline: Deadline,
) -> list[SourceAnswer]:
    """Return the answers with long records as alike as their most alike passage is.

    Only models that are quick enough offer it; where it fails or is late, the records' own vectors
    count.
    """
    if vector is None or not isinstance(embed, _PassageReader):
        return list(answers)
    long = [_long_hits(answer.hits) for answer in answers]
    texts = [hit.record.text for hits in long for hit in hits]
    try:
        found = await deadline.wait_for(embed.compare_passages(vector, texts)) if texts else []
        likeness_by_text = dict(zip(texts, found, strict=True))
    except Exception:  # noqa: BLE001 - whatever a model does, there are the records' own vectors
        return list(answers)
    return [
        replace(answer, hits=tuple(_closer(hit, likeness_by_text) for hit in answer.hits))
        for answer in answers
    ]


def _long_hits(hits: Sequence[MemoryHit]) -> list[MemoryHit]:
    long = [h for h in hits if h.similarity is not None and len(h.record.text) > LONG_CHARS]
    return long[:_READ_AGAIN]


def _closer(hit: MemoryHit, likeness_by_text: dict[str, float | None]) -> MemoryHit:
    likeness = likeness_by_text.get(hit.record.text)
    if likeness is None or hit.similarity is None:
        return hit
    return replace(hit, similarity=likeness)
