"""What recall can be told: weights, strategies, shares, and presets for kinds of agents."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Final, Literal, NoReturn, TypeAlias, get_args

from context_assembler.errors import InvalidParameterError
from context_assembler.errors.base import did_you_mean
from context_assembler.values.memories.kinds import KINDS, MemoryKind, check_kind
from context_assembler.values.recall import Candidate

RecallStrategy: TypeAlias = Literal["balanced", "recent", "important"]
RecallOrder: TypeAlias = Literal["best_first", "best_last"]
RecallTimes: TypeAlias = Literal["relative", "dates"]
ScoreCandidate: TypeAlias = Callable[[Candidate], float]

MAX_QUERY_RECENCY: Final = 0.1
"""Of the weights with an explicit query: more loses what was asked for to what is new."""

DEFAULT_SHARES: Final[Mapping[MemoryKind, float]] = {
    "memories": 1,
    "code": 2,
    "experiences": 3,
    "values": 1,
    "commits": 2,
}
"""Every other kind has the weight 1."""


def _is_finite(given: object) -> bool:
    try:
        return isinstance(given, int | float) and isfinite(given)
    except OverflowError:  # a whole number that no float reaches
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallWeights:
    """How much each side of a candidate counts; only their proportion matters."""

    relevance: float
    recency: float
    importance: float

    def __post_init__(self) -> None:
        given = (self.relevance, self.recency, self.importance)
        if not all(_is_finite(weight) and weight >= 0 for weight in given) or not sum(given):
            _refuse(
                "weights", given, "must be 0 or more, and not all 0", "Pass numbers such as 0.8."
            )


STRATEGY_WEIGHTS: Final[Mapping[RecallStrategy, RecallWeights]] = {
    "balanced": RecallWeights(relevance=0.88, recency=0.02, importance=0.1),
    "recent": RecallWeights(relevance=0.85, recency=0.1, importance=0.05),
    "important": RecallWeights(relevance=0.6, recency=0.05, importance=0.35),
}


_LARGEST: Final = 1e12
_BOUNDS: Final = (
    ("largest_share", 0.01, 1),
    ("floor", 0, 1),
    ("near_duplicate", 0.5, 1),
    ("depth", 0, 8),
    ("whole_tokens", 0, 1_000_000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """What holds for one recall.

    Attributes:
        strategy: What counts beside relevance; without a query, what is shown at all. A function
            gives each candidate its own score.
        weights: In the place of the strategy's. With a query recency counts for a tenth at most.
        shares: What each kind gets of the budget: a weight, or a percentage such as `"40%"`.
        largest_share: The most that one item may take of its kind's share; longer ones are cut.
        whole_tokens: Items of at most so many tokens are not cut: half a message is worth little.
        half_life_hours: After how long a memory is half as recent.
        floor: The part of the query's words that the best of a source must have, or three of them;
            otherwise nothing of that source is relevant, nor is it where it fits less than two fifths
            as well as another source. 0 is no floor.
        depth: How many relations are walked from an entity that was found.
        order: Where the best stands: some models read the end more closely.
        times: How it is said when something was: from now on, or as a date, which stays true in a
            text that is kept.
        near_duplicate: From which likeness on two texts count as one.
        seconds_per_source: How long one source may take, from its turn on.
        seconds_in_all: How long all of them together may take.
    """

    strategy: RecallStrategy | ScoreCandidate = "balanced"
    weights: RecallWeights | None = None
    shares: Mapping[MemoryKind, float | str] = field(default_factory=lambda: {**DEFAULT_SHARES})
    largest_share: float = 0.25
    whole_tokens: int = 320
    half_life_hours: float = 24.0
    floor: float = 0.15
    depth: int = 1
    order: RecallOrder = "best_first"
    times: RecallTimes = "relative"
    near_duplicate: float = 0.9
    seconds_per_source: float = 2.0
    seconds_in_all: float = 5.0

    def __post_init__(self) -> None:
        if not callable(self.strategy):
            _check_choice("strategy", self.strategy, STRATEGY_WEIGHTS)
        _check_choice("order", self.order, get_args(RecallOrder))
        _check_choice("times", self.times, get_args(RecallTimes))
        if self.weights is not None:
            _check_type("weights", self.weights, RecallWeights, "Pass RecallWeights(…), or None.")
        _check_type("shares", self.shares, Mapping, "Pass a mapping such as {'code': 4}.")
        for kind, share in self.shares.items():
            share_of(check_kind(kind), share)
        for name, least, most in _BOUNDS:
            given = getattr(self, name)
            if not _is_finite(given) or not least <= given <= most:
                rule = f"must be from {least} to {most}"
                _refuse(name, given, rule, "Choose a value between.")
        for name in ("half_life_hours", "seconds_per_source", "seconds_in_all"):
            given = getattr(self, name)
            if not isinstance(given, int | float) or not given > 0:
                _refuse(name, given, "must be more than 0", "Choose a larger one.")
            if given > _LARGEST and given != inf:
                _refuse(name, given, "must be a number of usual size", "Choose a smaller one.")
        for name in ("depth", "whole_tokens"):
            _check_type(name, getattr(self, name), int, "Pass a whole number.")


def _check_type(name: str, given: object, wanted: type, remedy: str) -> None:
    if not isinstance(given, wanted):
        _refuse(name, given, f"must be {wanted.__name__}", remedy)


def _check_choice(name: str, given: object, choices: Collection[str]) -> None:
    if not isinstance(given, str) or given not in choices:
        remedy = did_you_mean(str(given), choices, otherwise="Use one of these.")
        _refuse(name, given, f"must be one of {', '.join(choices)}", remedy)


def share_of(kind: MemoryKind, share: float | str) -> tuple[float, float]:
    """Return a share as its weight and its fixed part of the whole; one of them is 0.

    Raises:
        InvalidParameterError: It is neither a weight nor a percentage.
    """
    number = _number(share.removesuffix("%") if isinstance(share, str) else share)
    is_percentage = isinstance(share, str) and share.endswith("%")
    is_possible = number is not None and 0 <= number <= (100 if is_percentage else 1e6)
    if number is None or not is_possible or (isinstance(share, str) and not is_percentage):
        _refuse(
            f"shares[{kind!r}]",
            share,
            "must be a weight of 0 or more, or a percentage",
            "Pass a share such as 2 or '40%'.",
        )
    return (0.0, number / 100) if is_percentage else (number, 0.0)


def _number(given: object) -> float | None:
    try:
        return float(given) if isinstance(given, str | int | float) else None
    except (OverflowError, ValueError):
        return None


RECALL_PRESETS: Final[Mapping[str, RecallSettings]] = {
    "general": RecallSettings(),
    "coding": RecallSettings(
        shares={**DEFAULT_SHARES, "code": 4, "commits": 3, "changed_functions": 2}, depth=1
    ),
    "companion": RecallSettings(shares={**dict.fromkeys(KINDS, 1.0), "memories": 3, "events": 3}),
    "research": RecallSettings(
        shares={**DEFAULT_SHARES, "chunks": 4, "entities": 2, "relations": 2}, depth=2
    ),
    "operations": RecallSettings(
        strategy="recent", shares={**DEFAULT_SHARES, "events": 3, "patterns": 2}, half_life_hours=6
    ),
    "planning": RecallSettings(
        strategy="important",
        shares={**DEFAULT_SHARES, "experiences": 4, "values": 3, "patterns": 2},
    ),
}
"""Settings for kinds of agents; `dataclasses.replace` changes one of theirs."""


def recall_preset(name: str) -> RecallSettings:
    """Return the settings of that name.

    Raises:
        InvalidParameterError: There are none.
    """
    if not isinstance(name, str) or name not in RECALL_PRESETS:  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        remedy = did_you_mean(str(name), RECALL_PRESETS, otherwise="Use one of these.")
        _refuse("preset", name, f"must be one of {', '.join(RECALL_PRESETS)}", remedy)
    return RECALL_PRESETS[name]


def _refuse(name: str, value: object, rule: str, remedy: str) -> NoReturn:
    raise InvalidParameterError(name, value, rule=rule, remedy=remedy)
