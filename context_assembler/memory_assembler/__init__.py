"""The conductor of recall: from a query to recalled memories that fit a budget."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, Self

from context_assembler.memory_assembler import arguments
from context_assembler.memory_assembler.asking import relate_words
from context_assembler.memory_assembler.joining import join_task_path
from context_assembler.memory_assembler.opening import OpenSources, SourcesArgument
from context_assembler.memory_assembler.premortems import recall_premortem
from context_assembler.memory_assembler.ranking import RankedMemories, rank_memories
from context_assembler.memory_assembler.recalling import Recalling
from context_assembler.memory_assembler.task_above import compress_below, tell_task, update_below
from context_assembler.memory_assembler.writing import Memorable, forget_memories, remember_records
from context_assembler.ports import Clock, Embed, TokenCounter
from context_assembler.recall.ask_sources import Sleep
from context_assembler.recall.compress import Condense
from context_assembler.recall.premortem import PremortemContext
from context_assembler.recall.read_signals import read_signals
from context_assembler.tokens.bpe import count_bpe
from context_assembler.values.memories.records import (
    NO_FILTERS,
    MemoryFilters,
    MemoryRecord,
    Remembered,
)
from context_assembler.values.recall import FormattedContext, Signals
from context_assembler.values.recall_settings import RecallSettings, recall_preset
from context_assembler.values.task_stack import TaskStack

DEFAULT_LIMIT: Final = 20
DEFAULT_MAX_TOKENS: Final = 2_000
MAX_LIMIT: Final = 10_000
_COUNT: Final = partial(count_bpe, encoding="o200k_base")


class MemoryAssembler:
    """Recalls what fits a query from any number of sources, under one budget.

    Recalling writes nothing. Sources that this object opened from a URL are closed by `close`.

    Args:
        sources: Where memories are: a store, its URL (`sqlite:memory.db`), several of both, or a
            mapping that says what each is called.
        preset: Settings for a kind of agent: see `RECALL_PRESETS`.
        settings: In the place of a preset's.
        embed: What finds a query's place among the vectors that the sources keep, and gives
            remembered records theirs.
        counter: What `max_tokens` is counted with, maybe in a thread; by default exactly, with
            OpenAI's o200k.
        masks_secrets: Whether secrets in records are masked before they are shown.
        merges_alike: From which likeness on (such as 0.9) what is remembered counts as a duplicate.
        clock: Seconds since 1970: what is recent, and what relative times are told from.
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
        clock: Clock = time.time,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._open = OpenSources(sources)
        self._sources = self._open.by_name
        arguments.check_parts(embed=embed, clock=clock, sleep=sleep)
        self.settings = arguments.settled_by(settings, recall_preset(preset))
        self._embed = embed
        self._count = arguments.counted_by(counter, _COUNT)
        self._masks_secrets = masks_secrets
        self._remember = partial(
            remember_records, embed=embed, masks_secrets=masks_secrets, merges_alike=merges_alike
        )
        self._clock = clock
        self._sleep = sleep

    async def assemble_context(
        self,
        query: str = "",
        *,
        context_types: Sequence[str] | str | None = None,
        limit: int = DEFAULT_LIMIT,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        filters: MemoryFilters = NO_FILTERS,
        settings: RecallSettings | None = None,
        counter: TokenCounter | None = None,
    ) -> FormattedContext:
        """Return what fits the query as Markdown of at most `max_tokens`.

        The same question to the same records gets the same bytes, in whatever order the sources
        answer. Without a query the strategy alone decides; one without a word finds nothing.

        Args:
            context_types: The kinds to look for; by default all.
            limit: The most records to show.
            filters: Which records may be found at all.
            settings, counter: For this call.

        Raises:
            InvalidContextTypeError: There is no such kind.
            InvalidParameterError: A number is out of its range, or the query no text.
        """
        arguments.check_number("max_tokens", max_tokens)
        ranked = await self.rank(
            query,
            context_types=context_types,
            limit=limit,
            filters=filters,
            settings=settings,
            counter=counter,
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
        counter: TokenCounter | None = None,
    ) -> RankedMemories:
        """Return what `assemble_context` chooses from; `within` then takes budgets of any size."""
        kinds = arguments.checked_kinds(context_types, filters)
        arguments.check_number("limit", limit, most=MAX_LIMIT)
        arguments.check_text("query", query)
        signals = read_signals(query, now=self._now(), relate=relate_words)
        await self._open.enter()
        recall = self._recalling(
            signals, limit=limit, max_tokens=1, settings=settings, counter=counter
        )
        return await rank_memories(
            recall, self._sources, kinds, filters, embed=self._embed, sleep=self._sleep
        )

    async def get_premortem_context(
        self,
        domain: str,
        strategy: str | None = None,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        filters: MemoryFilters = NO_FILTERS,
    ) -> PremortemContext:
        """Return what earlier attempts in a domain teach, before the next one is made.

        Past failures, how each strategy did, outcomes that surprised, root causes, lessons, principles.
        A source that fails or is late costs its part alone: `source_status` says so.

        Args:
            strategy: Leaves out experiences with another one.

        Raises:
            InvalidParameterError: `max_tokens` is out of its range, or the domain says nothing.
        """
        arguments.check_number("max_tokens", max_tokens)
        await self._open.enter()
        recall = self._recalling(None, limit=MAX_LIMIT, max_tokens=max_tokens)
        return await recall_premortem(
            recall, self._sources, domain, strategy, filters, sleep=self._sleep
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

        The first goal gets a twentieth, the way to the current one three, what was finished beside
        it two; the rest, and what these leave, is for memories that fit the current goal.

        Raises:
            InvalidContextTypeError: There is no such kind.
            InvalidParameterError: A number is out of its range.
        """
        arguments.check_number("max_tokens", max_tokens)
        recall = self._recalling(None, limit=limit, max_tokens=max_tokens)
        task, room_tokens = tell_task(recall, stack)
        recalled = await self.assemble_context(
            "" if stack.current is None else stack.current.goal,
            context_types=context_types,
            limit=limit,
            max_tokens=room_tokens,
            filters=filters,
        )
        return join_task_path(task, recalled, max_tokens=max_tokens, count_text=self._count)

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
        of what ranks lower where there is no room for both. The way to the current goal stays.

        Args:
            event: A record, or the text of an event.

        Raises:
            InvalidParameterError: A number is out of its range, or the event is neither.
        """
        arguments.check_context(context)
        arguments.check_number("limit", limit, most=MAX_LIMIT)
        arguments.check_number("max_tokens", max_tokens)
        recall = self._recalling(context.signals, limit=limit, max_tokens=max_tokens)
        return update_below(recall, context, event)

    async def compress(
        self,
        context: FormattedContext,
        *,
        target_tokens: int,
        summarizer: Condense | None = None,
    ) -> FormattedContext:
        """Return the context in at most so many tokens: the lowest scores are cut to a third first.

        Above them, the way to the current goal stays as long as it fits.

        Args:
            summarizer: Says a text in at most so many tokens; without it texts are cut.

        Raises:
            InvalidParameterError: `target_tokens` is out of its range.
        """
        arguments.check_context(context)
        arguments.check_number("target_tokens", target_tokens)
        recall = self._recalling(context.signals, limit=MAX_LIMIT, max_tokens=target_tokens)
        return await compress_below(recall, context, condense=summarizer)

    async def remember(self, records: Memorable) -> list[Remembered]:
        """Keep records, or texts, in the first source that keeps any; return what became of each.

        Raises:
            ConfigurationError: No source keeps records, or something among them is neither, or says
                nothing.
            EmbeddingError: The model that is to place them cannot be used.
            StoreError: The store cannot keep them.
        """
        return await self._remember(self._sources.values(), records)

    async def forget(self, memory_ids: str | Iterable[str]) -> list[str]:
        """Remove records from every source that keeps any; return the ids of those that were there.

        Raises:
            ConfigurationError: No source keeps records.
            StoreError: A store cannot be written.
        """
        return await forget_memories(self._sources.values(), memory_ids)

    async def close(self) -> None:
        """Close the stores that were opened from a URL; others are their owner's."""
        await self._open.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def _recalling(
        self,
        signals: Signals | None,
        *,
        limit: int,
        max_tokens: int,
        settings: RecallSettings | None = None,
        counter: TokenCounter | None = None,
    ) -> Recalling:
        return Recalling(
            signals=signals or read_signals(""),
            settings=arguments.settled_by(settings, self.settings),
            now=self._now(),
            limit=limit,
            max_tokens=max_tokens,
            count=arguments.counted_by(counter, self._count),
            masks_secrets=self._masks_secrets,
        )
