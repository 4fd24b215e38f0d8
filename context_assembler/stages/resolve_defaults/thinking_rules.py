"""What a model's way of reasoning rules out among the settled options."""

from typing import Final

from context_assembler.stages.resolve_defaults.objections import (
    Objection,
    asks_for_no_thinking,
    exclude,
    object_to,
)
from context_assembler.values.limits import ModelLimits
from context_assembler.values.options import Settled

LEAST_BUDGET_TOKENS: Final = 1024
_LEVELS_THAT_NEED_THINKING: Final = frozenset({"xhigh", "max"})


def thinking_exists(settled: Settled, limits: ModelLimits) -> Objection | None:
    """A model that does not reason takes neither a level nor a budget.

    Switching off what is not there is no mistake; the option then has no effect.
    """
    if limits.thinking.kinds or limits.is_assumed:
        return None
    for name in ("thinking_level", "thinking_budget"):
        if getattr(settled.options, name) is not None:
            return object_to(
                settled,
                limits,
                name,
                rule="is not taken, as the model does not reason,",
                remedy="Leave it out, or choose a model that reasons.",
                is_refused=not asks_for_no_thinking(settled.options),
            )
    return None


def thinking_can_be_off(settled: Settled, limits: ModelLimits) -> Objection | None:
    """Some models always think.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking (read 2026-11-27)
        https://platform.openai.com/docs/guides/latest-model (read 2026-11-27)
    """
    if limits.thinking.disable != "no" or not asks_for_no_thinking(settled.options):
        return None
    name = "thinking_level" if settled.options.thinking_level == "none" else "thinking_budget"
    levels = limits.thinking.levels
    lowest = f"The least is thinking_level={levels[0]!r}." if levels else "Leave it out."
    return object_to(settled, limits, name, rule="cannot switch thinking off", remedy=lowest)


def thinking_level_is_known(settled: Settled, limits: ModelLimits) -> Objection | None:
    """A level must be one of the model's own; `none` switches thinking off wherever that goes."""
    level, levels = settled.options.thinking_level, limits.thinking.levels
    if level is None or level == "none" or level in levels or limits.is_assumed:
        return None
    listed = ", ".join(levels)
    instead = "Use thinking_budget (tokens), or leave it out."
    return object_to(
        settled,
        limits,
        "thinking_level",
        rule=f"must be one of {listed}" if levels else "is not taken",
        remedy=f"Pass one of: {listed}." if levels else instead,
    )


def thinking_budget_is_taken(settled: Settled, limits: ModelLimits) -> Objection | None:
    """A budget goes only to models that take one, within their range."""
    budget, thinking = settled.options.thinking_budget, limits.thinking
    if budget is None or budget == 0 or limits.is_assumed:
        return None
    if "budget" not in thinking.kinds:
        listed = ", ".join(thinking.levels)
        return object_to(
            settled,
            limits,
            "thinking_budget",
            rule="is not taken",
            remedy=f"Use thinking_level, one of: {listed}." if listed else "Leave it out.",
        )
    least = thinking.min_budget_tokens or LEAST_BUDGET_TOKENS
    most = thinking.max_budget_tokens
    if budget >= least and (most is None or budget <= most):
        return None
    bounds = f"at least {least:,}" if most is None else f"between {least:,} and {most:,}"
    return object_to(
        settled,
        limits,
        "thinking_budget",
        rule=f"must be {bounds} tokens",
        remedy="Pass such a number, or 0 where thinking may be switched off.",
    )


def thinking_budget_leaves_an_answer(settled: Settled, limits: ModelLimits) -> Objection | None:
    """Thinking counts toward the reply, so its budget must be smaller than `max_tokens`.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/extended-thinking (read 2026-11-27)
    """
    budget, reply = settled.options.thinking_budget, settled.options.max_tokens
    if not budget or reply is None or budget < reply:
        return None
    return object_to(
        settled,
        limits,
        "thinking_budget",
        rule=f"must be less than max_tokens ({reply:,})",
        remedy="Lower thinking_budget, or raise max_tokens.",
    )


def level_fits_budget(settled: Settled, limits: ModelLimits) -> Objection | None:
    """A level and a budget go together with Anthropic alone, where effort governs the whole reply.

    There, too, `none` excludes a budget, and the highest levels exclude switching thinking off.

    Source:
        https://ai.google.dev/gemini-api/docs/thinking (read 2026-11-27)
        https://platform.claude.com/docs/en/build-with-claude/effort (read 2026-11-27)
    """
    level, budget = settled.options.thinking_level, settled.options.thinking_budget
    if level is None or budget is None or (level == "none" and budget == 0):
        return None
    is_too_high = level in _LEVELS_THAT_NEED_THINKING and limits.thinking.disable != "yes"
    if limits.provider == "anthropic" and level != "none" and (budget or not is_too_high):
        return None
    return exclude(settled, limits, "thinking_level", "thinking_budget")
