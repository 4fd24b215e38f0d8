"""The step that settles each candidate's score: relevance, recency and importance by weights."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
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
    score = _scoring(settings, has_query=has_query, now=now)
    scored = [_with_score(candidate, score(candidate)) for candidate in candidates]
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


def _with_score(candidate: Candidate, score: float) -> Candidate:
    """Return the candidate with that score; `replace` takes several times as long."""
    return Candidate(
        record=candidate.record,
        source=candidate.source,
        order=candidate.order,
        score=score,
        scores=candidate.scores,
        found_in=candidate.found_in,
        reason=candidate.reason,
        is_beginning=candidate.is_beginning,
    )


def _scoring(
    settings: RecallSettings, *, has_query: bool, now: datetime
) -> Callable[[Candidate], float]:
    """Return what scores a candidate."""
    if callable(settings.strategy):
        return partial(_own_score, settings=settings)
    weights = query_weights(settings) if has_query else settings.weights
    if weights is None:
        return partial(_without_query, settings=settings, now=now)
    return partial(_weighted, weights=weights)


def _weighted(candidate: Candidate, *, weights: RecallWeights) -> float:
    scores = candidate.scores
    total = weights.relevance + weights.recency + weights.importance
    score = (
        weights.relevance * scores["relevance"]
        + weights.recency * scores["recency"]
        + weights.importance * scores["importance"]
    )
    return round(score / total, _DIGITS)


def _own_score(candidate: Candidate, *, settings: RecallSettings) -> float:
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
            score = recency + importance / 1_000_000
        case "important":
            score = importance + recency / 1_000_000
        case _:
            score = importance / (1 + _hours_since(candidate.record, now=now))
    return round(score, _DIGITS)


def _hours_since(record: MemoryRecord, *, now: datetime) -> float:
    if record.created_at is None:
        return 1_000_000.0  # nobody knows when: behind all that is dated
    return max((now - record.created_at).total_seconds() / 3600, 0.0)
