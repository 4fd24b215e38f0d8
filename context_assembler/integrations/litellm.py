"""LiteLLM: the arguments of a call from a session, and a callback that fits the messages of others.

    reply = await litellm.acompletion(**to_litellm(context))
    litellm.callbacks = [FitCallback(max_tokens=100_000)]

A payload is that of `AssembledContext`, with the model name that you gave. LiteLLM puts all system
messages first for Claude and Gemini, so these get notes further down as user messages. Signed or
encrypted reasoning comes back only on the model's own API (`api=`); the context's report says what
another one cannot take. Pass replies of all three APIs to `record` as they are. The callback changes
only the list of messages; messages that stay are the same objects.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from litellm.exceptions import BadRequestError, ContextWindowExceededError
from litellm.integrations.custom_logger import CustomLogger

from context_assembler.context import AssembledContext
from context_assembler.errors import AssemblyError, ContextOverflowError
from context_assembler.fit import FittedMessages
from context_assembler.integrations.fitting import Fitter

_LISTS: Final[Mapping[str, str]] = {
    "acompletion": "messages",
    "anthropic_messages": "messages",
    "aresponses": "input",
}


def to_litellm(
    context: AssembledContext,
    *,
    api: Literal["openai_chat", "openai_responses", "anthropic"] = "openai_chat",
    model_name: str | None = None,
) -> dict[str, Any]:
    """Return keyword arguments for a call of LiteLLM.

    Args:
        api: `openai_chat` for `litellm.completion`, `openai_responses` for `litellm.responses`,
            `anthropic` for `litellm.anthropic.messages.create`.
        model_name: The name that LiteLLM knows, such as that of an Azure deployment; by default the
            context's model, whose limits apply in any case.
    """
    payload: dict[str, Any] = context.to_request(api)
    payload["model"] = model_name or context.metadata.asked_model
    if api == "openai_chat" and context.provider in ("anthropic", "gemini"):
        is_first = True
        for message in payload["messages"]:
            is_first = is_first and message["role"] == "system"
            if message["role"] == "system" and not is_first:
                message["role"] = "user"
    return payload


class FitCallback(CustomLogger):
    """Fits the messages of each asynchronous call, also in a proxy, once its model is chosen.

    If messages cannot fit, it raises LiteLLM's `ContextWindowExceededError`, for which a proxy may
    have fallbacks.

    Args:
        model: The model whose rules and limits apply; by default the one that is called.
        limits_of: The model behind each of your own names, such as Azure deployments:
            `{"azure/my-deployment": "gpt-4.1"}`.
        on_fit: Called with the `FittedMessages` before each request.
        settings: Those of `fit_messages`: `max_tokens`, `strategy`, `keep_last_turns` and others.
    """

    def __init__(
        self,
        model: Any = None,
        on_fit: Callable[[FittedMessages], object] | None = None,
        limits_of: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        self._limits_of = dict(limits_of or {})
        self._fitter = Fitter(model, on_fit, **settings)

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any]:
        key = _LISTS.get(getattr(call_type, "value", call_type), "")
        if not isinstance(kwargs.get(key), list):
            return kwargs
        model, system = str(kwargs["model"]), kwargs.get("system") or kwargs.get("instructions")
        counted = {"system": system, "tools": kwargs.get("tools")}
        try:
            known = self._limits_of.get(model, model)
            fitted = self._fitter.fit(kwargs[key], model=known, **counted)
        except AssemblyError as error:
            is_overflow = isinstance(error, ContextOverflowError)
            kind = ContextWindowExceededError if is_overflow else BadRequestError
            raise kind(str(error), model, "") from error
        return {**kwargs, key: fitted.messages}
