"""Calls that a provider runs itself, and their results: both inside replies, as opaque blocks.

Source:
    https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools (read 2026-11-27): a
    turn that paused is continued by sending it back as it is; a result needs its call before it.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from context_assembler.stages.repair_history.repairs import RepairLog
from context_assembler.values.messages import Message
from context_assembler.values.parts import Opaque, Part
from context_assembler.values.reading import as_text


def waits_for_server(messages: Sequence[Message], *, provider: str | None) -> bool:
    """Whether the provider has yet to answer a call of its own in these messages; `None`: anyone."""
    return bool(_asked(messages, of=provider) - _answered(messages))


def pair_server_calls(
    messages: Sequence[Message], log: RepairLog, *, places: Sequence[int], provider: str | None
) -> list[Message]:
    """Leave out server calls that were never answered, and results without their call.

    Neighbouring replies count as one: a turn that paused goes on in the next. What waits for
    `provider` at the very end stays, since it goes on from there; `None`: for anyone. Nobody else
    ever will, so that for them it goes at once and not only when more is said behind it.

    Args:
        places: Where each of the messages stood in the history.
    """
    if not any(isinstance(part, Opaque) for message in messages for part in message.parts):
        return list(messages)
    placed = zip(places, messages, strict=True)
    runs = [list(run) for _, run in groupby(placed, lambda pair: pair[1].role)]
    last_said = max((at for at, run in enumerate(runs) if run[0][1].role != "system"), default=0)
    paired: list[Message] = []
    for number, run in enumerate(runs):
        replies = [message for _, message in run]
        if replies[0].role != "assistant":
            paired += replies
            continue
        asked, answered = _asked(replies), _answered(replies)
        resumed: set[str] = _asked(replies, of=provider) if number == last_said else set()
        unanswered = asked - answered - resumed
        loose = (answered - asked) | unanswered
        for at, message in run:
            paired += _without(at, message, loose, log)
    return paired


def _without(at: int, message: Message, loose: set[str], log: RepairLog) -> list[Message]:
    """Return the message without these calls and results; nothing where it held nothing else."""
    kept = tuple(part for part in message.parts if _call_id(part) not in loose)
    if len(kept) == len(message.parts):
        return [message]
    reason = "A call that a provider runs itself had no result, or a result had no call."
    log.add(at, message, "repaired" if kept else "dropped", "server_call", reason)
    return [replace(message, parts=kept)] if kept else []


def _call_id(part: Part) -> str:
    """Return the id of a call, or of the call that a result answers; empty for anything else."""
    if not isinstance(part, Opaque):
        return ""
    return as_text(part.block.get("id" if _is_call(part) else "tool_use_id"))


def _is_call(part: Opaque) -> bool:
    """Whether the block is a call, of a server tool (`server_tool_use`) or over MCP."""
    return as_text(part.block.get("type")).endswith("_tool_use")


def _asked(messages: Sequence[Message], *, of: str | None = None) -> set[str]:
    """Return the ids of the calls that a provider is to run; of all providers by default."""
    return {
        call_id
        for message in messages
        for part in message.parts
        if isinstance(part, Opaque) and _is_call(part) and of in (None, part.provider)
        if (call_id := _call_id(part))
    }


def _answered(messages: Sequence[Message]) -> set[str]:
    return {
        call_id
        for message in messages
        for part in message.parts
        if isinstance(part, Opaque) and not _is_call(part) and (call_id := _call_id(part))
    }
