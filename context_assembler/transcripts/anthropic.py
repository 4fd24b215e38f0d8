"""Messages of Anthropic's Messages API: a list of them, or a whole request.

Normal form: what `write` gives and `read` keeps. Content is a list of blocks; results come before
what the user said, in a message of their own; the system prompt is a list of text blocks. Message
fields without a place in a session are kept in the event's metadata under `anthropic`.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias, assert_never

from context_assembler.ports import ReadTranscript
from context_assembler.transcripts.anthropic_blocks import read_content
from context_assembler.transcripts.anthropic_replies import REPLY_FIELDS, read_made_by
from context_assembler.transcripts.anthropic_spelling import PROVIDER, write_block, write_blocks
from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.message_lists import (
    events_to_write,
    find_messages,
    finish,
    read_messages,
    read_tools,
    user_events,
)
from context_assembler.transcripts.parsing import as_mapping, dump_json_text, left_over
from context_assembler.transcripts.tool_specs import function_spec, native_spec
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    SessionEvent,
    SystemBody,
    ToolCallBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject, Text, ToolResult
from context_assembler.values.reading import as_text
from context_assembler.values.tools import ToolSpec

_Message: TypeAlias = dict[str, Json]

_ROLES: Final = frozenset({"user", "assistant", "system"})
_KNOWN_FIELDS: Final = frozenset({"role", "content"})
_KNOWN_OF_TOOLS: Final = frozenset({"type", "name", "description", "input_schema", "strict"})
# Blocks that no other message format has; plain text alone could be anybody's.
_OWN_BLOCKS: Final = frozenset(
    {"tool_use", "tool_result", "redacted_thinking", "image", "document", "server_tool_use"}
)


class AnthropicTranscript:
    """Reads and writes Anthropic messages."""

    name: str = "anthropic"

    def read(self, source: Any, *, name: str = "transcript") -> ReadTranscript:
        """Turn a list of messages, a request, or JSON Lines of either into events.

        Raises:
            TranscriptError: The source holds no messages, or those of several sessions.
        """
        log = IssueLog()
        found = find_messages(source, name=name, log=log)
        events: list[SessionEvent] = []
        if (system := found.request.get("system")) is not None:
            parts = read_content(system, Spot(path="system"), log)
            events.append(SessionEvent(body=SystemBody(parts=parts), origin="developer"))
        events += read_messages(found, name=name, read=_read_message, log=log)
        tools = read_tools(found.request.get("tools"), read=_read_tool, log=log)
        metadata = left_over(found.request, frozenset({"tools", "system"}))
        return finish(events, log=log, tools=tools, metadata=metadata)

    def write(self, events: Iterable[SessionEvent]) -> str:
        """Return `{"system": …, "messages": […]}`; what a compaction covers is left to its summary.

        Arguments that were never valid JSON are written as `{"unparsed_arguments": …}`.
        """
        standing = events_to_write(events)
        request: dict[str, Json] = {}
        if standing and isinstance(first := standing[0].body, SystemBody):
            request["system"] = write_blocks(first.parts)
            standing = standing[1:]
        messages: list[_Message] = []
        for event in standing:
            _write_event(event, messages)
        return dump_json_text({**request, "messages": messages}, indent=2) + "\n"

    def matches(self, source: Any) -> bool:
        """Whether the source holds messages as only this format has them."""
        try:
            found = find_messages(source, name="transcript", log=IssueLog())
        except ValueError:
            return False
        messages = [as_mapping(message) for _, message in found.messages]
        if any(
            as_text(message.get("role")) not in _ROLES or "tool_calls" in message
            for message in messages
        ):
            return False
        return _is_own_request(found.request) or any(map(_has_own_blocks, messages))


def _is_own_request(request: JsonObject) -> bool:
    specs = request.get("tools")
    has_tools = is_array(specs) and any("input_schema" in as_mapping(spec) for spec in specs)
    is_for_claude = "max_tokens" in request and str(request.get("model")).startswith("claude")
    return "system" in request or has_tools or is_for_claude


def _has_own_blocks(message: JsonObject) -> bool:
    content = message.get("content")
    for block in content if is_array(content) else ():
        fields = as_mapping(block)
        kind = fields.get("type")
        if isinstance(kind, str) and (kind in _OWN_BLOCKS or "signature" in fields):
            return True
    return message.get("type") == "message"


def _read_message(message: JsonObject, spot: Spot, log: IssueLog) -> list[SessionEvent]:
    role = message["role"]
    if role not in _ROLES:
        log.note(spot.key("role"), f"{role!r:.40} is unknown; the message is left out")
        return []
    parts = read_content(message.get("content"), spot.key("content"), log)
    if role == "assistant":
        made_by = read_made_by(message)
        known = _KNOWN_FIELDS if made_by is None else _KNOWN_FIELDS | REPLY_FIELDS
        metadata = _kept(message, known)
        body = AssistantBody(parts=parts, made_by=made_by)
        return [SessionEvent(body=body, origin="model", metadata=metadata)]
    metadata = _kept(message, _KNOWN_FIELDS)
    if role == "system":
        told = SystemBody(parts=parts)
        return [SessionEvent(body=told, origin="developer", metadata=metadata)]
    return user_events(parts, metadata=metadata)


def _kept(message: JsonObject, known: frozenset[str]) -> JsonObject:
    kept = left_over(message, known)
    return {PROVIDER: kept} if kept else {}


def _read_tool(spec: JsonObject, spot: Spot, log: IssueLog) -> ToolSpec | None:
    if not isinstance(name := spec.get("name"), str):
        return None
    kind, schema = spec.get("type"), spec.get("input_schema")
    if kind is not None and not isinstance(kind, str):
        return None
    if kind not in (None, "custom"):
        return native_spec(name, spec, provider=PROVIDER)
    if not is_object(schema):
        log.note(
            spot.key("input_schema"), "is no schema; the tool is read as one without arguments"
        )
    log.count_unplaced(spot, left_over(spec, _KNOWN_OF_TOOLS), kind="tools")
    return function_spec(name, spec, schema=schema)


def _write_event(event: SessionEvent, messages: list[_Message]) -> None:
    kept = dict(as_mapping(event.metadata.get(PROVIDER)))
    match event.body:
        case UserBody(parts=parts):
            results = [part for part in parts if isinstance(part, ToolResult)]
            for result in results:
                _append_result(messages, result)
            said = tuple(part for part in parts if not isinstance(part, ToolResult))
            if said or kept or not results:
                messages.append({**kept, "role": "user", "content": write_blocks(said)})
        case SystemBody(parts=parts):
            messages.append({**kept, "role": "system", "content": write_blocks(parts)})
        case AssistantBody(parts=parts):
            messages.append({**kept, "role": "assistant", "content": write_blocks(parts)})
        case ToolCallBody(call=call):
            _append_block(messages, "assistant", write_block(call), opens=True)
        case ToolResultBody(result=result):
            _append_result(messages, result)
        case CompactionBody(summary=summary):
            messages.append({"role": "user", "content": [write_block(Text(summary))]})
        case _:
            assert_never(event.body)


def _append_result(messages: list[_Message], result: ToolResult) -> None:
    _append_block(messages, "user", write_block(result), opens=_holds_results(messages))


def _holds_results(messages: list[_Message]) -> bool:
    """Whether the last message holds results and nothing else, so that another may join them."""
    if not messages or messages[-1]["role"] != "user" or not messages[-1]["content"]:
        return False
    return all(block.get("type") == "tool_result" for block in messages[-1]["content"])


def _append_block(messages: list[_Message], role: str, block: Json, *, opens: bool) -> None:
    if opens and messages and messages[-1]["role"] == role:
        messages[-1]["content"].append(block)
    else:
        messages.append({"role": role, "content": [block]})
