"""Options settled for one call: the answer to a question that comes again is kept."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from context_assembler.errors import InvalidParameterError, MissingModelError, UnknownModelError
from context_assembler.values.draft import Parameters
from context_assembler.values.limits import ModelLimits
from context_assembler.values.options import (
    LAYERS,
    AssembleOptions,
    Settled,
    UnknownModelPolicy,
)

SettledCall: TypeAlias = tuple[Settled, ModelLimits, Parameters]

_MAX_KEPT: Final = 256
_PLAIN: Final = frozenset({bool, int, float, str, type(None)})


class FindLimits(Protocol):
    """Finds what is known of a model."""

    def __call__(self, model_id: str, /, *, unknown: UnknownModelPolicy) -> ModelLimits:
        """Return the model's limits: the same object for as long as they hold."""
        ...


Resolve: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any] | None, str | None], Settled]
Validate: TypeAlias = Callable[[Settled, ModelLimits], tuple[Parameters, Settled]]


class CallSettler:
    """Settles what a call asks for: its options by every layer, as its model takes them."""

    def __init__(self, *, resolve: Resolve, find_limits: FindLimits, validate: Validate) -> None:
        self._resolve = resolve
        self._find_limits = find_limits
        self._validate = validate
        self._kept: dict[Hashable, SettledCall] = {}

    def settle(
        self,
        options: Mapping[str, Any],
        *,
        session: Mapping[str, Any] | None,
        agent_id: str | None,
    ) -> SettledCall:
        """Return the options with their layers, the model's limits, and what is sent of them.

        The same question, to the letter, has the same answer while the model's limits stay the same.
        One with a tool in it, or anything else that may change by itself, is settled every time.

        Raises:
            InvalidParameterError: The agent's id is no text.
        """
        if agent_id is not None and not isinstance(agent_id, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise InvalidParameterError(
                "agent_id",
                agent_id,
                rule="must be text",
                remedy="Pass the agent's name as a string.",
            )
        asked = ask_plainly(options)
        question = None if asked is None else (asked, repr(session), agent_id)
        kept = self._kept.get(question)
        if kept is not None and self.still_knows(kept[0].options, kept[1]):
            return kept
        try:
            settled = self._resolve(options, session, agent_id)
        except MissingModelError:
            if agent_id is None or not self._knows(agent_id):
                raise
            raise MissingModelError(layers=LAYERS, agent_id=agent_id) from None
        limits = self._limits_of(settled.options)
        parameters, settled = self._validate(settled, limits)
        answer = settled, limits, parameters
        if question is not None:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[question] = answer
        return answer

    def still_knows(self, options: AssembleOptions, limits: ModelLimits) -> bool:
        """Whether these are still the limits of the model that settled options name."""
        return limits is self._limits_of(options)

    def _knows(self, model: str) -> bool:
        try:
            self._find_limits(model, unknown="error")
        except UnknownModelError:
            return False
        return True

    def _limits_of(self, options: AssembleOptions) -> ModelLimits:
        assert options.model is not None, "the resolver insists on one"
        assert options.unknown_model is not None, "the system layer gives one"
        return self._find_limits(options.model, unknown=options.unknown_model)


def ask_plainly(options: Mapping[str, Any]) -> Hashable | None:
    """Return options as what tells one question from another; `None` if one may change by itself."""
    if not all(type(value) in _PLAIN for value in options.values()):
        return None
    return tuple((name, repr(value)) for name, value in options.items())
