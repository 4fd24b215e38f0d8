"""The step that settles each candidate's score: relevance, recency and importance by weights."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from math import isfinite
from typing import Final

from context_assembler.errors import InvalidParameterError
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import Candidate
from context_assembler.values.recall_settings import (
    MAX_QUERY_RECENCY,
    STRATEGY_WEIGHTS,
    RecallSettings,
    RecallWeights,
)

_DIGITS: Final = 9  # so that the last bit of a sum does not decide


def rank_candidates(
    candidates: Sequence[Candidate], *, settings: RecallSettings, has_query: bool, now: datetime
) -> list[Candidate]:
    """Return the candidates with their scores, the best first.

    Raises:
        InvalidParameterError: The caller's own function returned no finite number.
    """
    scored = [
        replace(candidate, score=_score(candidate, settings, has_query=has_query, now=now))
        for candidate in candidates
    ]
    return sorted(scored, key=lambda candidate: candidate.rank)


def query_weights(settings: RecallSettings) -> RecallWeights:
    """Return the weights that hold with a query: they add up to 1, recency at most a tenth."""
    strategy = "balanced" if callable(settings.strategy) else settings.strategy
    given = settings.weights or STRATEGY_WEIGHTS[strategy]
    total = given.relevance + given.recency + given.importance
    recency = min(given.recency / total, MAX_QUERY_RECENCY)
    rest = given.relevance + given.importance
    if not rest:
        return RecallWeights(relevance=1 - recency, recency=recency, importance=0)
    return RecallWeights(
        relevance=given.relevance / rest * (1 - recency),
        recency=recency,
        importance=given.importance / rest * (1 - recency),
    )


def _score(
    candidate: Candidate, settings: RecallSettings, *, has_query: bool, now: datetime
) -> float:
    if callable(settings.strategy):
        return _own_score(candidate, settings)
    relevance, recency, importance = (
        candidate.scores[name] for name in ("relevance", "recency", "importance")
    )
    if has_query:
        weights = query_weights(settings)
    elif settings.weights is None:
        return round(_without_query(candidate, settings, now=now), _DIGITS)
    else:
        weights = settings.weights
    total = weights.relevance + weights.recency + weights.importance
    score = (
        weights.relevance * relevance + weights.recency * recency + weights.importance * importance
    )
    return round(score / total, _DIGITS)


def _own_score(candidate: Candidate, settings: RecallSettings) -> float:
    assert callable(settings.strategy)
    score = settings.strategy(candidate)
    if not isfinite(score):
        raise InvalidParameterError(
            "strategy",
            score,
            rule="must return a finite number",
            remedy="Return such as candidate.scores['relevance'].",
        )
    return float(score)


def _without_query(candidate: Candidate, settings: RecallSettings, *, now: datetime) -> float:
    recency, importance = candidate.scores["recency"], candidate.scores["importance"]
    match settings.strategy:
        case "recent":
            return recency + importance / 1_000_000
        case "important":
            return importance + recency / 1_000_000
        case _:
            return importance / (1 + _hours_since(candidate.record, now=now))


def _hours_since(record: MemoryRecord, *, now: datetime) -> float:
    if record.created_at is None:
        return 1_000_000.0  # nobody knows when: behind all that is dated
    return max((now - record.created_at).total_seconds() / 3600, 0.0)
