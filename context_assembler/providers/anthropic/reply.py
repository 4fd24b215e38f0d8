"""A reply of the Messages API as parts."""

from collections.abc import Mapping
from typing import Any, Final

from context_assembler.errors import ReplyError
from context_assembler.providers.anthropic.blocks import PROVIDER, THINKING_TYPES
from context_assembler.providers.anthropic.stream import join_events
from context_assembler.providers.anthropic.units import tool_names
from context_assembler.values.arguments import parse_arguments
from context_assembler.values.bounding import within_bounds
from context_assembler.values.draft import Draft, Reply
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.anthropic_containers import read_container
from context_assembler.values.native.anthropic_texts import describe_block
from context_assembler.values.native.anthropic_usage import read_usage
from context_assembler.values.native.gathered_stream import pieces_of
from context_assembler.values.parts import Json, JsonObject, Opaque, Part, Text, Thinking, ToolCall
from context_assembler.values.reading import as_object, as_text, objects_in
from context_assembler.values.unfinished import last_call_of, say_unfinished
from context_assembler.values.wire import object_of

_READ_OF_CALLS: Final = frozenset({"type", "id", "name", "input"})
_CUT_OFF: Final = frozenset({None, "max_tokens", "model_context_window_exceeded"})


def matches_reply(reply: Any) -> bool:
    """Whether the reply is a message of this API: an SDK object, its dict, or a stream's events."""
    body = _body_of(reply)
    return (
        body is not None and body.get("type") == "message" and isinstance(body.get("content"), list)
    )


def read_reply(reply: Any, draft: Draft | None = None) -> Reply:
    """Return the reply's parts in their order.

    Thinking and server-tool blocks are kept verbatim, and calls with all their fields. Tools get
    back the names they have in the draft.

    Raises:
        ReplyError: The reply is no message of this API.
    """
    body = _body_of(reply)
    if body is None:
        raise ReplyError(reply, reason="it is neither a dict nor an SDK object")
    content = body.get("content")
    if not is_array(content) or not all(map(is_object, content)):
        raise ReplyError(reply, reason="it has no list of content blocks")
    original_names, usage = _original_names(draft), as_object(body.get("usage"))
    warnings: list[str] = []
    parts: list[Part] = []
    for _, block in objects_in(content):
        part = _read_block(block, original_names, warnings)
        if part is not None:
            parts.append(part)
    stop_reason = as_text(body.get("stop_reason")) or None
    is_cut_off = stop_reason in _CUT_OFF and "stop_reason" in body
    unfinished = last_call_of(parts) if is_cut_off else ()
    warnings += map(say_unfinished, unfinished)
    return Reply(
        provider=PROVIDER,
        model=as_text(body.get("model")),
        parts=tuple(parts),
        unfinished_calls=unfinished,
        response_id=as_text(body.get("id")) or None,
        stop_reason=stop_reason,
        usage=read_usage(usage) if usage else None,
        container=read_container(body.get("container")),
        warnings=tuple(warnings),
    )


def _body_of(reply: Any) -> dict[str, Json] | None:
    return join_events(pieces_of(reply)) if is_array(reply) else object_of(reply)


def _original_names(draft: Draft | None) -> dict[str, str]:
    return {} if draft is None else {sent: name for name, sent in tool_names(draft).items()}


def _read_block(
    block: JsonObject, original_names: Mapping[str, str], warnings: list[str]
) -> Part | None:
    if block.get("type") == "tool_use":
        return _read_call(block, original_names, warnings)
    block, changes = within_bounds(block)
    warnings += changes
    kind, text = block.get("type"), block.get("text")
    if kind == "text" and isinstance(text, str) and not block.get("citations"):
        return Text(text) if text else None
    if kind in THINKING_TYPES:
        is_signed = bool(block.get("signature") or block.get("data"))
        return Thinking(
            text=as_text(block.get("thinking")),
            provider=PROVIDER,
            block=block if is_signed else None,
        )
    own = {key: value for key, value in block.items() if key != "parsed_output"}  # the SDK's
    return Opaque(provider=PROVIDER, block=own, text=describe_block(own))


def _read_call(
    block: JsonObject, original_names: Mapping[str, str], warnings: list[str]
) -> ToolCall:
    call_id, sent_name = as_text(block.get("id")), as_text(block.get("name"))
    name, given = original_names.get(sent_name, sent_name), block.get("input")
    read = parse_arguments(given or None)
    if read.problem:
        warnings.append(f"The arguments of call {call_id!r} {read.problem}.")
    beside = {k: v for k, v in block.items() if k not in _READ_OF_CALLS and v is not None}
    kept, changes = within_bounds(beside)
    warnings += changes
    return ToolCall(
        call_id=call_id,
        name=name,
        arguments=read.arguments,
        arguments_json=read.spelled,
        extras={PROVIDER: kept} if kept else None,
    )
