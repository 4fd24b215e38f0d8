"""Which records say nearly what a store keeps already, or what another of them says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from context_assembler.memory.preparing import normal_text
from context_assembler.ports import MemorySource
from context_assembler.recall.same_facts import say_the_same
from context_assembler.recall.similar_texts import find_twins
from context_assembler.values.memories.kinds import KINDS
from context_assembler.values.memories.records import MemoryFilters, MemoryRecord, Remembered
from context_assembler.values.texts.likeness import load_likeness

_LOOKED_AT = 20  # of what the store finds by the record's words


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """What need not be kept, by its place among the records.

    Attributes:
        kept: The id of the record in the store that says nearly the same.
        first: The place of the one among the records that does, and is kept itself.
    """

    kept: Mapping[int, str] = field(default_factory=dict[int, str])
    first: Mapping[int, int] = field(default_factory=dict[int, int])


async def find_alike(
    source: MemorySource, records: Sequence[MemoryRecord], *, least: float
) -> Alike:
    """Return which records are at least so alike to one that is kept, or to one before them.

    Only records without an id can be spared, no turns of a conversation, and only for one of their
    kind, namespace and identity. Any source will do: it is searched for each text, and what it finds
    is compared; the records themselves are told apart by signatures.
    """
    open_places = [at for at, record in enumerate(records) if _may_merge(record)]
    kept: dict[int, str] = {}
    for at in open_places:
        twin = await _find_twin(source, records[at], least=least)
        if twin is not None:
            kept[at] = twin
    rest = [at for at in open_places if at not in kept]
    texts = [normal_text(records[at].text) for at in rest]

    def may_be_twins(left: int, right: int) -> bool:
        return _identity(records[rest[left]]) == _identity(records[rest[right]])

    twins = find_twins(texts, least=least, may_be_twins=may_be_twins)
    return Alike(kept=kept, first={rest[later]: rest[first] for later, first in twins.items()})


def tell_all(alike: Alike, remembered: Sequence[Remembered], *, count: int) -> list[Remembered]:
    """Return what became of all records, where those were remembered that had to be."""
    spared = {*alike.kept, *alike.first}
    outcome_by_place = dict(
        zip((at for at in range(count) if at not in spared), remembered, strict=True)
    )
    outcome_by_place |= {at: _merged(memory_id) for at, memory_id in alike.kept.items()}
    outcome_by_place |= {
        at: _merged(outcome_by_place[earlier].id) for at, earlier in alike.first.items()
    }
    return [outcome_by_place[at] for at in range(count)]


async def _find_twin(source: MemorySource, record: MemoryRecord, *, least: float) -> str | None:
    """Return the id of what was stored first of those that say nearly the same."""
    filters = MemoryFilters(kinds=(record.kind,), namespaces=(record.namespace,))
    hits = await source.search(record.text, limit=_LOOKED_AT, filters=filters)
    likeness, text = load_likeness(), normal_text(record.text)
    twins = [
        hit
        for hit in hits
        if _identity(hit.record) == _identity(record)
        and say_the_same(text, other := normal_text(hit.record.text))
        and likeness(text, other, least) >= least
    ]
    return min(twins, key=lambda hit: hit.order).record.id if twins else None


def _merged(memory_id: str) -> Remembered:
    notice = f"Nearly the same is kept as {memory_id}."
    return Remembered(id=memory_id, outcome="duplicate", notices=(notice,))


def _may_merge(record: MemoryRecord) -> bool:
    return not record.id and not KINDS[record.kind].is_turn_like and bool(record.text.strip())


def _identity(record: MemoryRecord) -> tuple[object, ...]:
    told = (getattr(record.metadata, name, None) for name in KINDS[record.kind].identity)
    return (record.namespace, record.kind, *told)
