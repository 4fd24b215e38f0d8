"""The conductor of recall: from a query to recalled memories that fit a budget."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Self

from context_assembler.memory import SqliteMemoryStore, open_memory
from context_assembler.memory_assembler.arguments import (
    SourceArgument,
    check_number,
    check_text,
    check_words,
    checked_kinds,
    listed,
)
from context_assembler.memory_assembler.asking import (
    list_lessons,
    make_asks,
    place_query,
    walk_from,
)
from context_assembler.memory_assembler.joining import (
    fit_premortem,
    join_task_path,
    with_compressed,
)
from context_assembler.memory_assembler.recalling import Recalling
from context_assembler.ports import Clock, Embed, MemorySource, TokenCounter
from context_assembler.recall.ask_sources import Sleep, ask_sources
from context_assembler.recall.compress import Condense, compress_items
from context_assembler.recall.fit_budget import CountText
from context_assembler.recall.format_items import make_layout
from context_assembler.recall.premortem import PremortemContext, is_of_domain, premortem_lines
from context_assembler.recall.read_signals import read_signals
from context_assembler.recall.task_path import write_task_path
from context_assembler.tokens.bpe import count_bpe
from context_assembler.values.memories.records import NO_FILTERS, MemoryFilters, MemoryRecord
from context_assembler.values.recall import FormattedContext, Signals
from context_assembler.values.recall_settings import RecallSettings, recall_preset
from context_assembler.values.task_stack import TaskStack

DEFAULT_LIMIT: Final = 20
DEFAULT_MAX_TOKENS: Final = 2_000
MAX_LIMIT: Final = 10_000


class MemoryAssembler:
    """Recalls what fits a query from any number of sources, under one budget.

    Nothing is written. Sources that this object opened from a URL are closed by `close`.

    Args:
        sources: Where memories are: a store, its URL (`sqlite:memory.db`), or several of both.
        preset: Settings for a kind of agent: see `RECALL_PRESETS`.
        settings: In the place of a preset's.
        embed: What finds a query's place among the vectors that the sources keep.
        counter: What `max_tokens` is counted with; by default exactly, with OpenAI's o200k.
        masks_secrets: Whether secrets in records are masked before they are shown.
        clock: Seconds since 1970: what is recent, and what relative times are told from.
        sleep: Returns after so many seconds; sources have no longer to answer.
    """

    def __init__(
        self,
        sources: SourceArgument | Sequence[SourceArgument],
        *,
        preset: str = "general",
        settings: RecallSettings | None = None,
        embed: Embed | None = None,
        counter: TokenCounter | None = None,
        masks_secrets: bool = True,
        clock: Clock = time.time,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._own: list[SqliteMemoryStore] = []
        self._sources = [self._opened(source) for source in listed(sources)]
        self._settings = recall_preset(preset) if settings is None else settings
        self._embed = embed
        self._count: CountText = (
            partial(count_bpe, encoding="o200k_base") if counter is None else counter.count_text
        )
        self._masks_secrets = masks_secrets
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
    ) -> FormattedContext:
        """Return what fits the query as Markdown of at most `max_tokens`.

        The same question to the same records gets the same bytes, in whatever order the sources
        answer. Without a query the strategy alone decides.

        Args:
            context_types: The kinds to look for; by default all.
            limit: The most records to show.
            filters: Which records may be found at all.
            settings: For this call.

        Raises:
            InvalidContextTypeError: There is no such kind.
            InvalidParameterError: A number is out of its range, or the query no text.
        """
        kinds = checked_kinds(context_types, filters)
        check_number("limit", limit, most=MAX_LIMIT)
        check_number("max_tokens", max_tokens)
        check_text("query", query)
        settings = settings or self._settings
        now = self._now()
        signals = read_signals(query, now=now)
        vector, notes = await place_query(self._embed, signals)
        answers = await ask_sources(
            make_asks(self._sources, kinds, filters, settings, limit=limit, vector=vector),
            signals,
            seconds_per_source=settings.seconds_per_source,
            seconds_in_all=settings.seconds_in_all,
            sleep=self._sleep,
        )
        recall = self._recalling(signals, settings, limit=limit, max_tokens=max_tokens, now=now)
        ranked, below, states = recall.rank(answers)
        related = await walk_from(self._sources, ranked, filters, depth=settings.depth)
        notes |= {answer.source: answer.reason for answer in answers if answer.reason}
        return recall.shape([*ranked, *related], below, states, notes)

    async def get_premortem_context(
        self,
        domain: str,
        strategy: str | None = None,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        filters: MemoryFilters = NO_FILTERS,
    ) -> PremortemContext:
        """Return what earlier attempts in a domain teach, before the next one is made.

        Past failures, how each strategy did, outcomes that surprised, root causes, and principles.

        Args:
            strategy: Leaves out experiences with another one.

        Raises:
            InvalidParameterError: `max_tokens` is out of its range, or the domain says nothing.
            StoreError: A source cannot be read.
        """
        check_number("max_tokens", max_tokens)
        check_words("domain", domain)
        records = await list_lessons(self._sources, domain, filters)
        lines = premortem_lines(
            [r for r in records if is_of_domain(r, domain=domain, strategy=strategy)]
        )
        return fit_premortem(
            lines, domain=domain, strategy=strategy, max_tokens=max_tokens, count_text=self._count
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
        check_number("max_tokens", max_tokens)
        task = write_task_path(stack, max_tokens=max_tokens, count_text=self._count)
        current = "" if stack.current is None else stack.current.goal
        room_tokens = max_tokens - self._count(f"{task.markdown}\n\n")
        recalled = await self.assemble_context(
            current,
            context_types=context_types,
            limit=limit,
            max_tokens=max(room_tokens, 1),
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
        of what ranks lower where there is no room for both.

        Args:
            event: A record, or the text of an event.

        Raises:
            InvalidParameterError: A number is out of its range.
        """
        check_number("limit", limit, most=MAX_LIMIT)
        check_number("max_tokens", max_tokens)
        now = self._now()
        record = event
        if isinstance(record, str):
            record = MemoryRecord(text=record, kind="events", created_at=now)
        signals = context.signals or read_signals("")
        recall = self._recalling(
            signals, self._settings, limit=limit, max_tokens=max_tokens, now=now
        )
        return recall.update(context, record)

    async def compress(
        self,
        context: FormattedContext,
        *,
        target_tokens: int,
        summarizer: Condense | None = None,
    ) -> FormattedContext:
        """Return the context in at most so many tokens: the lowest scores are cut to a third first.

        Args:
            summarizer: Says a text in at most so many tokens; without it texts are cut.

        Raises:
            InvalidParameterError: `target_tokens` is out of its range.
        """
        check_number("target_tokens", target_tokens)
        layout = make_layout(
            now=self._now(), order=self._settings.order, states=context.source_status
        )
        smaller = await compress_items(
            context.items,
            target_tokens=target_tokens,
            layout=layout,
            count_text=self._count,
            condense=summarizer,
        )
        return with_compressed(context, smaller)

    async def close(self) -> None:
        """Close the stores that were opened from a URL; others are their owner's."""
        for source in self._own:
            await source.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _opened(self, source: SourceArgument) -> MemorySource:
        if not isinstance(source, str | Path):
            return source
        store = open_memory(source)
        self._own.append(store)
        return store

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def _recalling(
        self,
        signals: Signals,
        settings: RecallSettings,
        *,
        limit: int,
        max_tokens: int,
        now: datetime,
    ) -> Recalling:
        return Recalling(
            signals=signals,
            settings=settings,
            now=now,
            limit=limit,
            max_tokens=max_tokens,
            count=self._count,
            masks_secrets=self._masks_secrets,
        )
