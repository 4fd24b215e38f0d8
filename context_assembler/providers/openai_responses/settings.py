"""Tools and parameters as keyword arguments of Responses."""

from collections.abc import Mapping, Sequence
from typing import Final

from context_assembler.errors import UnsupportedRequestError
from context_assembler.values.deferral import ToolSearch, is_held_back
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.native.response_items import PROVIDER
from context_assembler.values.offered_tools import plan_for, spell_tools
from context_assembler.values.openai.own_models import can_reason, is_own_api
from context_assembler.values.openai.parameters import cache_key_of, effort_of, sampling_of
from context_assembler.values.openai.tool_choice import (
    ALLOWED_MODES,
    mode_of,
    names_to_choose,
    spell_choice,
)
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_text
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.tool_forms import root_schema_of
from context_assembler.values.tools import ToolSpec
from context_assembler.values.wire import plain_json

MIN_OUTPUT_TOKENS: Final = 16

# Kinds of tools that are chosen by the label of their server, or by their own name.
_CHOICE_KEYS: Final[Mapping[str, str]] = {"mcp": "server_label", "custom": "name"}


def refuse(draft: Draft, problem: str, *, remedy: str) -> UnsupportedRequestError:
    """Return the error for what Responses cannot express."""
    return UnsupportedRequestError(problem, provider=PROVIDER, model=draft.limits.id, remedy=remedy)


def render_tools(draft: Draft, names: Mapping[str, str]) -> list[dict[str, Json]]:
    """Return the tools in their order; those of another provider alone do not exist here.

    Where some are deferred, the tool that searches for them comes first.
    """
    searches = tool_search(draft.limits) is not None
    tools = spell_tools(
        draft.tools,
        provider=PROVIDER,
        spell=lambda tool: _declared(tool, names[tool.name], searches=searches),
    )
    has_own = any(tool.get("type") == "tool_search" for tool in tools)
    needs_search = searches and not has_own and any(map(is_held_back, draft.tools))
    return [{"type": "tool_search"}, *tools] if needs_search else tools


def tool_search(limits: ModelLimits) -> ToolSearch | None:
    """Return how the model searches for tools; `None`: it cannot, or another server answers.

    Of a deferred function the model reads name and description all the same.

    Source:
        https://developers.openai.com/api/docs/guides/tools-tool-search
        https://learn.microsoft.com/en-us/azure/foundry/openai/how-to/tool-search (read 2026-11-27)
    """
    can = is_own_api(limits) and limits.supports("tool_search")
    return ToolSearch(shows_descriptions=True) if can else None


def _declared(tool: ToolSpec, name: str, *, searches: bool) -> dict[str, Json]:
    rendered = function_tool(tool, name)
    return {**rendered, "defer_loading": True} if searches and is_held_back(tool) else rendered


def function_tool(tool: ToolSpec, name: str) -> dict[str, Json]:
    """Return one tool; `strict` is always told, since the server tries strict mode without it.

    Source:
        https://developers.openai.com/api/docs/guides/function-calling (read 2026-11-27)
    """
    schema = root_schema_of(tool)
    function: dict[str, Json] = {"type": "function", "name": name}
    if tool.description.strip():
        function["description"] = clean_text(tool.description)
    function["parameters"] = schema
    function["strict"] = bool(tool.is_strict)
    return function


def render_parameters(draft: Draft) -> dict[str, Json]:
    """Return the reply's length, reasoning, sampling, and how the prefix is cached.

    Nothing is stored at the provider, so encrypted reasoning is asked for where there is any.

    Raises:
        UnsupportedRequestError: A parameter that this API cannot express.

    Source:
        https://developers.openai.com/api/docs/guides/reasoning
        https://developers.openai.com/api/docs/guides/prompt-caching (read 2026-11-27)
    """
    parameters = draft.parameters
    _check_parameters(draft)
    rendered: dict[str, Json] = {"store": False, "max_output_tokens": parameters.max_tokens}
    if can_reason(draft.limits):
        rendered["include"] = ["reasoning.encrypted_content"]
    effort = effort_of(draft)
    if effort is not None:
        rendered["reasoning"] = {"effort": effort}
    rendered |= sampling_of(draft)
    if is_own_api(draft.limits):
        rendered |= cache_key_of(draft)
    return rendered


def _check_parameters(draft: Draft) -> None:
    parameters = draft.parameters
    if parameters.stop_sequences:
        raise refuse(
            draft,
            "it takes no stop sequences",
            remedy="Leave stop_sequences out, or use Chat Completions (to_openai_chat).",
        )
    if parameters.top_k is not None:
        raise refuse(draft, "it has no top_k", remedy="Leave top_k out, or use top_p.")
    if parameters.max_tokens < MIN_OUTPUT_TOKENS:
        raise refuse(
            draft,
            f"a reply has room for at least {MIN_OUTPUT_TOKENS} tokens, not {parameters.max_tokens}",
            remedy=f"Pass max_tokens={MIN_OUTPUT_TOKENS} or more.",
        )


def render_tool_choice(
    draft: Draft, names: Mapping[str, str], *, tools: Sequence[dict[str, Json]]
) -> dict[str, Json]:
    """Return the tool choice and whether calls may be parallel.

    Raises:
        UnsupportedRequestError: A forced call of a tool that is not offered.
    """
    return spell_choice(
        draft,
        provider=PROVIDER,
        has_tools=bool(tools),
        among=_allowed(draft, names, tools=tools),
        choose=lambda name: _chosen(draft, name, names),
    )


def _allowed(
    draft: Draft, names: Mapping[str, str], *, tools: Sequence[dict[str, Json]]
) -> dict[str, Json]:
    """Return the choice among some of the tools; empty where all may be called, or none."""
    allowed = names_to_choose(draft, provider=PROVIDER, is_openai=is_own_api(draft.limits))
    told = {tool.name for tool in _told_tools(draft)}
    chosen = [_chosen(draft, name, names) for name in allowed if name in told]
    if not chosen:
        return {}
    searching = [{"type": "tool_search"} for tool in tools if tool.get("type") == "tool_search"]
    mode = ALLOWED_MODES[mode_of(draft)]
    return {"type": "allowed_tools", "mode": mode, "tools": [*searching, *chosen]}


def _told_tools(draft: Draft) -> tuple[ToolSpec, ...]:
    plan = plan_for(draft, provider=PROVIDER)
    return (*draft.tools, *(plan.added if plan is not None else ()))


def _chosen(draft: Draft, name: str, names: Mapping[str, str]) -> dict[str, Json]:
    """Return the choice of one tool; a provider's own is chosen by its kind."""
    tool = next(tool for tool in _told_tools(draft) if tool.name == name)
    native = tool.native_specs.get(PROVIDER)
    if native is None:
        return {"type": "function", "name": names[name]}
    kind = as_text(native.get("type"))
    key = _CHOICE_KEYS.get(kind)
    return {"type": kind} if key is None else {"type": kind, key: plain_json(native.get(key))}
