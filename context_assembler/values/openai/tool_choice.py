"""Which tools may be called, and which must be: what both protocols of OpenAI's are told alike."""

from collections.abc import Callable, Mapping
from typing import Final

from context_assembler.values.draft import Draft
from context_assembler.values.offered_tools import allowed_names, check_forced
from context_assembler.values.parts import Json

ALLOWED_MODES: Final[Mapping[str, str]] = {"auto": "auto", "any": "required"}
"""Modes that can be limited to some of the tools, as a choice among them names them."""


def mode_of(draft: Draft) -> str:
    """Return the mode of the choice; the model chooses where none is set."""
    choice = draft.parameters.tool_choice
    return choice.mode if choice is not None else "auto"


def names_to_choose(draft: Draft, *, provider: str, is_openai: bool) -> tuple[str, ...]:
    """Return the tools that the choice is among; none where it is among all, or cannot be limited.

    Source:
        types of the openai package 3.57, ChatCompletionAllowedToolsParam, ToolChoiceAllowedParam
        (read 2026-11-27)
    """
    if not is_openai or mode_of(draft) not in ALLOWED_MODES:
        return ()
    return allowed_names(draft, provider=provider) or ()


def spell_choice(
    draft: Draft,
    *,
    provider: str,
    has_tools: bool,
    among: Mapping[str, Json],
    choose: Callable[[str], dict[str, Json]],
) -> dict[str, Json]:
    """Return the choice, and whether calls may be parallel: both are taken beside tools alone.

    Args:
        has_tools: Whether any tool is sent.
        among: The choice among some of the tools; empty where all may be called, or none.
        choose: Spells the choice of the tool of that name.

    Raises:
        UnsupportedRequestError: A forced call of a tool that is not offered.
    """
    choice = draft.parameters.tool_choice
    if choice is None:
        return {"tool_choice": dict(among)} if among else {}
    if choice.mode in ("any", "tool"):
        check_forced(draft, provider=provider, has_tools=has_tools)
    if not has_tools:
        return {}
    if choice.name is None:
        usual = "required" if choice.mode == "any" else choice.mode
        rendered: dict[str, Json] = {"tool_choice": dict(among) or usual}
    else:
        rendered = {"tool_choice": choose(choice.name)}
    if choice.allows_parallel is not None and draft.limits.features.get("parallel_tools", True):
        rendered["parallel_tool_calls"] = choice.allows_parallel
    return rendered
