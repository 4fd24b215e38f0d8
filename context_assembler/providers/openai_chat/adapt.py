"""A draft as Chat Completions can take it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from context_assembler.providers.openai_chat.content import PART_TYPES, PROVIDER
from context_assembler.providers.openai_chat.dialect import Dialect, dialect_of
from context_assembler.providers.openai_chat.malformed import find_flaw
from context_assembler.providers.openai_chat.settings import must_not_reason
from context_assembler.values.adapting import (
    Change,
    Judge,
    adapt_messages,
    judge_foreign,
    judge_media,
)
from context_assembler.values.draft import Draft
from context_assembler.values.malformed import judge_malformed
from context_assembler.values.media.media_rules import MediaRules
from context_assembler.values.messages import Message, Role
from context_assembler.values.native.unfolding import is_label, unfold
from context_assembler.values.offered_tools import (
    declared_tools,
    drop_allowed,
    forced_name,
    leave_out_foreign,
    leave_out_surplus,
    leave_strict,
)
from context_assembler.values.openai.media import TAKEN_BY_ALL, with_own_limits
from context_assembler.values.openai.parameters import MAX_TOOLS, effort_of
from context_assembler.values.parts import Opaque, ResultPart, Text
from context_assembler.values.report import ReportEntry
from context_assembler.values.schemas.strict_schemas import object_to_strict
from context_assembler.values.spelled import knows_plain
from context_assembler.values.summaries import settle_summaries
from context_assembler.values.tools import ToolSpec

# https://github.com/openai/openai-openapi, ChatCompletionRequestUserMessageContentPart (read
# 2026-11-27): a file has no URL, and an image no id.
_COMMON: Final = replace(
    TAKEN_BY_ALL, api="Chat Completions", fetches_documents=False, takes_image_ids=False
)


def media_rules(dialect: Dialect) -> MediaRules:
    """Return what the server takes of images and documents."""
    return with_own_limits(_COMMON) if dialect.is_openai else _COMMON


def adapt(draft: Draft) -> tuple[Draft, tuple[ReportEntry, ...]]:
    """Return the draft as Chat Completions takes it, and a row for every change.

    What the server cannot take of a message becomes a line that names it. Adapting twice changes
    nothing more.
    """
    dialect = dialect_of(draft.limits)
    messages, rows = _adapt_messages(draft, dialect)
    declared = declared_tools(draft, provider=PROVIDER)
    tools, foreign_rows = leave_out_foreign(declared, provider=PROVIDER)
    tools, gateway_rows = _leave_out_gateway_tools(tools, dialect)
    tools, surplus_rows = _leave_out_surplus(draft, tools)
    tools, strict_rows = leave_strict(tools, object_to=object_to_strict)
    adapted = replace(draft, messages=messages, tools=tuple(tools))
    adapted, allowed_rows = _drop_allowed(adapted, dialect)
    adapted, effort_rows = _stop_reasoning(adapted)
    tool_rows = (*foreign_rows, *gateway_rows, *surplus_rows, *strict_rows, *allowed_rows)
    return adapted, (*tool_rows, *rows, *effort_rows)


def _adapt_messages(draft: Draft, dialect: Dialect) -> tuple[Sequence[Message], list[ReportEntry]]:
    if knows_plain(draft.messages, draft.spelled):
        return draft.messages, []
    rules = media_rules(dialect)
    judges = [
        judge_malformed(provider=PROVIDER, find_flaw=find_flaw),
        judge_foreign(provider=PROVIDER),
        judge_media(rules=rules, limits=draft.limits),
        _judge_own(dialect),
    ]
    told, summary_rows = settle_summaries(draft.messages, provider=PROVIDER)
    messages, rows = adapt_messages(told, judges=judges, rules=rules)
    return messages, [*summary_rows, *rows]


def _drop_allowed(draft: Draft, dialect: Dialect) -> tuple[Draft, list[ReportEntry]]:
    return (draft, []) if dialect.is_openai else drop_allowed(draft, api="The server")


def _judge_own(dialect: Dialect) -> Judge:
    """Return the judge of content parts of this API: some are known to some servers only."""

    def judge(part: ResultPart, role: Role) -> Change | None:
        if not isinstance(part, Opaque) or part.provider != PROVIDER:
            return None
        kind = str(part.block.get("type"))
        if role == "user" and kind != "refusal":
            if not dialect.is_openai or kind in PART_TYPES:
                return None
        elif role == "assistant" and kind == "refusal":
            return None
        reason = f"A part of type {kind!r} is not taken from the {role}"
        sent = unfold(part)
        is_said = bool(sent) and not is_label(part.text if sent == (Text(part.text),) else "")
        return Change(
            text="" if is_said else f"[{kind} left out: not taken from the {role}]",
            decision="repaired" if is_said else "dropped",
            rule="content.type",
            reason=f"{reason}; it is {'sent as what is in it' if is_said else 'left out'}.",
            parts=sent if is_said else (),
        )

    return judge


def _leave_out_gateway_tools(
    tools: Sequence[ToolSpec], dialect: Dialect
) -> tuple[list[ToolSpec], list[ReportEntry]]:
    """Return the tools that OpenAI may know: those that a gateway runs bear its name.

    Source:
        types of the openai package 3.57, ChatCompletionToolUnionParam
        https://openrouter.ai/docs/guides/features/server-tools/tool-search (read 2026-11-27)
    """
    if not dialect.is_openai:
        return list(tools), []
    kinds = [str(tool.native_specs.get(PROVIDER, {}).get("type", "")) for tool in tools]
    rows = [
        ReportEntry(
            kind="tool",
            id=tool.name,
            decision="dropped",
            reason=f"OpenAI knows no tool of the type {kind!r}.",
            rule="tool.native",
        )
        for tool, kind in zip(tools, kinds, strict=True)
        if ":" in kind
    ]
    return [t for t, kind in zip(tools, kinds, strict=True) if ":" not in kind], rows


def _leave_out_surplus(
    draft: Draft, tools: list[ToolSpec]
) -> tuple[list[ToolSpec], list[ReportEntry]]:
    """Return the tools that OpenAI takes; how many other servers take is not known."""
    if not dialect_of(draft.limits).is_openai:
        return tools, []
    return leave_out_surplus(
        tools, most=MAX_TOOLS, forced=forced_name(draft), api="Chat Completions"
    )


def _stop_reasoning(draft: Draft) -> tuple[Draft, list[ReportEntry]]:
    can_stop = "none" in draft.limits.thinking.levels
    if not can_stop or not must_not_reason(draft) or effort_of(draft) == "none":
        return draft, []
    row = ReportEntry(
        kind="note",
        id="thinking_level",
        decision="repaired",
        reason="Chat Completions takes this model's tools only without reasoning: it is 'none'.",
        rule="parameter.thinking_level",
    )
    parameters = replace(draft.parameters, thinking_level="none", thinking_budget=None)
    return replace(draft, parameters=parameters), [row]
