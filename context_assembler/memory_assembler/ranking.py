"""Recall in its waiting part: from a query to candidates in their order, for a budget of any size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from context_assembler.memory_assembler.arguments import check_number
from context_assembler.memory_assembler.asking import make_asks, place_query, walk_from
from context_assembler.memory_assembler.deadlines import deadline_of
from context_assembler.memory_assembler.recalling import Recalling
from context_assembler.memory_assembler.rereading import read_again
from context_assembler.memory_assembler.thinking import chars_of, think
from context_assembler.ports import Embed, MemorySource
from context_assembler.recall.ask_sources import Sleep, ask_sources
from context_assembler.values.memories.kinds import MemoryKind
from context_assembler.values.memories.records import MemoryFilters
from context_assembler.values.recall import Candidate, FormattedContext, SourceState


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedMemories:
    """What fits a query, best first, before anything is left out for want of room."""

    recall: Recalling
    candidates: Sequence[Candidate]
    below: Sequence[Candidate]
    states: Mapping[str, SourceState]
    notes: Mapping[str, str]

    async def within(self, *budgets_tokens: int) -> list[FormattedContext]:
        """Return what is shown of them in each of the budgets."""
        for budget in budgets_tokens:
            check_number("budgets_tokens", budget)
        chars = chars_of(candidate.record for candidate in self.candidates)
        return await think(partial(self._shape, budgets_tokens), chars=chars)

    def _shape(self, budgets_tokens: Sequence[int]) -> list[FormattedContext]:
        shown = self.recall.show(self.candidates, max_tokens=max(budgets_tokens, default=1))
        below, states, notes = self.below, self.states, self.notes
        return [
            replace(self.recall, max_tokens=budget).shape(shown, below, states, notes)
            for budget in budgets_tokens
        ]


async def rank_memories(
    recall: Recalling,
    sources: Mapping[str, MemorySource],
    kinds: Sequence[MemoryKind],
    filters: MemoryFilters,
    *,
    embed: Embed | None,
    sleep: Sleep,
) -> RankedMemories:
    """Ask every source, within its time and that of all, and rank what they answer."""
    settings = recall.settings
    async with deadline_of(settings, sleep=sleep) as deadline:
        vector, notes = await place_query(embed, recall.signals, deadline=deadline)
        answers = await ask_sources(
            make_asks(sources, kinds, filters, settings, limit=recall.limit, vector=vector),
            recall.signals,
            seconds_per_source=settings.seconds_per_source,
            seconds_in_all=settings.seconds_in_all,
            sleep=sleep,
            all_over=deadline.all_over,
        )
        answers = await read_again(answers, embed, vector, deadline=deadline)
        records = (hit.record for answer in answers for hit in answer.hits)
        ranked, below, states = await think(partial(recall.rank, answers), chars=chars_of(records))
        walk = (sources, ranked, filters)
        related = await walk_from(*walk, depth=settings.depth, deadline=deadline)
    notes |= {answer.source: answer.reason for answer in answers if answer.reason}
    return RankedMemories(
        recall=recall, candidates=[*ranked, *related], below=below, states=states, notes=notes
    )
