"""OpenAI Chat Completions as the local provider speaks it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from context_assembler.testing.prompt_cache import PromptCache
from context_assembler.testing.segments import Segment
from context_assembler.testing.traffic import PlacedReply, RefusedRequestError, Wire
from context_assembler.values.events import Usage
from context_assembler.values.json_shapes import is_object
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import JsonObject, ToolCall
from context_assembler.values.wire import compact_json

_FINISH_REASONS: Final[Mapping[str, str]] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}
# https://developers.openai.com/api/docs/guides/images-vision (read 2026-11-27)
MAX_BODY_BYTES: Final = 512 * 1024 * 1024
_STREAM_FIELDS: Final = ("stream", "stream_options")


def to_arguments(body: JsonObject, _headers: Mapping[str, str]) -> JsonObject:
    """Return the body without what only says how to answer."""
    return {key: value for key, value in body.items() if key not in _STREAM_FIELDS}


def find_objection(_segments: Sequence[Segment], _limits: ModelLimits) -> str | None:
    """Return `None`: this wire carries no thinking."""
    return None


def use_cache(
    cache: PromptCache, segments: Sequence[Segment], /, *, body: JsonObject, limits: ModelLimits
) -> Usage:
    """Return what the automatic cache reads."""
    del body  # this wire marks no breakpoints
    return cache.use_implicit(segments, limits=limits)


def render_reply(placed: PlacedReply) -> JsonObject:
    """Return a `chat.completion` object."""
    finish_reason = _FINISH_REASONS.get(placed.reply.settled_stop_reason, "stop")
    choice = {
        "index": 0,
        "message": _message(placed),
        "finish_reason": finish_reason,
        "logprobs": None,
    }
    return {
        "id": f"chatcmpl-{placed.number:04d}",
        "object": "chat.completion",
        "created": 0,
        "model": placed.body["model"],
        "choices": [choice],
        "usage": _usage(placed.usage),
    }


def stream_reply(answer: JsonObject, body: JsonObject) -> Iterator[str]:
    """Yield the chunks that add up to the answer."""
    choice = answer["choices"][0]
    for delta in _deltas(choice["message"]):
        yield _chunk(answer, [{"index": 0, "delta": delta, "finish_reason": None}])
    yield _chunk(answer, [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}])
    options = body.get("stream_options")
    if is_object(options) and options.get("include_usage"):
        yield _chunk(answer, [], usage=answer["usage"])
    yield "data: [DONE]\n\n"


def render_error(refused: RefusedRequestError) -> JsonObject:
    """Return an error object."""
    error = {"message": refused.message, "type": refused.kind, "param": None, "code": refused.code}
    return {"error": error}


def refuse_overlong(tokens: int, window_tokens: int) -> RefusedRequestError:
    """Return the error for a prompt that is longer than the window."""
    return RefusedRequestError(
        status=400,
        kind="invalid_request_error",
        code="context_length_exceeded",
        message=f"This model's maximum context length is {window_tokens} tokens. However, your "
        f"messages resulted in {tokens} tokens. Please reduce the length of the messages.",
    )


def _message(placed: PlacedReply) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": placed.reply.text or None,
        "refusal": None,
    }
    if placed.reply.tool_calls:
        message["tool_calls"] = list(map(_tool_call, placed.reply.tool_calls))
    return message


def _tool_call(call: ToolCall) -> JsonObject:
    arguments = call.arguments_json or compact_json(call.arguments)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _usage(usage: Usage) -> JsonObject:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _deltas(message: JsonObject) -> Iterator[JsonObject]:
    yield {"role": "assistant", "content": ""}
    text = message["content"] or ""
    middle = len(text) // 2
    for piece in filter(None, (text[:middle], text[middle:])):
        yield {"content": piece}
    for index, call in enumerate(message.get("tool_calls", [])):
        opening = call | {"index": index, "function": call["function"] | {"arguments": ""}}
        yield {"tool_calls": [opening]}
        yield {
            "tool_calls": [
                {"index": index, "function": {"arguments": call["function"]["arguments"]}}
            ]
        }


def _chunk(answer: JsonObject, choices: list[JsonObject], **more: Any) -> str:
    head = {key: answer[key] for key in ("id", "created", "model")}
    chunk = {**head, "object": "chat.completion.chunk", "choices": choices, **more}
    return f"data: {json.dumps(chunk)}\n\n"


OPENAI_WIRE: Final = Wire(
    provider="openai_chat",
    path="/v1/chat/completions",
    to_arguments=to_arguments,
    find_objection=find_objection,
    use_cache=use_cache,
    render_reply=render_reply,
    stream_reply=stream_reply,
    render_error=render_error,
    refuse_overlong=refuse_overlong,
    max_body_bytes=MAX_BODY_BYTES,
)
