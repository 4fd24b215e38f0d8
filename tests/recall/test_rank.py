"""How relevance, recency and importance become one score."""

from dataclasses import replace

import pytest

from context_assembler.errors import InvalidContextTypeError, InvalidParameterError
from context_assembler.recall.rank import query_weights, rank_candidates
from context_assembler.values.recall import Candidate
from context_assembler.values.recall_settings import (
    MAX_QUERY_RECENCY,
    RECALL_PRESETS,
    STRATEGY_WEIGHTS,
    RecallSettings,
    RecallStrategy,
    RecallWeights,
    recall_preset,
    share_of,
)
from tests.recall.building import NOW, candidate, hours_ago, record


def scored(name: str, *, relevance: float, recency: float, importance: float) -> Candidate:
    hours = 1 / recency - 1
    scores = {"relevance": relevance, "recency": recency, "importance": importance}
    return candidate(
        record(name, created_at=hours_ago(hours), importance=importance), scores=scores
    )


FITTING = scored("fitting", relevance=1.0, recency=0.1, importance=0.1)
FRESH = scored("fresh", relevance=0.4, recency=1.0, importance=0.2)
WEIGHTY = scored("weighty", relevance=0.5, recency=0.05, importance=1.0)
ALL = [FRESH, WEIGHTY, FITTING]


def order(settings: RecallSettings, *, has_query: bool) -> list[str]:
    ranked = rank_candidates(ALL, settings=settings, has_query=has_query, now=NOW)
    return [c.record.id for c in ranked]


WITHOUT_QUERY: dict[RecallStrategy, list[str]] = {
    "balanced": ["fresh", "weighty", "fitting"],
    "recent": ["fresh", "fitting", "weighty"],
    "important": ["weighty", "fresh", "fitting"],
}


@pytest.mark.parametrize("strategy", STRATEGY_WEIGHTS)
def test_with_a_query_what_fits_comes_first_whatever_is_new(strategy: RecallStrategy) -> None:
    ranked = order(RecallSettings(strategy=strategy), has_query=True)

    assert ranked.index("fitting") < ranked.index("fresh")
    assert query_weights(RecallSettings(strategy=strategy)).recency <= MAX_QUERY_RECENCY


@pytest.mark.parametrize(("strategy", "expected"), WITHOUT_QUERY.items(), ids=WITHOUT_QUERY.keys())
def test_without_a_query_the_strategy_decides(
    strategy: RecallStrategy, expected: list[str]
) -> None:
    assert order(RecallSettings(strategy=strategy), has_query=False) == expected


def test_what_has_no_time_comes_last_without_a_query() -> None:
    undated = candidate(record("undated", created_at=None, importance=1.0))

    ranked = rank_candidates(
        [undated, FITTING], settings=RecallSettings(), has_query=False, now=NOW
    )

    assert ranked[-1] is not undated
    assert ranked[-1].record.id == "undated"


def test_own_weights_take_the_place_of_the_strategys() -> None:
    settings = RecallSettings(weights=RecallWeights(relevance=0, recency=1, importance=0))

    assert order(settings, has_query=False)[0] == "fresh"
    assert query_weights(settings) == RecallWeights(relevance=0.9, recency=0.1, importance=0)


def test_an_own_function_decides_alone() -> None:
    settings = RecallSettings(strategy=lambda c: float(c.record.id == "weighty"))

    assert order(settings, has_query=True)[0] == "weighty"
    assert query_weights(settings).relevance > 0.5


def test_an_own_function_must_return_a_number() -> None:
    with pytest.raises(InvalidParameterError, match="finite"):
        order(RecallSettings(strategy=lambda _: float("nan")), has_query=True)


BAD_SETTINGS = {
    "an unknown strategy": ({"strategy": "newest"}, "balanced"),
    "a floor above 1": ({"floor": 2}, "floor"),
    "a floor that is none": ({"floor": float("nan")}, "floor"),
    "a floor as text": ({"floor": "0.2"}, "floor"),
    "weights as a dict": ({"weights": {"relevance": 1}}, "RecallWeights"),
    "weights as numbers": ({"weights": 0.5}, "RecallWeights"),
    "an order like none": ({"order": "best_frist"}, "Did you mean 'best_first'"),
    "times like none": ({"times": 3}, "relative, dates"),
    "no strategy": ({"strategy": None}, "balanced"),
    "shares as a list": ({"shares": ["code"]}, "Mapping"),
    "half a step": ({"depth": 1.5}, "depth"),
    "half a token": ({"whole_tokens": 0.5}, "whole_tokens"),
    "a time as text": ({"seconds_in_all": "5"}, "seconds_in_all"),
    "no half-life": ({"half_life_hours": 0}, "half_life_hours"),
    "a share that is no number": ({"shares": {"code": "lots"}}, "code"),
    "a share without its sign": ({"shares": {"code": "40"}}, "code"),
    "more than the whole": ({"shares": {"code": "140%"}}, "percentage"),
    "a negative share": ({"shares": {"code": -1}}, "code"),
    "a share of another type": ({"shares": {"code": None}}, "code"),
}


@pytest.mark.parametrize(("given", "named"), BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
def test_settings_that_cannot_work_are_refused(given: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidParameterError, match=named):
        RecallSettings(**given)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_a_share_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InvalidContextTypeError, match="memories, code"):
        RecallSettings(shares={"memory": 1})  # type: ignore[dict-item] # pyright: ignore[reportArgumentType]


def test_weights_must_weigh_something() -> None:
    with pytest.raises(InvalidParameterError, match="not all 0"):
        RecallWeights(relevance=0, recency=0, importance=0)


def test_shares_are_weights_or_percentages() -> None:
    assert share_of("code", 2) == (2.0, 0.0)
    assert share_of("code", "40%") == (0.0, 0.4)


def test_presets_are_found_by_name() -> None:
    assert recall_preset("coding") is RECALL_PRESETS["coding"]
    with pytest.raises(InvalidParameterError, match="Did you mean 'coding'"):
        recall_preset("codin")


def test_of_two_that_are_worth_the_same_the_newer_comes_first() -> None:
    old, new, undated = (
        scored(name, relevance=1.0, recency=0.001, importance=0.5) for name in ("old", "new", "?")
    )
    old = replace(old, record=replace(old.record, created_at=hours_ago(9_000)))
    undated = replace(undated, record=replace(undated.record, created_at=None))

    ranked = rank_candidates(
        [undated, old, new], settings=RecallSettings(), has_query=True, now=NOW
    )

    assert [c.record.id for c in ranked] == ["new", "old", "?"]
