"""Calls whose arguments spell no JSON object, such as those that were cut off inside."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from context_assembler.stages.repair_history.repairs import RepairLog
from context_assembler.values.arguments import is_unread
from context_assembler.values.json_bounds import load_bounded_json
from context_assembler.values.messages import Message
from context_assembler.values.parts import Json, Part, Text, ToolCall, ToolResult
from context_assembler.values.wire import parse_json_object


def settle_arguments(
    messages: Sequence[Message], log: RepairLog, *, places: Sequence[int]
) -> list[Message]:
    """Return paired messages, every call of them with arguments that any provider can take.

    JSON within JSON is read once more. Everything else is no object, and none can be made of it:
    the call has no arguments then, and its result begins with what was written.

    Args:
        places: Where each of the messages stood in the history.
    """
    settled = list(messages)
    for at, (spoken, answers) in enumerate(pairwise(messages)):
        if spoken.role != "assistant" or not any(map(is_unread, spoken.tool_calls)):
            continue
        pairs = zip(spoken.tool_calls, answers.tool_results, strict=True)
        told = [_settle(call, result) for call, result in pairs]
        for one in told:
            if one.reason:
                log.add(places[at], spoken, "repaired", "arguments", one.reason)
        settled[at] = _with_parts(spoken, [one.call for one in told])
        settled[at + 1] = _with_parts(answers, [one.result for one in told])
    return settled


class _Settled(NamedTuple):
    call: ToolCall
    result: ToolResult
    reason: str = ""


def _settle(call: ToolCall, result: ToolResult) -> _Settled:
    if not is_unread(call):
        return _Settled(call, result)
    spelled = call.arguments_json or ""
    about = f"The arguments of the call {call.call_id!r}"
    arguments = _read_twice(spelled)
    if arguments is not None:
        read = replace(call, arguments=arguments, arguments_json=None)
        return _Settled(read, result, f"{about} were JSON within JSON.")
    return _Settled(
        replace(call, arguments={}, arguments_json=None),
        replace(result, content=(_note(spelled), *result.content)),
        f"{about} are no JSON object; it is sent without any, and its result tells what they were.",
    )


def _read_twice(spelled: str) -> dict[str, Json] | None:
    try:
        inner: Json = load_bounded_json(spelled)
    except ValueError:
        return None
    return parse_json_object(inner) if isinstance(inner, str) else None


def _note(spelled: str) -> Text:
    return Text(
        "[The arguments of this call are no JSON object, perhaps because they were cut off, so it is"
        f" shown without any. As they were written: {spelled}]"
    )


def _with_parts(message: Message, changed: Sequence[ToolCall | ToolResult]) -> Message:
    """Return the message with these in place of its calls, or results, in their order."""
    waiting = iter(changed)
    parts: tuple[Part, ...] = tuple(
        next(waiting) if isinstance(part, ToolCall | ToolResult) else part for part in message.parts
    )
    return replace(message, parts=parts)
