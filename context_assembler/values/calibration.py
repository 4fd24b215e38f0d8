"""What reported usage tells about our counts: one factor per model and kind of request."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Final, Literal, TypeAlias

from context_assembler.values.draft import Draft
from context_assembler.values.events import Usage
from context_assembler.values.messages import Message
from context_assembler.values.parts import Document, Image, Opaque, Thinking

RequestShape: TypeAlias = Literal["text", "tools"]

LEAST_TOKENS: Final = 500  # below it, what surrounds the text says more than the text does
LEAST_OBSERVATIONS: Final = 3  # before the first correction, so that one outlier cannot make one
MOST_FACTOR: Final = 2.0  # and its inverse is the least
_PLAUSIBLE_RATIO: Final = 3.0  # beyond it (or its inverse) the two are not about the same text
_WINDOW: Final = 9  # the latest ratios, whose median is what the factor moves to
_STEP: Final = 0.3  # of the way there
_DIGITS: Final = 3
_FORMULA: Final = 5  # raised whenever the formula or its figures change: what was learned is void


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageObservation:
    """One call's prompt as we counted it, uncorrected, and as the provider charged it.

    `counter` names who counted: figures of two counters are not comparable.
    """

    provider: str
    model: str
    shape: RequestShape
    counter: str
    counted_tokens: int
    reported_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """By how much the counts for a model's requests of one shape are off, as far as is known.

    Attributes:
        factor: What a count is to be multiplied by; from 1 / `MOST_FACTOR` to `MOST_FACTOR`.
        observations: How many calls it was learned from.
        refused: How many said something implausible and were not believed.
        recent: The latest ratios of what was charged to what was counted, oldest first.
    """

    provider: str
    model: str
    shape: RequestShape
    counter: str
    factor: float = 1.0
    observations: int = 0
    refused: int = 0
    recent: tuple[float, ...] = ()


def learn(known: Calibration | None, seen: UsageObservation) -> Calibration:
    """Return the calibration after one more call; what another counter taught is forgotten.

    The factor moves part of the way to the median of the latest ratios, so that no single call
    moves it by much, and one that is out of all proportion does not move it at all.
    """
    if known is None or known.counter != seen.counter:
        known = Calibration(
            provider=seen.provider, model=seen.model, shape=seen.shape, counter=seen.counter
        )
    ratio = seen.reported_tokens / max(1, seen.counted_tokens)
    if not 1 / _PLAUSIBLE_RATIO <= ratio <= _PLAUSIBLE_RATIO:
        return replace(known, refused=known.refused + 1)
    recent = (*known.recent, round(ratio, _DIGITS + 1))[-_WINDOW:]
    observations = known.observations + 1
    factor = _moved(known.factor, recent) if observations >= LEAST_OBSERVATIONS else known.factor
    return replace(known, factor=factor, observations=observations, recent=recent)


def why_incomparable(draft: Draft, usage: Usage | None, *, stop_reason: str | None) -> str | None:
    """Say why a call's usage teaches nothing about our counts of text; `None` when it does."""
    if usage is None or usage.input_tokens <= 0:
        return "the provider reported no usage"
    if stop_reason is None:
        return "the reply was cut off"
    if any(tool.native_specs for tool in draft.tools):
        return "the provider's own tools add text that nobody sees"
    if any(tool.is_deferred for tool in draft.tools):
        return "what a search loads of deferred tools is not known"
    if any(map(_holds_more_than_text, draft.messages)):
        return "it holds images, documents, sealed reasoning or blocks of the provider's own"
    return None


def counter_id(name: str) -> str:
    """Return what tells a counter's figures apart from those of another, or of an older formula."""
    return f"{name} {_FORMULA}"


def shape_of(draft: Draft) -> RequestShape:
    """Return the kind of request, whose counts are off by one factor."""
    return "tools" if draft.tools else "text"


def factor_for(
    calibrations: Sequence[Calibration],
    *,
    provider: str,
    model: str,
    shape: RequestShape,
    counter: str,
) -> float:
    """Return the factor in force for a model's requests; 1 where nothing is known."""
    for known in calibrations:
        if (known.provider, known.model, known.shape, known.counter) == (
            provider,
            model,
            shape,
            counter,
        ):
            return known.factor
    return 1.0


def _moved(factor: float, recent: Sequence[float]) -> float:
    target = _median([log(ratio) for ratio in recent])
    moved = exp(log(factor) + _STEP * (target - log(factor)))
    return round(min(MOST_FACTOR, max(1 / MOST_FACTOR, moved)), _DIGITS)


def _median(numbers: Sequence[float]) -> float:
    ordered, half = sorted(numbers), len(numbers) // 2
    return (ordered[half] + ordered[-half - 1]) / 2


def _holds_more_than_text(message: Message) -> bool:
    shown = (part for result in message.tool_results for part in result.content)
    return any(
        isinstance(part, Image | Document | Opaque)
        or (isinstance(part, Thinking) and part.is_signed)
        for part in (*message.parts, *shown)
    )
