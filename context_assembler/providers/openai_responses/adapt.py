"""A draft as Responses can take it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from context_assembler.providers.openai_responses.lost_media import (
    judge_pieces,
    tell_lost_media,
)
from context_assembler.providers.openai_responses.malformed import find_flaw
from context_assembler.providers.openai_responses.settings import tool_search
from context_assembler.values.adapting import adapt_messages, judge_foreign, judge_media
from context_assembler.values.deferral import is_held_back
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.malformed import judge_malformed
from context_assembler.values.media.media_rules import MediaRules
from context_assembler.values.messages import Message
from context_assembler.values.native.response_items import PROVIDER
from context_assembler.values.offered_tools import (
    declared_tools,
    forced_name,
    leave_out_foreign,
    leave_out_surplus,
    leave_strict,
    plan_for,
)
from context_assembler.values.openai.media import TAKEN_BY_ALL, with_own_limits
from context_assembler.values.openai.own_models import is_own_api
from context_assembler.values.openai.parameters import MAX_TOOLS
from context_assembler.values.reading import as_array, as_text
from context_assembler.values.report import ReportEntry
from context_assembler.values.schemas.strict_schemas import object_to_strict
from context_assembler.values.spelled import knows_plain
from context_assembler.values.summaries import settle_summaries
from context_assembler.values.tools import ToolSpec

# Sound and moving pictures are refused: "got unsupported MIME type 'audio/mpeg'".
# https://developers.openai.com/api/docs/guides/file-inputs (read 2026-11-27)
_COMMON: Final = replace(
    TAKEN_BY_ALL,
    api="Responses",
    document_types=(
        "application/pdf",
        "application/json",
        "application/msword",
        "application/rtf",
        "application/vnd.",
        "text/",
    ),
    document_words="PDF, office documents and text",
)


def media_rules(limits: ModelLimits) -> MediaRules:
    """Return what the server takes of images and documents."""
    return with_own_limits(_COMMON) if is_own_api(limits) else _COMMON


def adapt(draft: Draft) -> tuple[Draft, tuple[ReportEntry, ...]]:
    """Return the draft as Responses takes it, and a row for every change.

    What the server cannot take of a message becomes a line that names it. Adapting twice changes
    nothing more. What can be sent does not depend on which reasoning is; what is told may.
    """
    messages, rows = _adapt_messages(draft)
    declared = declared_tools(draft, provider=PROVIDER)
    tools, foreign_rows = leave_out_foreign(declared, provider=PROVIDER)
    tools, flawed_rows = _leave_out_flawed(tools)
    tools, surplus_rows = _leave_out_surplus(draft, tools)
    tools, strict_rows = leave_strict(tools, object_to=object_to_strict)
    plan = plan_for(draft, provider=PROVIDER)
    _, added_rows = leave_strict(plan.added if plan else (), object_to=object_to_strict)
    adapted = replace(draft, messages=messages, tools=tuple(tools))
    tool_rows = (*foreign_rows, *flawed_rows, *surplus_rows, *strict_rows, *added_rows)
    return adapted, (*tool_rows, *rows)


def _adapt_messages(draft: Draft) -> tuple[Sequence[Message], list[ReportEntry]]:
    if knows_plain(draft.messages, draft.spelled):
        return draft.messages, []
    rules = media_rules(draft.limits)
    judges = [
        judge_foreign(provider=PROVIDER),
        judge_pieces,
        judge_malformed(provider=PROVIDER, find_flaw=find_flaw),
        judge_media(rules=rules, limits=draft.limits),
    ]
    told, summary_rows = settle_summaries(draft.messages, provider=PROVIDER)
    messages, rows = adapt_messages(told, judges=judges, rules=rules)
    messages, lost_rows = tell_lost_media(messages, limits=draft.limits)
    return messages, [*summary_rows, *rows, *lost_rows]


def _leave_out_flawed(tools: list[ToolSpec]) -> tuple[list[ToolSpec], list[ReportEntry]]:
    """Return the tools without those of OpenAI's own that say too little of themselves (rule R7).

    Source:
        types of the openai package 3.57, ToolParam (read 2026-11-28): every tool has a type, and a
        file search the stores that it searches.
    """
    flaws = {tool.name: flaw for tool in tools if (flaw := _flaw_of(tool))}
    rows = [
        ReportEntry(kind="tool", id=name, decision="dropped", reason=flaw, rule="tool.native")
        for name, flaw in flaws.items()
    ]
    return [tool for tool in tools if tool.name not in flaws], rows


def _flaw_of(tool: ToolSpec) -> str:
    spec = tool.native_specs.get(PROVIDER)
    if spec is None:
        return ""
    kind = as_text(spec.get("type"))
    if not kind:
        return "Its own spelling for Responses has no type, and such are refused."
    if kind == "file_search" and not as_array(spec.get("vector_store_ids")):
        return "A file search without vector_store_ids is refused."
    return ""


def _leave_out_surplus(
    draft: Draft, tools: list[ToolSpec]
) -> tuple[list[ToolSpec], list[ReportEntry]]:
    """Return the tools that OpenAI takes; how many other servers take is not known."""
    if not is_own_api(draft.limits):
        return tools, []
    is_searched = tool_search(draft.limits) is not None and any(map(is_held_back, tools))
    most = MAX_TOOLS - is_searched  # the tool that searches takes a place of its own
    return leave_out_surplus(tools, most=most, forced=forced_name(draft), api="Responses")
