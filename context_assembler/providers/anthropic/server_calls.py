"""Calls that Anthropic runs itself, where the result is missing.

A context that was made for another provider keeps what that one could be told: a call may have
lost its result when it is spelled for Anthropic after all.

Source:
    https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools (read 2026-11-27)
"""

from collections.abc import Sequence

from context_assembler.providers.anthropic.blocks import PROVIDER
from context_assembler.values.adapting import Change, Judge
from context_assembler.values.messages import Message, Role
from context_assembler.values.parts import Json, Opaque, ResultPart

_REASON = "A server tool's call is told in words: its result is missing."


def judge_unanswered(messages: Sequence[Message]) -> Judge:
    """Return the judge of server calls without a result.

    What the last reply waits for stays: the server goes on from there.
    """
    last = messages[-1:] if messages and messages[-1].role == "assistant" else ()
    loose = _ids(messages, "id") - _ids(messages, "tool_use_id") - _ids(last, "id")

    def judge(part: ResultPart, _role: Role) -> Change | None:
        if not isinstance(part, Opaque) or part.provider != PROVIDER:
            return None
        if _id_in(part, "id") not in loose:
            return None
        return Change(
            text=part.text, decision="repaired", rule="content.unanswered", reason=_REASON
        )

    return judge


def _ids(messages: Sequence[Message], field: str) -> set[Json]:
    found = (
        _id_in(part, field)
        for message in messages
        for part in message.parts
        if isinstance(part, Opaque) and part.provider == PROVIDER
    )
    return {one for one in found if one is not None}


def _id_in(part: Opaque, field: str) -> str | None:
    """Return the id that a call (`id`) or a result (`tool_use_id`) carries."""
    is_call = str(part.block.get("type")).endswith("_tool_use")
    if is_call != (field == "id"):
        return None
    found = part.block.get(field)
    return found if isinstance(found, str) else None
