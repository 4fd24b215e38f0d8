"""How the four APIs are spoken by the local provider: bodies in, replies, streams and errors out."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple

from context_assembler.events import Json, JsonObject, ToolCall, Usage, compact_json
from context_assembler.models import ModelLimits
from context_assembler.providers.gemini import snake_block
from context_assembler.providers.wire import as_object, objects_in


@dataclass(frozen=True)
class ScriptedReply:
    """One answer of the model.

    Attributes:
        text: What it says; empty says nothing.
        tool_calls: The calls that it asks for, after the text.
        thinking: Its reasoning; signed if the model signs, left out if the model does not reason.
        stop_reason: In Anthropic's words; by default `tool_use` with calls, else `end_turn`.
    """

    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    thinking: str | None = None
    stop_reason: str | None = None


class Answer(NamedTuple):
    """A scripted reply to one request; `signature` is the model's for its reasoning as `shown`.

    `summary` is a message with the compaction that comes first; `charged` is what that cost.
    """

    number: int
    reply: ScriptedReply
    limits: ModelLimits
    body: JsonObject
    usage: Usage
    shown: str
    signature: str
    left_out: Sequence[tuple[str, str]]
    summary: JsonObject | None = None
    charged: int = 0
    edits: Sequence[JsonObject] = ()


class RefusedError(Exception):
    """A request that the provider answers with an error."""

    def __init__(self, message: str, status: int = 400, kind: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message, self.status = message, status
        self.kind, self.code = kind or "invalid_request_error", code or None


class ScriptedError(RefusedError):
    """A refusal that has nothing to do with the request, such as an overloaded provider."""

    def __init__(
        self, status: int = 529, kind: str = "overloaded_error", message: str = "Overloaded"
    ) -> None:
        super().__init__(message, status, kind)


def _blocks(content: Json) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return objects_in(content)


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def _without(body: JsonObject, *names: str) -> dict[str, Json]:
    return {key: value for key, value in body.items() if key not in names}


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


class Wire(ABC):
    """One API."""

    provider = ""
    system, history = "system", "messages"  # where a body has them
    overlong = "prompt is too long: {tokens} tokens > {window} maximum"
    overlong_code = ""

    def to_arguments(self, body: JsonObject, _headers: Mapping[str, str], /) -> JsonObject:
        """Return the keyword arguments that make an SDK send this body with these headers."""
        return _without(body, "stream", "stream_options")

    def blocks(self, body: JsonObject) -> Iterator[tuple[str, str, JsonObject]]:
        """Yield what the prompt is made of, in order: its path, whose it is, and the block."""
        for place, tool in enumerate(objects_in(body.get("tools"))):
            yield f"tools.{place}", "tool", tool
        for place, block in enumerate(_blocks(body.get(self.system))):
            yield f"system.{place}", "system", block
        for number, message in enumerate(objects_in(body.get(self.history))):
            answers = str(message.get("type")).endswith("_output")
            role = message.get("role", "tool" if answers else "assistant")
            owner = f"{role}{message.get('tool_call_id', '')}"
            for place, block in enumerate(self.blocks_of(message)):
                yield f"{self.history}.{number}.content.{place}", owner, block

    def blocks_of(self, message: JsonObject) -> list[dict[str, Any]]:
        """Return the blocks of one message."""
        return [*_blocks(message.get("content")), *objects_in(message.get("tool_calls"))]

    def threshold(self, _body: JsonObject, /) -> float:
        """Return from how many tokens on the provider compacts; 0: it does nothing else."""
        return inf

    def summarized(self, text: str, seal: str, /) -> JsonObject:
        """Return a compaction as the message that goes back first; other APIs have none."""
        block = {"type": "compaction", "content": text} | ({"signature": seal} if seal else {})
        return {"role": "assistant", "content": [block]}

    @abstractmethod
    def reply(self, answer: Answer) -> dict[str, Any]:
        """Return the answer as JSON."""

    @abstractmethod
    def stream(self, reply: dict[str, Any]) -> Iterator[str]:
        """Yield the reply as server-sent events."""

    def error(self, refused: RefusedError) -> JsonObject:
        """Return an error as JSON."""
        error = {"message": refused.message, "type": refused.kind, "code": refused.code}
        return {"error": error | {"param": None}}


class _Anthropic(Wire):
    """The Messages API."""

    provider = "anthropic"

    def to_arguments(self, body: JsonObject, headers: Mapping[str, str], /) -> JsonObject:
        # Sampling travels in `extra_body` with the old version of the API.
        arguments = _without(body, "stream")
        if betas := headers.get("anthropic-beta"):
            arguments["betas"] = betas.split(",")
        if headers.get("anthropic-version") == "2023-06-01":
            names = arguments.keys() & {"temperature", "top_p", "top_k"}
            arguments["extra_headers"] = {"anthropic-version": "2023-06-01"}
            arguments["extra_body"] = {name: arguments.pop(name) for name in sorted(names)}
        return arguments

    def threshold(self, body: JsonObject, /) -> float:
        edits = objects_in(as_object(body.get("context_management")).get("edits"))
        asked = [one for one in edits if one["type"] == "compact_20260112"]
        values = (as_object(one.get("trigger")).get("value", 150_000) for one in asked)
        return 0 if body.get("compaction") else next(values, inf)

    def reply(self, answer: Answer) -> dict[str, Any]:
        reply, usage, content = answer.reply, answer.usage, list[JsonObject]()
        content += as_object(answer.summary).get("content", ())
        if reply.thinking is not None and answer.limits.thinking.kinds:
            seen = {"thinking": answer.shown, "signature": answer.signature}
            content.append({"type": "thinking", **seen})
        if reply.text:
            content.append({"type": "text", "text": reply.text, "citations": None})
        for call in reply.tool_calls:
            made = {"id": call.call_id, "name": call.name, "input": dict(call.arguments)}
            content.append({"type": "tool_use", **made})
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        head = {"id": f"msg_{answer.number:04d}", "type": "message", "role": "assistant"}
        end: dict[str, Any] = {"stop_reason": answer.reply.stop_reason, "stop_sequence": None}
        figures = {
            "input_tokens": usage.input_tokens - cached,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
            "output_tokens": usage.output_tokens,
        }
        if answer.charged:
            written = {"type": "compaction", "input_tokens": answer.charged, "output_tokens": 99}
            end["usage"] = {**figures, "iterations": [written]}
        about: dict[str, Any] = {"model": answer.body["model"]}
        about |= {"context_management": {"applied_edits": [*answer.edits]}} if answer.edits else {}
        return {**head, **about, "content": content, "usage": figures, **end}

    def stream(self, reply: dict[str, Any]) -> Iterator[str]:
        yield _event("message_start", message={**reply, "content": [], "stop_reason": None})
        for index, block in enumerate(reply["content"]):
            kind = block["type"]
            is_call = kind == "tool_use"
            name, field = ("input_json", "partial_json") if is_call else (kind, kind)
            text: str = json.dumps(block["input"]) if is_call else block.get(kind, "")
            start: dict[str, Any] = {"input": dict[str, Any]()} if is_call else {}
            start |= {kind: ""} if kind in block else {}  # a compaction comes whole
            deltas = [{"type": f"{name}_delta", field: half} for half in _halves(text)]
            if kind == "thinking":
                start["signature"] = ""
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            yield _event("content_block_start", index=index, content_block=block | start)
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        end = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
        usage = {"output_tokens": reply["usage"]["output_tokens"]}
        yield _event("message_delta", delta=end, usage=usage)
        yield _event("message_stop")

    def error(self, refused: RefusedError) -> JsonObject:
        error = {"type": refused.kind, "message": refused.message}
        return {"type": "error", "error": error, "request_id": "req_local"}


class _OpenAI(Wire):
    """What both APIs of OpenAI share."""

    overlong_code = "context_length_exceeded"
    overlong = (
        "This model's maximum context length is {window} tokens. However, your messages resulted in "
        "{tokens} tokens. Please reduce the length of the messages."
    )

    def usage(self, usage: Usage, given: str, written: str) -> dict[str, Any]:
        """Return the tokens of a call; both APIs name them alike but for the first word."""
        return {
            f"{given}_tokens": usage.input_tokens,
            f"{given}_tokens_details": {"cached_tokens": usage.cache_read_tokens},
            f"{written}_tokens": usage.output_tokens,
            f"{written}_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }


def _arguments(call: ToolCall) -> str:
    return call.arguments_json or compact_json(dict(call.arguments))


class _Chat(_OpenAI):
    """Chat Completions."""

    provider = "openai_chat"

    def reply(self, answer: Answer) -> dict[str, Any]:
        body, message = answer.body, dict[str, Any](role="assistant")
        message["content"] = answer.reply.text or None
        for call in answer.reply.tool_calls:
            function = {"name": call.name, "arguments": _arguments(call)}
            made = {"id": call.call_id, "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(made)
        reasons = {"tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
        choice: dict[str, Any] = {"index": 0, "message": message, "logprobs": None}
        choice["finish_reason"] = reasons.get(answer.reply.stop_reason or "", "stop")
        head = {"id": f"chatcmpl-{answer.number:04d}", "object": "chat.completion", "created": 0}
        asked = not body.get("stream") or as_object(body.get("stream_options")).get("include_usage")
        usage = self.usage(answer.usage, "prompt", "completion") if asked else {}
        return {**head, "model": body["model"], "choices": [choice], "usage": usage}

    def stream(self, reply: dict[str, Any]) -> Iterator[str]:
        [choice] = reply["choices"]
        message, end = choice["message"], choice["finish_reason"]
        deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": half} for half in _halves(message["content"] or "")]
        for index, call in enumerate(message.get("tool_calls", ())):
            function = call["function"]
            opening = call | {"index": index, "function": function | {"arguments": ""}}
            rest = {"index": index, "function": {"arguments": function["arguments"]}}
            deltas += [{"tool_calls": [opening]}, {"tool_calls": [rest]}]
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
            for delta, reason in [*((delta, None) for delta in deltas), (dict[str, Any](), end)]
        ]
        if reply["usage"]:
            chunks.append({"choices": [], "usage": reply["usage"]})
        head = {**_without(reply, "choices", "usage"), "object": "chat.completion.chunk"}
        yield from (f"data: {json.dumps(head | chunk)}\n\n" for chunk in chunks)
        yield "data: [DONE]\n\n"


class _Responses(_OpenAI):
    """The Responses API."""

    provider = "openai_responses"
    system, history = "instructions", "input"

    def blocks(self, body: JsonObject) -> Iterator[tuple[str, str, JsonObject]]:
        # Effort and format are part of the cached prefix.
        # https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (2026-11-27)
        yield "settings", "settings", {name: body.get(name) for name in ("reasoning", "text")}
        said = body.get("input")
        items = [{"role": "user", "content": said}] if isinstance(said, str) else said
        yield from super().blocks({**body, "input": items})

    def blocks_of(self, message: JsonObject) -> list[dict[str, Any]]:
        if message.get("type", "message") == "message":
            return _blocks(message.get("content"))
        return [_without(message, "id", "status")]

    def threshold(self, body: JsonObject, /) -> float:
        managed = objects_in(body.get("context_management"))
        is_asked = {"type": "compaction_trigger"} in objects_in(body.get("input"))
        return 0 if is_asked else next((one["compact_threshold"] for one in managed), inf)

    def summarized(self, _text: str, seal: str, /) -> JsonObject:
        return {"type": "compaction", "id": "cmp_1", "encrypted_content": seal}

    def reply(self, answer: Answer) -> dict[str, Any]:
        is_cut, items = answer.reply.stop_reason == "max_tokens", answer.body["input"]
        # Reasoning whose prefix changed was not used, which the reply says.
        # https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (2026-11-27)
        removed = [
            {"type": "reasoning", "id": as_object(items[number]).get("id", ""), "action": "removed"}
            | {"reason": reason if reason == "model_mismatch" else "prefix_mismatch"}
            for number, reason in ((int(path.split(".")[1]), why) for path, why in answer.left_out)
        ]
        head = {"id": f"resp_{answer.number:04d}", "object": "response", "created_at": 0}
        tools: dict[str, Any] = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        state: dict[str, Any] = {"status": "incomplete" if is_cut else "completed", "error": None}
        state["incomplete_details"] = {"reason": "max_output_tokens"} if is_cut else None
        return {
            **head,
            **state,
            **tools,
            "model": answer.body["model"],
            "output": list(self._output(answer)),
            "input_transformations": removed,
            "usage": self.usage(answer.usage, "input", "output"),
        }

    def _output(self, answer: Answer) -> Iterator[JsonObject]:
        reply, number = answer.reply, f"{answer.number:04d}"
        yield from [answer.summary] if answer.summary else ()
        if reply.thinking is not None and answer.limits.thinking.kinds:
            shows = as_object(answer.body.get("reasoning")).get("summary") is not None
            summary = [{"type": "summary_text", "text": reply.thinking}] if shows else []
            item = {"type": "reasoning", "id": f"rs_{number}", "summary": summary}
            yield item | {"encrypted_content": answer.signature}
        if reply.text:
            piece: JsonObject = {"type": "output_text", "text": reply.text, "annotations": []}
            if answer.reply.stop_reason == "refusal":
                piece = {"type": "refusal", "refusal": reply.text}
            phase = {"phase": "commentary" if reply.tool_calls else "final_answer"}
            said = {"role": "assistant", "status": "completed", "content": [piece], **phase}
            yield {"type": "message", "id": f"msg_{number}", **said}
        for index, call in enumerate(reply.tool_calls):
            made = {"type": "function_call", "id": f"fc_{number}_{index}", "status": "completed"}
            called = {"call_id": call.call_id, "name": call.name, "arguments": _arguments(call)}
            yield made | called

    def stream(self, reply: dict[str, Any]) -> Iterator[str]:
        for number, (kind, fields) in enumerate(self._events(reply)):
            yield _event(f"response.{kind}", sequence_number=number, **fields)

    def _events(self, reply: JsonObject) -> Iterator[tuple[str, JsonObject]]:
        opening: dict[str, Any] = {**reply, "status": "in_progress", "output": [], "usage": None}
        yield "created", {"response": opening}
        for index, item in enumerate(reply["output"]):
            place, at = {"output_index": index}, {"output_index": index, "item_id": item["id"]}
            empty: JsonObject = {"message": {"content": []}, "function_call": {"arguments": ""}}
            yield "output_item.added", {**place, "item": item | empty.get(item["type"], {})}
            if item["type"] == "function_call":
                for half in _halves(item["arguments"]):
                    yield "function_call_arguments.delta", {**at, "delta": half}
                done = {"arguments": item["arguments"], "name": item["name"]}
                yield "function_call_arguments.done", {**at, **done}
            for piece in item.get("content", ()):
                at["content_index"] = 0
                kind = "text" if piece["type"] == "output_text" else "refusal"
                name = "output_text" if kind == "text" else kind
                yield "content_part.added", {**at, "part": piece | {kind: ""}}
                for half in _halves(piece[kind]):
                    yield f"{name}.delta", {**at, "delta": half, "logprobs": []}
                yield f"{name}.done", {**at, kind: piece[kind], "logprobs": []}
                yield "content_part.done", {**at, "part": piece}
            yield "output_item.done", {**place, "item": item}
        yield reply["status"], {"response": reply}


class _Compact(_Responses):
    """The call that compacts a conversation: the user's messages come back, and one compaction."""

    def threshold(self, _body: JsonObject, /) -> float:
        return 0

    def reply(self, answer: Answer) -> dict[str, Any]:
        made, said = super().reply(answer), objects_in(answer.body["input"])
        output = [*(one for one in said if one.get("role") == "user"), *made["output"]]
        about = {"id": made["id"], "created_at": 0, "usage": made["usage"]}
        return {**about, "object": "response.compaction", "output": output}


class _Gemini(Wire):
    """`generateContent`."""

    provider = "gemini"
    history = "contents"
    overlong = (
        "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
    )

    def blocks(self, body: JsonObject) -> Iterator[tuple[str, str, JsonObject]]:
        told: Json = snake_block(body)
        system = as_object(told.get("system_instruction")).get("parts")
        yield from super().blocks({**told, "system": system})

    def blocks_of(self, message: JsonObject) -> list[dict[str, Any]]:
        return objects_in(message.get("parts"))

    def reply(self, answer: Answer) -> dict[str, Any]:
        reply, usage, thinks = answer.reply, answer.usage, bool(answer.limits.thinking.kinds)
        thought = {"text": reply.thinking, "thought": True}
        said: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
        made = [
            {"id": c.call_id, "name": c.name, "args": {**c.arguments}} for c in reply.tool_calls
        ]
        calls: list[dict[str, Any]] = [{"functionCall": call} for call in made]
        if thinks and (calls or said):  # it signs the first call, or else the text
            (calls or said)[0]["thoughtSignature"] = answer.signature
        parts = [*([thought] if thinks and reply.thinking is not None else []), *said, *calls]
        reasons = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
        reason = reasons.get(reply.stop_reason or "", "STOP")
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": reason}
        figures = {
            "promptTokenCount": usage.input_tokens,
            "cachedContentTokenCount": usage.cache_read_tokens,
            "candidatesTokenCount": max(0, usage.output_tokens - usage.reasoning_tokens),
            "thoughtsTokenCount": usage.reasoning_tokens,
            "totalTokenCount": usage.input_tokens + usage.output_tokens,
        }
        head = {"modelVersion": answer.body.get("model"), "responseId": f"resp-{answer.number:04d}"}
        return {**head, "candidates": [candidate | {"index": 0}], "usageMetadata": figures}

    def stream(self, reply: dict[str, Any]) -> Iterator[str]:
        [candidate] = reply["candidates"]
        chunks: list[dict[str, Any]] = [
            {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
            for part in candidate["content"]["parts"]
        ]
        closing = {"candidates": [_without(candidate, "content")]}
        chunks.append(closing | {"usageMetadata": reply["usageMetadata"]})
        head = _without(reply, "candidates", "usageMetadata")
        yield from (f"data: {json.dumps(head | chunk)}\r\n\r\n" for chunk in chunks)

    def error(self, refused: RefusedError) -> JsonObject:
        status = "NOT_FOUND" if refused.status == 404 else "INVALID_ARGUMENT"
        return {"error": {"code": refused.status, "message": refused.message, "status": status}}


WIRES: Final[Mapping[str, Wire]] = {
    "/v1/messages": _Anthropic(),
    "/v1/chat/completions": _Chat(),
    "/v1/responses": _Responses(),
    "/v1/responses/compact": _Compact(),
    "gemini": _Gemini(),
}
