"""Tools that came or went, as the Messages API is told of them behind the history."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from context_assembler.providers.anthropic.blocks import PROVIDER
from context_assembler.providers.anthropic.parameter_names import with_fitting_names
from context_assembler.providers.anthropic.settings import client_tool
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.offered_tools import plan_for
from context_assembler.values.parts import Json
from context_assembler.values.tool_changes import (
    NO_CHANGES,
    ChangeForms,
    ToolChange,
    changes_in,
    is_told_alike,
)
from context_assembler.values.tools import ToolSpec

CHANGE_TYPES: Final = frozenset({"tool_addition", "tool_removal"})

_FORMS: Final = ChangeForms(adds=True, redefines=True, withdraws="note")


def change_forms(limits: ModelLimits) -> ChangeForms:
    """Return what the model can be told of tools behind the history.

    That takes a system message of its own there. Strict tools are not added so: they are limited in
    number over all tools.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
        types of the anthropic package 2.14, BetaRequestToolAdditionBlockParam (read 2026-11-27)
    """
    is_own = limits.provider == "anthropic" and limits.host is None
    return _FORMS if is_own and limits.supports("mid_conversation_system") else NO_CHANGES


def change_blocks(
    messages: Sequence[Message], draft: Draft, names: Mapping[str, str]
) -> dict[int, tuple[dict[str, Json], ...]]:
    """Return the blocks of the notes that tell of changed tools, by the index of their message.

    A tool that was known before is named, another one is defined.
    """
    plan = plan_for(draft, provider=PROVIDER)
    if plan is None or not plan.forms.adds:
        return {}
    known = {tool.name: tool for tool in draft.tools}
    blocks: dict[int, tuple[dict[str, Json], ...]] = {}
    for at, message in enumerate(messages):
        told = [block for change in changes_in(message) for block in _blocks(change, known, names)]
        if told:
            blocks[at] = tuple(told)
    return blocks


def _blocks(
    change: ToolChange, known: dict[str, ToolSpec], names: Mapping[str, str]
) -> Iterator[dict[str, Json]]:
    for name in change.removed:
        yield {"type": "tool_removal", "tool": _reference(names[name])}
    for tool in map(with_fitting_names, change.added):
        if is_told_alike(tool, known.get(tool.name)):
            yield {"type": "tool_addition", "tool": _reference(names[tool.name])}
            continue
        known[tool.name] = tool
        definition = client_tool(tool, names[tool.name])
        added = {"type": "tool_definition", "definition": definition}
        yield {"type": "tool_addition", "tool": added}


def _reference(name: str) -> dict[str, Json]:
    return {"type": "tool_reference", "name": name}
