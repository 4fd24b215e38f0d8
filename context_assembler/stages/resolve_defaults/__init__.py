"""`DefaultsResolver`: request over session over agent over system, and who won."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from context_assembler.errors import InvalidParameterError, MissingModelError, nearest
from context_assembler.stages.resolve_defaults.objections import ModelRule, Objection
from context_assembler.stages.resolve_defaults.sampling_rules import (
    sampling_fits_thinking,
    sampling_is_taken,
    stop_is_taken,
    tool_choice_is_taken,
    top_p_fits_temperature,
)
from context_assembler.stages.resolve_defaults.thinking_rules import (
    level_fits_budget,
    thinking_budget_is_taken,
    thinking_budget_leaves_an_answer,
    thinking_can_be_off,
    thinking_exists,
    thinking_level_is_known,
)
from context_assembler.values.draft import Parameters
from context_assembler.values.limits import ModelLimits
from context_assembler.values.option_rules import (
    given_options,
    parse_options,
    parse_options_leniently,
)
from context_assembler.values.options import LAYERS, AssembleOptions, Layer, Settled
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.tools import ToolSpec

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "DefaultsResolver",
    "parse_options",
    "validate_for_model",
    "validate_tool_choice",
]

GivenOptions: TypeAlias = AssembleOptions | Mapping[str, Json] | None

DEFAULT_MAX_TOKENS: Final = 16_000
# The anthropic SDK refuses to wait for a longer reply that is not streamed.
LONGEST_UNSTREAMED_TOKENS: Final = 21_333

# In order: what is ruled out for thinking no longer counts when sampling is looked at.
MODEL_RULES: Final[tuple[ModelRule, ...]] = (
    thinking_exists,
    thinking_can_be_off,
    thinking_level_is_known,
    thinking_budget_is_taken,
    thinking_budget_leaves_an_answer,
    level_fits_budget,
    sampling_is_taken,
    sampling_fits_thinking,
    top_p_fits_temperature,
    stop_is_taken,
    tool_choice_is_taken,
)


class DefaultsResolver:
    """Settles every option from four layers; the highest that gives a value wins."""

    def __init__(self, system_defaults: GivenOptions = None) -> None:
        self._system_defaults = _parse(system_defaults)

    def resolve(
        self,
        request: GivenOptions = None,
        *,
        session: JsonObject | None = None,
        agent: GivenOptions = None,
    ) -> Settled:
        """Return the options with every layer applied.

        Args:
            session: The defaults stored with the session. What cannot be read there is left out
                with a warning: the caller of this step cannot correct it.

        Raises:
            UnknownOptionError: The request or the agent names an option that does not exist.
            InvalidParameterError: The request or the agent gives a value out of range.
            MissingModelError: No layer names a model.
        """
        stored, problems = parse_options_leniently(session or {})
        given_by_layer: Mapping[Layer, AssembleOptions] = {
            "request": _parse(request),
            "session": stored,
            "agent": _parse(agent),
            "system": self._system_defaults,
        }
        values: dict[str, Json] = {}
        layers: dict[str, Layer] = {}
        for layer in LAYERS:
            for name, value in given_options(given_by_layer[layer]).items():
                if name not in values:
                    values[name] = value
                    layers[name] = layer
        if "model" not in values:
            raise MissingModelError(layers=LAYERS)
        warnings = tuple(f"A default of the session was left out: {text}" for text in problems)
        return Settled(options=AssembleOptions(**values), layers=layers, warnings=warnings)


def _parse(given: GivenOptions) -> AssembleOptions:
    if given is None:
        return AssembleOptions()
    return parse_options(given_options(given) if isinstance(given, AssembleOptions) else given)


def validate_for_model(settled: Settled, limits: ModelLimits) -> tuple[Parameters, Settled]:
    """Hold the settled options against what one model takes.

    A value that the model rejects is an error when the request itself gave it. One that comes from
    a lower layer gives way with a warning: it was not chosen for this model.

    Returns:
        The parameters to send, and the settled options without what gave way. `max_tokens` always
        has a value: where no layer gives one it is the model's largest reply, at most
        `DEFAULT_MAX_TOKENS` beyond the thinking budget, at most a quarter of a shared window, and
        with Anthropic at most `LONGEST_UNSTREAMED_TOKENS` unless the thinking budget is larger.

    Raises:
        InvalidParameterError: The request gives a value that the model rejects.
    """
    settled = _settle_max_tokens(settled, limits)
    for rule in MODEL_RULES:
        while (objection := rule(settled, limits)) is not None:
            settled = _give_way(settled, objection)
    options = settled.options
    assert options.max_tokens is not None, "settled above"
    parameters = Parameters(
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        stop_sequences=options.stop_sequences or (),
        thinking_level=options.thinking_level,
        thinking_budget=options.thinking_budget,
        tool_choice=options.tool_choice,
    )
    return parameters, settled


def _give_way(settled: Settled, objection: Objection) -> Settled:
    name = objection.error.name
    layer = settled.layers.get(name, "request")
    if layer == "request" and objection.is_refused:
        raise objection.error
    warning = f"{objection.error.problem} It comes from the {layer} layer and was left out."
    return Settled(
        options=replace(settled.options, **{name: None}),
        layers={key: value for key, value in settled.layers.items() if key != name},
        warnings=(*settled.warnings, warning),
    )


def _settle_max_tokens(settled: Settled, limits: ModelLimits) -> Settled:
    wanted, largest = settled.options.max_tokens, limits.output_tokens
    if wanted is None:
        tokens = _default_max_tokens(limits, budget_tokens=settled.options.thinking_budget or 0)
        return _with_max_tokens(settled, tokens, layer="model")
    if largest is None or wanted <= largest:
        return settled
    error = InvalidParameterError(
        "max_tokens",
        wanted,
        rule=f"must be at most {largest:,}, the longest reply,",
        remedy="Pass a smaller max_tokens, or leave it out.",
        model=limits.id,
    )
    layer = settled.layers.get("max_tokens", "request")
    if layer == "request":
        raise error
    lowered = f"{error.problem} It comes from the {layer} layer and was lowered to {largest:,}."
    settled = replace(settled, warnings=(*settled.warnings, lowered))
    return _with_max_tokens(settled, largest, layer=layer)


def _default_max_tokens(limits: ModelLimits, *, budget_tokens: int) -> int:
    """Return the longest reply where nobody gave one.

    Source:
        https://platform.claude.com/docs/en/cli-sdks-libraries/sdks/python#long-requests
        (anthropic SDK 2.14, `_calculate_nonstreaming_timeout`; read 2026-11-27)
    """
    room = [DEFAULT_MAX_TOKENS + budget_tokens]
    room += [limits.output_tokens] if limits.output_tokens else []
    room += [max(1, limits.window_tokens // 4)] if limits.window_kind == "shared" else []
    if limits.provider == "anthropic" and budget_tokens < LONGEST_UNSTREAMED_TOKENS:
        room.append(LONGEST_UNSTREAMED_TOKENS)
    return min(room)


def _with_max_tokens(settled: Settled, tokens: int, *, layer: Layer) -> Settled:
    return replace(
        settled,
        options=replace(settled.options, max_tokens=tokens),
        layers={**settled.layers, "max_tokens": layer},
    )


def validate_tool_choice(settled: Settled, tools: Sequence[ToolSpec], *, provider: str) -> Settled:
    """Hold the settled tool choice against the tools that are really offered.

    Args:
        provider: The model's own protocol; a tool native to others is not offered to it.

    Raises:
        InvalidParameterError: The request forces a tool, or any tool, that is not there.
    """
    choice = settled.options.tool_choice
    names = [t.name for t in tools if not t.native_specs or provider in t.native_specs]
    if choice is None:
        return settled
    unknown = next((name for name in choice.allowed or () if name not in names), choice.name)
    needs_none = unknown is None and (bool(names) or choice.mode in {"auto", "none"})
    if needs_none or unknown in names:
        return settled
    rule = f"names {unknown!r}, which is not offered" if unknown else "needs a tool to call"
    near = nearest(unknown or "", names)
    remedy = f"Did you mean {near[0]!r}?" if near else "The report says which tools were left out."
    error = InvalidParameterError("tool_choice", choice.spelled, rule=rule, remedy=remedy)
    return _give_way(settled, Objection(error=error))
