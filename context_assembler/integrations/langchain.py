"""LangChain agents and LangGraph: messages in, those that fit out.

    agent = create_agent(model, tools, middleware=[FitMiddleware(max_tokens=100_000)])

The state keeps the whole history; a request holds what fits. Messages that stay are the objects of
the state. A message that is shortened or repaired keeps everything but its content and, if calls had
to be repaired, the calls and their ids. An added one has only its content. Messages that stay keep
pictures, files and thinking; content that the library does not know is counted as its JSON.
If a message cannot be read, a `TranscriptError` names it.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.utils.function_calling import convert_to_openai_tool

from context_assembler.errors import TranscriptError
from context_assembler.fit import FittedMessages
from context_assembler.integrations.fitting import Fitter

_CALLS: Final = ("tool_use", "tool_call", "function_call")
_THOUGHTS: Final = ("thinking", "redacted_thinking", "reasoning")
_PIECES: Final = ("text", "image_url", "file", "input_audio", "refusal")


class FitMiddleware(AgentMiddleware[Any, Any, Any]):
    """Fits the messages of each request; `pre_model_hook` and `fit` do it without `create_agent`.

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
        super().__init__()
        self._fitter = Fitter(model, on_fit, **settings)

    def fit(self, messages: Sequence[BaseMessage], **counted: Any) -> list[BaseMessage]:
        """Return the messages that fit; `model`, `system` and `tools` as for `fit_messages`."""
        given = [(own, one) for own, message in enumerate(messages) for one in _read(own, message)]
        fitted = self._fitter.fit([one for _, one in given], **counted)
        made: list[BaseMessage] = []
        for at, sent in zip(fitted.indices, fitted.messages, strict=True):
            own = messages[given[at][0]] if at is not None else None
            if at is None or own is None or sent is not given[at][1]:
                made.append(_write(sent, own, given[at][1] if at is not None else {}))
            elif not made or made[-1] is not own:
                made.append(own)
        return made

    def pre_model_hook(self, state: Any) -> dict[str, list[BaseMessage]]:
        """Return what a graph's model node reads; the messages of the state stay as they are."""
        messages = state["messages"] if isinstance(state, dict) else state.messages
        return {"llm_input_messages": self.fit(messages)}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(self._fitted(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        return await handler(self._fitted(request))

    def _fitted(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        name = getattr(request.model, "model_name", None) or getattr(request.model, "model", None)
        tools = [convert_to_openai_tool(tool) for tool in request.tools]
        kept = self.fit(request.messages, model=name, system=request.system_prompt, tools=tools)
        return request.override(messages=kept)


def _read(at: int, message: BaseMessage) -> list[dict[str, Any]]:
    """Return a message as OpenAI Chat has it; results that stand in it are messages of their own."""
    try:
        read: list[dict[str, Any]] = convert_to_openai_messages([message])  # type: ignore[assignment]
    except (ValueError, TypeError) as error:
        remedy = "Pass the messages of one conversation, as LangChain's models return them."
        raise TranscriptError(source=f"messages[{at}]", reason=str(error), remedy=remedy) from error
    calls = read[0].get("tool_calls", [])
    for bad in getattr(message, "invalid_tool_calls", ()):
        function = {"name": bad["name"], "arguments": bad["args"]}
        calls = [*calls, {"id": bad["id"], "type": "function", "function": function}]
    if calls:
        read[0]["tool_calls"] = calls
    for one in read:
        if isinstance(one["content"], list):
            pieces = [piece for piece in one["content"] if piece["type"] not in _CALLS]
            if thoughts := [piece for piece in pieces if piece["type"] in _THOUGHTS]:
                one["reasoning_details"] = thoughts
            one["content"] = [_counted(piece) for piece in pieces if piece not in thoughts]
    return read


def _counted(piece: dict[str, Any]) -> dict[str, Any]:
    """Return a piece that OpenAI Chat has; any other is counted as its JSON."""
    is_known = piece["type"] in _PIECES
    return piece if is_known else {"type": "text", "text": json.dumps(piece, default=str)}


def _write(sent: dict[str, Any], own: BaseMessage | None, read: dict[str, Any]) -> BaseMessage:
    """Return a changed message with all else that it had; an added one as it is."""
    [new] = convert_to_messages([sent])
    if own is None or own.type != new.type:
        return new
    kept: dict[str, Any] = {"content": new.content}
    if sent.get("content") == read.get("content"):
        kept["content"] = own.content
    if isinstance(new, ToolMessage):
        kept["tool_call_id"] = new.tool_call_id
    gone: tuple[str, ...] = () if "reasoning_details" in sent else _THOUGHTS
    if isinstance(new, AIMessage) and sent.get("tool_calls") != read.get("tool_calls"):
        gone += _CALLS
        kept |= {"tool_calls": new.tool_calls, "invalid_tool_calls": new.invalid_tool_calls}
        more = own.additional_kwargs.items()
        kept["additional_kwargs"] = {k: held for k, held in more if k != "tool_calls"}
    if isinstance(pieces := kept["content"], list):
        kept["content"] = [p for p in pieces if isinstance(p, str) or p["type"] not in gone]
    return own.model_copy(update=kept)
