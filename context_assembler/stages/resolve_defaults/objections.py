"""Why a settled option may not be sent to one model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from context_assembler.errors import InvalidParameterError
from context_assembler.values.limits import ModelLimits
from context_assembler.values.options import LAYERS, AssembleOptions, Settled
from context_assembler.values.tools import ToolChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """Why an option may not be sent.

    One that is not `is_refused` merely has no effect with the model, which answers all the same.
    """

    error: InvalidParameterError
    is_refused: bool = True


ModelRule: TypeAlias = Callable[[Settled, ModelLimits], Objection | None]


def object_to(
    settled: Settled,
    limits: ModelLimits,
    name: str,
    *,
    rule: str,
    remedy: str,
    is_refused: bool = True,
) -> Objection:
    value = getattr(settled.options, name)
    if isinstance(value, ToolChoice):
        value = value.spelled
    error = InvalidParameterError(name, value, rule=rule, remedy=remedy, model=limits.id)
    return Objection(error=error, is_refused=is_refused)


def _weaker(settled: Settled, first: str, second: str) -> tuple[str, str]:
    """Return two options that exclude each other, first the one that gives way: the lower layer's."""
    ranks = [LAYERS.index(settled.layers.get(name, "request")) for name in (first, second)]
    return (first, second) if ranks[0] > ranks[1] else (second, first)


def exclude(
    settled: Settled, limits: ModelLimits, first: str, second: str, *, unless: str = ""
) -> Objection:
    weaker, stronger = _weaker(settled, first, second)
    return object_to(
        settled,
        limits,
        weaker,
        rule=f"cannot be combined with {stronger}{unless}",
        remedy=f"Pass only one of {first} and {second}.",
    )


def asks_for_no_thinking(options: AssembleOptions) -> bool:
    return options.thinking_level == "none" or options.thinking_budget == 0
