"""Tools and parameters as keyword arguments of the Messages API."""

from collections.abc import Mapping
from typing import Final

from context_assembler.errors import UnsupportedRequestError
from context_assembler.providers.anthropic.blocks import PROVIDER, text_blocks, verbatim
from context_assembler.values.deferral import ToolSearch, is_held_back
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.limits import ModelLimits, ThinkingRule
from context_assembler.values.offered_tools import spell_tools
from context_assembler.values.parts import Json
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.tool_forms import root_schema_of
from context_assembler.values.tools import ToolSpec

SAMPLING_VERSION: Final = "2023-06-01"

# The tools that search, by their names: for words first, then for patterns.
SEARCH_TOOLS: Final[Mapping[str, str]] = {
    "tool_search_tool_bm25": "tool_search_tool_bm25_20251119",
    "tool_search_tool_regex": "tool_search_tool_regex_20251119",
}


def refuse(draft: Draft, problem: str, *, remedy: str) -> UnsupportedRequestError:
    """Return the error for what the Messages API cannot express."""
    return UnsupportedRequestError(problem, provider=PROVIDER, model=draft.limits.id, remedy=remedy)


def render_tools(draft: Draft, names: Mapping[str, str]) -> list[dict[str, Json]]:
    """Return the tools in their order; those of another provider alone do not exist here.

    Where some are deferred, the tool that searches for them comes first.
    """
    searches = tool_search(draft.limits) is not None
    tools = [
        verbatim(spelled)
        for spelled in spell_tools(
            draft.tools,
            provider=PROVIDER,
            spell=lambda tool: _declared(tool, names[tool.name], searches=searches),
        )
    ]
    needs_search = searches and any(map(is_held_back, draft.tools))
    return [*_search_tools(tools), *tools] if needs_search else tools


def tool_search(limits: ModelLimits) -> ToolSearch | None:
    """Return how the model searches for tools; `None`: it cannot, or another API answers.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
        (read 2026-11-27)
    """
    is_own = limits.provider == "anthropic" and limits.host is None
    return ToolSearch() if is_own and limits.supports("tool_search") else None


def _declared(tool: ToolSpec, name: str, *, searches: bool) -> dict[str, Json]:
    rendered = client_tool(tool, name)
    return {**rendered, "defer_loading": True} if searches and is_held_back(tool) else rendered


def _search_tools(tools: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return the tool that searches, where nobody gave one.

    It is never deferred: a request of deferred tools alone is refused.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
        (read 2026-11-27)
    """
    if any(str(tool.get("type")).startswith("tool_search_tool") for tool in tools):
        return []
    taken = {tool.get("name") for tool in tools}
    name, kind = next(pair for pair in SEARCH_TOOLS.items() if pair[0] not in taken)
    return [{"type": kind, "name": name}]


def client_tool(tool: ToolSpec, name: str) -> dict[str, Json]:
    """Return one tool; `strict` is sent only where it is asked for.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use
        (read 2026-11-27)
    """
    schema = root_schema_of(tool)
    rendered: dict[str, Json] = {"name": name}
    description = clean_text(tool.description)
    if description.strip():
        rendered["description"] = description
    rendered["input_schema"] = schema
    if tool.is_strict:
        rendered["strict"] = True
    return rendered


def render_parameters(draft: Draft) -> dict[str, Json]:
    """Return the reply's length, thinking, stop sequences and sampling.

    Raises:
        UnsupportedRequestError: A parameter that this API cannot express.
    """
    parameters = draft.parameters
    rendered: dict[str, Json] = {"max_tokens": parameters.max_tokens}
    rendered |= _thinking(draft)
    if parameters.stop_sequences:
        if not all(sequence.strip() for sequence in parameters.stop_sequences):
            # https://github.com/BerriAI/litellm/issues/3286 (read 2026-11-27)
            raise refuse(
                draft,
                "a stop sequence is blank",
                remedy="Give every stop sequence a character that is not whitespace.",
            )
        rendered["stop_sequences"] = [clean_text(stop) for stop in parameters.stop_sequences]
    return rendered | _sampling(parameters)


def _thinking(draft: Draft) -> dict[str, Json]:
    """Return how to think: `thinking`, and effort in `output_config`; nothing if nothing is set.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking
        https://platform.claude.com/docs/en/build-with-claude/effort (read 2026-11-27)
    """
    rule = draft.limits.thinking
    level, budget = draft.parameters.thinking_level, draft.parameters.thinking_budget
    rendered: dict[str, Json] = {}
    if level == "none" or budget == 0:
        if rule.kinds:
            rendered["thinking"] = _thinking_off(draft, rule)
    elif budget is not None and "budget" in rule.kinds:
        rendered["thinking"] = {"type": "enabled", "budget_tokens": budget}
    elif level is not None and "adaptive" in rule.kinds:
        rendered["thinking"] = {"type": "adaptive"}
    if level not in (None, "none") and level in rule.levels:
        rendered["output_config"] = {"effort": level}
    return rendered


def _thinking_off(draft: Draft, rule: ThinkingRule) -> dict[str, Json]:
    if rule.disable == "no":
        raise refuse(
            draft,
            "its thinking cannot be switched off",
            remedy="Leave thinking_level and thinking_budget out, or use the lowest level.",
        )
    return {"type": "between_tools" if rule.disable == "between_tools" else "disabled"}


def _sampling(parameters: Parameters) -> dict[str, Json]:
    """Return sampling parameters, which only the older version of the API takes.

    Source:
        https://platform.claude.com/docs/en/api/versioning (2026-10-21; read 2026-11-27)
    """
    given = {
        name: value
        for name in ("temperature", "top_p", "top_k")
        if (value := getattr(parameters, name)) is not None
    }
    if not given:
        return {}
    return {"extra_headers": {"anthropic-version": SAMPLING_VERSION}, "extra_body": given}


def render_tool_choice(
    draft: Draft, names: Mapping[str, str], *, tools: list[dict[str, Json]]
) -> dict[str, Json]:
    """Return the tool choice; it is only taken beside tools.

    Raises:
        UnsupportedRequestError: A forced call of a tool that is not offered, or where the model
            takes none.
    """
    choice = draft.parameters.tool_choice
    if choice is None:
        return {}
    is_forced = choice.mode in ("any", "tool")
    if is_forced:
        _check_forced(draft, names, tools=tools)
    if not tools:
        return {}
    rendered: dict[str, Json] = {"type": choice.mode}
    if choice.name is not None:
        rendered["name"] = names[choice.name]
    if choice.allows_parallel is not None and choice.mode != "none":
        rendered["disable_parallel_tool_use"] = not choice.allows_parallel
    return {"tool_choice": rendered}


def _check_forced(draft: Draft, names: Mapping[str, str], *, tools: list[dict[str, Json]]) -> None:
    """Refuse what the API would refuse.

    Source:
        https://platform.claude.com/docs/en/about-claude/models/whats-new-opus-5-5
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools
        (read 2026-11-27)
    """
    choice = draft.parameters.tool_choice
    offered = {tool.get("name") for tool in tools}
    if choice is not None and choice.name is not None and names.get(choice.name) not in offered:
        raise refuse(
            draft,
            f"tool_choice names {choice.name!r}, which is not offered",
            remedy="Name one of the tools, or use mode 'auto'.",
        )
    if not tools:
        raise refuse(draft, "a call is forced, but no tool is offered", remedy="Add a tool.")
    if draft.limits.features.get("forced_tools") is False or _has_manual_thinking(
        draft.parameters, draft.limits
    ):
        raise refuse(
            draft,
            "it takes no forced tool choice",
            remedy="Use tool_choice mode 'auto', or another model without a thinking budget.",
        )


def _has_manual_thinking(parameters: Parameters, limits: ModelLimits) -> bool:
    return bool(parameters.thinking_budget) and "budget" in limits.thinking.kinds


def system_blocks(text: str) -> list[dict[str, Json]]:
    """Return the system prompt as text blocks; none for a blank one."""
    return list(text_blocks(text))
