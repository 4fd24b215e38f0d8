"""Pydantic AI: messages in, those that fit out.

    agent = Agent(model, tools=tools, capabilities=[FitHistory(max_tokens=100_000)])

The history of the run stays whole; a request holds what fits. Messages and parts that stay are the
objects of the history. A request that loses some of its parts keeps its other fields. A part that is
shortened or repaired keeps everything but its content and the id of its call; a reply whose calls had
to be repaired has new ones. An added part has only its content. Parts with instructions, tools or
settings always stay. Content that the library does not know is counted as its JSON.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import is_, itemgetter
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryPromptPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_core import to_json

from context_assembler.fit import FittedMessages
from context_assembler.integrations.fitting import Fitter


class FitHistory(AbstractCapability[Any]):
    """Fits the messages of each request; `fit` does it without an agent.

    Args:
        model: The model whose rules and limits apply; by default the one that is called.
        on_fit: Called with the `FittedMessages` before each request.
        settings: Those of `fit_messages`: `max_tokens`, `strategy`, `keep_last_turns` and others.
    """

    def __init__(
        self,
        model: Any = None,
        on_fit: Callable[[FittedMessages], object] | None = None,
        **settings: Any,
    ) -> None:
        self._fitter = Fitter(model, on_fit, **settings)

    def fit(self, messages: Sequence[ModelMessage], **counted: Any) -> list[ModelMessage]:
        """Return the messages that fit; `model`, `system` and `tools` as for `fit_messages`."""
        rows = [(at, own, read) for at, m in enumerate(messages) for own, read in _read(m)]
        places = [place for place, (_, _, read) in enumerate(rows) if read]
        fitted = self._fitter.fit([rows[place][2] for place in places], **counted)
        parts = (part for message in messages for part in message.parts)
        names = {p.tool_call_id: p.tool_name for p in parts if isinstance(p, ToolCallPart)}
        made = [(place, at, own) for place, (at, own, read) in enumerate(rows) if not read]
        last = -1
        for index, sent in zip(fitted.indices, fitted.messages, strict=True):
            at, own, read = (-1, None, {}) if index is None else rows[places[index]]
            last = last if index is None else max(last, places[index])
            made.append((last, at, own if sent is read else _write(own, sent, read, names)))
        made.sort(key=itemgetter(0))
        groups = groupby(made, itemgetter(1))
        return [_message(messages, at, [part for *_, part in group]) for at, group in groups]

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        del ctx
        asked = request_context.model_request_parameters
        kept = self.fit(
            request_context.messages,
            model=request_context.model.model_name,
            system="\n\n".join(part.content for part in asked.instruction_parts or ()),
            tools=[
                {
                    "name": t.name,
                    "description": t.description,
                    "input_schema": t.parameters_json_schema,
                }
                for t in (*asked.function_tools, *asked.output_tools)
            ],
        )
        return replace(request_context, messages=kept)


def _read(message: ModelMessage) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield what can stay alone, as OpenAI Chat has it: a reply, or each part of a request."""
    if isinstance(message, ModelResponse):
        yield message, _read_reply(message)
        return
    for part in message.parts:
        match part:
            case SystemPromptPart():
                yield part, {"role": "system", "content": part.content}
            case UserPromptPart():
                yield part, {"role": "user", "content": _content(_items(part))}
            case ToolReturnPart():
                answer = {"role": "tool", "tool_call_id": part.tool_call_id}
                yield part, {**answer, "content": _content(_items(part))}
            case RetryPromptPart(tool_name=str()):
                answer = {"role": "tool", "tool_call_id": part.tool_call_id}
                yield part, {**answer, "content": part.model_response()}
            case RetryPromptPart() | RetryFeedbackPart():
                yield part, {"role": "user", "content": part.model_response()}
            case _ if part.part_kind.endswith(("-delta", "-baseline")):
                yield part, {}  # for the framework, which reads it where it stands
            case _:
                yield part, {"role": "user", "content": to_json(part).decode()}


def _read_reply(message: ModelResponse) -> dict[str, Any]:
    said, calls, thoughts = list[Any](), list[Any](), list[Any]()
    for part in message.parts:
        match part:
            case TextPart():
                said += [part.content] if part.content else []
            case ThinkingPart():
                thought = {"thinking": part.content, "signature": part.signature}
                thoughts.append({"type": "thinking", **thought})
            case ToolCallPart():
                function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
                calls.append({"id": part.tool_call_id, "type": "function", "function": function})
            case _:
                said.append(getattr(part, "content", None) if part.part_kind == "file" else part)
    read = {"tool_calls": calls, "reasoning_details": thoughts}
    reply: dict[str, Any] = {"role": "assistant", "content": _content(said) if said else None}
    return reply | {name: held for name, held in read.items() if held}


def _items(part: UserPromptPart | ToolReturnPart) -> list[Any]:
    """Return the texts and files of a part."""
    if isinstance(part, ToolReturnPart):
        return [*part.content_items(mode="str", wrap_if_error=False)]
    content = [part.content] if isinstance(part.content, str) else part.content
    return [item for item in content if not isinstance(item, CachePoint)]


def _content(items: Sequence[Any]) -> str | list[dict[str, Any]]:
    """Return texts and files as OpenAI Chat has them; what it has no piece for becomes its JSON."""
    pieces = list(map(_piece, items))
    return pieces[0]["text"] if [p["type"] for p in pieces] == ["text"] else pieces


def _piece(item: Any) -> dict[str, Any]:
    match item:
        case str():
            return {"type": "text", "text": item}
        case ImageUrl(url=url):
            return {"type": "image_url", "image_url": {"url": url}}
        case BinaryContent(is_image=True, data_uri=url):
            return {"type": "image_url", "image_url": {"url": url}}
        case BinaryContent(media_type="application/pdf", data_uri=url):
            return {"type": "file", "file": {"filename": "file.pdf", "file_data": url}}
        case TextContent(content=text):
            return {"type": "text", "text": text}
        case _:
            return {"type": "text", "text": to_json(item).decode()}


def _write(own: Any, sent: dict[str, Any], read: dict[str, Any], names: dict[str, str]) -> Any:
    """Return a changed part or reply with all else that it had; an added one as it is."""
    content, is_like = sent.get("content"), sent["role"] == read.get("role")
    pieces = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    if is_like and isinstance(own, ModelResponse):
        has_thoughts = "reasoning_details" in sent
        kept = [p for p in own.parts if has_thoughts or not isinstance(p, ThinkingPart)]
        if (calls := sent.get("tool_calls")) != read.get("tool_calls"):
            kept = [part for part in kept if not isinstance(part, ToolCallPart)]
            for call in calls or ():
                told = call["function"]
                kept.append(ToolCallPart(told["name"], told["arguments"], call["id"]))
        if content != read["content"]:
            texts = [TextPart(piece["text"]) for piece in pieces if piece["type"] == "text"]
            kept = [*texts, *(part for part in kept if not isinstance(part, TextPart))]
        return replace(own, parts=kept)
    items = _items(own) if isinstance(own, UserPromptPart | ToolReturnPart) else []
    files = list(map(_piece, items))
    said = [items[files.index(p)] if p in files else p.get("text", "") for p in pieces]
    made: Any = said[0] if len(said) == 1 else said
    if sent["role"] == "tool":
        called = sent["tool_call_id"]
        if is_like:
            return replace(own, content=made, tool_call_id=called)
        return ToolReturnPart(names.get(called, ""), made, called)
    if is_like:
        return replace(own, content=made)
    if sent["role"] == "assistant":
        return ModelResponse([TextPart(piece["text"]) for piece in pieces])
    return UserPromptPart(made)


def _message(messages: Sequence[ModelMessage], at: int, parts: list[Any]) -> ModelMessage:
    if isinstance(parts[0], ModelResponse):
        return parts[0]
    if at < 0:
        return ModelRequest(parts)
    own = messages[at]
    is_whole = len(parts) == len(own.parts) and all(map(is_, parts, own.parts))
    return own if is_whole else replace(own, parts=parts)
