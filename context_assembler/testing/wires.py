"""How the four APIs are spoken by the local provider: bodies in, replies, streams and errors out.

Each class is one API. `to_messages` gives a body as Anthropic-like messages of blocks, which is what
the local provider measures, caches and checks signatures on.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from context_assembler.events import Json, JsonObject, ToolCall, Usage, compact_json
from context_assembler.models import ModelLimits


class ScriptedReply:
    """One answer of the model.

    Args:
        text: What it says; empty says nothing.
        tool_calls: The calls that it asks for, after the text.
        thinking: Its reasoning; signed if the model signs, left out if the model does not reason.
        stop_reason: In Anthropic's words; by default `tool_use` with calls, else `end_turn`.
    """

    def __init__(
        self,
        *,
        text: str = "",
        tool_calls: Sequence[ToolCall] = (),
        thinking: str | None = None,
        stop_reason: str | None = None,
    ) -> None:
        self.text = text
        self.tool_calls = tuple(tool_calls)
        self.thinking = thinking
        self.stop_reason = stop_reason or ("tool_use" if tool_calls else "end_turn")

    def __repr__(self) -> str:
        calls = [call.name for call in self.tool_calls]
        return f"ScriptedReply(text={self.text[:80]!r}, tool_calls={calls})"


class Answer(NamedTuple):
    """A scripted reply to one request; `signature` is the model's for its reasoning."""

    number: int
    reply: ScriptedReply
    limits: ModelLimits
    body: JsonObject
    usage: Usage
    signature: str
    left_out: Sequence[tuple[str, str]]


class Refusal(Exception):
    """A request that the provider answers with an error."""

    def __init__(self, status: int, kind: str, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.code = status, kind, message, code


class Wire(Protocol):
    """One API."""

    provider: str
    max_body_bytes: int

    def to_arguments(self, body: JsonObject, headers: Mapping[str, str]) -> JsonObject:
        """Return the keyword arguments that make an SDK send this body with these headers."""
        ...

    def to_messages(self, body: JsonObject) -> JsonObject:
        """Return `tools`, `system` and `messages` as blocks."""
        ...

    def reply(self, answer: Answer) -> dict[str, Any]:
        """Return the answer as JSON."""
        ...

    def stream(self, reply: JsonObject, body: JsonObject) -> Iterator[str]:
        """Yield the reply as server-sent events."""
        ...

    def error(self, refusal: Refusal) -> JsonObject:
        """Return an error as JSON."""
        ...

    def overlong(self, tokens: int, window_tokens: int) -> Refusal:
        """Return the error for a prompt that is longer than the window."""
        ...


def _objects(value: Json) -> list[JsonObject]:
    entries = value if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def _without(body: JsonObject, *names: str) -> dict[str, Json]:
    return {key: value for key, value in body.items() if key not in names}


class _Anthropic:
    """The Messages API."""

    provider = "anthropic"
    max_body_bytes = 32 * 1024 * 1024

    def to_arguments(self, body: JsonObject, headers: Mapping[str, str]) -> JsonObject:
        # Sampling travels in `extra_body` with the old version of the API.
        arguments = _without(body, "stream")
        if headers.get("anthropic-version") == "2023-06-01":
            names = ("temperature", "top_p", "top_k")
            sampling = {key: arguments.pop(key) for key in names if key in arguments}
            arguments["extra_headers"] = {"anthropic-version": "2023-06-01"}
            arguments["extra_body"] = sampling
        return arguments

    def to_messages(self, body: JsonObject) -> JsonObject:
        return body

    def reply(self, answer: Answer) -> dict[str, Any]:
        reply, usage = answer.reply, answer.usage
        content: list[JsonObject] = []
        kinds = answer.limits.thinking.kinds
        if reply.thinking is not None and kinds:
            shows = _object(answer.body.get("thinking")).get("display") == "summarized"
            text = reply.thinking if shows or kinds == ("budget",) else ""
            content.append({"type": "thinking", "thinking": text, "signature": answer.signature})
        if reply.text:
            content.append({"type": "text", "text": reply.text, "citations": None})
        for call in reply.tool_calls:
            made = {"id": call.call_id, "name": call.name, "input": dict(call.arguments)}
            content.append({"type": "tool_use", **made})
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        return {
            "id": f"msg_{answer.number:04d}",
            "type": "message",
            "role": "assistant",
            "model": answer.body["model"],
            "content": content,
            "stop_reason": reply.stop_reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage.input_tokens - cached,
                "cache_read_input_tokens": usage.cache_read_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens,
                "output_tokens": usage.output_tokens,
            },
        }

    def stream(self, reply: JsonObject, body: JsonObject) -> Iterator[str]:
        del body
        opening = {**reply, "content": [], "stop_reason": None}
        opening["usage"] = reply["usage"] | {"output_tokens": 1}
        yield _event("message_start", message=opening)
        empty: dict[str, JsonObject] = {
            "text": {"text": ""},
            "thinking": {"thinking": "", "signature": ""},
            "tool_use": {"input": {}},
        }
        for index, block in enumerate(reply["content"]):
            start = block | empty[block["type"]]
            yield _event("content_block_start", index=index, content_block=start)
            for delta in self._deltas(block):
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        end = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
        usage = {"output_tokens": reply["usage"]["output_tokens"]}
        yield _event("message_delta", delta=end, usage=usage)
        yield _event("message_stop")

    def _deltas(self, block: JsonObject) -> Iterator[JsonObject]:
        if block["type"] == "text":
            yield from ({"type": "text_delta", "text": half} for half in _halves(block["text"]))
        elif block["type"] == "thinking":
            for half in _halves(block["thinking"]):
                yield {"type": "thinking_delta", "thinking": half}
            yield {"type": "signature_delta", "signature": block["signature"]}
        else:
            for half in _halves(json.dumps(block["input"])):
                yield {"type": "input_json_delta", "partial_json": half}

    def error(self, refusal: Refusal) -> JsonObject:
        error = {"type": refusal.kind, "message": refusal.message}
        return {"type": "error", "error": error, "request_id": "req_local"}

    def overlong(self, tokens: int, window_tokens: int) -> Refusal:
        message = f"prompt is too long: {tokens} tokens > {window_tokens} maximum"
        return Refusal(400, "invalid_request_error", message)


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


class _OpenAI:
    """What both APIs of OpenAI share."""

    # https://developers.openai.com/api/docs/guides/images-vision (2026-11-27)
    max_body_bytes = 512 * 1024 * 1024

    def to_arguments(self, body: JsonObject, headers: Mapping[str, str]) -> JsonObject:
        del headers
        return _without(body, "stream", "stream_options")

    def error(self, refusal: Refusal) -> JsonObject:
        error = {"message": refusal.message, "type": refusal.kind, "code": refusal.code}
        return {"error": {**error, "param": None}}

    def overlong(self, tokens: int, window_tokens: int) -> Refusal:
        return Refusal(
            400,
            "invalid_request_error",
            f"This model's maximum context length is {window_tokens} tokens. However, your "
            f"messages resulted in {tokens} tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
        )


def _arguments(call: ToolCall) -> str:
    return call.arguments_json or compact_json(dict(call.arguments))


class _Chat(_OpenAI):
    """Chat Completions."""

    provider = "openai_chat"

    def to_messages(self, body: JsonObject) -> JsonObject:
        return body

    def reply(self, answer: Answer) -> dict[str, Any]:
        reply, usage = answer.reply, answer.usage
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        message["refusal"] = None
        if reply.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": _arguments(call)},
                }
                for call in reply.tool_calls
            ]
        reasons = {"tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
        choice = {"index": 0, "message": message, "logprobs": None}
        choice["finish_reason"] = reasons.get(reply.stop_reason, "stop")
        return {
            "id": f"chatcmpl-{answer.number:04d}",
            "object": "chat.completion",
            "created": 0,
            "model": answer.body["model"],
            "choices": [choice],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.input_tokens + usage.output_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            },
        }

    def stream(self, reply: JsonObject, body: JsonObject) -> Iterator[str]:
        choice = reply["choices"][0]
        head = {key: reply[key] for key in ("id", "created", "model")}

        def chunk(choices: list[Any], **more: Any) -> str:
            made = {**head, "object": "chat.completion.chunk", "choices": choices, **more}
            return f"data: {json.dumps(made)}\n\n"

        deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": half} for half in _halves(choice["message"]["content"] or "")]
        for index, call in enumerate(choice["message"].get("tool_calls", [])):
            function = call["function"]
            opening = call | {"index": index, "function": function | {"arguments": ""}}
            rest = {"index": index, "function": {"arguments": function["arguments"]}}
            deltas += [{"tool_calls": [opening]}, {"tool_calls": [rest]}]
        for delta in deltas:
            yield chunk([{"index": 0, "delta": delta, "finish_reason": None}])
        yield chunk([{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}])
        if _object(body.get("stream_options")).get("include_usage"):
            yield chunk([], usage=reply["usage"])
        yield "data: [DONE]\n\n"


class _Responses(_OpenAI):
    """The Responses API."""

    provider = "openai_responses"

    def to_messages(self, body: JsonObject) -> JsonObject:
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        # Effort and format are part of the cached prefix.
        # https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (2026-11-27)
        settings = {
            "effort": _object(body.get("reasoning")).get("effort"),
            "format": _object(body.get("text")).get("format"),
        }
        return {
            **body,
            "prompt_settings": {k: v for k, v in settings.items() if v is not None},
            "system": body.get("instructions"),
            "messages": [self._message(item) for item in _objects(items)],
        }

    def _message(self, item: JsonObject) -> JsonObject:
        kind = item.get("type") or "message"
        if kind == "message":
            return {"role": item.get("role"), "content": self._blocks(item.get("content"))}
        if kind == "reasoning":
            sealed = item.get("encrypted_content", "")
            block = {"type": "thinking", "thinking": "", "signature": sealed}
            return {"role": "assistant", "content": [block]}
        if kind == "function_call_output":
            output = self._blocks(item.get("output"))
            return {"role": "tool", "tool_call_id": item.get("call_id"), "content": output}
        if kind == "function_call":
            function = {key: item.get(key) for key in ("name", "arguments")}
            call = {"type": "function", "id": item.get("call_id"), "function": function}
            return {"role": "assistant", "content": [call]}
        return {"role": item.get("role", "assistant"), "content": [_without(item, "id", "status")]}

    def _blocks(self, content: Json) -> Json:
        names = {"input_text": "text", "output_text": "text", "input_image": "image"}
        names["input_file"] = "file"
        if not isinstance(content, list):
            return content
        return [
            {**piece, "type": names.get(str(piece.get("type")), piece.get("type"))}
            for piece in _objects(content)
        ]

    def reply(self, answer: Answer) -> dict[str, Any]:
        reply, usage = answer.reply, answer.usage
        is_cut = reply.stop_reason == "max_tokens"
        items = answer.body.get("input")
        removed = [
            {
                "type": "reasoning",
                "id": items[int(path.split(".")[1])].get("id", ""),
                "action": "removed",
                "reason": reason if reason == "model_mismatch" else "prefix_mismatch",
            }
            for path, reason in answer.left_out
            if isinstance(items, list)
        ]
        return {
            "id": f"resp_{answer.number:04d}",
            "object": "response",
            "created_at": 0,
            "status": "incomplete" if is_cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "error": None,
            "model": answer.body["model"],
            "output": list(self._output(answer)),
            # Reasoning whose prefix changed was not used, which the reply says.
            # https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (2026-11-27)
            "input_transformations": removed,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": usage.input_tokens,
                "input_tokens_details": {
                    "cached_tokens": usage.cache_read_tokens,
                    "cache_write_tokens": usage.cache_write_tokens,
                },
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
                "total_tokens": usage.input_tokens + usage.output_tokens,
            },
        }

    def _output(self, answer: Answer) -> Iterator[JsonObject]:
        reply, number = answer.reply, f"{answer.number:04d}"
        if reply.thinking is not None and answer.limits.thinking.kinds:
            shows = _object(answer.body.get("reasoning")).get("summary") is not None
            summary = [{"type": "summary_text", "text": reply.thinking}] if shows else []
            yield {
                "type": "reasoning",
                "id": f"rs_{number}",
                "summary": summary,
                "encrypted_content": answer.signature,
            }
        if reply.text:
            piece: JsonObject = {"type": "output_text", "text": reply.text, "annotations": []}
            if reply.stop_reason == "refusal":
                piece = {"type": "refusal", "refusal": reply.text}
            yield {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "phase": "commentary" if reply.tool_calls else "final_answer",
                "content": [piece],
            }
        for index, call in enumerate(reply.tool_calls):
            yield {
                "type": "function_call",
                "id": f"fc_{number}_{index}",
                "status": "completed",
                "call_id": call.call_id,
                "name": call.name,
                "arguments": _arguments(call),
            }

    def stream(self, reply: JsonObject, body: JsonObject) -> Iterator[str]:
        del body
        for number, (kind, fields) in enumerate(self._events(reply)):
            yield _event(kind, sequence_number=number, **fields)

    def _events(self, reply: JsonObject) -> Iterator[tuple[str, JsonObject]]:
        opening = {**reply, "status": "in_progress", "output": [], "usage": None}
        yield "response.created", {"response": opening}
        for index, item in enumerate(reply["output"]):
            at = {"output_index": index, "item_id": item["id"]}
            empty: JsonObject = {"message": {"content": []}, "function_call": {"arguments": ""}}
            start = {**item, **empty.get(item["type"], {})}
            yield "response.output_item.added", {"output_index": index, "item": start}
            if item["type"] == "message" and item["content"][0]["type"] == "output_text":
                piece, place = item["content"][0], {**at, "content_index": 0}
                part = {**piece, "text": ""}
                yield "response.content_part.added", {**place, "part": part}
                for half in _halves(piece["text"]):
                    yield "response.output_text.delta", {**place, "delta": half, "logprobs": []}
                done = {**place, "text": piece["text"], "logprobs": []}
                yield "response.output_text.done", done
                yield "response.content_part.done", {**place, "part": piece}
            elif item["type"] == "function_call":
                for half in _halves(item["arguments"]):
                    yield "response.function_call_arguments.delta", {**at, "delta": half}
                done = {"arguments": item["arguments"], "name": item["name"]}
                yield "response.function_call_arguments.done", {**at, **done}
            yield "response.output_item.done", {"output_index": index, "item": item}
        yield f"response.{reply['status']}", {"response": reply}


def _snake(value: Json) -> dict[str, Json]:
    """Return an object with its camel-case field names in snake case."""
    return {re.sub(r"(?<=[a-z])([A-Z])", r"_\1", k).lower(): v for k, v in _object(value).items()}


class _Gemini:
    """`generateContent`."""

    provider = "gemini"
    max_body_bytes = 100 * 1024 * 1024  # https://ai.google.dev/gemini-api/docs/files (2026-11-27)
    # What the documentation names for calls whose signature nobody has, plain and as base64.
    # https://ai.google.dev/gemini-api/docs/thought-signatures (2026-11-27)
    placeholders: Final = (
        "skip_thought_signature_validator",
        "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=",
    )

    def to_arguments(self, body: JsonObject, headers: Mapping[str, str]) -> JsonObject:
        del headers
        return _without(body, "stream")

    def to_messages(self, body: JsonObject) -> JsonObject:
        system = _snake(_snake(body).get("system_instruction"))
        return {
            "tools": body.get("tools"),
            "system": self._blocks(system.get("parts")),
            "messages": [
                {
                    "role": "assistant" if content.get("role") == "model" else "user",
                    "content": self._blocks(content.get("parts")),
                }
                for content in _objects(body.get("contents"))
            ],
        }

    def _blocks(self, parts: Json) -> list[JsonObject]:
        blocks: list[JsonObject] = []
        for part in map(_snake, _objects(parts)):
            signature = part.get("thought_signature")
            if signature is not None and signature not in self.placeholders:
                blocks.append({"type": "thinking", "thinking": "", "signature": signature})
            if call := part.get("function_call"):
                called = {"name": call.get("name"), "input": call.get("args")}
                blocks.append({"type": "tool_use", **called})
            elif result := part.get("function_response"):
                text = compact_json(result.get("response"))
                blocks.append({"type": "tool_result", "content": text})
            elif "text" in part:
                blocks.append({"type": "text", "text": part["text"]})
            else:
                media = "inline_data" in part or "file_data" in part
                blocks.append({"type": "document" if media else "other", "part": part})
        return blocks

    def reply(self, answer: Answer) -> dict[str, Any]:
        reply, usage = answer.reply, answer.usage
        thinks = bool(answer.limits.thinking.kinds)
        # A model that thinks signs the first call, or else the text.
        signature = {"thoughtSignature": answer.signature} if thinks else {}
        parts: list[JsonObject] = []
        if thinks and reply.thinking is not None:
            parts.append({"text": reply.thinking, "thought": True})
        if reply.text:
            parts.append({"text": reply.text, **({} if reply.tool_calls else signature)})
        for number, call in enumerate(reply.tool_calls):
            made = {"id": call.call_id, "name": call.name, "args": dict(call.arguments)}
            parts.append({"functionCall": made, **({} if number else signature)})
        reasons = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
        candidate = {
            "content": {"role": "model", "parts": parts},
            "finishReason": reasons.get(reply.stop_reason, "STOP"),
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
            "modelVersion": answer.body.get("model"),
            "responseId": f"resp-{answer.number:04d}",
        }

    def stream(self, reply: JsonObject, body: JsonObject) -> Iterator[str]:
        del body
        candidate = reply["candidates"][0]
        head = {key: reply[key] for key in ("modelVersion", "responseId")}
        chunks: list[JsonObject] = [
            {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
            for part in candidate["content"]["parts"]
        ]
        closing = _without(candidate, "content")
        chunks.append({"candidates": [closing], "usageMetadata": reply["usageMetadata"]})
        for chunk in chunks:
            yield f"data: {json.dumps({**head, **chunk})}\r\n\r\n"

    def error(self, refusal: Refusal) -> JsonObject:
        status = "NOT_FOUND" if refusal.status == 404 else "INVALID_ARGUMENT"
        return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}

    def overlong(self, tokens: int, window_tokens: int) -> Refusal:
        message = (
            f"The input token count ({tokens}) exceeds the maximum number of tokens allowed "
            f"({window_tokens})."
        )
        return Refusal(400, "invalid_request_error", message)


WIRES: Final[Mapping[str, Wire]] = {
    "/v1/messages": _Anthropic(),
    "/v1/chat/completions": _Chat(),
    "/v1/responses": _Responses(),
    "gemini": _Gemini(),
}
