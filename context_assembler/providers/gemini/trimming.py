"""Fields of parts that the API, or the SDK in front of it, would refuse."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from context_assembler.values.json_shapes import is_object
from context_assembler.values.messages import Message
from context_assembler.values.native.gemini_fields import (
    KINDS,
    MARKS,
    NOT_ON_VERTEX,
    RESPONSE_MARKS,
    RESPONSE_MARKS_NOT_ON_VERTEX,
    own_extras,
    split_fields,
)
from context_assembler.values.native.gemini_parts import PROVIDER
from context_assembler.values.parts import (
    Json,
    JsonObject,
    Opaque,
    Part,
    Text,
    ToolCall,
    ToolResult,
)
from context_assembler.values.report import ReportEntry

_NESTED: Final = frozenset({"function_call", "function_response"})


def trim_fields(
    messages: Sequence[Message], *, is_vertex: bool
) -> tuple[tuple[Message, ...], list[ReportEntry]]:
    """Return the messages without fields that cannot be sent, and a row for each that lost one.

    The SDK refuses fields that it does not know, and some on one of the two hosts.

    Source:
        google-genai 3.6: `google.genai.types` forbids extra fields; `_Part_to_vertex`,
        `_FunctionResponse_to_vertex`, `_FunctionCall_to_mldev` (read 2026-11-27)
    """
    trimmed: list[Message] = []
    rows: list[ReportEntry] = []
    for message in messages:
        lost: list[str] = []
        parts = tuple(_trim(part, lost, is_vertex=is_vertex) for part in message.parts)
        trimmed.append(replace(message, parts=parts) if lost else message)
        if lost:
            named = ", ".join(dict.fromkeys(lost))
            rows.append(
                ReportEntry(
                    kind="message",
                    id=message.id or message.note or message.kind,
                    decision="repaired",
                    reason=f"Fields that the API does not take are not sent: {named}.",
                    rule="content.fields",
                )
            )
    return tuple(trimmed), rows


def _trim(part: Part, lost: list[str], *, is_vertex: bool) -> Part:
    match part:
        case Text() | ToolCall() | ToolResult() if own_extras(part.extras, provider=PROVIDER):
            before = len(lost)
            extras = own_extras(part.extras, provider=PROVIDER)
            kept = dict(_sendable(extras, lost, is_vertex=is_vertex))
            if len(lost) == before:
                return part
            return replace(part, extras={**(part.extras or {}), PROVIDER: kept})
        case Opaque(provider=provider, block=block) if provider == PROVIDER:
            known = KINDS | MARKS - (NOT_ON_VERTEX if is_vertex else frozenset())
            _, rest = split_fields(block, known)
            lost.extend(rest)
            kept = {key: held for key, held in block.items() if key not in rest}
            return replace(part, block=kept) if rest else part
        case _:  # signed thoughts go back as they came; the others have no fields of their own
            return part


def _sendable(
    extras: JsonObject, lost: list[str], *, is_vertex: bool
) -> Iterator[tuple[str, Json]]:
    known = MARKS - (NOT_ON_VERTEX if is_vertex else frozenset())
    fields, rest = split_fields(extras, known | _NESTED)
    lost.extend(rest)
    for key, held in fields.items():
        if key not in _NESTED:
            yield key, held
            continue
        inside, left = split_fields(
            held if is_object(held) else {}, _known_in(key, is_vertex=is_vertex)
        )
        lost.extend(f"{key}.{name}" for name in left)
        if inside:
            yield key, inside


def _known_in(key: str, *, is_vertex: bool) -> frozenset[str]:
    if key == "function_call":
        return frozenset()
    return RESPONSE_MARKS - (RESPONSE_MARKS_NOT_ON_VERTEX if is_vertex else frozenset())
