"""Events as items of Responses."""

from typing import assert_never

from context_assembler.transcripts.openai_responses_content import write_content
from context_assembler.transcripts.parsing import as_mapping
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    SessionEvent,
    SystemBody,
    ToolCallBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.native.native_calls import with_answered_id
from context_assembler.values.native.response_items import (
    MARKS_OF_TEXT,
    PROVIDER,
    Entry,
    copy_call,
    own_extras,
)
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
from context_assembler.values.reading import as_text


def write_event(event: SessionEvent) -> list[Entry]:
    """Return the items of one event."""
    kept = dict(as_mapping(event.metadata.get(PROVIDER)))
    match event.body:
        case UserBody(parts=parts):
            results = [_write_result(part, {}) for part in parts if isinstance(part, ToolResult)]
            return [*results, *_write_input("user", parts, kept)]
        case SystemBody(parts=parts):
            return _write_input("developer", parts, kept)
        case AssistantBody(parts=parts):
            return _write_reply(parts)
        case ToolCallBody(call=call):
            return [copy_call(call)]
        case ToolResultBody(result=result):
            return [_write_result(result, kept)]
        case CompactionBody(summary=summary, native=native):
            own = [dict(part.block) for part in native if part.provider == PROVIDER]
            return own or [{"type": "message", "role": "user", "content": summary}]
        case _:
            assert_never(event.body)


def _write_input(role: str, parts: tuple[Part, ...], kept: JsonObject) -> list[Entry]:
    """Return a message, and behind it the items that stand for themselves."""
    items = [dict(part.block) for part in parts if isinstance(part, Opaque) and _is_entry(part)]
    said = tuple(part for part in parts if not (isinstance(part, Opaque) and _is_entry(part)))
    is_message = bool(said) or not items
    head: Entry = {"type": "message", "role": role, **kept, "content": write_content(said)}
    return [head, *items] if is_message else items


def _is_entry(part: Opaque) -> bool:
    is_piece = as_text(part.block.get("type")).startswith(("input_", "output_text", "refusal"))
    return part.provider == PROVIDER and not is_piece


def _write_reply(parts: tuple[Part, ...]) -> list[Entry]:
    items: list[Entry] = []
    open_id = ""
    for part in parts:
        extras = own_extras(part) if isinstance(part, Text) else {}
        message_id = as_text(extras.get("id"))
        if message_id and message_id == open_id and isinstance(part, Text):
            items[-1]["content"].append(_output_text(part.text, extras))
            continue
        items.extend(_write_part(part))
        open_id = message_id
    return items


def _write_part(part: Part) -> list[Entry]:
    match part:
        case Text(text):
            return [_write_text(text, own_extras(part))]
        case Thinking():
            return [_write_thinking(part)]
        case ToolCall():
            return [copy_call(part)]
        case ToolResult():
            return [_write_result(part, {})]
        case Opaque() if _is_entry(part):
            return [dict(part.block)]
        case Opaque() | Image() | Document():
            content = write_content((part,))
            return [{"type": "message", "role": "assistant", "content": content}] if content else []
        case _:
            assert_never(part)


def _write_text(text: str, extras: JsonObject) -> Entry:
    """Return a message: plain text, unless it has an id or marks of its own."""
    beside = {key: value for key, value in extras.items() if key not in MARKS_OF_TEXT}
    is_plain = "id" not in extras and not any(key in extras for key in MARKS_OF_TEXT)
    content: Json = text if is_plain else [_output_text(text, extras)]
    return {"type": "message", "role": "assistant", **beside, "content": content}


def _output_text(text: str, extras: JsonObject) -> Entry:
    nothing: list[Json] = []
    marks = {key: extras[key] for key in MARKS_OF_TEXT if key in extras}
    return {"type": "output_text", "text": text, "annotations": nothing, **marks}


def _write_thinking(part: Thinking) -> Entry:
    if part.provider == PROVIDER:
        whole = dict(part.block or {}) or own_extras(part)
        if whole:
            return whole
    summary = [{"type": "summary_text", "text": part.text}] if part.text else list[Json]()
    return {"type": "reasoning", "summary": summary}


def _write_result(result: ToolResult, kept: JsonObject) -> Entry:
    own = result.content[0] if len(result.content) == 1 else None
    if isinstance(own, Opaque) and own.provider == PROVIDER and _is_entry(own):
        return with_answered_id(own.block, result.call_id)
    output = write_content(result.content)
    head: Entry = {"type": "function_call_output", **kept, **own_extras(result)}
    return {**head, "call_id": result.call_id, "output": output}
