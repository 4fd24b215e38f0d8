"""Messages of OpenAI's Chat Completions, also as tau-bench and other tools keep them.

Normal form: what `write` gives and `read` keeps. One text is a plain string; `tool_calls` hold id,
type and function; the old `function_call` is a tool call. Message fields without a place in a
session (`name`, `annotations` …) are kept in the event's metadata under `openai_chat` and come back.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias, assert_never

from context_assembler.ports import ReadTranscript
from context_assembler.transcripts.issues import IssueLog
from context_assembler.transcripts.message_lists import (
    events_to_write,
    find_messages,
    finish,
    read_messages,
    read_tools,
)
from context_assembler.transcripts.openai_messages import ROLES, read_message, read_tool
from context_assembler.transcripts.openai_parts import (
    PROVIDER,
    write_content,
)
from context_assembler.transcripts.parsing import as_mapping, dump_json_text, left_over
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    SessionEvent,
    SystemBody,
    ToolCallBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.native.chat_calls import write_custom
from context_assembler.values.parts import (
    Json,
    JsonObject,
    Part,
    Thinking,
    ToolCall,
    ToolResult,
)

_Message: TypeAlias = dict[str, Json]


class OpenAIChatTranscript:
    """Reads and writes Chat Completions messages.

    Also read: calls with their arguments as an object, results with `id` and `error` (tau2), and
    `traj` in place of `messages` (tau-bench).
    """

    name: str = "openai_chat"

    def read(self, source: Any, *, name: str = "transcript") -> ReadTranscript:
        """Turn a list of messages, a request, or JSON Lines of either into events.

        Raises:
            TranscriptError: The source holds no messages, or those of several sessions.
        """
        log = IssueLog()
        found = find_messages(source, name=name, log=log)
        events = read_messages(found, name=name, read=read_message, log=log)
        specs = found.request.get("tools") or found.request.get("functions")
        tools = read_tools(specs, read=read_tool, log=log)
        metadata = left_over(found.request, frozenset({"tools", "functions"}))
        return finish(events, log=log, tools=tools, metadata=metadata)

    def write(self, events: Iterable[SessionEvent]) -> str:
        """Return the messages as a JSON list; what a compaction covers is left to its summary."""
        messages: list[_Message] = []
        for event in events_to_write(events):
            if isinstance(event.body, ToolCallBody) and messages and _is_open(messages[-1]):
                calls = messages[-1].setdefault("tool_calls", [])
                calls.append(_write_call(event.body.call))
            else:
                messages.extend(_write_event(event))
        return dump_json_text(messages, indent=2) + "\n"

    def matches(self, source: Any) -> bool:
        """Whether the source holds messages with a role this format knows."""
        try:
            found = find_messages(source, name="transcript", log=IssueLog())
        except ValueError:
            return False
        roles = [as_mapping(message).get("role") for _, message in found.messages]
        return any(isinstance(role, str) and role in ROLES for role in roles)


def _is_open(message: _Message) -> bool:
    return bool(message["role"] == "assistant")


def _write_event(event: SessionEvent) -> list[_Message]:
    kept = dict(as_mapping(event.metadata.get(PROVIDER)))
    match event.body:
        case UserBody(parts=parts):
            results = [_write_result(part, {}) for part in parts if isinstance(part, ToolResult)]
            return [*results, {**kept, "role": "user", "content": write_content(parts)}]
        case AssistantBody(parts=parts):
            return [_write_reply(parts, kept)]
        case ToolCallBody(call=call):
            return [_write_reply((call,), kept)]
        case ToolResultBody(result=result):
            return [_write_result(result, kept)]
        case CompactionBody(summary=summary):
            return [{"role": "user", "content": summary}]
        case SystemBody(parts=parts):
            return [{"role": "system", **kept, "content": write_content(parts)}]
        case _:
            assert_never(event.body)


def _write_reply(parts: tuple[Part, ...], kept: JsonObject) -> _Message:
    message: _Message = {**kept, "role": "assistant", "content": write_content(parts) or None}
    reasoning = [part for part in parts if isinstance(part, Thinking) and not _is_content(part)]
    if text := "\n".join(part.text for part in reasoning if part.text):
        message["reasoning_content"] = text
    for part in reasoning:
        message |= part.block or {} if part.provider == PROVIDER else {}
    if calls := [_write_call(part) for part in parts if isinstance(part, ToolCall)]:
        message["tool_calls"] = calls
    return message


def _is_content(part: Thinking) -> bool:
    """Whether the part stands among the content, as Mistral has it, not beside it."""
    return part.provider == PROVIDER and "type" in (part.block or {})


def _write_call(call: ToolCall) -> _Message:
    custom = write_custom(call, call_id=call.call_id, name=call.name)
    if custom is not None:
        return custom
    spelled = call.arguments_json
    arguments = dump_json_text(call.arguments) if spelled is None else spelled
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _write_result(result: ToolResult, kept: JsonObject) -> _Message:
    named = {} if result.tool_name is None else {"name": result.tool_name}
    content = write_content(result.content)
    return {
        **kept,
        "role": "tool",
        "tool_call_id": result.call_id,
        **named,
        "content": content,
    }
