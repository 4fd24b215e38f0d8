"""The step that asks every source at once, and waits for none longer than it may."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar, runtime_checkable

from context_assembler.errors import MemoryFormatError, MissingExtraError, VectorModelError
from context_assembler.ports import MemorySource
from context_assembler.recall.find_absent_kinds import find_absent_kinds
from context_assembler.recall.sieve_answers import Sieved, sieve_hits, sieve_records
from context_assembler.recall.speakers import mentioned_speakers, without_names
from context_assembler.recall.wait_in_line import turn_with
from context_assembler.recall.wait_until import wait_until
from context_assembler.values.foreign_errors import tell_problem
from context_assembler.values.memories.kinds import MemoryKind
from context_assembler.values.memories.records import (
    MemoryFilters,
    MemoryHit,
    MemoryOrder,
    MemoryRecord,
)
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.recall import Neighbour, Signals, SourceAnswer, SourceState

REACH: Final = 2
"""How many places before and behind a hit are looked at."""

_HITS_WITH_NEIGHBOURS: Final = 150
_RELATED_WORDS: Final = 24
_NO_WORDS: Final = "the query has no word to look for"

S = TypeVar("S", MemoryHit, MemoryRecord)

Sleep: TypeAlias = Callable[[float], Awaitable[object]]


@runtime_checkable
class _Neighbourhood(Protocol):
    async def neighbours(
        self, memory_ids: Sequence[str], *, before: int = 2, after: int = 2
    ) -> Mapping[str, tuple[MemoryRecord, ...]]: ...


@runtime_checkable
class _Listing(Protocol):
    async def list_records(
        self, *, order: MemoryOrder = "newest", limit: int = 20, filters: MemoryFilters
    ) -> Sequence[MemoryRecord]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What one source is asked of one kind.

    Attributes:
        name: What the answer is called.
        order: What to list where there is no query.
    """

    name: str
    source: MemorySource
    kind: MemoryKind
    filters: MemoryFilters
    limit: int
    vector: Vector | None = None
    order: MemoryOrder = "newest"


@dataclass(slots=True)
class _Progress:
    """What is known of an answer so far: it is not lost when time runs out."""

    hits: tuple[MemoryHit, ...] = ()
    neighbours: dict[str, tuple[Neighbour, ...]] = field(
        default_factory=dict[str, tuple[Neighbour, ...]]
    )
    notes: list[str] = field(default_factory=list[str])
    has_vectors: bool = True

    def keep(self, sieved: Sieved[S]) -> tuple[S, ...]:
        """Return what can be used, and keep in mind what was left out."""
        self.notes += (note for note in sieved.notes if note not in self.notes)
        return sieved.found


async def ask_sources(
    asks: Sequence[Ask],
    signals: Signals,
    *,
    seconds_per_source: float,
    seconds_in_all: float,
    sleep: Sleep = asyncio.sleep,
    all_over: asyncio.Future[object] | None = None,
) -> list[SourceAnswer]:
    """Return what each source says, in the order of asking, whatever the order of answering.

    A source that fails or is late costs nobody else anything; what it said in time is kept.

    Args:
        sleep: Returns after so many seconds.
        all_over: Done when the time of all is over; by default that begins here.
    """
    over = all_over or asyncio.ensure_future(sleep(seconds_in_all))
    groups: dict[int, list[Ask]] = {}
    for ask in asks:
        groups.setdefault(id(ask.source), []).append(ask)
    try:
        told = await asyncio.gather(
            *(
                _ask_source(group, signals, seconds_per_source, over, sleep)
                for group in groups.values()
            )
        )
    finally:
        if all_over is None:
            over.cancel()
    answers = dict(zip(groups, map(iter, told), strict=True))
    return [next(answers[id(ask.source)]) for ask in asks]


async def _ask_source(
    asks: Sequence[Ask],
    signals: Signals,
    seconds: float,
    all_over: asyncio.Future[object],
    sleep: Sleep,
) -> list[SourceAnswer]:
    """Return what one source answers; its time begins when it is our turn with it."""
    async with turn_with(asks[0].source, until=all_over):
        late = asyncio.ensure_future(sleep(seconds))
        try:
            return await _ask_kinds(asks, signals, late, all_over)
        finally:
            late.cancel()


async def _ask_kinds(
    asks: Sequence[Ask],
    signals: Signals,
    late: asyncio.Future[object],
    all_over: asyncio.Future[object],
) -> list[SourceAnswer]:
    """Return what one source answers; of the kinds that it has none of one speaks for all."""
    kinds: list[MemoryKind] = [ask.kind for ask in asks]
    source, filters = asks[0].source, asks[0].filters
    absent = await find_absent_kinds(source, kinds, filters, ends=(late, all_over))
    # By words alone there is nothing to say of them; vectors may be of another model.
    is_told = bool(signals.terms) and asks[0].vector is None
    spoken_for = set(absent if is_told else absent[1:])
    asked = [ask for ask in asks if ask.kind not in spoken_for]
    answers = await asyncio.gather(*(_ask(ask, signals, late, all_over) for ask in asked))
    of_none = next((answer for answer in answers if answer.kind in absent), None)
    rest = iter(answers)
    return [_as_of(ask, of_none) if ask.kind in spoken_for else next(rest) for ask in asks]


def _as_of(ask: Ask, of_none: SourceAnswer | None) -> SourceAnswer:
    """Return what was answered of one kind without records as the answer of another."""
    if of_none is None or of_none.hits:  # not asked, or kept just now
        return SourceAnswer(source=ask.name, kind=ask.kind, state="empty")
    return replace(of_none, source=ask.name, kind=ask.kind)


async def _ask(
    ask: Ask, signals: Signals, late: asyncio.Future[object], all_over: asyncio.Future[object]
) -> SourceAnswer:
    progress = _Progress()
    work = asyncio.ensure_future(_answer(ask, signals, progress))
    await wait_until(work, ends=(late, all_over))
    state, reason = _outcome(work, progress, is_all_over=all_over.done())
    return SourceAnswer(
        source=ask.name,
        kind=ask.kind,
        state=state,
        hits=progress.hits,
        neighbours=dict(progress.neighbours),
        reason=reason,
    )


def _outcome(
    work: asyncio.Future[str | None], progress: _Progress, *, is_all_over: bool
) -> tuple[SourceState, str | None]:
    if not work.done():
        whose = "all sources together" if is_all_over else "the source"
        return "timed_out", f"the time of {whose} was over"
    if work.cancelled():  # by itself: whoever cancels the recall ends the wait for it, not the work
        return "failed", "its own work was cancelled"
    error = work.exception()
    if error is not None:
        return "failed", tell_problem(error)
    if skipped := work.result():
        return "skipped", skipped
    return ("ok" if progress.hits else "empty"), "; ".join(progress.notes) or None


async def _answer(ask: Ask, signals: Signals, progress: _Progress) -> str | None:
    """Fill in what the source says; return why it was not asked."""
    filters = replace(ask.filters, kinds=(ask.kind,))
    if not signals.terms and ask.vector is None:
        if signals.query.strip():
            progress.notes.append(_NO_WORDS)
            return None
        if not isinstance(ask.source, _Listing):
            return "it lists nothing, and there is no query"
        listed = await ask.source.list_records(order=ask.order, limit=ask.limit, filters=filters)
        records = progress.keep(sieve_records(listed, limit=ask.limit))
        progress.hits = tuple(MemoryHit(record=r, order=at) for at, r in enumerate(records))
        return None
    progress.hits = await _search(ask, signals.search_text, filters, progress)
    names = mentioned_speakers(signals, [hit.record for hit in progress.hits])
    nameless = without_names(signals.search_text, names)
    if names and nameless.strip():
        # Who speaks is known of every turn: the name's own words would only drown the others.
        progress.hits = await _search(ask, nameless, filters, progress) or progress.hits
    progress.hits = await _with_related(ask, signals, names, filters, progress)
    if progress.hits and isinstance(ask.source, _Neighbourhood):
        try:
            await _ask_neighbours(ask.source, progress)
        except MemoryFormatError as error:  # what was found stands without what stands around it
            progress.notes.append(f"nothing was told of what stands around: {error.problem}")
    return None


async def _search(
    ask: Ask, text: str, filters: MemoryFilters, progress: _Progress
) -> tuple[MemoryHit, ...]:
    search = partial(ask.source.search, text, limit=ask.limit, filters=filters)
    if ask.vector is not None and progress.has_vectors:
        try:
            found = await search(vector=ask.vector)
            return progress.keep(sieve_hits(found, limit=ask.limit))
        except (MissingExtraError, VectorModelError) as error:
            progress.has_vectors = False
            progress.notes.append(f"searched by words alone: {error.problem}")
    return progress.keep(sieve_hits(await search(), limit=ask.limit))


async def _with_related(
    ask: Ask,
    signals: Signals,
    names: Collection[str],
    filters: MemoryFilters,
    progress: _Progress,
) -> tuple[MemoryHit, ...]:
    """Return the hits with what only has words of like meaning, as found by words that weigh nothing.

    That a vector found it too makes no difference: those of small models are vague. Sources without
    a rank by words know what means the same.
    """
    likeness: dict[str, float] = {}
    for term, related in signals.related.items():
        for word, near in related.items() if term not in names else ():
            likeness[word] = max(likeness.get(word, 0.0), near)
    closest = sorted(likeness, key=lambda word: (-likeness[word], word))[:_RELATED_WORDS]
    hits = progress.hits
    is_by_meaning = bool(hits) and all(hit.bm25 is None for hit in hits)
    if not closest or (is_by_meaning and not (ask.vector and progress.has_vectors)):
        return hits
    answered = await ask.source.search(" ".join(closest), limit=ask.limit, filters=filters)
    found = progress.keep(sieve_hits(answered, limit=ask.limit))
    if is_by_meaning:
        found = tuple(hit for hit in found if hit.bm25 is not None)
    told = {hit.record.id for hit in found} if is_by_meaning else set[str]()
    known = {hit.record.id for hit in hits}
    return (
        *(replace(hit, bm25=0.0) if hit.record.id in told else hit for hit in hits),
        *(replace(hit, bm25=0.0) for hit in found if hit.record.id not in known),
    )


async def _ask_neighbours(source: _Neighbourhood, progress: _Progress) -> None:
    ids = [hit.record.id for hit in progress.hits[:_HITS_WITH_NEIGHBOURS]]
    earlier = await source.neighbours(ids, before=REACH, after=0)
    later = await source.neighbours(ids, before=0, after=REACH)
    for memory_id in ids:
        before = _beside(progress, tuple(earlier.get(memory_id, ()))[-REACH:])
        after = _beside(progress, tuple(later.get(memory_id, ()))[:REACH])
        progress.neighbours[memory_id] = (
            *(
                Neighbour(record=record, distance=at - len(before))
                for at, record in enumerate(before)
            ),
            *(Neighbour(record=record, distance=at) for at, record in enumerate(after, 1)),
        )


def _beside(progress: _Progress, told: Sequence[MemoryRecord]) -> tuple[MemoryRecord, ...]:
    return progress.keep(sieve_records(told, limit=REACH))
