"""`MemoryAssembler`: from a query to recalled memories that fit a budget."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from context_assembler.errors import AssemblyError, ConfigurationError, InvalidParameterError
from context_assembler.memory.alike import compare, dedupe, find_twins, say_the_same
from context_assembler.memory.format import (
    CHARS_PER_TOKEN,
    MISSING_SHARE,
    NO_ROOM,
    Condense,
    FormattedContext,
    Layout,
    Packing,
    explain,
)
from context_assembler.memory.kinds import KINDS, TURN_LIKE, check_kind
from context_assembler.memory.note import recalled_note, room_in_note
from context_assembler.memory.premortem import PremortemContext, fit_premortem, gather_lessons
from context_assembler.memory.recall import (
    Deadline,
    Sleep,
    ask_sources,
    embed_query,
    embed_texts,
    read_again,
    walk_from,
)
from context_assembler.memory.records import (
    NO_FILTERS,
    Embed,
    MemoryFilters,
    MemoryRecord,
    MemorySource,
    Remembered,
    identified,
    masked,
    normal_text,
    says_something,
    utc_at,
)
from context_assembler.memory.score import (
    LEAST_FIT,
    RECALL_PRESETS,
    Candidate,
    RecallSettings,
    SourceAnswer,
    SourceState,
    rank_candidates,
    score_answer,
    weigh_sources,
)
from context_assembler.memory.stack import TaskPath, TaskStack, cut_task_path, write_task_path
from context_assembler.memory.stores import MemoryStore, open_memory
from context_assembler.memory.words import Signals, read_signals
from context_assembler.ports import RecalledNote, TokenCounter
from context_assembler.texts import CountText, clean_text

DEFAULT_LIMIT: Final = 20
DEFAULT_MAX_TOKENS: Final = 2_000
MAX_LIMIT: Final = 10_000
_JUST_NOW: Final = "just now"
_MOST_EXPLAINED: Final = 1_000  # a context may be updated for as long as an agent runs
_SHOWN_CHARS: Final = 20_000
_SLACK_CHARS: Final = 4_000  # read behind the end, so that no secret is cut in two
_MANY_CHARS: Final = 200_000  # which take some hundredths of a second
_LOOKED_AT: Final = 20  # of what a store finds by the words of a record that may be there already

SourceArgument: TypeAlias = str | Path | MemorySource
SourcesArgument: TypeAlias = (
    SourceArgument | Iterable[SourceArgument] | Mapping[str, SourceArgument]
)
Memorable: TypeAlias = MemoryRecord | str | Iterable[MemoryRecord | str]
T = TypeVar("T")


@runtime_checkable
class _Keeping(Protocol):
    async def remember(self, records: Sequence[MemoryRecord]) -> list[Remembered]: ...

    async def forget(self, memory_ids: Sequence[str]) -> list[str]: ...


class MemoryAssembler:
    """Recalls what fits a query from any number of sources, under one budget.

    Recalling writes nothing. Sources that this object opened from a URL are closed by `close`.

        memory = MemoryAssembler("sqlite:memory.db")
        await memory.remember("Ana prefers tea.")
        print((await memory.assemble_context("What does Ana drink?")).markdown)

    Args:
        sources: Where memories are: a store, its URL (`sqlite:memory.db`), several of both, or a
            mapping that says what each is called.
        preset: Settings for a kind of agent: see `RECALL_PRESETS`.
        settings: Instead of a preset's.
        embed: What finds a query's place among the vectors that the sources keep, and gives
            remembered records theirs.
        counter: What `max_tokens` is counted with; by default exactly, with OpenAI's o200k.
        masks_secrets: Whether secrets in records are masked before they are shown.
        merges_alike: From which likeness on (such as 0.9) what is remembered counts as a duplicate.
        clock: Seconds since 1970: what is recent, and what relative times are counted from.
        sleep: Returns after so many seconds; sources have no longer to answer.
    """

    def __init__(
        self,
        sources: SourcesArgument,
        *,
        preset: str = "general",
        settings: RecallSettings | None = None,
        embed: Embed | None = None,
        counter: TokenCounter | None = None,
        masks_secrets: bool = True,
        merges_alike: float | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if preset not in RECALL_PRESETS:
            known = ", ".join(RECALL_PRESETS)
            raise InvalidParameterError(
                "preset", preset, rule=f"must be one of {known}", remedy="Use one of these."
            )
        self.settings = settings or RECALL_PRESETS[preset]
        self.sources: dict[str, MemorySource] = {}
        self._own: list[MemoryStore] = []
        for name, source in _named(sources):
            if isinstance(source, str | Path):
                self._own.append(open_memory(source))
            found = self._own[-1] if isinstance(source, str | Path) else source
            free, number = name or found.name, 2
            while free in self.sources:
                free, number = f"{name or found.name}-{number}", number + 1
            self.sources[free] = found
        self._embed = embed
        self._count = _count_o200k if counter is None else counter.count_text
        self._clean = masked if masks_secrets else clean_text
        self._merges_alike = merges_alike
        self._clock, self._sleep = clock, sleep

    async def assemble_context(
        self,
        query: str = "",
        *,
        context_types: Sequence[str] | str | None = None,
        limit: int = DEFAULT_LIMIT,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        filters: MemoryFilters = NO_FILTERS,
        settings: RecallSettings | None = None,
        count_text: CountText | None = None,
    ) -> FormattedContext:
        """Return what fits the query as Markdown of at most `max_tokens`.

        The same question to the same records gets the same bytes, in whatever order the sources
        answer. Without a query the strategy alone decides; one without a word finds nothing.

        Args:
            context_types: The kinds to search; by default all.
            limit: The most records to show.
            filters: Which records may be found at all.
            settings, count_text: For this call.

        Raises:
            InvalidContextTypeError: There is no such kind.
            InvalidParameterError: A number is out of its range.
        """
        ranked = await self.rank(
            query,
            context_types=context_types,
            limit=limit,
            filters=filters,
            settings=settings,
            count_text=count_text,
        )
        return (await ranked.within(max_tokens))[0]

    async def rank(
        self,
        query: str,
        *,
        context_types: Sequence[str] | str | None = None,
        limit: int = DEFAULT_LIMIT,
        filters: MemoryFilters = NO_FILTERS,
        settings: RecallSettings | None = None,
        count_text: CountText | None = None,
    ) -> "RankedMemories":
        """Return what `assemble_context` chooses from; `within` then takes budgets of any size."""
        check_count("limit", limit, most=MAX_LIMIT)
        given = [context_types] if isinstance(context_types, str) else context_types
        kinds = [*KINDS] if given is None else [*dict.fromkeys(map(check_kind, given))]
        if given is None and filters.kinds:
            kinds = [*filters.kinds]
        signals = read_signals(query, now=self._now())
        recall = self._recall(signals, limit=limit, settings=settings, count_text=count_text)
        settled, sources = recall.settings, self.sources
        deadline = Deadline(settled, self._sleep)
        try:
            vector, notes = await embed_query(self._embed, signals, deadline)
            answers = await ask_sources(
                sources,
                kinds,
                filters,
                signals,
                settled,
                limit=limit,
                vector=vector,
                deadline=deadline,
            )
            answers = await read_again(answers, self._embed, vector, deadline)
            records = (hit.record for answer in answers for hit in answer.hits)
            ranked, below, states = await _think(lambda: recall.rank(answers), records)
            related = await walk_from(
                sources, ranked, filters, depth=settled.depth, deadline=deadline
            )
        finally:
            deadline.close()
        notes |= {answer.source: answer.reason for answer in answers if answer.reason}
        return RankedMemories(recall, [*ranked, *related], below, states, notes)

    async def recall_note(
        self,
        query: str,
        *,
        session_id: str,
        max_tokens: int,
        namespaces: Sequence[str] | None,
        count_text: CountText | None = None,
        told: Sequence[str] = (),
        limit: int = DEFAULT_LIMIT,
        context_types: Sequence[str] | None = None,
    ) -> RecalledNote:
        """Return what memory finds for a query as fenced text for one note; it never raises.

        Times are written as dates, since a note stays in its session.

        Args:
            session_id: The session that asks; what it remembered itself may be found.
            max_tokens: The most that the note takes, with its label and fence.
            namespaces: The only ones to search; `None` for all, none for nobody's.
            count_text: Counts the note; by default as `counter` does.
            told: The texts of earlier notes of the session; what they say is left out.
        """
        _ = session_id
        count = count_text or self._count
        try:
            context = (
                await self.assemble_context(
                    query,
                    context_types=context_types or None,
                    limit=limit,
                    filters=MemoryFilters(namespaces=namespaces or ()),
                    max_tokens=max(room_in_note(max_tokens, count), 1),
                    settings=replace(self.settings, times="dates"),
                    count_text=count,
                )
                if namespaces is None or namespaces
                else None
            )
            return recalled_note(context, count=count, told=told)
        except Exception as error:  # a call is worth more than what it would recall
            problem = str(error) if isinstance(error, AssemblyError) else repr(error)
            return RecalledNote(text="", warnings=(f"Nothing could be recalled: {problem}",))

    async def get_premortem_context(
        self,
        domain: str,
        strategy: str | None = None,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        filters: MemoryFilters = NO_FILTERS,
    ) -> PremortemContext:
        """Return what earlier attempts in a domain teach, before the next one is made.

        Past failures, how each strategy did, surprising outcomes, root causes, lessons, principles.
        A source that fails or is late costs its part alone: `source_status` says so.

        Args:
            strategy: Leaves out experiences with another one.

        Raises:
            InvalidParameterError: `max_tokens` is out of its range, or the domain says nothing.
        """
        check_count("max_tokens", max_tokens)
        if not domain.strip():
            raise InvalidParameterError(
                "domain", domain, rule="must say something", remedy="Pass a word or more."
            )
        deadline = Deadline(self.settings, self._sleep)
        try:
            lessons = await gather_lessons(self.sources, domain, filters, deadline)
        finally:
            deadline.close()
        records = [self._shown(record) for one in lessons.values() for record in one.records]
        return await _think(
            lambda: fit_premortem(
                records,
                lessons,
                domain=domain,
                strategy=strategy,
                max_tokens=max_tokens,
                count=self._count,
                clean=self._clean,
            ),
            records,
        )

    async def assemble_stack(
        self,
        stack: TaskStack,
        *,
        context_types: Sequence[str] | str | None = None,
        limit: int = DEFAULT_LIMIT,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        filters: MemoryFilters = NO_FILTERS,
    ) -> FormattedContext:
        """Return where the agent stands, and what fits its current goal, in one budget.

        The first goal gets a twentieth, the way to the current one three, what was finished next to
        it two; the rest, and what these leave, is for memories that fit the current goal.

        Raises:
            InvalidContextTypeError: There is no such kind.
            InvalidParameterError: A number is out of its range.
        """
        check_count("max_tokens", max_tokens)
        task = write_task_path(stack, max_tokens=max_tokens, count=self._count, clean=self._clean)
        recalled = await self.assemble_context(
            "" if stack.current is None else stack.current.goal,
            context_types=context_types,
            limit=limit,
            max_tokens=task.room(max_tokens, self._count),
            filters=filters,
        )
        return task.above(recalled, max_tokens=max_tokens, count=self._count)

    def update_context(
        self,
        context: FormattedContext,
        event: MemoryRecord | str,
        *,
        limit: int = DEFAULT_LIMIT,
        max_tokens: int = DEFAULT_MAX_TOKENS,
    ) -> FormattedContext:
        """Return the context with something that just happened; no source is asked again.

        What happened is ranked by the words it shares with the context's query, and takes the place
        of what ranks lower if there is no room for both. What the context had keeps its score, and
        the way to the current goal stays.

        Args:
            event: A record, or the text of an event.

        Raises:
            InvalidParameterError: A number is out of its range.
        """
        check_count("limit", limit, most=MAX_LIMIT)
        check_count("max_tokens", max_tokens)
        if isinstance(event, str):
            event = MemoryRecord(text=event, kind="events", created_at=self._now())
        task, room = self._divided(context, max_tokens)
        recall = self._recall(context.signals or read_signals(""), limit=limit)
        updated = recall.update(context, identified(event), max_tokens=room)
        return task.above(updated, max_tokens=max_tokens, count=self._count) if task else updated

    async def compress(
        self, context: FormattedContext, *, target_tokens: int, summarizer: Condense | None = None
    ) -> FormattedContext:
        """Return the context in at most so many tokens: the lowest scores are cut to a third first.

        Above them, the way to the current goal stays as long as it fits.

        Args:
            summarizer: Says a text in at most so many tokens; without it texts are cut.

        Raises:
            InvalidParameterError: `target_tokens` is out of its range.
        """
        check_count("target_tokens", target_tokens)
        if context.task_path and self._count(context.markdown) <= target_tokens:
            return context
        task, room = self._divided(context, target_tokens)
        recall = self._recall(context.signals or read_signals(""), limit=MAX_LIMIT)
        packing = recall.packing(context.source_status, max_tokens=room)
        smaller = await packing.compress(context, summarizer)
        return task.above(smaller, max_tokens=target_tokens, count=self._count) if task else smaller

    async def remember(self, records: Memorable) -> list[Remembered]:
        """Keep records, or texts, in the first source that keeps any; return what became of each.

        A record without a vector gets one if there is a model; the model sees no secret.

        Raises:
            ConfigurationError: No source keeps records.
            InvalidParameterError: The text of one says nothing.
            EmbeddingError: The model that is to place them cannot be used; nothing is kept.
            StoreError: The store cannot keep them.
        """
        store = self._stores()[0]
        given = [records] if isinstance(records, str | MemoryRecord) else records
        listed = [MemoryRecord(text=one) if isinstance(one, str) else one for one in given]
        for at, record in enumerate(listed):
            if not says_something(record):
                raise InvalidParameterError(
                    f"the text of [{at}]",
                    record.text,
                    rule="must say something",
                    remedy="Pass a word or more to remember.",
                )
        least = self._merges_alike
        twins = {} if least is None else await self._find_alike(store, listed, least=least)
        kept = {at: record for at, record in enumerate(listed) if at not in twins}
        if self._embed is not None:
            bare = [at for at, record in kept.items() if record.vector is None]
            texts = [self._clean(kept[at].text) for at in bare]
            vectors = await embed_texts(self._embed, texts) if texts else []
            for at, vector in zip(bare, vectors, strict=True):
                kept[at] = replace(kept[at], vector=vector)
        outcomes = dict(zip(kept, await store.remember([*kept.values()]), strict=True))
        for at, twin in sorted(twins.items()):
            memory_id = outcomes[twin].id if isinstance(twin, int) else twin
            notice = f"Nearly the same is kept as {memory_id}."
            outcomes[at] = Remembered(memory_id, "duplicate", (notice,))
        return [outcomes[at] for at in range(len(listed))]

    async def forget(self, memory_ids: str | Iterable[str]) -> list[str]:
        """Remove records from every source that keeps any; return the ids of those that were there.

        Raises:
            ConfigurationError: No source keeps records.
            StoreError: A store cannot be written.
        """
        ids = [memory_ids] if isinstance(memory_ids, str) else [*memory_ids]
        gone = [one for store in self._stores() for one in await store.forget(ids)]
        return [*dict.fromkeys(gone)]

    async def close(self) -> None:
        """Close the stores that were opened from a URL; others are their owner's."""
        for store in self._own:
            await store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _now(self) -> datetime:
        return utc_at(self._clock())

    def _recall(
        self,
        signals: Signals,
        *,
        limit: int,
        settings: RecallSettings | None = None,
        count_text: CountText | None = None,
    ) -> "_Recall":
        return _Recall(
            signals=signals,
            settings=settings or self.settings,
            now=self._now(),
            limit=limit,
            count=count_text or self._count,
            show=self._shown,
        )

    def _stores(self) -> list[_Keeping]:
        stores = [source for source in self.sources.values() if isinstance(source, _Keeping)]
        if not stores:
            raise ConfigurationError(
                "None of the sources keeps memories: they can only be searched.",
                remedy="Add a store, such as 'sqlite:memory.db'.",
            )
        return stores

    def _divided(self, context: FormattedContext, max_tokens: int) -> tuple[TaskPath | None, int]:
        """Return the task above the context, as much of it as fits, and the room below it."""
        if not context.task_path:
            return None, max_tokens
        task = cut_task_path(context.task_path, max_tokens=max_tokens, count=self._count)
        return task, task.room(max_tokens, self._count)

    def _shown(self, record: MemoryRecord, most_chars: int = _SHOWN_CHARS) -> MemoryRecord:
        """Return the record with everything that is shown of it clean, and without secrets.

        Args:
            most_chars: Of a longer text the rest is not read.
        """

        def show(text: str, most: int = _SHOWN_CHARS) -> str:
            return self._clean(text[: most + _SLACK_CHARS])[:most]

        text = show(record.text, most_chars)
        author = record.author and show(record.author)
        metadata: Any = record.metadata
        changed: dict[str, Any] = {}
        for one in fields(metadata) if metadata is not None else ():
            value = getattr(metadata, one.name)
            if isinstance(value, str | tuple):
                told = show(value) if isinstance(value, str) else tuple(map(show, value))
                if told != value:
                    changed[one.name] = told
        if text == record.text and author == record.author and not changed:
            return record
        metadata = replace(metadata, **changed) if changed else metadata
        return replace(record, text=text, author=author, metadata=metadata)

    async def _find_alike(
        self, store: _Keeping, records: Sequence[MemoryRecord], *, least: float
    ) -> dict[int, int | str]:
        """Return by place what says nearly the same: an id in the store, or an earlier place.

        Only records without an id can be spared, no turns of a conversation, and only for one of
        their kind, namespace and identity.
        """
        texts = {at: normal_text(self._clean(record.text)) for at, record in enumerate(records)}
        places = [at for at, one in enumerate(records) if not one.id and one.kind not in TURN_LIKE]
        found: dict[int, int | str] = {}
        for at in places if isinstance(store, MemorySource) else ():
            record, own = records[at], texts[at]
            filters = MemoryFilters(kinds=(record.kind,), namespaces=(record.namespace,))
            hits = await store.search(own, limit=_LOOKED_AT, filters=filters)
            others = [normal_text(hit.record.text) for hit in hits]
            are_alike = compare([*others, own], least=least)
            twins = [
                (hit.order, hit.record.id)
                for number, (hit, other) in enumerate(zip(hits, others, strict=True))
                if _identity(hit.record) == _identity(record)
                and say_the_same(own, other)
                and are_alike(number, len(others))
            ]
            if twins:
                found[at] = min(twins)[1]
        rest = [at for at in places if at not in found]

        def may_be_twins(left: int, right: int) -> bool:
            return _identity(records[rest[left]]) == _identity(records[rest[right]])

        alike = find_twins([texts[at] for at in rest], least=least, may_be_twins=may_be_twins)
        return found | {rest[later]: rest[first] for later, first in alike.items()}


class RankedMemories:
    """What fits a query, best first, before anything is left out for want of room."""

    def __init__(
        self,
        recall: "_Recall",
        candidates: Sequence[Candidate],
        below: Sequence[Candidate],
        states: Mapping[str, SourceState],
        notes: Mapping[str, str],
    ) -> None:
        self.candidates = candidates
        self._recall, self._below, self._states, self._notes = recall, below, states, notes

    async def within(self, *budgets_tokens: int) -> list[FormattedContext]:
        """Return what is shown of them in each of the budgets.

        Raises:
            InvalidParameterError: A budget is no positive number.
        """
        for budget in budgets_tokens:
            check_count("max_tokens", budget)

        def shape() -> list[FormattedContext]:
            most_chars = max(_SHOWN_CHARS, CHARS_PER_TOKEN * max(budgets_tokens, default=1))
            shown = self._recall.show_once(self.candidates, most_chars)
            rest = (self._below, self._states, self._notes)
            return [self._recall.shape(*shown, *rest, max_tokens=most) for most in budgets_tokens]

        return await _think(shape, (candidate.record for candidate in self.candidates))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recall:
    """One recall behind its waiting: everything here is a function of what was answered."""

    signals: Signals
    settings: RecallSettings
    now: datetime
    limit: int
    count: CountText
    show: Callable[[MemoryRecord, int], MemoryRecord]

    def rank(
        self, answers: Sequence[SourceAnswer]
    ) -> tuple[list[Candidate], list[Candidate], dict[str, SourceState]]:
        """Return the candidates, best first, those below the floor, and each source's state."""
        scored = [
            (answer, *score_answer(answer, self.signals, self.settings, now=self.now))
            for answer in answers
        ]
        fits = weigh_sources([answer for answer, kept, _ in scored if kept], self.signals)
        found: list[Candidate] = []
        below: list[Candidate] = []
        states: dict[str, SourceState] = {}
        for answer, kept, low in scored:
            fit = fits.get(answer.source, 1.0)
            is_far = fit < LEAST_FIT and self.settings.floor > 0
            if not is_far:
                found += kept if fit == 1.0 else [_weighed(candidate, fit) for candidate in kept]
            below += [*kept, *low] if is_far else low
            is_below = answer.state == "ok" and (is_far or not kept)
            states[answer.source] = "below_floor" if is_below else answer.state
        has_query = bool(self.signals.query.strip())
        ranked = rank_candidates(found, self.settings, has_query=has_query, now=self.now)
        return ranked, below, states

    def show_once(
        self, candidates: Iterable[Candidate], most_chars: int
    ) -> tuple[list[Candidate], list[tuple[Candidate, str]]]:
        """Return the candidates as they may be shown, each thing once, and duplicates with why."""
        shown: list[Candidate] = []
        for candidate in candidates:
            record = self.show(candidate.record, most_chars)
            is_beginning = candidate.is_beginning or len(candidate.record.text) > most_chars
            if record is not candidate.record:
                shown.append(candidate._replace(record=record, is_beginning=is_beginning))
            else:
                shown.append(candidate)
        return dedupe(shown, near_duplicate=self.settings.near_duplicate)

    def packing(self, states: Mapping[str, SourceState], *, max_tokens: int) -> Packing:
        """Return what chooses and writes within a budget."""
        layout = Layout(
            self.settings,
            states,
            now=self.now,
            fits=lambda sentence: self.count(sentence) <= max_tokens * MISSING_SHARE,
        )
        return Packing(
            self.settings, layout, max_tokens=max_tokens, limit=self.limit, count=self.count
        )

    def shape(
        self,
        candidates: Sequence[Candidate],
        duplicates: Sequence[tuple[Candidate, str]],
        below: Sequence[Candidate],
        states: Mapping[str, SourceState],
        notes: Mapping[str, str],
        *,
        max_tokens: int,
    ) -> FormattedContext:
        """Return the context: what fits of things told once, and why."""
        packing = self.packing(states, max_tokens=max_tokens)
        items, left_out, markdown, tokens = packing.pack(candidates)
        low = [(candidate, "it is below the floor of relevance") for candidate in below]
        context = FormattedContext(
            markdown="",
            source_status=dict(states),
            source_notes=dict(notes),
            budget_exceeded=any(shown.is_truncated for shown in items)
            or any(reason == NO_ROOM for _, reason in left_out),
            explanations=explain(candidates, items, [*duplicates, *left_out, *low]),
            signals=self.signals,
        )
        return context.with_items(items, markdown, tokens)

    def update(
        self, context: FormattedContext, record: MemoryRecord, *, max_tokens: int
    ) -> FormattedContext:
        """Return the context with one more record, ranked by the words it shares with the query."""
        had = [
            Candidate(
                shown.record,
                shown.source,
                at,
                shown.score,
                shown.scores,
                shown.found_in,
                is_beginning=shown.is_beginning,
            )
            for at, shown in enumerate(context.items)
        ]
        terms, said = self.signals.terms, record.text.casefold()
        shared = sum(term.rstrip("*") in said for term in terms) / len(terms) if terms else 1.0
        scores = {"relevance": shared, "recency": 1.0, "importance": record.importance}
        found = (_JUST_NOW,)
        event = Candidate(record, _JUST_NOW, -1, 0.0, scores, found, "it just happened")
        ranked = rank_candidates([event], self.settings, has_query=bool(terms), now=self.now)
        shown = self.show_once([*had, *ranked], max(_SHOWN_CHARS, CHARS_PER_TOKEN * max_tokens))
        states, notes = context.source_status, context.source_notes
        updated = self.shape(*shown, (), states, notes, max_tokens=max_tokens)
        known = {(one.source, one.memory_id) for one in updated.explanations}
        earlier = [e for e in context.explanations if (e.source, e.memory_id) not in known]
        explanations = (*updated.explanations, *earlier)[:_MOST_EXPLAINED]
        return replace(updated, explanations=explanations)


def _weighed(candidate: Candidate, fit: float) -> Candidate:
    """Return a candidate of a source that fits as well as a part of the best one."""
    scores = {**candidate.scores, "relevance": candidate.scores["relevance"] * fit}
    return candidate._replace(scores=scores)


def _identity(record: MemoryRecord) -> tuple[object, ...]:
    told = (getattr(record.metadata, name, None) for name in KINDS[record.kind].identity)
    return (record.namespace, record.kind, *told)


def _named(given: SourcesArgument) -> list[tuple[str, SourceArgument]]:
    if isinstance(given, Mapping):
        return [*given.items()]
    if isinstance(given, Iterable) and not isinstance(given, str | Path):
        return [("", source) for source in given]
    return [("", given)]


def check_count(name: str, given: int, *, most: int | None = None) -> None:
    """Refuse a number that is not positive, or larger than `most`.

    Raises:
        InvalidParameterError: It is.
    """
    if given < 1 or (most is not None and given > most):
        bound = f" and at most {most}" if most else ""
        raise InvalidParameterError(
            name, given, rule=f"must be at least 1{bound}", remedy="Pass a number such as 20."
        )


async def _think(work: Callable[[], T], records: Iterable[MemoryRecord]) -> T:
    """Return what the work returns; done in a thread if there are many characters to read."""
    chars = sum(min(len(record.text), _SHOWN_CHARS) for record in records)
    return work() if chars < _MANY_CHARS else await asyncio.to_thread(work)


def _count_o200k(text: str) -> int:
    from context_assembler.tokens.bpe import count_bpe

    return count_bpe(text, encoding="o200k_base")
