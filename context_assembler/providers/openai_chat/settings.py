"""Tools and parameters as keyword arguments of Chat Completions."""

from collections.abc import Mapping
from typing import Final

from context_assembler.errors import UnsupportedRequestError
from context_assembler.providers.openai_chat.content import PROVIDER
from context_assembler.providers.openai_chat.dialect import Dialect, dialect_of
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.offered_tools import is_offered, spell_tools
from context_assembler.values.openai.parameters import cache_key_of, effort_of, sampling_of
from context_assembler.values.openai.tool_choice import (
    ALLOWED_MODES,
    mode_of,
    names_to_choose,
    spell_choice,
)
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_object, as_text
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.tool_changes import NO_CHANGES, ChangeForms
from context_assembler.values.tool_forms import root_schema_of
from context_assembler.values.tools import ToolSpec

MAX_STOP_SEQUENCES: Final = 4

_FORMS: Final = ChangeForms(withdraws="choice")


def change_forms(limits: ModelLimits) -> ChangeForms:
    """Return what the model can be told of tools beside the history: which of them it may call.

    Source:
        types of the openai package 3.57, ChatCompletionAllowedToolsParam (read 2026-11-27)
    """
    is_own = dialect_of(limits).is_openai and limits.host is None
    return _FORMS if is_own else NO_CHANGES


def refuse(draft: Draft, problem: str, *, remedy: str) -> UnsupportedRequestError:
    """Return the error for what Chat Completions cannot express."""
    return UnsupportedRequestError(problem, provider=PROVIDER, model=draft.limits.id, remedy=remedy)


def render_tools(draft: Draft, names: Mapping[str, str]) -> list[dict[str, Json]]:
    """Return the tools in their order; those of another provider alone do not exist here."""
    return spell_tools(
        draft.tools,
        provider=PROVIDER,
        spell=lambda tool: _function_tool(tool, names[tool.name]),
    )


def _function_tool(tool: ToolSpec, name: str) -> dict[str, Json]:
    """Return one tool; `strict` is sent only where it is asked for.

    Source:
        https://developers.openai.com/api/docs/guides/function-calling (read 2026-11-27)
    """
    schema = root_schema_of(tool)
    function: dict[str, Json] = {"name": name}
    description = clean_text(tool.description)
    if description.strip():
        function["description"] = description
    function["parameters"] = schema
    if tool.is_strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def render_parameters(draft: Draft, dialect: Dialect) -> dict[str, Json]:
    """Return the reply's length, reasoning, stop sequences, sampling and the cache key.

    Raises:
        UnsupportedRequestError: A parameter that this API cannot express.
    """
    parameters = draft.parameters
    rendered: dict[str, Json] = {dialect.max_tokens_key: parameters.max_tokens}
    if must_not_reason(draft) and "none" not in draft.limits.thinking.levels:
        raise refuse(
            draft,
            "it takes function tools in the Responses API only",
            remedy="Use the Responses API for this model, leave the tools out, "
            "or choose a model that can answer without reasoning.",
        )
    effort = effort_of(draft)
    if effort is not None:
        rendered["reasoning_effort"] = effort
    rendered |= sampling_of(draft)
    if parameters.stop_sequences:
        rendered["stop"] = _stop(draft, dialect)
    if parameters.top_k is not None:
        rendered |= _top_k(draft, dialect)
    if dialect.is_openai:
        rendered |= cache_key_of(draft)
    return rendered


def must_not_reason(draft: Draft) -> bool:
    """Whether the model takes the draft's tools only when it does not reason.

    From gpt-5.4 on, Chat Completions refuses function tools beside any effort but `none`; models
    without `none` take tools in the Responses API only.

    Source:
        https://developers.openai.com/api/docs/guides/deployment-checklist
        https://github.com/danny-avila/LibreChat/issues/14231 (read 2026-11-27)
    """
    takes_both = draft.limits.features.get("chat_tools_with_reasoning") is not False
    has_tools = any(is_offered(tool, provider=PROVIDER) for tool in draft.tools)
    return has_tools and not takes_both


def _stop(draft: Draft, dialect: Dialect) -> list[str]:
    sequences = draft.parameters.stop_sequences
    if not dialect.takes_stop:
        raise refuse(draft, "it takes no stop sequences", remedy="Leave stop_sequences out.")
    if len(sequences) > MAX_STOP_SEQUENCES:
        raise refuse(
            draft,
            f"it takes at most {MAX_STOP_SEQUENCES} stop sequences, not {len(sequences)}",
            remedy=f"Keep the {MAX_STOP_SEQUENCES} most telling ones.",
        )
    return [clean_text(sequence) for sequence in sequences]


def _top_k(draft: Draft, dialect: Dialect) -> dict[str, Json]:
    if dialect.is_openai:
        raise refuse(draft, "it has no top_k", remedy="Leave top_k out, or use top_p.")
    return {"extra_body": {"top_k": draft.parameters.top_k}}


def render_tool_choice(
    draft: Draft, names: Mapping[str, str], *, tools: list[dict[str, Json]]
) -> dict[str, Json]:
    """Return the tool choice and whether calls may be parallel.

    Raises:
        UnsupportedRequestError: A forced call of a tool that is not offered.
    """

    def choose(name: str) -> dict[str, Json]:
        return {"type": "function", "function": {"name": names[name]}}

    among = _allowed(draft, names, tools=tools)
    return spell_choice(draft, provider=PROVIDER, has_tools=bool(tools), among=among, choose=choose)


def _allowed(
    draft: Draft, names: Mapping[str, str], *, tools: list[dict[str, Json]]
) -> dict[str, Json]:
    """Return the choice among some of the tools; empty where all may be called, or none."""
    is_openai = dialect_of(draft.limits).is_openai
    allowed = names_to_choose(draft, provider=PROVIDER, is_openai=is_openai)
    wanted = {names.get(name) for name in allowed}
    chosen = [_naming(tool) for tool in tools if _naming(tool)[tool["type"]]["name"] in wanted]
    if not allowed or not chosen:
        return {}
    told = {"mode": ALLOWED_MODES[mode_of(draft)], "tools": chosen}
    return {"type": "allowed_tools", "allowed_tools": told}


def _naming(tool: dict[str, Json]) -> dict[str, Json]:
    """Return a tool as a choice names it."""
    kind = as_text(tool.get("type"))
    return {"type": kind, kind: {"name": as_object(tool.get(kind)).get("name")}}
