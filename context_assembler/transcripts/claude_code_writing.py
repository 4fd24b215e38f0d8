"""Events as the rows of a Claude Code session."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import Final, TypeAlias, assert_never

from context_assembler.transcripts.anthropic_spelling import write_block, write_blocks
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    Provenance,
    SessionEvent,
    SystemBody,
    ToolCallBody,
    ToolResultBody,
    UserBody,
)
from context_assembler.values.native.anthropic_containers import write_container
from context_assembler.values.native.anthropic_texts import readable_text
from context_assembler.values.parts import Json, Part, ToolResult

_Row: TypeAlias = dict[str, Json]

# Names what has no UUID of its own, always alike.
_NAMESPACE: Final = uuid.UUID("6b1d7a52-6a0e-5d0c-9d61-0a1c7cfd3d1e")
_SESSION_ID: Final = str(uuid.uuid5(_NAMESPACE, "session"))
_REMINDER: Final = "<system-reminder>\n{}\n</system-reminder>"


def write_rows(events: Sequence[SessionEvent]) -> Iterator[_Row]:
    """Yield the rows of the events, each the child of the one before it.

    Places count what the rows are read as: a boundary is one with its summary, and what a user says
    beside results stands by itself.
    """
    parent: str | None = None
    place = 1
    for event in events:
        first_id = _row_id(event.id, place)
        for number, row in enumerate(_rows_of(event, place)):
            row_id = first_id if number == 0 else _next_id(first_id, number)
            is_boundary = row.get("subtype") == "compact_boundary"
            place += not is_boundary
            origin = {"parentUuid": None if is_boundary else parent}
            if is_boundary:
                origin["logicalParentUuid"] = parent
            yield {**origin, **_head(event), **row, "uuid": row_id}
            parent = row_id


def _rows_of(event: SessionEvent, place: int) -> list[_Row]:
    match event.body:
        case UserBody(parts=parts):
            meta: _Row = {"isMeta": True} if event.origin == "developer" else {}
            results = [part for part in parts if isinstance(part, ToolResult)]
            said = tuple(part for part in parts if not isinstance(part, ToolResult))
            rows = [_user_row([write_block(result)]) for result in results]
            return [*rows, *([{**_user_row(_content(said)), **meta}] if said or not rows else [])]
        case SystemBody(parts=parts):
            text = readable_text(write_blocks(parts))
            return [{**_user_row(_REMINDER.format(text)), "isMeta": True}]
        case AssistantBody(parts=parts, made_by=made_by):
            return [_reply_row(write_blocks(parts), made_by, place)]
        case ToolCallBody(call=call, made_by=made_by):
            return [_reply_row([write_block(call)], made_by, place)]
        case ToolResultBody(result=result):
            return [_user_row([write_block(result)])]
        case CompactionBody(summary=summary, native=native):
            if native and not summary.strip():
                return []  # sealed: what it covers is what others can read
            boundary: _Row = {"type": "system", "subtype": "compact_boundary"}
            boundary |= {"content": "Conversation compacted", "compactMetadata": {}}
            return [boundary, {**_user_row(summary), "isCompactSummary": True}]
        case _:
            assert_never(event.body)


def _head(event: SessionEvent) -> Mapping[str, Json]:
    head: _Row = {"isSidechain": False, "userType": "external", "sessionId": _SESSION_ID}
    if event.created_at is not None:
        moment = event.created_at.astimezone(UTC).isoformat(timespec="microseconds")
        head["timestamp"] = moment.replace("+00:00", "Z")
    return head


def _user_row(content: Json) -> _Row:
    return {"type": "user", "message": {"role": "user", "content": content}}


def _reply_row(blocks: Sequence[Json], made_by: Provenance | None, place: int) -> _Row:
    message: _Row = {
        "id": f"msg_{place}",
        "type": "message",
        "role": "assistant",
        "model": "<synthetic>",
        "content": list(blocks),
        "stop_reason": None,
    }
    if made_by is not None:
        message["model"] = made_by.model
        message["stop_reason"] = made_by.stop_reason
        message["id"] = made_by.response_id or message["id"]
        if made_by.container is not None:
            message["container"] = write_container(made_by.container)
        if (usage := made_by.usage) is not None:
            cached = usage.cache_read_tokens + usage.cache_write_tokens
            message["usage"] = {
                "input_tokens": usage.input_tokens - cached,
                "output_tokens": usage.output_tokens,
                "cache_read_input_tokens": usage.cache_read_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens,
            }
    return {"type": "assistant", "message": message}


def _content(parts: tuple[Part, ...]) -> Json:
    blocks = write_blocks(parts)
    is_plain = len(blocks) == 1 and blocks[0].keys() == {"type", "text"} and blocks[0]["text"]
    return blocks[0]["text"] if is_plain else blocks


def _row_id(event_id: str, place: int) -> str:
    if _is_uuid(event_id):
        return event_id
    return str(uuid.uuid5(_NAMESPACE, f"{place}/0/{event_id!a}"))


def _next_id(first_id: str, number: int) -> str:
    """Return the id of a further row of an event, wherever the event stands."""
    return str(uuid.uuid5(_NAMESPACE, f"{first_id}/{number}"))


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
