"""Which sampling parameters and tool choices a model refuses."""

from typing import Final

from context_assembler.stages.resolve_defaults.objections import (
    Objection,
    asks_for_no_thinking,
    exclude,
    object_to,
)
from context_assembler.values.limits import ModelLimits
from context_assembler.values.options import AssembleOptions, Settled

_LEAST_TOP_P_WITH_THINKING: Final = 0.95
_VENDORS_WITHOUT_TOP_K: Final = frozenset({"openai"})
# The vendor itself, and the cloud that offers its API unchanged.
_OWN_HOSTS: Final = frozenset({None, "azure"})
_SAMPLING_OPTIONS: Final = ("temperature", "top_p", "top_k")


def sampling_is_taken(settled: Settled, limits: ModelLimits) -> Objection | None:
    """Each sampling parameter must be one that the model takes, in its range.

    Source:
        https://platform.claude.com/docs/en/api/versioning (2026-10-21; read 2026-11-27)
        https://platform.openai.com/docs/guides/latest-model (read 2026-11-27)
    """
    for name in _SAMPLING_OPTIONS:
        value = getattr(settled.options, name)
        if value is not None and (found := _sampling_objection(settled, limits, name, value)):
            return found
    return None


def _sampling_objection(
    settled: Settled, limits: ModelLimits, name: str, value: float
) -> Objection | None:
    rules = limits.parameters
    is_refused = rules.temperature != "ignored"
    rule, remedy = "", "Leave it out."
    if name == "top_k" and limits.provider in _VENDORS_WITHOUT_TOP_K:
        rule, remedy = f"has no meaning to {limits.provider}", "Leave it out, or use top_p."
    elif rules.temperature == "never":
        rule, remedy = "is not taken", "Leave it out: the model chooses its own sampling."
    elif rules.temperature == "ignored":
        rule = "has no effect"
    elif rules.temperature == "effort_none" and not _is_off(settled.options, limits):
        rule, remedy = (
            "is only taken while the model does not reason",
            "Pass thinking_level='none' with it, or leave it out.",
        )
    elif rules.temperature == "fixed" and (
        name != "temperature" or value != rules.fixed_temperature
    ):
        rule = f"is fixed{_fixed_at(limits) if name == 'temperature' else ''}"
    elif name == "temperature" and value > rules.max_temperature:
        rule, remedy = (
            f"must be between 0 and {rules.max_temperature:g}",
            "Pass a number in that range, or leave it out.",
        )
    if not rule:
        return None
    return object_to(settled, limits, name, rule=rule, remedy=remedy, is_refused=is_refused)


def _fixed_at(limits: ModelLimits) -> str:
    fixed = limits.parameters.fixed_temperature
    return "" if fixed is None else f" at {fixed:g}"


def _is_off(options: AssembleOptions, limits: ModelLimits) -> bool:
    level = options.thinking_level or limits.thinking.default_level
    return level == "none" or options.thinking_budget == 0


def sampling_fits_thinking(settled: Settled, limits: ModelLimits) -> Objection | None:
    """While an Anthropic model thinks, temperature and top_k are refused, and top_p below 0.95.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/extended-thinking (read 2026-11-27)
    """
    options = settled.options
    thinks_by_level = "adaptive" in limits.thinking.kinds and options.thinking_level is not None
    cause = "thinking_budget" if options.thinking_budget else "thinking_level"
    is_on = bool(options.thinking_budget) or thinks_by_level
    if limits.provider != "anthropic" or not is_on or asks_for_no_thinking(options):
        return None
    for name in _SAMPLING_OPTIONS:
        value = getattr(options, name)
        is_high_top_p = name == "top_p" and value and value >= _LEAST_TOP_P_WITH_THINKING
        if value is not None and not is_high_top_p:
            unless = " unless it is at least 0.95" if name == "top_p" else ""
            return exclude(settled, limits, cause, name, unless=unless)
    return None


def top_p_fits_temperature(settled: Settled, limits: ModelLimits) -> Objection | None:
    """Some models take `temperature` or `top_p`, not both.

    Source:
        https://platform.claude.com/docs/en/about-claude/models/migration-guide (read 2026-11-27)
    """
    options = settled.options
    if limits.parameters.accepts_top_p_with_temperature:
        return None
    if options.temperature is None or options.top_p is None:
        return None
    return exclude(settled, limits, "temperature", "top_p")


def stop_is_taken(settled: Settled, limits: ModelLimits) -> Objection | None:
    """Some of OpenAI's models take no stop sequences at all, and its Responses API takes none.

    Models that need Responses beside tools speak it; stop sequences of the request are left to
    whoever spells it, since Chat Completions would take them.

    Source:
        https://developers.openai.com/api/docs/api-reference/responses/create,
        docstrings of the openai package 3.57 (read 2026-11-27)
    """
    is_own_api = limits.provider == "openai" and limits.host in _OWN_HOSTS
    if not settled.options.stop_sequences or not is_own_api:
        return None
    speaks_responses = limits.features.get("chat_tools_with_reasoning") is False
    is_requested = settled.layers.get("stop_sequences", "request") == "request"
    if limits.parameters.accepts_stop and (is_requested or not speaks_responses):
        return None
    return object_to(
        settled,
        limits,
        "stop_sequences",
        rule="is not taken",
        remedy="Leave it out, and say in the prompt where to stop.",
    )


def tool_choice_is_taken(settled: Settled, limits: ModelLimits) -> Objection | None:
    """A call can be forced only where the model takes tools and forcing, and thinks without a budget.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools (read 2026-11-27)
    """
    choice = settled.options.tool_choice
    if choice is None:
        return None
    remedy = "Use 'auto' and ask for the tool in the prompt, or choose another model."
    if limits.features.get("tools") is False and choice.mode != "none":
        return object_to(
            settled, limits, "tool_choice", rule="is not taken, nor are tools,", remedy=remedy
        )
    if choice.mode not in {"any", "tool"}:
        return None
    if limits.features.get("forced_tools") is False:
        return object_to(settled, limits, "tool_choice", rule="cannot force a call", remedy=remedy)
    if limits.provider == "anthropic" and settled.options.thinking_budget:
        return exclude(settled, limits, "thinking_budget", "tool_choice")
    return None
