"""Recall behind its waiting: from what the sources answered to a context that fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from context_assembler.memory_assembler.arguments import checked_event
from context_assembler.memory_assembler.joining import MISSING_SHARE, with_compressed
from context_assembler.memory_assembler.showing import Shown, chars_within, show_once
from context_assembler.recall.compress import Condense, compress_items
from context_assembler.recall.explain import explain_recall
from context_assembler.recall.fit_budget import BudgetRules, CountText, fit_budget
from context_assembler.recall.format_items import make_layout
from context_assembler.recall.rank import rank_candidates
from context_assembler.recall.score import Weighed, score_answer
from context_assembler.recall.weigh_sources import LEAST_FIT, weigh_sources
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import (
    Candidate,
    FormattedContext,
    Layout,
    Signals,
    SourceAnswer,
    SourceState,
)
from context_assembler.values.recall_settings import RecallSettings

JUST_NOW: Final = "just now"

MOST_EXPLAINED: Final = 1_000
"""Of what was ever left out, the last: a context may be updated for as long as an agent runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalling:
    """One recall behind its waiting: everything here is a function of what was answered.

    Attributes:
        count: What `max_tokens` is counted with.
    """

    signals: Signals
    settings: RecallSettings
    now: datetime
    limit: int
    max_tokens: int
    count: CountText
    masks_secrets: bool

    def rank(
        self, answers: Sequence[SourceAnswer]
    ) -> tuple[list[Candidate], list[Candidate], dict[str, SourceState]]:
        """Return the candidates, best first, those below the floor, and each source's state."""
        weighed = [self._score(answer) for answer in answers]
        relevant = [answer for answer, one in zip(answers, weighed, strict=True) if one.candidates]
        fits = weigh_sources(relevant, self.signals)
        found: list[Candidate] = []
        below: list[Candidate] = []
        states: dict[str, SourceState] = {}
        for answer, one in zip(answers, weighed, strict=True):
            fit = fits.get(answer.source, 1.0)
            is_far = fit < LEAST_FIT and self.settings.floor > 0
            candidates = () if is_far else _as_relevant(one.candidates, fit)
            found += candidates
            below += one.below_floor if candidates else (*one.candidates, *one.below_floor)
            is_below = answer.state == "ok" and not candidates
            states[answer.source] = "below_floor" if is_below else answer.state
        ranked = rank_candidates(
            found,
            settings=self.settings,
            has_query=bool(self.signals.query.strip()),
            now=self.now,
        )
        return ranked, below, states

    def _score(self, answer: SourceAnswer) -> Weighed:
        return score_answer(
            answer,
            self.signals,
            now=self.now,
            half_life_hours=self.settings.half_life_hours,
            floor=self.settings.floor,
        )

    def show(self, candidates: Sequence[Candidate], *, max_tokens: int) -> Shown:
        """Return the candidates as they may be shown within budgets of at most so many tokens."""
        return show_once(
            candidates,
            near_duplicate=self.settings.near_duplicate,
            masks_secrets=self.masks_secrets,
            most_chars=chars_within(max_tokens),
        )

    def shape(
        self,
        choice: Shown,
        below: Sequence[Candidate],
        states: Mapping[str, SourceState],
        notes: Mapping[str, str],
    ) -> FormattedContext:
        """Return the context: what fits of things told once, and why."""
        layout = self._layout(states)
        rules = BudgetRules(
            max_tokens=self.max_tokens,
            limit=self.limit,
            shares=self.settings.shares,
            largest_share=self.settings.largest_share,
            whole_tokens=self.settings.whole_tokens,
        )
        candidates = choice.once.candidates
        fitted = fit_budget(candidates, rules=rules, layout=layout, count_text=self.count)
        low = [(candidate, "it is below the floor of relevance") for candidate in below]
        return FormattedContext(
            markdown=fitted.markdown,
            items=fitted.items,
            token_count=fitted.token_count,
            sources_used=tuple(dict.fromkeys(shown.source for shown in fitted.items)),
            source_status=dict(states),
            source_notes={**notes, **choice.notes},
            budget_exceeded=fitted.ran_out_of_room,
            truncated_items=tuple(shown.record.id for shown in fitted.items if shown.is_truncated),
            explanations=explain_recall(
                candidates, fitted.items, [*choice.left_out, *fitted.left_out, *low]
            ),
            signals=self.signals,
        )

    async def compress(
        self, context: FormattedContext, *, condense: Condense | None
    ) -> FormattedContext:
        """Return the context in no more tokens than there may be, its items made smaller."""
        smaller = await compress_items(
            context.items,
            target_tokens=self.max_tokens,
            layout=self._layout(context.source_status),
            count_text=self.count,
            condense=condense,
        )
        return with_compressed(context, smaller)

    def update(self, context: FormattedContext, event: MemoryRecord | str) -> FormattedContext:
        """Return the context with one more record, ranked by the words it shares with the query.

        What the context had keeps its score.

        Raises:
            InvalidParameterError: The event is neither a record nor a text.
        """
        record = checked_event(event, now=self.now)
        had = [
            Candidate(
                record=shown.record,
                source=shown.source,
                order=at,
                score=shown.score,
                scores=shown.scores,
                found_in=shown.found_in,
                is_beginning=shown.is_beginning,
            )
            for at, shown in enumerate(context.items)
        ]
        terms = self.signals.terms
        said = record.text.casefold()
        shared = sum(term.rstrip("*") in said for term in terms) / len(terms) if terms else 1.0
        fresh = Candidate(
            record=record,
            source=JUST_NOW,
            order=-1,
            score=0.0,
            scores={"relevance": shared, "recency": 1.0, "importance": record.importance},
            found_in=(JUST_NOW,),
            reason="it just happened",
        )
        [ranked] = rank_candidates(
            [fresh], settings=self.settings, has_query=bool(terms), now=self.now
        )
        choice = self.show([*had, ranked], max_tokens=self.max_tokens)
        updated = self.shape(choice, (), context.source_status, context.source_notes)
        known = {(row.source, row.memory_id) for row in updated.explanations}
        earlier = (row for row in context.explanations if (row.source, row.memory_id) not in known)
        explanations = (*updated.explanations, *earlier)[:MOST_EXPLAINED]
        return replace(updated, explanations=explanations)

    def _layout(self, states: Mapping[str, SourceState]) -> Layout:
        most_tokens = self.max_tokens * MISSING_SHARE
        return make_layout(
            now=self.now,
            order=self.settings.order,
            states=states,
            times=self.settings.times,
            fits=lambda sentence: self.count(sentence) <= most_tokens,
        )


def _as_relevant(candidates: Sequence[Candidate], fit: float) -> Sequence[Candidate]:
    """Return the candidates of a source that fits as well as a part of the best one."""
    if fit == 1.0:
        return candidates
    return [
        replace(one, scores={**one.scores, "relevance": one.scores["relevance"] * fit})
        for one in candidates
    ]
