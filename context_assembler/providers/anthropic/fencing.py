"""System messages that stand where the Messages API takes none, and are told of."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from context_assembler.providers.anthropic.joining import displaced_units
from context_assembler.providers.anthropic.units import render_units, tool_names
from context_assembler.values.draft import Draft
from context_assembler.values.messages import Message
from context_assembler.values.report import ReportEntry

_REASON: Final = (
    "Sent as fenced text of the user: the API takes a system message only behind the user's and "
    "before a reply. If a call without a reply was made in between, this payload rewrites its end."
)


def tell_displaced(draft: Draft) -> tuple[Draft, tuple[ReportEntry, ...]]:
    """Return a row for each system message that might speak as the system, but has no place to.

    It stands behind an assistant message, or a message of the user came behind it before any reply:
    what ended a payload as a system message is part of the user's in the next one. The draft knows
    which were told of.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
        (read 2026-11-27)
    """
    fenced = _find_displaced(draft)
    rows = tuple(_row(draft.messages[at]) for at in sorted(fenced - draft.fenced))
    return (draft if fenced == draft.fenced else replace(draft, fenced=fenced)), rows


def _find_displaced(draft: Draft) -> frozenset[int]:
    takes_system = draft.limits.supports("mid_conversation_system")
    if not takes_system or not _may_be_displaced(draft.messages):
        return frozenset()
    return frozenset(displaced_units(render_units(draft, tool_names(draft))))


def _may_be_displaced(messages: Sequence[Message]) -> bool:
    """Whether a look at the neighbours of system messages leaves a doubt; in most sessions, none."""
    if messages and messages[0].role == "system":
        return True
    return any(
        (message.role == "system" and _is_doubtful(after))
        or (message.role == "assistant" and after.role == "system")
        for message, after in pairwise(messages)
    )


def _is_doubtful(after: Message) -> bool:
    if after.role == "assistant":
        return not (after.text.strip() or after.tool_calls)
    return after.role != "system"


def _row(message: Message) -> ReportEntry:
    return ReportEntry(
        kind="note",
        id=message.id or message.note or message.kind,
        decision="kept",
        reason=_REASON,
        rule="system.fenced",
    )
