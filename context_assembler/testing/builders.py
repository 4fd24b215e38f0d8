"""Conversations in shorthand, one line per message."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from context_assembler.values.events import (
    SessionEvent,
    assistant_event,
    system_event,
    tool_result_event,
    user_event,
)
from context_assembler.values.messages import Message, Role
from context_assembler.values.parts import Part, Text, ToolCall

START: Final = datetime(2026, 11, 3, 9, 0, tzinfo=UTC)

_ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "tool_result": "tool",
    "system": "system",
}
_LINE: Final = re.compile(r"(?P<who>[SUAT])(?:\[(?P<calls>.*?)\](?!\}))? ?(?P<text>.*)", re.DOTALL)
_CALL: Final = re.compile(
    r"(?P<id>[\w.-]+)(?P<error>!)?(?::(?P<name>[\w.-]+))?(?P<json> ?\{.*\})?$"
)
_BETWEEN_CALLS: Final = re.compile(r",\s*(?=[\w.-]+!?(?::|,|$))")


def conversation(*lines: str) -> tuple[Message, ...]:
    """Return canonical messages, numbered from 1; neighbouring results share one message.

    Args:
        lines: `S text` (system), `U text` (user), `A text` (assistant), `A[c1] text` (calls the tool
            `look_up`), `A[c1:search {"q": "tea"}, c2:search]` (two calls), `T[c1] text` (a result),
            `T[c1!] text` (a failed one).

    Raises:
        ValueError: A line is none of these.
    """
    messages: list[Message] = []
    for line in lines:
        message = _message(line, seq=len(messages) + 1)
        if message.role == "tool" and messages and messages[-1].role == "tool":
            messages[-1] = replace(messages[-1], parts=messages[-1].parts + message.parts)
        else:
            messages.append(message)
    return tuple(messages)


def event_log(
    *lines: str, start: datetime | None = START, step: timedelta = timedelta(minutes=1)
) -> tuple[SessionEvent, ...]:
    """Return the same shorthand as events that no store has numbered yet.

    Args:
        start: When the first one happened; `None` leaves all of them without a time.
        step: From one event to the next.
    """
    return tuple(
        replace(_event(line), created_at=None if start is None else start + step * position)
        for position, line in enumerate(lines)
    )


def _message(line: str, *, seq: int) -> Message:
    event = _event(line)
    return Message(
        role=_ROLES[event.type], parts=event.parts, id=f"m{seq}", seq=seq, origin=event.origin
    )


def _event(line: str) -> SessionEvent:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"a line begins with S, U, A or T; got {line!r}")
    text = found["text"]
    match found["who"]:
        case "S":
            return system_event(text)
        case "U":
            return user_event(text)
        case "A":
            return assistant_event(_reply_parts(text, found["calls"]))
        case _:
            return _result(line, text, found["calls"])


def _reply_parts(text: str, calls: str | None) -> tuple[Part, ...]:
    said: Iterable[Part] = [Text(text)] if text else []
    return (*said, *_calls(calls or ""))


def _calls(written: str) -> Iterator[ToolCall]:
    for call in filter(None, _BETWEEN_CALLS.split(written)):
        found = _call(call)
        yield ToolCall(
            call_id=found["id"],
            name=found["name"] or "look_up",
            arguments=json.loads(found["json"] or "{}"),
        )


def _result(line: str, text: str, calls: str | None) -> SessionEvent:
    if not calls:
        raise ValueError(f"a result names its call, as in 'T[c1] text'; got {line!r}")
    found = _call(calls)
    return tool_result_event(found["id"], text, is_error=found["error"] is not None)


def _call(written: str) -> re.Match[str]:
    found = _CALL.match(written.strip())
    if found is None:
        raise ValueError(
            f"a call is written 'id', 'id:tool' or 'id:tool {{json}}'; got {written!r}"
        )
    return found
