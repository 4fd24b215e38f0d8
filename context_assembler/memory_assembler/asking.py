"""What sources are asked for, and asking those that can look up more than they find."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from context_assembler.embeddings.related_words import load_related_words
from context_assembler.errors import AssemblyError
from context_assembler.memory_assembler.deadlines import Deadline
from context_assembler.ports import Embed, MemorySource
from context_assembler.ports.asking import ask_embedder
from context_assembler.recall.ask_relations import ask_relations
from context_assembler.recall.ask_sources import Ask
from context_assembler.recall.walk_relations import relate
from context_assembler.values.foreign_errors import tell_problem
from context_assembler.values.memories.kinds import KINDS, MemoryKind
from context_assembler.values.memories.records import MemoryFilters, MemoryOrder
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.recall import Candidate, Signals
from context_assembler.values.recall_settings import RecallSettings

_LEAST_ASKED: Final = 200  # of each source: what stands around lifts what words alone do not
_MOST_ASKED: Final = 1_000
_STARTS: Final = 8  # entities that relations are walked from


def make_asks(
    sources: Mapping[str, MemorySource],
    kinds: Sequence[MemoryKind],
    filters: MemoryFilters,
    settings: RecallSettings,
    *,
    limit: int,
    vector: Vector | None,
) -> list[Ask]:
    """Return what each source is asked of each kind, named by the kind where there is one source."""
    order: MemoryOrder = "most_important" if settings.strategy == "important" else "newest"
    return [
        Ask(
            name=_answer_name(name, kind, sources),
            source=source,
            kind=kind,
            filters=filters,
            limit=min(max(_LEAST_ASKED, 3 * limit), _MOST_ASKED),
            vector=vector,
            order=order,
        )
        for name, source in sources.items()
        for kind in kinds
    ]


def _answer_name(name: str, kind: MemoryKind, sources: Mapping[str, MemorySource]) -> str:
    return kind if len(sources) == 1 else f"{name}/{kind}"


def relate_words(terms: Iterable[str]) -> Mapping[str, Mapping[str, float]]:
    """Return for words those of like meaning; the table is read when the first are asked for."""
    return load_related_words().of(terms)


async def place_query(
    embed: Embed | None, signals: Signals, *, deadline: Deadline
) -> tuple[Vector | None, dict[str, str]]:
    """Return the query's vector; where the model cannot be used, why, under `embedding`."""
    if embed is None or not signals.query.strip():
        return None, {}
    try:
        [vector] = await deadline.wait_for(ask_embedder(embed, [signals.query], purpose="query"))
    except Exception as error:  # noqa: BLE001 - whatever a model does, words can still be searched
        reason = error.problem if isinstance(error, AssemblyError) else tell_problem(error)
        return None, {"embedding": f"searched by words alone: {reason}"}
    return vector, {}


async def walk_from(
    sources: Mapping[str, MemorySource],
    ranked: Sequence[Candidate],
    filters: MemoryFilters,
    *,
    depth: int,
    deadline: Deadline,
) -> list[Candidate]:
    """Return what is connected with the best entities; a source that fails or is late adds nothing.

    Relations name the ends by their ids in the same source.
    """
    starts = [c for c in ranked if c.record.kind == "entities"][:_STARTS] if depth else []
    if not starts:
        return []
    wanted = replace(filters, kinds=("relations",))
    own_starts = [_found_in(name, starts, sources) for name in sources]
    walks = await asyncio.gather(
        *(
            deadline.wait_for(
                ask_relations(source, [c.record.id for c in own], depth=depth, filters=wanted)
            )
            for source, own in zip(sources.values(), own_starts, strict=True)
        ),
        return_exceptions=True,
    )
    related: list[Candidate] = []
    for name, walk in zip(sources, walks, strict=True):
        if not isinstance(walk, BaseException):
            reached, records = walk
            related += relate(reached, records, _found_in(name, ranked, sources))
    return related


def _found_in(
    name: str, ranked: Iterable[Candidate], sources: Mapping[str, MemorySource]
) -> list[Candidate]:
    names = {_answer_name(name, kind, sources) for kind in KINDS}
    return [candidate for candidate in ranked if candidate.source in names]
