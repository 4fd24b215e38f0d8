"""The Anthropic Messages API as the local provider speaks it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from context_assembler.testing.prompt_cache import PromptCache
from context_assembler.testing.segments import Segment
from context_assembler.testing.signatures import find_bad_thinking, sign_thinking
from context_assembler.testing.traffic import PlacedReply, RefusedRequestError, Wire
from context_assembler.values.events import Usage
from context_assembler.values.json_shapes import is_object
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import JsonObject, ToolCall

_SAMPLING: Final = ("temperature", "top_p", "top_k")
_OLD_VERSION: Final = "2023-06-01"
_EMPTY: Final[Mapping[str, JsonObject]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}


def to_arguments(body: JsonObject, headers: Mapping[str, str]) -> JsonObject:
    """Return the arguments behind a body; sampling travels as `extra_body` with the old version."""
    arguments = {key: value for key, value in body.items() if key != "stream"}
    if headers.get("anthropic-version") == _OLD_VERSION:
        sampling = {key: arguments.pop(key) for key in _SAMPLING if key in arguments}
        arguments["extra_headers"] = {"anthropic-version": _OLD_VERSION}
        arguments["extra_body"] = sampling
    return arguments


def find_objection(segments: Sequence[Segment], limits: ModelLimits) -> str | None:
    """Return the message for signed thinking that does not belong here."""
    return find_bad_thinking(segments, limits=limits)


def use_cache(
    cache: PromptCache, segments: Sequence[Segment], /, *, body: JsonObject, limits: ModelLimits
) -> Usage:
    """Return what the marked breakpoints read and write."""
    return cache.use_marked(segments, body=body, limits=limits)


def render_reply(placed: PlacedReply) -> JsonObject:
    """Return a `message` object."""
    return {
        "id": f"msg_{placed.number:04d}",
        "type": "message",
        "role": "assistant",
        "model": placed.body["model"],
        "content": _content(placed),
        "stop_reason": placed.reply.settled_stop_reason,
        "stop_sequence": None,
        "usage": _usage(placed.usage),
    }


def stream_reply(answer: JsonObject, _body: JsonObject) -> Iterator[str]:
    """Yield the events that add up to the answer."""
    usage = answer["usage"]
    opening: dict[str, Any] = {
        **answer,
        "content": [],
        "stop_reason": None,
        "usage": usage | {"output_tokens": 1},
    }
    yield _event("message_start", message=opening)
    for index, block in enumerate(answer["content"]):
        hollow = block | _EMPTY[block["type"]]
        yield _event("content_block_start", index=index, content_block=hollow)
        for delta in _deltas(block):
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    end = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=end, usage={"output_tokens": usage["output_tokens"]})
    yield _event("message_stop")


def render_error(refused: RefusedRequestError) -> JsonObject:
    """Return an error object."""
    error = {"type": refused.kind, "message": refused.message}
    return {"type": "error", "error": error, "request_id": "req_local"}


def refuse_overlong(tokens: int, window_tokens: int) -> RefusedRequestError:
    """Return the error for a prompt that is longer than the window."""
    return RefusedRequestError(
        status=400,
        kind="invalid_request_error",
        message=f"prompt is too long: {tokens} tokens > {window_tokens} maximum",
    )


def _content(placed: PlacedReply) -> list[JsonObject]:
    return [*_thinking(placed), *_text(placed.reply.text), *map(_tool_use, placed.reply.tool_calls)]


def _thinking(placed: PlacedReply) -> Iterator[JsonObject]:
    """Yield the thinking block: with an empty text where the model shows it on request only."""
    kinds = placed.limits.thinking.kinds
    if placed.reply.thinking is None or not kinds:
        return
    config = placed.body.get("thinking")
    is_shown = kinds == ("budget",) or (is_object(config) and config.get("display") == "summarized")
    text = placed.reply.thinking if is_shown else ""
    signature = sign_thinking(text, limits=placed.limits, segments=placed.segments)
    yield {"type": "thinking", "thinking": text, "signature": signature}


def _text(text: str) -> Iterator[JsonObject]:
    if text:
        yield {"type": "text", "text": text, "citations": None}


def _tool_use(call: ToolCall) -> JsonObject:
    called = {"id": call.call_id, "name": call.name, "input": dict(call.arguments)}
    return {"type": "tool_use", **called}


def _usage(usage: Usage) -> dict[str, int]:
    cached_tokens = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens - cached_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }


def _deltas(block: JsonObject) -> Iterator[JsonObject]:
    match block["type"]:
        case "text":
            for piece in _halves(block["text"]):
                yield {"type": "text_delta", "text": piece}
        case "thinking":
            for piece in _halves(block["thinking"]):
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case _:
            for piece in _halves(json.dumps(block["input"])):
                yield {"type": "input_json_delta", "partial_json": piece}


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


ANTHROPIC_WIRE: Final = Wire(
    provider="anthropic",
    path="/v1/messages",
    to_arguments=to_arguments,
    find_objection=find_objection,
    use_cache=use_cache,
    render_reply=render_reply,
    stream_reply=stream_reply,
    render_error=render_error,
    refuse_overlong=refuse_overlong,
)
