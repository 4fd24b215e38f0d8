"""Gemini's `generateContent` as the local provider speaks it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from context_assembler.testing.prompt_cache import PromptCache
from context_assembler.testing.segments import Segment
from context_assembler.testing.signatures import is_readable, sign_thinking
from context_assembler.testing.traffic import PlacedReply, RefusedRequestError, Wire
from context_assembler.values.events import Usage
from context_assembler.values.limits import ModelLimits
from context_assembler.values.native.gemini_fields import snake_fields
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_text, objects_in
from context_assembler.values.wire import compact_json

PATH: Final = "/v1/models/{model}:generateContent"

_PATH: Final = re.compile(
    r"/v1(?:beta)?/models/(?P<model>[^/:]+):(?P<verb>generate|streamGenerate)Content"
)
# What the documentation names for calls whose signature nobody has, as it stands and as base64.
# https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-27)
_PLACEHOLDERS: Final = frozenset(
    {"skip_thought_signature_validator", "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="}
)
# https://ai.google.dev/gemini-api/docs/files (read 2026-11-27)
_MAX_BODY_BYTES: Final = 100 * 1024 * 1024
_FINISH_REASONS: Final[Mapping[str, str]] = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
_MEDIA: Final[Mapping[str, str]] = {"inline_data": "document", "file_data": "document"}


def read_path(path: str) -> dict[str, Json]:
    """Return the model that a path names, and whether it asks for a stream; nothing for another's."""
    found = _PATH.fullmatch(path)
    if found is None:
        return {}
    return {"model": found["model"], "stream": found["verb"] == "streamGenerate"}


def to_arguments(body: JsonObject, _headers: Mapping[str, str]) -> JsonObject:
    """Return the body without what only says how to answer."""
    return {key: value for key, value in body.items() if key != "stream"}


def to_messages(body: JsonObject) -> JsonObject:
    """Return the body with its contents as messages of blocks; a signature is a block of its own."""
    system = snake_fields(snake_fields(body).get("system_instruction"))
    messages = [
        {
            "role": "assistant" if content.get("role") == "model" else "user",
            "content": [
                block for _, part in objects_in(content.get("parts")) for block in _blocks(part)
            ],
        }
        for _, content in objects_in(body.get("contents"))
    ]
    instructions = [block for _, part in objects_in(system.get("parts")) for block in _blocks(part)]
    return {"tools": body.get("tools"), "system": instructions, "messages": messages}


def _blocks(part: JsonObject) -> Iterator[JsonObject]:
    fields = snake_fields(part)
    signature = fields.get("thought_signature")
    if signature is not None and signature not in _PLACEHOLDERS:
        yield {"type": "thinking", "thinking": "", "signature": signature}
    call, response = fields.get("function_call"), fields.get("function_response")
    if call is not None:
        called = snake_fields(call)
        yield {"type": "tool_use", "name": called.get("name"), "input": called.get("args")}
    elif response is not None:
        answer = snake_fields(response).get("response")
        yield {"type": "tool_result", "content": compact_json(answer)}
    elif "text" in fields:
        yield {"type": "text", "text": fields["text"]}
    else:
        kind = next((kind for key, kind in _MEDIA.items() if key in fields), "other")
        yield {"type": kind, "part": fields}


def find_objection(segments: Sequence[Segment], limits: ModelLimits) -> str | None:
    """Return the message for a signature that this model did not make.

    Source:
        https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-27)
    """
    signed = (segment for segment in segments if segment.thinking is not None)
    return (
        None if all(is_readable(one, limits) for one in signed) else "Corrupted thought signature."
    )


def use_cache(
    cache: PromptCache, segments: Sequence[Segment], /, *, body: JsonObject, limits: ModelLimits
) -> Usage:
    """Return what the automatic cache reads."""
    del body  # this wire marks no breakpoints
    return cache.use_implicit(segments, limits=limits)


def render_reply(placed: PlacedReply) -> JsonObject:
    """Return a `GenerateContentResponse`."""
    reply, usage = placed.reply, placed.usage
    candidate = {
        "content": {"role": "model", "parts": list(_parts(placed))},
        "finishReason": _FINISH_REASONS.get(reply.settled_stop_reason, "STOP"),
        "index": 0,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage.input_tokens,
            "cachedContentTokenCount": usage.cache_read_tokens,
            "candidatesTokenCount": max(0, usage.output_tokens - usage.reasoning_tokens),
            "thoughtsTokenCount": usage.reasoning_tokens,
            "totalTokenCount": usage.input_tokens + usage.output_tokens,
        },
        "modelVersion": as_text(placed.body.get("model")),
        "responseId": f"resp-{placed.number:04d}",
    }


def _parts(placed: PlacedReply) -> Iterator[JsonObject]:
    """Yield thoughts, text and calls; a model that thinks signs the first call, or else the text."""
    reply = placed.reply
    signature = {}
    if placed.limits.thinking.kinds:
        signed = sign_thinking("", limits=placed.limits, segments=placed.segments)
        signature = {"thoughtSignature": signed}
        if reply.thinking is not None:
            yield {"text": reply.thinking, "thought": True}
    if reply.text:
        yield {"text": reply.text, **({} if reply.tool_calls else signature)}
    for number, call in enumerate(reply.tool_calls):
        fields = {"id": call.call_id, "name": call.name, "args": dict(call.arguments)}
        yield {"functionCall": fields, **(signature if number == 0 else {})}


def stream_reply(answer: JsonObject, _body: JsonObject) -> Iterator[str]:
    """Yield chunks that add up to the answer: a part in each, the reason at the end."""
    candidate = answer["candidates"][0]
    head = {key: answer[key] for key in ("modelVersion", "responseId")}
    for part in candidate["content"]["parts"]:
        content = {"role": "model", "parts": [part]}
        yield _chunk({**head, "candidates": [{"content": content, "index": 0}]})
    closing = {key: held for key, held in candidate.items() if key != "content"}
    usage = answer["usageMetadata"]
    yield _chunk({**head, "candidates": [closing], "usageMetadata": usage})


def _chunk(chunk: JsonObject) -> str:
    return f"data: {json.dumps(chunk)}\r\n\r\n"


def render_error(refused: RefusedRequestError) -> JsonObject:
    """Return an error object."""
    status = "NOT_FOUND" if refused.status == 404 else "INVALID_ARGUMENT"
    return {"error": {"code": refused.status, "message": refused.message, "status": status}}


def refuse_overlong(tokens: int, window_tokens: int) -> RefusedRequestError:
    """Return the error for a prompt that is longer than the window."""
    return RefusedRequestError(
        status=400,
        kind="invalid_request_error",
        message=f"The input token count ({tokens}) exceeds the maximum number of tokens allowed "
        f"({window_tokens}).",
    )


GEMINI_WIRE: Final = Wire(
    provider="gemini",
    path=PATH,
    to_arguments=to_arguments,
    to_messages=to_messages,
    find_objection=find_objection,
    use_cache=use_cache,
    render_reply=render_reply,
    stream_reply=stream_reply,
    render_error=render_error,
    refuse_overlong=refuse_overlong,
    max_body_bytes=_MAX_BODY_BYTES,
)
