"""Sessions as Gemini CLI keeps them: one JSON file with the messages of user and model.

A message of the model holds its calls together with what they returned.
"""

from collections.abc import Iterator
from typing import Final

from context_assembler.transcripts.gemini_contents import ContentReader
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.parsing import as_mapping, read_time
from context_assembler.values.events import (
    AssistantBody,
    Provenance,
    SessionEvent,
    ToolResultBody,
    Usage,
    UserBody,
)
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.gemini_parts import PROVIDER
from context_assembler.values.parts import (
    Document,
    Image,
    Json,
    JsonObject,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.values.reading import as_array, as_object, as_text, objects_in
from context_assembler.values.wire import count_of

_SPEAKERS: Final = frozenset({"user", "gemini"})
_FAILED: Final = frozenset({"error", "cancelled"})
_READ_OF_SESSIONS: Final = frozenset({"messages"})


def is_cli_session(value: Json) -> bool:
    """Whether the value is such a session."""
    messages = as_mapping(value).get("messages")
    has_types = is_array(messages) and all(
        isinstance(as_mapping(message).get("type"), str) and "role" not in as_mapping(message)
        for message in messages
    )
    return has_types and "sessionId" in as_mapping(value)


def read_cli_session(session: JsonObject, log: IssueLog) -> list[SessionEvent]:
    """Return the events; messages of the client itself are reported and left out."""
    reader = ContentReader(log)
    events: list[SessionEvent] = []
    for at, message in objects_in(session.get("messages")):
        spot = Spot(path="messages").index(at)
        kind = as_text(message.get("type"))
        if kind not in _SPEAKERS:
            log.count(spot, f"messages of type {kind}", "are the client's own; left out")
            continue
        content = reader.read_parts(message.get("content"), spot.key("content"))
        if kind == "user":
            events.append(_event(UserBody(parts=content), message))
            continue
        events.extend(_read_reply(message, content, reader, spot))
    return events


def cli_metadata(session: JsonObject) -> dict[str, Json]:
    """Return what such a file says about the session as a whole."""
    return {key: held for key, held in session.items() if key not in _READ_OF_SESSIONS}


def _read_reply(
    message: JsonObject, content: tuple[Part, ...], reader: ContentReader, spot: Spot
) -> Iterator[SessionEvent]:
    calls = [call for _, call in objects_in(message.get("toolCalls"))]
    said = [part for part in content if part != Text("")]
    parts = (*_thoughts(message), *said, *map(_call, calls))
    body = AssistantBody(parts=tuple(parts), made_by=_made_by(message))
    yield _event(body, message, is_model=True)
    for at, call in enumerate(calls):
        result = _result(call, reader, spot.key("toolCalls").index(at).key("result"))
        if result is not None:
            yield SessionEvent(
                body=ToolResultBody(result=result),
                created_at=read_time(call.get("timestamp")),
                origin="tool",
            )


def _event(
    body: UserBody | AssistantBody, message: JsonObject, *, is_model: bool = False
) -> SessionEvent:
    return SessionEvent(
        body=body,
        id=as_text(message.get("id")),
        created_at=read_time(message.get("timestamp")),
        origin="model" if is_model else "user",
    )


def _thoughts(message: JsonObject) -> Iterator[Thinking]:
    for _, thought in objects_in(message.get("thoughts")):
        lines = (as_text(thought.get("subject")), as_text(thought.get("description")))
        yield Thinking(text="\n".join(filter(None, lines)), provider=PROVIDER)


def _call(call: JsonObject) -> ToolCall:
    return ToolCall(
        call_id=as_text(call.get("id")),
        name=as_text(call.get("name")),
        arguments=as_object(call.get("args")),
    )


def _result(call: JsonObject, reader: ContentReader, spot: Spot) -> ToolResult | None:
    """Return what a call returned: its responses' content, and media beside them."""
    entries = as_array(call.get("result"))
    if not entries:
        return None
    content: list[Text | Image | Document | Opaque] = []
    is_error = as_text(call.get("status")) in _FAILED
    for part in reader.read_parts(entries, spot):
        if isinstance(part, ToolResult):
            content.extend(part.content)
            is_error = is_error or part.is_error
        elif isinstance(part, Text | Image | Document | Opaque):
            content.append(part)
    return ToolResult(call_id=as_text(call.get("id")), content=tuple(content), is_error=is_error)


def _made_by(message: JsonObject) -> Provenance | None:
    model = as_text(message.get("model"))
    if not model:
        return None
    tokens = message.get("tokens")
    return Provenance(
        provider=PROVIDER, model=model, usage=_usage(tokens) if is_object(tokens) else None
    )


def _usage(tokens: JsonObject) -> Usage:
    thoughts = count_of(tokens.get("thoughts"))
    return Usage(
        input_tokens=count_of(tokens.get("input")),
        output_tokens=count_of(tokens.get("output")) + thoughts,
        cache_read_tokens=count_of(tokens.get("cached")),
        reasoning_tokens=thoughts,
    )
