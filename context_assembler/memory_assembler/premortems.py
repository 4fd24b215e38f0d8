"""Recall of what earlier attempts teach, from every source within its time."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, runtime_checkable

from context_assembler.memory.asked_bounds import check_filters
from context_assembler.memory_assembler.arguments import check_words
from context_assembler.memory_assembler.deadlines import Deadline, deadline_of
from context_assembler.memory_assembler.joining import fit_premortem
from context_assembler.memory_assembler.recalling import Recalling
from context_assembler.memory_assembler.showing import show_records, show_text
from context_assembler.memory_assembler.thinking import chars_of, think
from context_assembler.ports import MemorySource
from context_assembler.recall.ask_sources import Sleep
from context_assembler.recall.premortem import PremortemContext, is_of_domain, premortem_lines
from context_assembler.recall.sieve_answers import Sieved, sieve_hits, sieve_records
from context_assembler.values.foreign_errors import tell_problem
from context_assembler.values.given import check_type
from context_assembler.values.memories.kinds import MemoryKind
from context_assembler.values.memories.records import (
    MemoryFilters,
    MemoryOrder,
    MemoryRecord,
)
from context_assembler.values.recall import SourceState

_LESSONS: Final = 1_000
_LESSON_KINDS: Final[tuple[MemoryKind, ...]] = ("experiences", "values", "patterns", "learnings")
_NO_LESSON_KIND: Final = (
    f"the filters name none of the kinds that teach: {', '.join(_LESSON_KINDS)}"
)
_WORST_FIRST: Final[tuple[SourceState, ...]] = ("failed", "timed_out", "skipped", "ok", "empty")


@runtime_checkable
class _Listing(Protocol):
    async def list_records(
        self, *, order: MemoryOrder = "newest", limit: int = 20, filters: MemoryFilters
    ) -> Sequence[MemoryRecord]: ...


@dataclass(slots=True)
class _Lessons:
    """What a source taught of one kind so far: it is not lost when time runs out."""

    records: list[MemoryRecord] = field(default_factory=list[MemoryRecord])
    state: SourceState = "empty"
    note: str | None = None

    def keep(self, sieved: Sieved[MemoryRecord]) -> None:
        """Keep what can be used, and in mind what was left out."""
        self.records += sieved.found
        self.note = self.note or next(iter(sieved.notes), None)


async def recall_premortem(
    recall: Recalling,
    sources: Mapping[str, MemorySource],
    domain: str,
    strategy: str | None,
    filters: MemoryFilters,
    *,
    sleep: Sleep,
) -> PremortemContext:
    """Return what the sources teach of a domain; one that fails or is late costs its part alone.

    Sources are searched for the domain, and those that can list are read newest first.

    Raises:
        InvalidParameterError: The domain says nothing.
    """
    check_words("domain", domain)
    check_type("strategy", strategy, str, type(None), such_as="the strategy's name, or None")
    check_filters(filters)
    async with deadline_of(recall.settings, sleep=sleep) as deadline:
        groups = await asyncio.gather(
            *(_ask(source, domain, filters, deadline) for source in sources.values())
        )
    by_name = dict(zip(sources, groups, strict=True))
    records = [record for group in groups for record in group.records]
    states: dict[str, SourceState] = {name: group.state for name, group in by_name.items()}
    tell = partial(_tell, recall, records, states, domain, strategy)
    told = await think(tell, chars=chars_of(records))
    notes = {name: group.note for name, group in by_name.items() if group.note}
    return replace(
        told,
        source_status=states,
        source_notes={**told.source_notes, **notes},
    )


def _tell(
    recall: Recalling,
    records: Sequence[MemoryRecord],
    states: Mapping[str, SourceState],
    domain: str,
    strategy: str | None,
) -> PremortemContext:
    distinct = {(record.id, record.text): record for record in records}.values()
    known = [r for r in distinct if is_of_domain(r, domain=domain, strategy=strategy)]
    shown, notes = show_records(known, masks_secrets=recall.masks_secrets)
    fitted = fit_premortem(
        premortem_lines(shown),
        domain=show_text(domain, masks_secrets=recall.masks_secrets),
        strategy=strategy and show_text(strategy, masks_secrets=recall.masks_secrets),
        max_tokens=recall.max_tokens,
        count_text=recall.count,
        states=states,
    )
    return replace(fitted, source_notes=notes)


async def _ask(
    source: MemorySource, domain: str, filters: MemoryFilters, deadline: Deadline
) -> _Lessons:
    """Return what the source teaches: each kind is asked for by itself, all at once."""
    kinds = [kind for kind in _LESSON_KINDS if not filters.kinds or kind in filters.kinds]
    if not kinds:
        return _Lessons(state="skipped", note=_NO_LESSON_KIND)
    groups = await asyncio.gather(
        *(_ask_kind(source, domain, replace(filters, kinds=(kind,)), deadline) for kind in kinds)
    )
    worst = min(groups, key=lambda group: _WORST_FIRST.index(group.state))
    notes = dict.fromkeys(group.note for group in groups if group.note)
    return _Lessons(
        records=[record for group in groups for record in group.records],
        state=worst.state,
        note="; ".join(notes) or None,
    )


async def _ask_kind(
    source: MemorySource, domain: str, filters: MemoryFilters, deadline: Deadline
) -> _Lessons:
    lessons = _Lessons()
    try:
        await deadline.wait_for(_fill(lessons, source, domain, filters))
    except TimeoutError as error:
        return replace(lessons, state="timed_out", note=tell_problem(error))
    except Exception as error:  # noqa: BLE001 - whatever a source does, the others are still heard
        return replace(lessons, state="failed", note=tell_problem(error))
    return replace(lessons, state="ok" if lessons.records else "empty")


async def _fill(
    lessons: _Lessons, source: MemorySource, domain: str, filters: MemoryFilters
) -> None:
    hits = sieve_hits(await source.search(domain, limit=_LESSONS, filters=filters), limit=_LESSONS)
    lessons.keep(Sieved(found=tuple(hit.record for hit in hits.found), notes=hits.notes))
    if isinstance(source, _Listing):
        listed = await source.list_records(order="newest", limit=_LESSONS, filters=filters)
        lessons.keep(sieve_records(listed, limit=_LESSONS))
