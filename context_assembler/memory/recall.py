"""Asking every source at once, and waiting for none longer than it may."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

from context_assembler.errors import (
    AssemblyError,
    EmbeddingError,
    MemoryFormatError,
    MissingExtraError,
    VectorModelError,
)
from context_assembler.memory.kinds import KINDS, MemoryKind, RelationMetadata
from context_assembler.memory.records import (
    Embed,
    EmbedPurpose,
    MemoryFilters,
    MemoryHit,
    MemoryOrder,
    MemoryRecord,
    MemorySource,
    Vector,
    identified,
)
from context_assembler.memory.score import (
    Candidate,
    RecallSettings,
    SourceAnswer,
    SourceState,
    mentioned_speakers,
    without_names,
)
from context_assembler.memory.words import Signals

LONG_CHARS: Final = 400  # a text up to here is one passage: its own vector says as much
_REACH: Final = 2  # how many places before and behind a hit are looked at
_HITS_WITH_NEIGHBOURS: Final = 150
_RELATED_WORDS: Final = 24
_LEAST_ASKED: Final = 200  # of each source: what stands around lifts what words alone do not
_MOST_ASKED: Final = 1_000
_LEAST_KINDS: Final = 3  # below, to ask which kinds there are takes as long as to search
_READ_AGAIN: Final = 64  # of the long records of each answer, the best
_STARTS: Final = 8  # entities that relations are walked from
_RELATIONS_PER_PLACE: Final = 64
_PLACES_PER_ROUND: Final = 16
_RELATION_FACTOR: Final = 0.5  # of the score, for each relation that is walked
_RECALLS_AT_ONCE: Final = 4  # with one source: while one of them thinks, another one reads
_PROBLEM_CHARS: Final = 200

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
T = TypeVar("T")


@runtime_checkable
class _Neighbourhood(Protocol):
    async def neighbours(
        self, memory_ids: Sequence[str], *, before: int = 2, after: int = 2
    ) -> Mapping[str, Sequence[MemoryRecord]]: ...


@runtime_checkable
class Listing(Protocol):
    """A source that lists records without a query."""

    async def list_records(
        self, *, order: MemoryOrder = "newest", limit: int = 20, filters: MemoryFilters
    ) -> Sequence[MemoryRecord]:
        """Return at most `limit` records in that order."""


@runtime_checkable
class _Lookup(Protocol):
    async def get(self, memory_id: str) -> MemoryRecord: ...


@runtime_checkable
class _NamesKinds(Protocol):
    async def present_kinds(self, *, filters: MemoryFilters) -> frozenset[MemoryKind]: ...


@runtime_checkable
class _PassageReader(Protocol):
    async def compare_passages(
        self, vector: Vector, texts: Sequence[str]
    ) -> list[float | None]: ...


# ---- time ----


class Deadline:
    """How long one source has, and all of them together."""

    def __init__(self, settings: RecallSettings, sleep: Sleep) -> None:
        self._seconds, self._sleep = settings.seconds_per_source, sleep
        self.all_over = asyncio.ensure_future(sleep(settings.seconds_in_all))

    @asynccontextmanager
    async def turn(self) -> Any:
        """Let the time of one source begin; what is given is done when that time is over."""
        late = asyncio.ensure_future(self._sleep(self._seconds))
        try:
            yield late
        finally:
            late.cancel()

    async def wait_for(self, work: Coroutine[Any, Any, T], late: Any = None) -> T:
        """Return what the work returns.

        Args:
            late: The end of a source's time that has begun; by default it begins here.

        Raises:
            TimeoutError: It took too long, and was cancelled.
            RuntimeError: It was cancelled by itself, not by whoever waits here.
        """
        if late is None:
            async with self.turn() as own:
                return await self.wait_for(work, own)
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task, late, self.all_over], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                whose = "all sources together" if self.all_over.done() else "the source"
                raise TimeoutError(f"the time of {whose} was over")
            if task.cancelled():
                raise RuntimeError("its own work was cancelled")
            return task.result()
        finally:
            task.cancel()
            task.add_done_callback(_drop)  # what ignores the end may fail unheard

    def close(self) -> None:
        """Forget the end of all."""
        self.all_over.cancel()


def _drop(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


_TURNS: WeakKeyDictionary[Any, WeakKeyDictionary[Any, asyncio.Semaphore]] = WeakKeyDictionary()


@asynccontextmanager
async def _turn_with(source: MemorySource, deadline: Deadline) -> Any:
    """Let it be one's turn with the source inside; once time is over nobody waits any more.

    If all went on at once, each would wait behind every step of all others: many short recalls would
    end late together, and none in time.
    """
    by_source = _TURNS.setdefault(asyncio.get_running_loop(), WeakKeyDictionary())
    line = by_source.setdefault(source, asyncio.Semaphore(_RECALLS_AT_ONCE))
    taking = asyncio.ensure_future(line.acquire())
    try:
        await asyncio.wait([taking, deadline.all_over], return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        taking.cancel()
        if taking.done() and not taking.cancelled():
            line.release()


def problem_of(error: BaseException) -> str:
    """Return an error in one line: its name, and the beginning of what it says, in whole words."""
    said = " ".join(str(error).split())
    told = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if len(told) <= _PROBLEM_CHARS:
        return told
    return f"{told[:_PROBLEM_CHARS].rpartition(' ')[0].rstrip(' ,;:.')}…"


# ---- asking for records ----


class Ask(NamedTuple):
    """What one source is asked of one kind.

    Attributes:
        name: What the answer is called: the kind, with the source's name if there are several.
        order: What to list if there is no query.
    """

    name: str
    source: MemorySource
    filters: MemoryFilters  # with that one kind
    limit: int
    vector: Vector | None
    order: MemoryOrder

    @property
    def kind(self) -> MemoryKind:
        return self.filters.kinds[0]


class _Progress:
    """What is known of an answer so far: it is not lost when time runs out."""

    def __init__(self) -> None:
        self.hits: tuple[MemoryHit, ...] = ()
        self.neighbours: dict[str, list[tuple[MemoryRecord, int]]] = {}
        self.notes: dict[str, None] = {}
        self.has_vectors = True


async def ask_sources(
    sources: Mapping[str, MemorySource],
    kinds: Sequence[MemoryKind],
    filters: MemoryFilters,
    signals: Signals,
    settings: RecallSettings,
    *,
    limit: int,
    vector: Vector | None,
    deadline: Deadline,
) -> list[SourceAnswer]:
    """Return what each source says of each kind, whatever the order of answering.

    A source that fails or is late costs nobody else anything; what it said in time is kept.
    """
    order: MemoryOrder = "most_important" if settings.strategy == "important" else "newest"
    limit = min(max(_LEAST_ASKED, 3 * limit), _MOST_ASKED)
    groups = [
        [
            Ask(
                _answer_name(name, kind, sources),
                source,
                replace(filters, kinds=(kind,)),
                limit,
                vector,
                order,
            )
            for kind in kinds
        ]
        for name, source in sources.items()
    ]
    answers = await asyncio.gather(*(_ask_source(group, signals, deadline) for group in groups))
    return [answer for group in answers for answer in group]


def _answer_name(name: str, kind: MemoryKind, sources: Mapping[str, MemorySource]) -> str:
    return kind if len(sources) == 1 else f"{name}/{kind}"


async def _ask_source(
    asks: Sequence[Ask], signals: Signals, deadline: Deadline
) -> list[SourceAnswer]:
    """Return what one source answers; of the kinds that it has none of, one is asked for all."""
    source = asks[0].source
    async with _turn_with(source, deadline), deadline.turn() as late:
        absent: set[MemoryKind] = set()
        if len(asks) >= _LEAST_KINDS and isinstance(source, _NamesKinds):
            try:
                asked = replace(asks[0].filters, kinds=())
                there = await deadline.wait_for(source.present_kinds(filters=asked), late)
                absent = {ask.kind for ask in asks} - there
            except Exception:  # a search says why
                absent = set()
        # By words alone there is nothing to be found of them; vectors may be of another model.
        speaker = next((ask.kind for ask in asks if ask.kind in absent), None)
        if signals.terms and asks[0].vector is None:
            speaker = None
        asked = [ask for ask in asks if ask.kind not in absent or ask.kind == speaker]
        found = await asyncio.gather(*(_ask(ask, signals, deadline, late) for ask in asked))
    by_kind = {answer.kind: answer for answer in found}
    said = by_kind.get(speaker) if speaker else None
    if said is None or said.hits:
        said = SourceAnswer("", "", "empty")
    return [by_kind.get(a.kind) or said._replace(source=a.name, kind=a.kind) for a in asks]


async def _ask(ask: Ask, signals: Signals, deadline: Deadline, late: object) -> SourceAnswer:
    progress = _Progress()
    state: SourceState
    try:
        skipped = await deadline.wait_for(_answer(ask, signals, progress), late)
        state = "skipped" if skipped else "ok" if progress.hits else "empty"
        reason = skipped or "; ".join(progress.notes) or None
    except TimeoutError as error:
        state, reason = "timed_out", str(error)
    except Exception as error:
        state, reason = "failed", problem_of(error)
    return SourceAnswer(ask.name, ask.kind, state, progress.hits, dict(progress.neighbours), reason)


async def _answer(ask: Ask, signals: Signals, progress: _Progress) -> str | None:
    """Fill in what the source says; return why it was not asked."""
    source = ask.source
    if not signals.terms and ask.vector is None:
        if signals.query.strip():
            progress.notes["the query has no word to look for"] = None
            return None
        if not isinstance(source, Listing):
            return "it lists nothing, and there is no query"
        listed = await source.list_records(order=ask.order, limit=ask.limit, filters=ask.filters)
        records = map(identified, listed)
        progress.hits = tuple(MemoryHit(record, at) for at, record in enumerate(records))
        return None
    progress.hits = await _search(ask, signals.search_text, progress)
    names = mentioned_speakers(signals, [hit.record for hit in progress.hits])
    nameless = without_names(signals.search_text, names)
    if names and nameless.strip():
        # Who speaks is known of every turn: the name's own words would only drown the others.
        progress.hits = await _search(ask, nameless, progress) or progress.hits
    progress.hits = await _with_related(ask, signals, names, progress)
    if progress.hits and isinstance(source, _Neighbourhood):
        try:
            await _ask_neighbours(source, progress)
        except MemoryFormatError as error:  # what was found stands without what stands around it
            progress.notes[f"nothing was told of what stands around: {error.problem}"] = None
    return None


async def _search(ask: Ask, text: str, progress: _Progress) -> tuple[MemoryHit, ...]:
    vector = ask.vector if progress.has_vectors else None
    try:
        found = await ask.source.search(
            text, limit=ask.limit, filters=ask.filters, **({"vector": vector} if vector else {})
        )
    except (MissingExtraError, VectorModelError) as error:
        if vector is None:
            raise
        progress.has_vectors = False
        progress.notes[f"searched by words alone: {error.problem}"] = None
        return await _search(ask, text, progress)
    return usable_hits(found, ask.limit)


def usable_hits(found: Iterable[MemoryHit], limit: int) -> tuple[MemoryHit, ...]:
    """Return at most so many of the hits, each record with an id."""
    return tuple(
        hit if hit.record.id else hit._replace(record=identified(hit.record))
        for hit in [*found][:limit]
    )


async def _with_related(
    ask: Ask, signals: Signals, names: Collection[str], progress: _Progress
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
    found = usable_hits(
        await ask.source.search(" ".join(closest), limit=ask.limit, filters=ask.filters), ask.limit
    )
    if is_by_meaning:
        found = tuple(hit for hit in found if hit.bm25 is not None)
    again = {hit.record.id for hit in found} if is_by_meaning else set[str]()
    known = {hit.record.id for hit in hits}
    return (
        *(hit._replace(bm25=0.0) if hit.record.id in again else hit for hit in hits),
        *(hit._replace(bm25=0.0) for hit in found if hit.record.id not in known),
    )


async def _ask_neighbours(source: _Neighbourhood, progress: _Progress) -> None:
    ids = [hit.record.id for hit in progress.hits[:_HITS_WITH_NEIGHBOURS]]
    earlier = await source.neighbours(ids, before=_REACH, after=0)
    later = await source.neighbours(ids, before=0, after=_REACH)
    for memory_id in ids:
        before = [*map(identified, earlier.get(memory_id, ()))][-_REACH:]
        after = [*map(identified, later.get(memory_id, ()))][:_REACH]
        progress.neighbours[memory_id] = [
            *((record, at - len(before)) for at, record in enumerate(before)),
            *((record, at) for at, record in enumerate(after, 1)),
        ]


# ---- meaning ----


async def embed_texts(
    embed: Embed, texts: Sequence[str], *, purpose: EmbedPurpose = "record"
) -> list[Vector | None]:
    """Return a vector for each text, in order; `None` for one that says nothing.

    Raises:
        EmbeddingError: The model failed, or answered something else than it was asked for.
    """
    try:
        vectors = await embed.embed(texts, purpose=purpose)
    except AssemblyError:
        raise
    except Exception as error:
        raise EmbeddingError(
            embed.model,
            reason=f"it failed with {problem_of(error)}".rstrip("."),
            remedy="Correct the embedder, or leave it out.",
        ) from error
    spaces = {(vector.model, vector.dimension) for vector in vectors if vector is not None}
    if len(vectors) != len(texts) or len(spaces) > 1 or {m for m, _ in spaces} - {embed.model}:
        reason = f"it returned {len(vectors)} vectors of {sorted(spaces)} for {len(texts)} texts"
        remedy = "Return Vector.pack(model, numbers), or None, one for each text, in order."
        raise EmbeddingError(embed.model, reason=reason, remedy=remedy)
    return vectors


async def embed_query(
    embed: Embed | None, signals: Signals, deadline: Deadline
) -> tuple[Vector | None, dict[str, str]]:
    """Return the query's vector; if the model cannot be used, why, under `embedding`."""
    if embed is None or not signals.query.strip():
        return None, {}
    try:
        [vector] = await deadline.wait_for(embed_texts(embed, [signals.query], purpose="query"))
    except Exception as error:  # whatever a model does, words can still be searched
        reason = error.problem if isinstance(error, AssemblyError) else problem_of(error)
        return None, {"embedding": f"searched by words alone: {reason}"}
    return vector, {}


async def read_again(
    answers: Sequence[SourceAnswer], embed: Embed | None, vector: Vector | None, deadline: Deadline
) -> list[SourceAnswer]:
    """Return the answers with long records as alike as their most alike passage is.

    The vector of a long record blurs what single passages of it say. Only models that are quick
    enough offer it; if it fails or is late, the records' own vectors count.
    """
    if vector is None or not isinstance(embed, _PassageReader):
        return [*answers]
    texts = [text for answer in answers for text in _long_texts(answer.hits)[:_READ_AGAIN]]
    try:
        found = await deadline.wait_for(embed.compare_passages(vector, texts)) if texts else []
        likeness = dict(zip(texts, found, strict=True))
    except Exception:  # whatever a model does, there are the records' own vectors
        return [*answers]
    return [
        answer._replace(
            hits=tuple(
                hit
                if hit.similarity is None or (near := likeness.get(hit.record.text)) is None
                else hit._replace(similarity=near)
                for hit in answer.hits
            )
        )
        for answer in answers
    ]


def _long_texts(hits: Iterable[MemoryHit]) -> list[str]:
    texts = (hit.record.text for hit in hits if hit.similarity is not None)
    return [text for text in texts if len(text) > LONG_CHARS]


# ---- relations ----


async def walk_from(
    sources: Mapping[str, MemorySource],
    ranked: Sequence[Candidate],
    filters: MemoryFilters,
    *,
    depth: int,
    deadline: Deadline,
) -> list[Candidate]:
    """Return what is connected with the best entities, and the connections.

    Relations name their ends by ids in the same source; each step away halves the score. A source
    that fails or is late adds nothing.
    """
    starts = [c for c in ranked if c.record.kind == "entities"][:_STARTS] if depth else []
    if not starts:
        return []
    wanted = replace(filters, kinds=("relations",))
    names_by_source = {n: {_answer_name(n, kind, sources) for kind in KINDS} for n in sources}
    walks = await asyncio.gather(
        *(
            deadline.wait_for(
                _walk(
                    source,
                    [c for c in ranked if c.source in names_by_source[name]],
                    [c for c in starts if c.source in names_by_source[name]],
                    wanted,
                    depth,
                )
            )
            for name, source in sources.items()
        ),
        return_exceptions=True,
    )
    return [found for walk in walks if not isinstance(walk, BaseException) for found in walk]


async def _walk(
    source: MemorySource,
    ranked: Sequence[Candidate],
    starts: Sequence[Candidate],
    filters: MemoryFilters,
    depth: int,
) -> list[Candidate]:
    """Walk breadth first, over relations in both directions, heavier ones first."""
    if not isinstance(source, _Lookup):
        return []
    known = {candidate.record.id for candidate in ranked}
    origins = {start.record.id: start for start in starts}
    frontier, related = [*origins], dict[str, Candidate]()
    for distance in range(1, depth + 1):
        found = await asyncio.gather(
            *(_relations_of(source, place, filters) for place in frontier[:_PLACES_PER_ROUND])
        )
        reached: dict[str, tuple[str, MemoryRecord]] = {}
        for place, relations in zip(frontier, found, strict=False):
            for target, relation in relations:
                if target not in origins and target not in reached:
                    reached[target] = (place, relation)
        records = await asyncio.gather(*(_get(source, memory_id) for memory_id in reached))
        frontier = []
        for record, (target, (place, relation)) in zip(records, reached.items(), strict=True):
            start = origins[target] = origins[place]
            frontier.append(target)
            for one in (relation, record) if record is not None else ():
                if one.id not in known and one.id not in related:
                    related[one.id] = start._replace(
                        record=one,
                        score=start.score * _RELATION_FACTOR**distance,
                        reason="it is connected with what fits the query",
                    )
    return [*related.values()]


async def _relations_of(
    source: MemorySource, place: str, filters: MemoryFilters
) -> list[tuple[str, MemoryRecord]]:
    """Return where the relations of a place lead, the heaviest first, each with its relation."""
    hits = await source.search(place, limit=_RELATIONS_PER_PLACE, filters=filters)
    ends: list[tuple[float, str, str, MemoryRecord]] = []
    for hit in usable_hits(hits, _RELATIONS_PER_PLACE):
        relation = hit.record.metadata
        if isinstance(relation, RelationMetadata) and relation.source_id and relation.target_id:
            weight = -(1.0 if relation.weight is None else relation.weight)
            pair = (relation.source_id, relation.target_id)
            if place in pair:
                target = pair[1] if place == pair[0] else pair[0]
                ends.append((weight, target, hit.record.id, hit.record))
    return [(target, record) for _, target, _, record in sorted(ends, key=lambda end: end[:3])]


async def _get(source: _Lookup, memory_id: str) -> MemoryRecord | None:
    try:
        return await source.get(memory_id)
    except AssemblyError:  # an end that is not kept any more
        return None
