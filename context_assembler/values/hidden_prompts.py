"""Text that a provider adds to a request because of its settings."""

from collections.abc import Mapping
from typing import Final

from context_assembler.values.draft import Parameters
from context_assembler.values.limits import ModelLimits
from context_assembler.values.tools import ToolChoice

# By the size of Claude's hidden prompt for tools (`tool_choice` auto), what `any` or one named tool
# costs more. Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview
# (table of 2026-08-22); of Opus 3 https://docs.anthropic.com/en/docs/tool-use-pricing-and-tokens
# (copy read 2026-11-28); of Sonnet 3.5 one recorded request, and the figures of the models after it.
_FORCED_TOOL_TOKENS: Final[Mapping[int, int]] = {
    286: 120,
    290: 120,
    675: 129,
    497: 92,
    496: 92,
    354: 120,
    313: 2,
    264: 91,
    346: 0,  # it costs 33 less, and of Opus 3 249: no row of a ledger takes away
    530: 0,
}
_USUAL_FORCED_TOOL_TOKENS: Final = 120
_OPENAI_NAMED_TOOL_TOKENS: Final = 14  # fitted; models that reason are told without a text

# Fitted on recorded requests, with and without thinking, whose text is the same.
_THINKING_PROMPT_TOKENS: Final[Mapping[str, int]] = {"anthropic-legacy": 28}
_ADAPTIVE_PROMPT_TOKENS: Final[Mapping[str, int]] = {"anthropic-legacy": 17}


def forced_tool_tokens(limits: ModelLimits, choice: ToolChoice | None) -> int:
    """Return what it costs that the model must call a tool."""
    if choice is None or choice.mode not in ("any", "tool"):
        return 0
    if limits.provider == "anthropic":
        size = limits.tool_prompt_tokens or 0
        return _FORCED_TOOL_TOKENS.get(size, _USUAL_FORCED_TOOL_TOKENS)
    is_told = limits.provider == "openai" and not limits.thinking.kinds
    return _OPENAI_NAMED_TOOL_TOKENS if is_told and choice.mode == "tool" else 0


def thinking_prompt_tokens(limits: ModelLimits, parameters: Parameters) -> int:
    """Return what it costs that the model is asked to think."""
    if parameters.thinking_budget:
        return _THINKING_PROMPT_TOKENS.get(limits.encoding, 0)
    is_asked = parameters.thinking_level not in (None, "none")
    return _ADAPTIVE_PROMPT_TOKENS.get(limits.encoding, 0) if is_asked else 0
