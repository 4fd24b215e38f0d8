"""Asking every source at once, and waiting for none longer than it may."""

import asyncio
import os
import re
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from textwrap import shorten
from threading import Thread
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, finalize

from context_assembler import errors
from context_assembler.memory.kinds import KINDS, MemoryKind, RelationMetadata
from context_assembler.memory.records import (
    NO_FILTERS,
    Embed,
    EmbedPurpose,
    MemoryFilters,
    MemoryHit,
    MemoryRecord,
    MemorySource,
    Vector,
    Vectors,
    WordCounts,
    identified,
)
from context_assembler.memory.score import (
    UNASKED,
    Candidate,
    Recall,
    RecallSettings,
    SourceAnswer,
    SourceState,
    mentioned_names,
    mentioned_speakers,
    without_names,
)
from context_assembler.memory.stores import MemoryStore
from context_assembler.memory.words import Signals

_LONG_CHARS: Final = 400  # a text up to here is one passage: its own vector says as much
_REACH: Final = 2  # how many places before and behind a hit are looked at
_SHARE_WITH_NEIGHBOURS: Final = 0.4  # of the hits, the best
_RELATED_WORDS: Final = 24
# Of each source, and of each kind of a store: what stands around lifts what words alone do not.
_MOST_HITS: Final = 200
_LEAST_HITS: Final = 60
_TOKENS_PER_HIT: Final = 10  # of the budget
_READ_AGAIN: Final = 64  # of the long records of each answer, the best
_STARTS: Final = 8  # entities that relations are walked from
_RELATIONS_PER_PLACE: Final = 64
_PLACES_PER_ROUND: Final = 16
_RELATION_FACTOR: Final = 0.5  # of the score, for each relation that is walked
_UNASKED_SCORE: Final = 1e-6  # of the first
_RECALLS_AT_ONCE: Final = 4  # with one source: while one of them thinks, another one reads
_PROBLEM_CHARS: Final = 200
_GRACE_SECONDS: Final = 0.25
_TICK_SECONDS: Final = 0.02
_ORDERS: Final = {  # in which what a strategy may put first is read if there is no query
    "recent": ("newest", "last_accessed"),
    "important": ("most_important",),
    "balanced": ("newest", "last_accessed", "most_important"),
}
# What asyncio, its clients and sqlite3 say of what belongs to another loop or thread.
_ELSEWHERE: Final = "event loop|different loop|inside a task|created in a thread"

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
T = TypeVar("T")


# ---- time ----


class Deadline:
    """How long one source has, and all of them together."""

    def __init__(self, settings: RecallSettings, sleep: Sleep) -> None:
        self._seconds, self._sleep = settings.seconds_per_source, sleep
        self.all_over = asyncio.ensure_future(sleep(settings.seconds_in_all))

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[Any]:
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
            task.cancel()  # what ignores that may fail unheard
            task.add_done_callback(lambda done: done.cancelled() or done.exception())


class Apart:
    """A source, or an embedder, that is not ours: asked in a thread with an event loop of its own.

    So code that blocks stops nobody else. What says that it belongs to another loop or thread is
    asked by the caller's loop from then on.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._is_home = self._is_stuck = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process_id = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)

        async def ask(*given: Any, **options: Any) -> Any:
            return await self._ask(partial(found, *given, **options))

        return ask if callable(found) else found

    async def _ask(self, call: Callable[[], Awaitable[T]]) -> T:
        if self._is_home:
            return await call()
        loop = self._ready()
        if self._is_stuck:  # what was cancelled may have freed it this moment
            turned = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop)
            await asyncio.wait([asyncio.wrap_future(turned)], timeout=_GRACE_SECONDS)
            if not turned.done():
                raise TimeoutError("it still blocks its thread with an earlier query")
            self._is_stuck = False
        try:  # in a copy of the caller's context
            asked = asyncio.run_coroutine_threadsafe(_awaken(call), loop)
            return await _awaken(lambda: asyncio.wrap_future(asked))
        except asyncio.CancelledError:
            self._is_stuck = True
            raise
        except Exception as error:
            if re.search(_ELSEWHERE, str(error)) is None:
                raise
        self._is_home = True
        return await call()

    def _ready(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._process_id != os.getpid():  # threads do not survive a fork
            self._loop, self._process_id = asyncio.new_event_loop(), os.getpid()
            self._is_stuck = False
            Thread(target=_turn, args=(self._loop,), daemon=True).start()
            finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)
        return self._loop


async def _awaken(call: Callable[[], Awaitable[T]]) -> T:
    """Return what a call returns; what another thread sets without waking this loop is seen soon."""
    task = asyncio.ensure_future(call())
    try:
        while not task.done():
            await asyncio.wait([task], timeout=_TICK_SECONDS)
        return task.result()
    finally:
        task.cancel()


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def apart(inner: Any) -> Any:
    """Return what asks an object of the user's own; one of ours is asked as it is."""
    is_ours = type(inner).__module__.partition(".")[0] == __name__.partition(".")[0]
    return inner if is_ours or inner is None else Apart(inner)


_TURNS: WeakKeyDictionary[Any, dict[int, asyncio.Semaphore]] = WeakKeyDictionary()


@asynccontextmanager
async def _turn_with(source: MemorySource, deadline: Deadline) -> AsyncGenerator[None]:
    """Let it be one's turn with the source inside; once time is over nobody waits any more.

    If all went on at once, each would wait behind every step of all others: many short recalls would
    end late together, and none in time.
    """
    by_source = _TURNS.setdefault(asyncio.get_running_loop(), {})
    line = by_source.setdefault(id(source), asyncio.Semaphore(_RECALLS_AT_ONCE))
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
    said = f": {error}" if str(error).strip() else ""
    told = f"{type(error).__name__}{said}"
    return shorten(told, _PROBLEM_CHARS, placeholder="…")


# ---- asking for records ----


class _Ask(NamedTuple):
    """What one source is asked, and what it said so far: that outlives its time."""

    source: Any  # a `MemorySource`, and whatever else it offers
    filters: MemoryFilters
    recall: Recall
    vector: Vector | None
    limit: int  # of hits, of each kind
    hits: dict[str, MemoryHit]
    neighbours: dict[str, list[tuple[MemoryRecord, int]]]
    counts: list[WordCounts]
    notes: dict[str, None]
    barred: set[str]  # keys of records that the source gave, and the filters do not admit

    @property
    def is_ours(self) -> bool:
        """Whether the source is a store of ours: it keeps to the filters, and in one thread."""
        return isinstance(self.source, MemoryStore)

    def take(self, found: Iterable[MemoryHit], filters: MemoryFilters) -> list[MemoryHit]:
        """Return the hits that the filters admit, at most so many, each record with an id."""
        hits = list[MemoryHit]()
        for hit in [*found]:
            record = identified(hit.record)
            if self.is_ours or filters.admit(record, unsaid=True):
                hits.append(hit if record is hit.record else hit._replace(record=record))
            elif not self.filters.admit(record, unsaid=True):
                self.barred.add(record.key)
        return hits[: self.limit]


async def ask_sources(
    sources: Mapping[str, MemorySource],
    filters: MemoryFilters,
    recall: Recall,
    vector: Vector | None,
    deadline: Deadline,
) -> list[SourceAnswer]:
    """Return what each source says of each kind of the filters, whatever the order of answering.

    A source that fails or is late costs nobody else anything; what it said in time is kept.
    """
    names = {n: [_answer_name(n, kind, sources) for kind in filters.kinds] for n in sources}
    if filters.admit_nothing:
        told = [pair for own in names.values() for pair in zip(own, filters.kinds, strict=True)]
        return [SourceAnswer(name, kind, "empty") for name, kind in told]
    limit = min(max(recall.max_tokens // _TOKENS_PER_HIT, _LEAST_HITS), _MOST_HITS)
    asked = list[Coroutine[Any, Any, list[SourceAnswer]]]()
    for name, source in sources.items():
        ask = _Ask(source, filters, recall, vector, limit, {}, {}, [], {}, set())
        asked.append(_ask_source(names[name], ask, deadline))
    return [answer for group in await asyncio.gather(*asked) for answer in group]


def _answer_name(name: str, kind: MemoryKind, sources: Mapping[str, MemorySource]) -> str:
    return kind if len(sources) == 1 else f"{name}/{kind}"


async def _ask_source(names: Sequence[str], ask: _Ask, deadline: Deadline) -> list[SourceAnswer]:
    """Return what one source answers, by kind."""
    source, filters = ask.source, ask.filters
    state: SourceState = "empty"
    async with _turn_with(source, deadline), deadline.turn() as late:
        try:
            work = partial(_answer, ask)
            told = source.at_once(work) if isinstance(source, MemoryStore) else work()
            skipped = await deadline.wait_for(told, late)
            state = "skipped" if skipped else "empty"
            if ask.barred:
                number = f"{len(ask.barred)} record{'s' * (len(ask.barred) > 1)}"
                note = f"{number} that the filters exclude had to be left out of its answer"
                ask.notes[note] = None
            reason = skipped or "; ".join(ask.notes) or None
        except TimeoutError as error:
            state, reason = "timed_out", str(error)
        except Exception as error:
            state, reason = "failed", problem_of(error)
    hits: dict[str, list[MemoryHit]] = {kind: [] for kind in filters.kinds}
    for hit in [*ask.hits.values()]:
        hits[hit.record.kind].append(hit)
    counts = ask.counts[0] if ask.counts else None
    return [
        SourceAnswer(
            name,
            kind,
            "ok" if state == "empty" and hits[kind] else state,
            tuple(hits[kind]),
            {
                key: near
                for hit in hits[kind]
                if (near := ask.neighbours.get(key := hit.record.key))
            },
            reason,
            counts,
        )
        for name, kind in zip(names, filters.kinds, strict=True)
    ]


async def _answer(ask: _Ask) -> str | None:
    """Fill in what the source says; return why it was not asked."""
    source, signals = ask.source, ask.recall.signals
    if not signals.terms and ask.vector is None:
        if signals.query.strip():
            ask.notes["the query has no word to look for"] = None
        elif not hasattr(source, "list_records"):
            return "it lists nothing, and there is no query"
        else:
            ask = ask._replace(limit=ask.limit + 1)  # one more tells whether these are all
            strategy = ask.recall.settings.strategy
            for order in _ORDERS["balanced" if callable(strategy) else strategy]:
                found = await _of_each_kind(ask, partial(_list, ask, order))
                if order != "last_accessed" and len(found) < ask.limit:
                    break  # these were all
        return None
    # Who speaks is known of every turn: the name's own words would only drown the others.
    names = mentioned_names(signals)
    is_nameless = not names.issuperset(signals.terms) or ask.vector is not None
    found = await _find(ask, names) if is_nameless else []
    speakers = names & mentioned_speakers(signals, (hit.record for hit in found))
    if speakers != names:  # some of them are what is asked for
        found = await _find(ask, speakers if is_nameless else ())
    if len(found) < ask.limit:
        await _add_related(ask, speakers)
    await _add_weightless(ask, signals.context_terms)
    if hasattr(source, "word_counts"):
        counts = await source.word_counts((*signals.terms, *signals.context_terms))
        ask.counts[:] = [counts] if counts is not None else []
    await _add_neighbours(ask)
    return None


async def _find(ask: _Ask, names: Collection[str]) -> list[MemoryHit]:
    ask.hits.clear()
    text = without_names(ask.recall.signals.search_text, names)
    return await _of_each_kind(ask, partial(_search, ask, text))


async def _of_each_kind(
    ask: _Ask, look: Callable[[MemoryFilters], Awaitable[list[MemoryHit]]]
) -> list[MemoryHit]:
    """Return what is found, and keep it: of every kind that is there as many as are asked for."""
    kinds = ask.filters.kinds
    every = ask.filters if len(kinds) < len(KINDS) else replace(ask.filters, kinds=())
    found = await look(every)
    for hit in found:
        ask.hits.setdefault(hit.record.key, hit)
    if len(found) >= ask.limit and len(kinds) > 1 and hasattr(ask.source, "present_kinds"):
        there = await ask.source.present_kinds(filters=every)
        for kind in [kind for kind in kinds if kind in there] if len(there) > 1 else ():
            more = await look(replace(ask.filters, kinds=(kind,)))
            for hit in more:
                ask.hits.setdefault(hit.record.key, hit)
    return found


async def _list(ask: _Ask, order: str, filters: MemoryFilters) -> list[MemoryHit]:
    listed = await ask.source.list_records(order=order, limit=ask.limit, filters=filters)
    return ask.take(map(MemoryHit, listed), filters)


async def _search(ask: _Ask, text: str, filters: MemoryFilters) -> list[MemoryHit]:
    options: Any = {"limit": ask.limit, "filters": filters}
    if ask.vector is not None and not ask.notes:
        try:
            return ask.take(await ask.source.search(text, vector=ask.vector, **options), filters)
        except (errors.MissingExtraError, errors.VectorModelError) as error:
            ask.notes[f"searched by words alone: {error.problem}"] = None
    return ask.take(await ask.source.search(text, **options), filters)


async def _add_related(ask: _Ask, names: Collection[str]) -> None:
    """Add what only has words of like meaning."""
    likeness: dict[str, float] = {}
    for term, related in ask.recall.signals.related.items():
        for word, near in related.items() if term not in names else ():
            likeness[word] = max(likeness.get(word, 0.0), near)
    closest = sorted(likeness, key=lambda word: (-likeness[word], word))[:_RELATED_WORDS]
    await _add_weightless(ask, closest)


async def _add_weightless(ask: _Ask, words: Sequence[str]) -> None:
    """Add what only has other words than the query's, as found by words that weigh nothing.

    That a vector found it too makes no difference: those of small models are vague. Sources without
    a rank by words know what means the same.
    """
    is_by_meaning = bool(ask.hits) and all(hit.bm25 is None for hit in ask.hits.values())
    if not words or (is_by_meaning and (ask.vector is None or ask.notes)):
        return
    options: Any = {"limit": ask.limit, "filters": ask.filters}
    for hit in ask.take(await ask.source.search(" ".join(words), **options), ask.filters):
        if not is_by_meaning or hit.bm25 is not None:
            known = ask.hits.get(hit.record.key)
            if known is None or is_by_meaning:
                ask.hits[hit.record.key] = (known or hit)._replace(bm25=0.0)


async def _add_neighbours(ask: _Ask) -> None:
    """Add what stands around the best hits."""
    source, best = ask.source, [*ask.hits.values()][: int(ask.limit * _SHARE_WITH_NEIGHBOURS)]
    try:
        if isinstance(source, MemoryStore):
            found = await source.around([hit.record for hit in best], _REACH, _REACH)
        elif best and hasattr(source, "neighbours"):
            ids = [hit.record.id for hit in best]
            earlier = await source.neighbours(ids, before=_REACH, after=0)
            later = await source.neighbours(ids, before=0, after=_REACH)
            found = {hit.record.key: _placed(hit.record.id, earlier, later) for hit in best}
        else:
            return
    except errors.MemoryFormatError as error:  # what was found stands without it
        ask.notes[f"what stands around them cannot be read: {error.problem}"] = None
        return
    others = replace(ask.filters, kinds=(), namespaces=None)  # the start's are theirs
    is_free = isinstance(source, MemoryStore) and others == NO_FILTERS
    for key, near in found.items():
        start = ask.hits[key].record
        ask.neighbours[key] = [
            (one, distance)
            for record, distance in near
            for one in ([record] if is_free else _reached(start, [record], ask.filters))
        ]


def _placed(
    memory_id: str, earlier: Mapping[str, Any], later: Mapping[str, Any]
) -> list[tuple[MemoryRecord, int]]:
    before, after = [*earlier.get(memory_id, ())][-_REACH:], [*later.get(memory_id, ())][:_REACH]
    distances = (*range(-len(before), 0), *range(1, len(after) + 1))
    return [*zip((*before, *after), distances, strict=True)]


def _reached(
    start: MemoryRecord, records: Iterable[MemoryRecord], filters: MemoryFilters
) -> list[MemoryRecord]:
    """Return what the filters admit of the records that one leads to: an id is of its namespace."""
    others = replace(filters, namespaces=None)  # that of the start was looked at
    found = (identified(one) for one in records if one.namespace == start.namespace)
    return [*filter(others.admit, found)]


# ---- what nobody asked for ----


async def add_unasked(
    sources: Mapping[str, Any],
    ranked: Sequence[Candidate],
    filters: MemoryFilters,
    deadline: Deadline,
    *,
    session_id: str | None,
    number: int,
) -> list[Candidate]:
    """Return the last events of a session, the weightiest of others, and the weightiest entities.

    At most so many of each, behind all that fits. A source that fails or is late adds nothing.
    """
    own, others = (replace(filters, kinds=("events",)) for _ in range(2))
    if session_id is not None:
        own = replace(own, session_ids=(session_id,))
        barred = (*filters.excluded_session_ids, session_id)
        others = replace(others, excluded_session_ids=barred)
    wanted = (
        ("it is recent in this session", "newest", own),
        ("it matters of what happened in other sessions", "most_important", others),
        ("it is an entity that matters", "most_important", replace(filters, kinds=("entities",))),
    )
    known, added = {(one.source, one.record.key) for one in ranked}, list[Candidate]()
    for why, order, bounds in wanted[session_id is None :]:
        [kind] = bounds.kinds
        asked = [name for name, one in sources.items() if hasattr(one, "list_records")]
        asked = asked if kind in filters.kinds and not filters.admit_nothing else []
        options: Any = {"order": order, "limit": number, "filters": bounds}
        looks = (deadline.wait_for(sources[name].list_records(**options)) for name in asked)
        told = await asyncio.gather(*looks, return_exceptions=True)
        found = [
            Candidate(one, place, at, 0.0, scores, (place,), f"{UNASKED}: {why}")
            for name, listed in zip(asked, told, strict=True)
            if not isinstance(listed, BaseException)
            for at, one in enumerate(map(identified, listed))
            if (place := _answer_name(name, kind, sources), one.key) not in known
            if bounds.admit(one) and filters.admit(one)
            for scores in [{"relevance": 0.0, "importance": one.importance}]
        ]
        by_worth = order == "most_important"
        found.sort(key=lambda one: (-one.record.importance * by_worth, one.rank))
        added += found[:number]
    return [one._replace(score=_UNASKED_SCORE / at) for at, one in enumerate(added, 1)]


# ---- meaning ----


async def embed_texts(embed: Embed, texts: Sequence[str], purpose: EmbedPurpose) -> Vectors:
    """Return a vector for each text, in order; `None` for one that says nothing.

    Raises:
        EmbeddingError: The model failed, or answered something else than it was asked for.
    """
    try:
        vectors = await embed.embed(texts, purpose=purpose)
    except errors.AssemblyError:
        raise
    except Exception as error:
        reason = f"it failed with {problem_of(error)}".rstrip(".")
        remedy = "Correct the embedder, or leave it out."
        raise errors.EmbeddingError(embed.model, reason=reason, remedy=remedy) from error
    spaces = {(vector.model, vector.dimension) for vector in vectors if vector is not None}
    if len(vectors) != len(texts) or len(spaces) > 1 or {m for m, _ in spaces} - {embed.model}:
        reason = f"it returned {len(vectors)} vectors of {sorted(spaces)} for {len(texts)} texts"
        remedy = "Return Vector.pack(model, numbers), or None, one for each text, in order."
        raise errors.EmbeddingError(embed.model, reason=reason, remedy=remedy)
    return vectors


async def embed_query(
    embed: Embed | None, signals: Signals, deadline: Deadline
) -> tuple[Vector | None, dict[str, str]]:
    """Return the query's vector; if the model cannot be used, why, under `embedding`."""
    if embed is None or not signals.query.strip():
        return None, {}
    try:
        [vector] = await deadline.wait_for(embed_texts(embed, [signals.query], "query"))
    except Exception as error:  # whatever a model does, words can still be searched
        reason = error.problem if isinstance(error, errors.AssemblyError) else problem_of(error)
        return None, {"embedding": f"searched by words alone: {reason}"}
    return vector, {}


async def read_again(
    answers: list[SourceAnswer], embed: Any, vector: Vector | None, deadline: Deadline
) -> list[SourceAnswer]:
    """Return the answers with long records as alike as their most alike passage is.

    The vector of a long record blurs what single passages of it say. Only models that are quick
    enough offer it; if it fails or is late, the records' own vectors count.
    """
    if vector is None or not hasattr(embed, "compare_passages"):
        return answers
    texts: list[str] = []
    for answer in answers:
        placed = (hit.record.text for hit in answer.hits if hit.similarity is not None)
        texts += [text for text in placed if len(text) > _LONG_CHARS][:_READ_AGAIN]
    try:
        found: Any = texts and await deadline.wait_for(embed.compare_passages(vector, texts))
        likeness = {text: near for text, near in zip(texts, found, strict=True) if near is not None}
    except Exception:  # whatever a model does, there are the records' own vectors
        return answers

    def closer(hit: MemoryHit) -> MemoryHit:
        is_placed = hit.similarity is not None and hit.record.text in likeness
        return hit._replace(similarity=likeness[hit.record.text]) if is_placed else hit

    return [answer._replace(hits=tuple(map(closer, answer.hits))) for answer in answers]


# ---- relations ----


async def walk_from(
    sources: Mapping[str, MemorySource],
    ranked: Sequence[Candidate],
    filters: MemoryFilters,
    depth: int,
    deadline: Deadline,
) -> list[Candidate]:
    """Return what is connected with the best entities, and the connections.

    Relations name their ends by ids of their namespace in the same source; each step away halves
    the score. What the filters do not admit is neither shown nor passed; relations are passed even
    if they are of no kind that is asked for. A source that fails or is late adds nothing.
    """
    starts = [c for c in ranked if c.record.kind == "entities"][:_STARTS] if depth else []
    if not starts:
        return []
    walks = list[Coroutine[Any, Any, Any]]()
    for name, source in sources.items():
        own = {_answer_name(name, kind, sources) for kind in KINDS}
        known = frozenset(one.record.key for one in ranked if one.source in own)
        origins = {start.record.key: start for start in starts if start.source in own}
        walks.append(deadline.wait_for(_walk(source, known, origins, filters, depth)))
    found = await asyncio.gather(*walks, return_exceptions=True)
    return [one for walk in found if not isinstance(walk, BaseException) for one in walk]


async def _walk(
    source: Any,
    known: frozenset[str],
    origins: dict[str, Candidate],
    filters: MemoryFilters,
    depth: int,
) -> list[Candidate]:
    """Walk breadth first, over relations in both directions, heavier ones first."""
    frontier, related = [one.record for one in origins.values()], dict[str, Candidate]()
    for distance in range(1, depth + 1) if hasattr(source, "get") else ():
        places, frontier = frontier[:_PLACES_PER_ROUND], list[MemoryRecord]()
        found = await asyncio.gather(*(_relations_of(source, place, filters) for place in places))
        for place, relations in zip(places, found, strict=True):
            for target, relation in relations:
                key = replace(place, id=target).key
                if key in origins:
                    continue
                start = origins[key] = origins[place.key]
                # Only a store of ours is known to have filters here.
                own = MemoryFilters(namespaces=(place.namespace,))
                options: Any = {"filters": own} if isinstance(source, MemoryStore) else {}
                try:
                    ends = _reached(place, [await source.get(target, **options)], filters)
                except errors.AssemblyError:  # an end that is not kept any more
                    continue
                frontier += ends
                for one in (*_reached(place, [relation], filters), *ends) if ends else ():
                    if one.key not in known and one.key not in related:
                        score = start.score * _RELATION_FACTOR**distance
                        reason = "it is connected with what fits the query"
                        related[one.key] = start._replace(record=one, score=score, reason=reason)
    return [*related.values()]


async def _relations_of(
    source: MemorySource, place: MemoryRecord, filters: MemoryFilters
) -> list[tuple[str, MemoryRecord]]:
    """Return where the relations of a place lead, the heaviest first, each with its relation."""
    wanted = replace(filters, kinds=("relations",))
    if place.namespace or isinstance(source, MemoryStore):
        wanted = replace(wanted, namespaces=(place.namespace,))
    hits = await source.search(place.id, limit=_RELATIONS_PER_PLACE, filters=wanted)
    ends: list[tuple[float, str, str, MemoryRecord]] = []
    for record in _reached(place, [hit.record for hit in hits][:_RELATIONS_PER_PLACE], wanted):
        relation = record.metadata
        if isinstance(relation, RelationMetadata):
            source_id, target_id = relation.source_id, relation.target_id
            target = target_id if place.id == source_id else source_id
            if source_id and target_id and target and place.id in {source_id, target_id}:
                weight = -(1.0 if relation.weight is None else relation.weight)
                ends.append((weight, target, record.id, record))
    return [(target, record) for _, target, _, record in sorted(ends, key=lambda end: end[:3])]
