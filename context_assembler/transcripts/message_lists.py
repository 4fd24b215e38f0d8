"""What the formats made of a list of messages share: finding the list, reading it, writing it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from context_assembler.errors import TranscriptError
from context_assembler.ports import ReadTranscript
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.parsing import Row, Rows, as_mapping, parse_source
from context_assembler.values.events import SessionEvent, ToolResultBody, UserBody
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject, Part, ToolResult
from context_assembler.values.standing import (
    count_leading_system,
    in_order,
    standing_events,
    with_numbers,
)
from context_assembler.values.tools import ToolSpec

_OFTEN_THERE: Final = frozenset({"role", "name", "id", "timestamp", "tool_call_id", "tool_calls"})
MESSAGE_KEYS: Final = ("messages", "traj")

ReadMessage: TypeAlias = Callable[[JsonObject, Spot, IssueLog], list[SessionEvent]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageList:
    """Messages with their places, and what stood around them."""

    messages: tuple[tuple[Spot, Json], ...]
    request: JsonObject


def find_messages(source: Any, *, name: str, log: IssueLog) -> MessageList:
    """Return the messages of a list, of a request, or of JSON Lines of either.

    Raises:
        TranscriptError: There is no message list, or more than one.
    """
    parsed = parse_source(source, name=name, log=log)
    if parsed.has_lines:
        return _of_lines(parsed, name)
    return _of_document(parsed.rows[0], name)


def read_messages(
    found: MessageList, *, name: str, read: ReadMessage, log: IssueLog
) -> list[SessionEvent]:
    """Return the events of all messages; a message that cannot be read is reported.

    Raises:
        TranscriptError: There are messages, and none of them can be read.
    """
    events: list[SessionEvent] = []
    read_count = 0
    for spot, message in found.messages:
        if is_object(message) and isinstance(message.get("role"), str):
            made = read(message, spot, log)
            events.extend(made)
            read_count += bool(made)
            if "content" not in message and made and not any(map(_holds_something, made)):
                log.note(spot, f"is a message without content{_odd_keys(message)}")
        else:
            log.note(spot, "is no message: it has no role; left out")
    if found.messages and not read_count:
        raise _no_transcript(name, "none of its messages can be read")
    return events


def read_tools(
    specs: Json, *, read: Callable[[JsonObject, Spot, IssueLog], ToolSpec | None], log: IssueLog
) -> tuple[ToolSpec, ...]:
    """Return the tools of a request; one that cannot be read is reported."""
    if not is_array(specs):
        return ()
    tools: list[ToolSpec] = []
    for number, spec in enumerate(specs):
        spot = Spot(path="tools").index(number)
        tool = read(spec, spot, log) if is_object(spec) else None
        if tool is None:
            log.note(spot, "is no tool that can be read; left out")
        else:
            tools.append(tool)
    return tuple(tools)


def user_events(parts: Sequence[Part], *, metadata: JsonObject) -> list[SessionEvent]:
    """Return a user's message as events: each result by itself, then what was said beside them."""
    results = [part for part in parts if isinstance(part, ToolResult)]
    said = tuple(part for part in parts if not isinstance(part, ToolResult))
    events = [SessionEvent(body=ToolResultBody(result=part), origin="tool") for part in results]
    if said or metadata or not results:
        events.append(SessionEvent(body=UserBody(parts=said), metadata=metadata))
    return events


def finish(
    events: Sequence[SessionEvent],
    *,
    log: IssueLog,
    tools: tuple[ToolSpec, ...] = (),
    metadata: JsonObject | None = None,
) -> ReadTranscript:
    """Return what was read."""
    return ReadTranscript(
        events=tuple(events), issues=log.found(), tools=tools, metadata=metadata or None
    )


def events_to_write(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    """Return the events that stand, in order; the session's own system prompt always does.

    Events that no store has numbered count from 1.
    """
    ordered = in_order(with_numbers(events))
    lead = count_leading_system(ordered)
    standing = standing_events(ordered[lead:])
    return [*ordered[:lead], *(event for event in standing if event is not None)]


def _of_lines(parsed: Rows, name: str) -> MessageList:
    requests = [row for row in parsed.rows if is_object(row.value) and _messages_of(row.value)]
    if requests and len(requests) == len(parsed.rows):
        if len(requests) > 1:
            raise _many(name, len(requests))
        return _of_document(requests[0], name)
    lists = [row for row in parsed.rows if is_array(row.value)]
    if len(lists) == 1 == len(parsed.rows):
        return _of_document(lists[0], name)
    messages = tuple((Spot(line=row.line, path="message"), row.value) for row in parsed.rows)
    if not any(_looks_like_message(message) for _, message in messages):
        raise _no_transcript(name, "no line holds a message")
    return MessageList(messages=messages, request={})


def _of_document(row: Row, name: str) -> MessageList:
    value = row.value
    if is_object(value) and _looks_like_message(value):
        return MessageList(messages=((Spot(line=row.line, path="message"), value),), request={})
    request = as_mapping(value)
    messages = _messages_of(request) if is_object(value) else value
    if not is_array(messages):
        raise _no_transcript(name, "it holds no list of messages")
    if messages and not any(_looks_like_message(message) for message in messages):
        if all(is_object(entry) and _messages_of(entry) is not None for entry in messages):
            raise _many(name, len(messages))
        raise _no_transcript(name, "its list holds no messages")
    spot = Spot(line=row.line, path="messages")
    rest = {key: held for key, held in request.items() if key not in MESSAGE_KEYS}
    placed = tuple((spot.index(number), message) for number, message in enumerate(messages))
    return MessageList(messages=placed, request=rest)


def _messages_of(request: JsonObject) -> Sequence[Json] | None:
    for key in MESSAGE_KEYS:
        if is_array(messages := request.get(key)):
            return messages
    return None


def _looks_like_message(value: Json) -> bool:
    return is_object(value) and isinstance(value.get("role"), str)


def _holds_something(event: SessionEvent) -> bool:
    return any(part.content if isinstance(part, ToolResult) else True for part in event.parts)


def _odd_keys(message: JsonObject) -> str:
    odd = [repr(str(key)) for key in message if key not in _OFTEN_THERE]
    return f"; unknown key {', '.join(odd)}" if odd else ""


def _no_transcript(name: str, reason: str) -> TranscriptError:
    return TranscriptError(
        source=name,
        reason=reason,
        remedy="Give a list of messages, a request with 'messages', or one message per line.",
    )


def _many(name: str, count: int) -> TranscriptError:
    return TranscriptError(
        source=name,
        reason=f"it holds {count} sessions",
        remedy="Read them with read_sessions(), which returns one transcript for each.",
    )
