"""`MemoryAssembler`: from a query to recalled memories that fit a budget."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypedDict, Unpack

from context_assembler import errors
from context_assembler.events import SessionEvent, active_events
from context_assembler.memory import format as shaping
from context_assembler.memory import recall as asking
from context_assembler.memory.format import (
    FormattedContext,
    RankedMemories,
    check_count,
    missing_sources,
)
from context_assembler.memory.kinds import KINDS, EventMetadata, check_kind
from context_assembler.memory.notes import NotesFolder, open_source
from context_assembler.memory.premortem import PremortemContext, fit_premortem, gather_lessons
from context_assembler.memory.records import (
    NO_FILTERS,
    Embed,
    MemoryFilters,
    MemoryRecord,
    MemorySource,
    Remembered,
    identified,
    masked,
    refuse,
    says_something,
    utc_at,
)
from context_assembler.memory.score import RECALL_PRESETS, Recall, RecallSettings, rank_answers
from context_assembler.memory.stack import TaskPath, TaskStack, cut_task_path, write_task_path
from context_assembler.memory.stores import MemoryStore
from context_assembler.memory.words import Signals, read_signals
from context_assembler.ports import RecalledNote, TokenCounter
from context_assembler.texts import CountText, clean_text
from context_assembler.tokens.bpe import count_bpe
from context_assembler.tools.sources import call_away

_CACHED: Final = 32  # contexts
_BUDGET: Final = 2_000
_MOST: Final = 10_000  # records of one recall
_LESSONS: Final = 1_000
_LESSONS_SHOWN: Final = 10  # under one heading
_AUTHORS: Final = {"user": "User", "assistant": "Assistant"}
_NOT_SAID: Final = ("compaction", "system")
_OF_TURN: Final = ("namespace", "session_id", "created_at")
_BLANK: Final = ("must say something", "Pass a word or more.")

OneSource: TypeAlias = str | Path | MemorySource
SomeSources: TypeAlias = OneSource | Iterable[OneSource] | Mapping[str, OneSource]
Memorable: TypeAlias = MemoryRecord | str | Iterable[MemoryRecord | str]


Extract: TypeAlias = Callable[[MemoryRecord], Any]


class Learned(NamedTuple):
    """What came of one turn: the ids of its record and of its facts, and what went wrong."""

    turn_id: str
    fact_ids: tuple[str, ...] = ()
    problem: str | None = None


class RecallOptions(TypedDict, total=False):
    """Options of one recall.

    Attributes:
        context_types: The kinds to search; by default all.
        limit: The most records to show; by default only the budget limits them.
        filters: Which records may be found at all.
        settings: Instead of the assembler's own.
        count_text: What `max_tokens` is counted with.
        additional_context: What helps to find without being the question, such as the last messages:
            its words weigh less, and do not make relevant what shares no word with the query.
        unasked: How many of the last events of the session that asks, of the weightiest events of
            others and of the weightiest entities are added behind what fits; `reason` says so.
    """

    context_types: Sequence[str] | str | None
    limit: int | None
    filters: MemoryFilters
    settings: RecallSettings | None
    count_text: CountText | None
    additional_context: str
    unasked: int


class SessionRecallOptions(RecallOptions, total=False):
    """Options of one recall, with the session that asks, for `unasked`."""

    session_id: str | None


class MemoryAssembler:
    """Recalls what fits a query from any number of sources, under one budget.

    Recalling writes nothing. Sources that this object opened from a URL are closed by `close`.

        memory = MemoryAssembler("sqlite:memory.db")
        await memory.remember("Ana prefers tea.")
        print((await memory.assemble_context("What does Ana drink?")).markdown)

    Args:
        sources: Where memories are: a store, its URL (`sqlite:memory.db`), a folder of Markdown
            (`notes/`), several of these, or a mapping that says what each is called.
        preset: Settings for a kind of agent: see `RECALL_PRESETS`.
        settings: Instead of a preset's.
        embed: What finds a query's place among the vectors that the sources keep, and gives
            remembered records theirs.
        counter: What `max_tokens` is counted with; by default exactly, with OpenAI's o200k.
        masks_secrets: Whether secrets in records are masked before they are shown.
        extract: Reads facts in a turn, for `learn_from` alone: plain or async, a model or not. It
            gets the turn as a record without secrets, and returns texts or records.
        extract_seconds: How long it has for one turn.
        clock: Seconds since 1970: what is recent, and what relative times are counted from.
        sleep: Returns after so many seconds; sources have no longer to answer.
    """

    def __init__(
        self,
        sources: SomeSources,
        *,
        preset: str = "general",
        settings: RecallSettings | None = None,
        embed: Embed | None = None,
        counter: TokenCounter | None = None,
        masks_secrets: bool = True,
        extract: Extract | None = None,
        extract_seconds: float = 60.0,
        clock: Callable[[], float] = time.time,
        sleep: asking.Sleep = asyncio.sleep,
    ) -> None:
        if preset not in RECALL_PRESETS:
            raise errors.UnknownOptionError(preset, kind="preset", known=RECALL_PRESETS)
        self.settings = settings or RECALL_PRESETS[preset]
        self.sources: dict[str, MemorySource] = {}
        self._own: list[Any] = []
        for name, given in _named(sources):
            source = open_source(given) if isinstance(given, str | Path) else given
            self._own += [source] if source is not given else []
            free, number = name or source.name, 2
            while free in self.sources:
                free, number = f"{name or source.name}-{number}", number + 1
            self.sources[free] = source
        self._embed, self._apart = asking.apart(embed), dict[str, Any]()
        self._count = (
            partial(count_bpe, encoding="o200k_base") if counter is None else counter.count_text
        )
        self._clean = masked if masks_secrets else clean_text
        self._clock, self._sleep = clock, sleep
        self._extract, self._extract_seconds = extract, extract_seconds
        self._cached = deque[tuple[float, Any, Any, FormattedContext]](maxlen=_CACHED)

    async def assemble_context(
        self, query: str = "", *, max_tokens: int = _BUDGET, **options: Unpack[SessionRecallOptions]
    ) -> FormattedContext:
        """Return what fits the query as Markdown of at most `max_tokens`.

        The same question to the same records gets the same bytes, in whatever order the sources
        answer. Without a query the strategy alone decides; one without a word finds nothing. Asked
        again within `cache_seconds`, it is the same context, unless a store was written to.

        Raises:
            InvalidContextTypeError: There is no such kind.
            InvalidParameterError: A number is out of its range.
        """
        begun, now = perf_counter(), self._clock()
        settled = options.get("settings") or self.settings
        strategy, seconds = settled.strategy, settled.cache_seconds
        state = await self._state(settled) if seconds > 0 else ()
        given = (query, max_tokens, strategy, options.get("count_text"), repr((settled, options)))
        kept = (k for k in self._cached if k[1:3] == (given, state) and 0 <= now - k[0] < seconds)
        context = next((one for *_, one in kept), None) if state else None
        if context is None:
            ranked = await self.rank(query, max_tokens=max_tokens, **options)
            [context] = await ranked.within(max_tokens)
            context = replace(context, strategy="custom" if callable(strategy) else strategy)
            if state and not context.source_notes and not missing_sources(context.source_status):
                self._cached.append((now, given, state, context))
        states, notes = dict(context.source_status), dict(context.source_notes)
        told = replace(context, source_status=states, source_notes=notes)
        return replace(told, seconds=perf_counter() - begun)

    async def rank(
        self,
        query: str,
        *,
        context_types: Sequence[str] | str | None = None,
        limit: int | None = None,
        filters: MemoryFilters = NO_FILTERS,
        settings: RecallSettings | None = None,
        count_text: CountText | None = None,
        additional_context: str = "",
        session_id: str | None = None,
        unasked: int = 0,
        max_tokens: int = 10_000,
    ) -> "RankedMemories":
        """Return what `assemble_context` chooses from; `within` then takes budgets of any size.

        Args:
            max_tokens: The largest of the budgets: for a small one fewer records are read.
        """
        check_count("limit", 1 if limit is None else limit, most=_MOST)
        given = [context_types] if isinstance(context_types, str) else context_types
        if given is None:
            given = filters.kinds or [*KINDS]
        filters = replace(filters, kinds=[*dict.fromkeys(map(check_kind, given))])
        if unasked:
            check_count("unasked", unasked, most=_MOST)
        signals = read_signals(query, now=self._now(), context=additional_context)
        recall = self._recall(signals, limit)
        settled, count = settings or self.settings, count_text or self._count
        recall = recall._replace(settings=settled, count_text=count, namespaces=filters.namespaces)
        recall = recall._replace(max_tokens=max_tokens)
        sources, embed, depth = self._asked(), self._embed, recall.settings.depth
        deadline = asking.Deadline(recall.settings, self._sleep)
        try:
            vector, notes = await asking.embed_query(embed, recall.signals, deadline)
            answers = await asking.ask_sources(sources, filters, recall, vector, deadline)
            answers = await asking.read_again(answers, embed, vector, deadline)
            records = (hit.record for answer in answers for hit in answer.hits)
            found = await shaping.think(lambda: rank_answers(answers, recall), records)
            ranked, below, states = found
            ranked += await asking.walk_from(sources, ranked, filters, depth, deadline)
            if unasked:
                ranked += await asking.add_unasked(
                    sources, ranked, filters, deadline, session_id=session_id, number=unasked
                )
        finally:
            deadline.all_over.cancel()
        notes |= {answer.source: answer.reason for answer in answers if answer.reason}
        folders = {name: one for name, one in sources.items() if isinstance(one, NotesFolder)}
        notes |= {name: folder.note for name, folder in folders.items() if folder.note}
        return RankedMemories(recall, ranked, below, states, notes)

    async def recall_note(
        self,
        query: str,
        *,
        session_id: str,
        max_tokens: int,
        namespaces: Sequence[str] | None,
        **options: Unpack[RecallOptions],
    ) -> RecalledNote:
        """Return what memory finds for a query as fenced text for one note; it never raises.

        Times are written as dates, since a note stays in its session.

        Args:
            session_id: The session that asks; what it remembered itself may be found.
            max_tokens: The most that the note takes, with its label and fence.
            namespaces: The only ones to search; `None` for all, none for nobody's.
        """
        count = options.get("count_text") or self._count
        options["settings"] = replace(options.get("settings") or self.settings, times="dates")
        if namespaces is not None:
            options["filters"] = MemoryFilters(namespaces=namespaces)
        try:
            if namespaces is not None and not namespaces:
                return shaping.recalled_note(None, count=count)
            room = max(shaping.room_in_note(max_tokens, count), 1)
            context = await self.assemble_context(
                query, max_tokens=room, session_id=session_id, **options
            )
            return shaping.recalled_note(context, count=count)
        except Exception as error:  # a call is worth more than what it would recall
            problem = str(error) if isinstance(error, errors.AssemblyError) else repr(error)
            return RecalledNote(text="", warnings=(f"Nothing could be recalled: {problem}",))

    async def get_premortem_context(
        self,
        domain: str,
        strategy: str | None = None,
        *,
        max_tokens: int = _BUDGET,
        limit: int = _LESSONS_SHOWN,
        filters: MemoryFilters = NO_FILTERS,
    ) -> PremortemContext:
        """Return what earlier attempts in a domain teach, before the next one is made.

        Past failures, how each strategy did, surprising outcomes, root causes, lessons, principles,
        and those of no domain that fit this one; at the end, on how many experiences this is based.
        A source that fails or is late costs its part alone: `source_status` says so.

        Args:
            strategy: Leaves out experiences with another one.
            limit: The most lines under one heading.

        Raises:
            InvalidParameterError: `max_tokens` is out of its range, or the domain says nothing.
        """
        check_count("max_tokens", max_tokens)
        check_count("limit", limit)
        if not domain.strip():
            refuse("domain", domain, *_BLANK)
        recall = self._recall(read_signals(domain), _LESSONS)
        deadline = asking.Deadline(recall.settings, self._sleep)
        try:
            vector, _ = await asking.embed_query(self._embed, recall.signals, deadline)
            lessons = await gather_lessons(self._asked(), recall, filters, vector, deadline)
        finally:
            deadline.all_over.cancel()
        records = [shaping.show(record, self._clean) for record in lessons.records]
        lessons = lessons._replace(records=records)
        title = self._clean(domain if strategy is None else f"{domain}, {strategy}")
        given = (lessons, (domain, strategy, title), max_tokens, limit, self._count)
        return await shaping.think(lambda: fit_premortem(*given), records)

    async def assemble_stack(
        self,
        stack: TaskStack,
        *,
        max_tokens: int = _BUDGET,
        **options: Unpack[SessionRecallOptions],
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
        goal = "" if stack.current is None else stack.current.goal
        room = task.room(max_tokens, self._count)
        recalled = await self.assemble_context(goal, max_tokens=room, **options)
        return task.above(recalled, max_tokens, self._count)

    def update_context(
        self,
        context: FormattedContext,
        event: MemoryRecord | str,
        *,
        limit: int | None = None,
        max_tokens: int = _BUDGET,
    ) -> FormattedContext:
        """Return the context with something that just happened; no source is asked again.

        What happened is ranked by the words it shares with the context's query, and takes the place
        of what ranks lower if there is no room for both. What the context had keeps its score, and
        the way to the current goal stays. An event of a namespace that was not to be searched is
        not shown.

        Args:
            event: A record, or the text of an event.

        Raises:
            InvalidParameterError: A number is out of its range.
        """
        check_count("limit", 1 if limit is None else limit, most=_MOST)
        check_count("max_tokens", max_tokens)
        if isinstance(event, str):
            event = MemoryRecord(text=event, kind="events", created_at=self._now())
        if not MemoryFilters(namespaces=context.namespaces).admit(event, unsaid=True):
            return shaping.without(context, event)
        task, room = self._divided(context, max_tokens)
        recall = self._recall(context.signals, limit)._replace(namespaces=context.namespaces)
        found = shaping.updated(recall, context, identified(event), room)
        found = replace(found, strategy=context.strategy)
        return task.above(found, max_tokens, self._count) if task else found

    async def compress(
        self,
        context: FormattedContext,
        *,
        target_tokens: int,
        summarizer: shaping.Condense | None = None,
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
        recall = self._recall(context.signals, None)
        packing = shaping.Packing(recall, context.source_status, room)
        smaller = await packing.compress(context, summarizer)
        return task.above(smaller, target_tokens, self._count) if task else smaller

    async def remember(
        self, records: Memorable, *, facts_of: MemoryRecord | str | None = None
    ) -> list[Remembered]:
        """Keep records, or texts, in the first source that keeps any; return what became of each.

        A record without a vector gets one if there is a model; the model sees no secret.

        Args:
            facts_of: The turn that all of them were read from, or its id: their `parent_id`. What
                they leave open of namespace, session and time is the turn's.

        Raises:
            ConfigurationError: No source keeps records.
            InvalidParameterError: The text of one says nothing, or the turn has no id of its own.
            EmbeddingError: The model that is to place them cannot be used; nothing is kept.
            StoreError: The store cannot keep them.
        """
        store = self._stores()[0]
        listed = _listed(records)
        for at, record in enumerate(listed):
            if not says_something(record):
                refuse(f"the text of [{at}]", record.text, *_BLANK)
        if isinstance(facts_of, str):
            source = MemoryRecord(text="", id=facts_of)
            with suppress(errors.UnknownMemoryError):  # an event that is not a memory, say
                source = await self.get(facts_of)
            facts_of = source
        if facts_of is not None:
            listed = [_fact_of(facts_of, fact) for fact in listed]
        if self._embed is not None:
            bare = [at for at, record in enumerate(listed) if record.vector is None]
            texts = [self._clean(listed[at].text) for at in bare]
            vectors = await asking.embed_texts(self._embed, texts, "record") if texts else []
            for at, vector in zip(bare, vectors, strict=True):
                listed[at] = replace(listed[at], vector=vector)
        return list(await store.remember(listed))

    async def learn_from(
        self, session_id: str, events: Iterable[SessionEvent], *, namespace: str = ""
    ) -> list[Learned]:
        """Keep the finished turns of a session, and the facts that `extract` reads in each.

        Nothing calls this by itself: call it after `record`, or with what is about to be summarised.
        A turn is kept as one record of the kind `events`, together with its facts, or not at all; one
        that is there already is not read again, also in another process.

        Args:
            events: Of the session, oldest first; those after its last finished turn wait.

        Returns:
            What came of each turn that was not known, in order; a failure is a `problem` of its turn.

        Raises:
            ConfigurationError: There is no `extract`, or no source keeps records.
        """
        extract, learned, own = (
            self._extract,
            list[Learned](),
            MemoryFilters(namespaces=[namespace]),
        )
        if extract is None:
            remedy = "Pass MemoryAssembler(…, extract=…)."
            raise errors.ConfigurationError("No function reads facts in turns.", remedy=remedy)
        assert self._stores()
        for turn in _turns_of(session_id, events, namespace):
            try:
                with suppress(errors.UnknownMemoryError):
                    await self.get(turn.id, filters=own)
                    continue
                async with asyncio.timeout(self._extract_seconds):
                    shown = shaping.show(turn, self._clean, len(turn.text))
                    found = await call_away(extract, shown)
                kept = [
                    turn,
                    *(_fact_of(turn, one) for one in _listed(found) if says_something(one)),
                ]
                done = await self.remember(kept)
                learned.append(Learned(turn.id, tuple(one.id for one in done[1:])))
            except Exception as error:  # foreign code: the other turns go on
                learned.append(Learned(turn.id, problem=asking.problem_of(error)))
        return learned

    async def get(self, memory_id: str, *, filters: MemoryFilters = NO_FILTERS) -> MemoryRecord:
        """Return the whole record of that id, as it may be shown, from the first source that has it.

        Raises:
            UnknownMemoryError: No source has it, or the filters do not admit it.
            InvalidParameterError: There are several, each of another namespace.
        """
        for name, source in self._asked().items():
            is_ours = isinstance(self.sources[name], MemoryStore | NotesFolder)
            options: Any = {"filters": filters} if is_ours else {}
            if not hasattr(source, "get"):
                continue
            with suppress(errors.UnknownMemoryError):
                record: MemoryRecord = await source.get(memory_id, **options)
                if filters.admit(record, unsaid=True):
                    return shaping.show(record, self._clean, len(record.text))
        raise errors.UnknownMemoryError(memory_id)

    async def forget(
        self, memory_ids: str | Iterable[str], *, filters: MemoryFilters = NO_FILTERS
    ) -> list[str]:
        """Remove records from every source that keeps any; return the ids of those that were there.

        Raises:
            ConfigurationError: No source keeps records.
            InvalidParameterError: Several namespaces have an id; the filters can say whose is meant.
            StoreError: A store cannot be written.
        """
        ids = [memory_ids] if isinstance(memory_ids, str) else [*memory_ids]
        given: Any = {} if filters is NO_FILTERS else {"filters": filters}
        gone = [one for store in self._stores() for one in await store.forget(ids, **given)]
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

    def _recall(self, signals: Signals | None, limit: int | None) -> Recall:
        signals = signals or read_signals("")
        return Recall(signals, self.settings, self._now(), limit, self._count, self._clean)

    def _asked(self) -> dict[str, Any]:
        """Return the sources, each as it is asked."""
        for name, source in self.sources.items():
            if getattr(self._apart.get(name), "inner", self._apart.get(name)) is not source:
                self._apart[name] = asking.apart(source)
        return {name: self._apart[name] for name in self.sources}

    async def _state(self, settings: RecallSettings) -> tuple[Any, ...]:
        """Return what is equal only if all sources would answer the same; empty if it is not known."""
        if not all(isinstance(source, MemoryStore) for source in self.sources.values()):
            return ()
        short = replace(settings, seconds_in_all=settings.seconds_in_all / 8)
        deadline = asking.Deadline(short, self._sleep)
        try:
            looks = [(n, s, await deadline.wait_for(s.state())) for n, s in self._asked().items()]
        except Exception:  # what is wrong the sources say when they are searched
            return ()
        finally:
            deadline.all_over.cancel()
        return tuple(looks) if all(state is not None for *_, state in looks) else ()

    def _stores(self) -> list[Any]:
        stores = [source for source in self._asked().values() if hasattr(source, "remember")]
        if not stores:
            raise errors.ConfigurationError(
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


def _listed(given: Memorable | None) -> list[MemoryRecord]:
    several = [given] if isinstance(given, str | MemoryRecord) else given or ()
    return [MemoryRecord(text=one) if isinstance(one, str) else one for one in several]


def _fact_of(turn: MemoryRecord, fact: MemoryRecord) -> MemoryRecord:
    if not turn.id:
        refuse("facts_of", turn, "must have an id", "Remember it first, and pass the id it got.")
    open_fields = {name: getattr(fact, name) or getattr(turn, name) for name in _OF_TURN}
    return replace(fact, parent_id=fact.parent_id or turn.id, **open_fields)


def _turns_of(
    session_id: str, events: Iterable[SessionEvent], namespace: str
) -> Iterator[MemoryRecord]:
    """Yield the finished turns: what a user said, and what was answered up to the next time."""
    turns = list[list[SessionEvent]]()
    spoken = (one for one in active_events(events) if one.note is None)
    for event in (one for one in spoken if one.type not in _NOT_SAID):
        if event.type == "user" and (not turns or turns[-1][-1].type != "user"):
            turns.append([])
        if turns:
            turns[-1].append(event)
    for at, turn in enumerate(turns):
        if at + 1 < len(turns) or (turn[-1].type == "assistant" and not turn[-1].has_calls):
            told = (one for one in turn if one.type in _AUTHORS and one.text.strip())
            said = (f"{_AUTHORS[one.type]}: {one.text}" for one in told)
            yield MemoryRecord(
                id=f"turn:{session_id}:{turn[0].id or turn[0].seq}",
                kind="events",
                text="\n".join(said),
                namespace=namespace,
                session_id=session_id,
                created_at=turn[0].created_at,
                metadata=EventMetadata(event_type="turn", event_id=turn[0].id),
            )


def _named(given: Any) -> list[tuple[str, OneSource]]:
    if hasattr(given, "items"):
        return [*given.items()]
    if hasattr(given, "__iter__") and not isinstance(given, str):
        return [("", source) for source in given]
    return [("", given)]
