"""OpenAI Responses as the local provider speaks it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from context_assembler.testing.openai_wire import MAX_BODY_BYTES, render_error
from context_assembler.testing.prompt_cache import PromptCache
from context_assembler.testing.segments import Segment
from context_assembler.testing.signatures import is_readable, sign_thinking
from context_assembler.testing.traffic import PlacedReply, RefusedRequestError, Wire
from context_assembler.values.events import Usage
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import Json, JsonObject, ToolCall
from context_assembler.values.reading import as_object
from context_assembler.values.wire import compact_json

_STREAM_FIELDS: Final = ("stream", "stream_options")
_BLOCKS: Final[Mapping[str, str]] = {
    "input_text": "text",
    "output_text": "text",
    "input_image": "image",
    "input_file": "file",
}
_SERVER_FIELDS: Final = ("id", "status")


def to_arguments(body: JsonObject, _headers: Mapping[str, str]) -> JsonObject:
    """Return the body without what only says how to answer."""
    return {key: value for key, value in body.items() if key not in _STREAM_FIELDS}


def to_messages(body: JsonObject) -> JsonObject:
    """Return the body with its items as messages of blocks, one for each and in their order."""
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = [_to_message(entry) for entry in (items if is_array(items) else ())]
    return {
        **body,
        "prompt_settings": _prompt_settings(body),
        "system": body.get("instructions"),
        "messages": messages,
    }


def _prompt_settings(body: JsonObject) -> JsonObject:
    """Return what of a request stands before its history beside instructions and tools.

    Source:
        https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (read 2026-11-27)
    """
    effort = as_object(body.get("reasoning")).get("effort")
    text_format = as_object(body.get("text")).get("format")
    told = {"reasoning.effort": effort, "text.format": text_format}
    return {key: value for key, value in told.items() if value is not None}


def find_objection(segments: Sequence[Segment], _limits: ModelLimits) -> str | None:
    """Return the message for encrypted reasoning that nobody here has made."""
    if all(segment.thinking is None or is_readable(segment) for segment in segments):
        return None
    return "The encrypted content could not be verified. Reason: it could not be decrypted."


def use_cache(
    cache: PromptCache, segments: Sequence[Segment], /, *, body: JsonObject, limits: ModelLimits
) -> Usage:
    """Return what the automatic cache reads."""
    del body  # breakpoints add to what is cached anyway
    return cache.use_implicit(segments, limits=limits)


def render_reply(placed: PlacedReply) -> JsonObject:
    """Return a `response` object; reasoning whose prefix changed was not used, which it tells.

    Source:
        https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (read 2026-11-27)
    """
    is_cut = placed.reply.settled_stop_reason == "max_tokens"
    return {
        "id": f"resp_{placed.number:04d}",
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "error": None,
        "model": placed.body["model"],
        "output": list(_output(placed)),
        "input_transformations": list(_transformations(placed)),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": list[Json](),
        "usage": _usage(placed.usage),
    }


def stream_reply(answer: JsonObject, _body: JsonObject) -> Iterator[str]:
    """Yield the events that add up to the answer."""
    for number, (kind, fields) in enumerate(_all_events(answer)):
        told = {"type": kind, "sequence_number": number, **fields}
        yield f"event: {kind}\ndata: {json.dumps(told)}\n\n"


def refuse_overlong(_tokens: int, _window_tokens: int) -> RefusedRequestError:
    """Return the error for a prompt that is longer than the window."""
    return RefusedRequestError(
        status=400,
        kind="invalid_request_error",
        code="context_length_exceeded",
        message="Your input exceeds the context window of this model. Please adjust your input and "
        "try again.",
    )


def _to_message(entry: Json) -> JsonObject:
    fields: JsonObject = entry if is_object(entry) else {}
    kind = fields.get("type") or "message"
    if kind == "message":
        return {"role": fields.get("role"), "content": _to_blocks(fields.get("content"))}
    if kind == "reasoning":
        sealed = fields.get("encrypted_content", "")
        thinking = {"type": "thinking", "thinking": "", "signature": sealed}
        return {"role": "assistant", "content": [thinking]}
    if kind == "function_call_output":
        output = _to_blocks(fields.get("output"))
        return {"role": "tool", "tool_call_id": fields.get("call_id"), "content": output}
    if kind == "function_call":
        function = {key: fields.get(key) for key in ("name", "arguments")}
        call = {"type": "function", "id": fields.get("call_id"), "function": function}
        return {"role": "assistant", "content": [call]}
    kept = {key: value for key, value in fields.items() if key not in _SERVER_FIELDS}
    return {"role": fields.get("role", "assistant"), "content": [kept]}


def _to_blocks(content: Json) -> Json:
    if not is_array(content):
        return content
    return [_to_block(piece) for piece in content if is_object(piece)]


def _to_block(piece: JsonObject) -> JsonObject:
    kind = str(piece.get("type"))
    return {**piece, "type": _BLOCKS.get(kind, kind)}


def _output(placed: PlacedReply) -> Iterator[JsonObject]:
    reply, number = placed.reply, f"{placed.number:04d}"
    if reply.thinking is not None and placed.limits.thinking.kinds:
        summary: list[Json] = []
        if _shows(placed):
            summary = [{"type": "summary_text", "text": reply.thinking}]
        sealed = sign_thinking("", limits=placed.limits, segments=placed.segments)
        yield {
            "type": "reasoning",
            "id": f"rs_{number}",
            "summary": summary,
            "encrypted_content": sealed,
        }
    if reply.text:
        yield {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary" if reply.tool_calls else "final_answer",
            "content": [_piece(placed)],
        }
    for index, call in enumerate(reply.tool_calls):
        yield _function_call(call, entry_id=f"fc_{number}_{index}")


def _shows(placed: PlacedReply) -> bool:
    """Whether a summary of the reasoning was asked for."""
    asked = placed.body.get("reasoning")
    return is_object(asked) and asked.get("summary") is not None


def _piece(placed: PlacedReply) -> JsonObject:
    if placed.reply.settled_stop_reason == "refusal":
        return {"type": "refusal", "refusal": placed.reply.text}
    nothing: list[Json] = []
    return {"type": "output_text", "text": placed.reply.text, "annotations": nothing}


def _function_call(call: ToolCall, *, entry_id: str) -> JsonObject:
    return {
        "type": "function_call",
        "id": entry_id,
        "status": "completed",
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments_json or compact_json(call.arguments),
    }


def _transformations(placed: PlacedReply) -> Iterator[JsonObject]:
    """Yield a row for each reasoning item that was left out."""
    for row in placed.left_out:
        number = int(row.path.split(".")[1])
        entry_id = placed.body["input"][number].get("id", "")
        reason = "model_mismatch" if row.reason == "model_mismatch" else "prefix_mismatch"
        yield {"type": "reasoning", "id": entry_id, "action": "removed", "reason": reason}


def _usage(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _all_events(answer: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    nothing: list[Json] = []
    opening = {**answer, "status": "in_progress", "output": nothing, "usage": None}
    yield "response.created", {"response": opening}
    for index, entry in enumerate(answer["output"]):
        yield from _events(index, entry)
    yield f"response.{answer['status']}", {"response": answer}


def _events(index: int, entry: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    at = {"output_index": index, "item_id": entry["id"]}
    yield "response.output_item.added", {"output_index": index, "item": _hollow(entry)}
    if entry["type"] == "message" and entry["content"][0]["type"] == "output_text":
        piece, place = entry["content"][0], {**at, "content_index": 0}
        opened = {**piece, "text": ""}
        yield "response.content_part.added", {**place, "part": opened}
        for half in _halves(piece["text"]):
            yield "response.output_text.delta", {**place, "delta": half, "logprobs": []}
        yield "response.output_text.done", {**place, "text": piece["text"], "logprobs": []}
        yield "response.content_part.done", {**place, "part": piece}
    elif entry["type"] == "function_call":
        for half in _halves(entry["arguments"]):
            yield "response.function_call_arguments.delta", {**at, "delta": half}
        told = {"arguments": entry["arguments"], "name": entry["name"]}
        yield "response.function_call_arguments.done", {**at, **told}
    yield "response.output_item.done", {"output_index": index, "item": entry}


def _hollow(entry: JsonObject) -> JsonObject:
    nothing: list[Json] = []
    if entry["type"] == "message":
        return {**entry, "content": nothing}
    return {**entry, "arguments": ""} if entry["type"] == "function_call" else entry


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


RESPONSES_WIRE: Final = Wire(
    provider="openai_responses",
    path="/v1/responses",
    to_arguments=to_arguments,
    to_messages=to_messages,
    find_objection=find_objection,
    use_cache=use_cache,
    render_reply=render_reply,
    stream_reply=stream_reply,
    render_error=render_error,
    refuse_overlong=refuse_overlong,
    max_body_bytes=MAX_BODY_BYTES,
)
