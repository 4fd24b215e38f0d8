"""Canonical messages as content blocks, one unit per message."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from context_assembler.providers.anthropic.blocks import (
    PROVIDER,
    Spelling,
    assistant_blocks,
    own_extras,
    text_blocks,
    user_blocks,
    verbatim,
)
from context_assembler.providers.anthropic.tool_changes import CHANGE_TYPES, change_blocks
from context_assembler.values.draft import Draft
from context_assembler.values.fenced_messages import text_of_system
from context_assembler.values.messages import Message
from context_assembler.values.names import NameRule, spell_call_ids, with_call_ids
from context_assembler.values.offered_tools import known_tools, plan_for, wire_names
from context_assembler.values.parts import (
    NO_SYSTEM_AUTHORITY,
    Json,
    Opaque,
    Text,
    ToolCall,
    ToolResult,
)
from context_assembler.values.reading import as_text
from context_assembler.values.texts.fences import REMINDER_TAG, SUMMARY_TAG, fence

# https://github.com/langchain-ai/langchain/issues/37756 (read 2026-11-27)
ID_RULE: Final = NameRule(pattern=re.compile(r"[a-zA-Z0-9_-]{1,128}"), max_chars=64)

# https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools (read 2026-11-27)
NAME_RULE: Final = NameRule(pattern=re.compile(r"[a-zA-Z0-9_-]{1,64}"), max_chars=64)

UnitRole: TypeAlias = Literal["user", "assistant", "system"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One canonical message, rendered by itself.

    `fenced` is the same as user content, for a system message that has no place of its own;
    `has_authority` tells whether it may have one.
    """

    role: UnitRole
    blocks: tuple[dict[str, Json], ...]
    fenced: tuple[dict[str, Json], ...] = ()
    has_authority: bool = False

    @property
    def speaker(self) -> str:
        """`model` or `user`; empty where nothing is sent."""
        if not (self.blocks or self.fenced):
            return ""
        return "model" if self.role == "assistant" else "user"

    @property
    def stands_alone(self) -> bool:
        """Whether it is what it is, whatever stands around it: notes of tools build on each other."""
        return not any(block.get("type") in CHANGE_TYPES for block in self.blocks)


def tool_names(draft: Draft) -> dict[str, str]:
    """Return the name of every tool with the one that goes over the wire, one to one."""
    native = {
        tool.name: spec["name"]
        for tool in known_tools(draft)
        if (spec := tool.native_specs.get(PROVIDER)) is not None
        and isinstance(spec.get("name"), str)
    }
    return wire_names(draft, rule=NAME_RULE, native_names=native)


def render_units(draft: Draft, names: Mapping[str, str]) -> list[Unit]:
    """Return one unit per message, in order; `names` are those of `tool_names`."""
    ids = spell_call_ids(draft.messages, rule=ID_RULE)
    return spell_units(draft.messages, ids, draft=draft, names=names)


def spell_units(
    messages: Sequence[Message],
    ids: Sequence[tuple[str, ...]],
    *,
    draft: Draft,
    names: Mapping[str, str],
) -> list[Unit]:
    """Return one unit for each of these messages of the draft, in order.

    Args:
        ids: Those of their calls and results, as they are sent.
        names: Those of `tool_names`.
    """
    offered = offered_names(draft, names)
    spelling = Spelling(names=names, offered=offered, toolsets=_toolsets(messages, ids))
    changes = change_blocks(messages, draft, names)
    units = [
        _unit(message, own_ids, spelling, changes.get(at, ()))
        for at, (message, own_ids) in enumerate(zip(messages, ids, strict=True))
    ]
    return list(map(_without_end_space, units)) if draft.limits.supports("prefill") else units


def _without_end_space(unit: Unit) -> Unit:
    """Return a reply without the space at its end, which a model that goes on from it refuses.

    That goes wherever the reply stands: it may be the last one in one call and not in the next, and
    stays what it was.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/prefill-claudes-response
        (read 2026-11-27)
    """
    final = unit.blocks[-1] if unit.role == "assistant" and unit.blocks else {}
    text = as_text(final.get("text")) if final.get("type") == "text" else ""
    if text == text.rstrip():
        return unit
    return replace(unit, blocks=(*unit.blocks[:-1], {**final, "text": text.rstrip()}))


def offered_names(draft: Draft, names: Mapping[str, str]) -> frozenset[str]:
    """Return the names, as sent, of all tools that the model is told of."""
    plan = plan_for(draft, provider=PROVIDER)
    told = (*draft.tools, *(plan.added if plan is not None else ()))
    return frozenset(names.get(tool.name, tool.name) for tool in told)


def _toolsets(messages: Sequence[Message], ids: Sequence[tuple[str, ...]]) -> dict[str, Json]:
    """Return the toolset of each call that names one, by the call's id as sent.

    Source:
        types of the anthropic package 2.14, ToolResultBlockParam: a result names the toolset of the
        call that it answers (read 2026-11-27)
    """
    toolsets: dict[str, Json] = {}
    for message, own_ids in zip(messages, ids, strict=True):
        for part, call_id in with_call_ids(message, own_ids):
            if isinstance(part, ToolCall) and (name := own_extras(part).get("toolset_name")):
                toolsets[call_id] = name
    return toolsets


def _unit(
    message: Message,
    own_ids: tuple[str, ...],
    spelling: Spelling,
    changes: tuple[dict[str, Json], ...],
) -> Unit:
    if message.kind == "summary":
        return _summary_unit(message)
    if message.role == "system":
        return _system_unit(message, spelling, changes)
    spell = assistant_blocks if message.role == "assistant" else user_blocks
    remaining_ids = iter(own_ids)
    blocks: list[dict[str, Json]] = []
    for part in message.parts:
        call_id = next(remaining_ids) if isinstance(part, ToolCall | ToolResult) else ""
        blocks.extend(spell(part, call_id, spelling))
    return Unit(role="assistant" if message.role == "assistant" else "user", blocks=tuple(blocks))


def _summary_unit(message: Message) -> Unit:
    """Return a summary: the API's own block where there is one, fenced text of the user elsewhere.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/compaction (read 2026-11-27): a
        compaction goes back as the assistant's, before everything that follows it.
    """
    own = [part for part in message.parts if isinstance(part, Opaque) and part.provider == PROVIDER]
    if own:
        return Unit(role="assistant", blocks=tuple(verbatim(part.block) for part in own))
    return Unit(role="user", blocks=tuple(text_blocks(fence(SUMMARY_TAG, message.text))))


def _system_unit(
    message: Message, spelling: Spelling, changes: tuple[dict[str, Json], ...]
) -> Unit:
    """Return a system message: as blocks, and as fenced text for where that role is not taken.

    Args:
        changes: The blocks of a note that tells of changed tools.
    """
    own = changes or tuple(_system_blocks(message))
    text = text_of_system(message)
    media = [
        block
        for part in message.parts
        if not isinstance(part, Text | Opaque)
        for block in user_blocks(part, "", spelling)
    ]
    reminder = text_blocks(fence(REMINDER_TAG, text)) if text else ()
    return Unit(
        role="system",
        blocks=own,
        fenced=(*reminder, *media),
        has_authority=bool(own) and not media and message.origin not in NO_SYSTEM_AUTHORITY,
    )


def _system_blocks(message: Message) -> Iterator[dict[str, Json]]:
    for part in message.parts:
        if isinstance(part, Opaque) and part.provider == PROVIDER:
            yield verbatim(part.block)
        elif isinstance(part, Text | Opaque):
            yield from text_blocks(part.text)
