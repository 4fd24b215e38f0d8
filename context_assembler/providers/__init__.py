"""Wire protocols: how each provider wants a request written, and how it answers.

    >>> provider = PROVIDERS["anthropic"]
    >>> payload = provider.Wire(request).write(request)

A provider's module is loaded when it is first looked up: a request needs one of them.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import cache
from importlib import import_module
from typing import Any, Final, Protocol

from context_assembler.context import Request
from context_assembler.errors import ReplyError
from context_assembler.events import JsonObject
from context_assembler.models import ModelLimits
from context_assembler.ports import ChangeForms, ToolSearch
from context_assembler.providers.wire import Reply, field_of
from context_assembler.report import Violations


class Provider(Protocol):
    """What the module of a provider offers.

    Attributes:
        read_reply: Reads an SDK's object, a dict, or the list of a stream's events; a `ReplyError`
            if it is none of this provider's, or not finished.
        read_messages: Returns the events of a request, or of a list of its messages: type and stored
            body. Its second argument gets place and half a sentence for whatever is not kept as it
            came.
        change_forms: How a model can learn of changed tools after the history.
        tool_search: How a model searches for deferred tools; `None`: it cannot.
    """

    NAME: str
    Wire: Callable[[Request], Any]
    read_reply: Callable[..., Reply]
    read_messages: Callable[..., list[tuple[str, dict[str, Any]]]]
    change_forms: Callable[[ModelLimits], ChangeForms]
    tool_search: Callable[[ModelLimits], ToolSearch | None]


_load: Final[Callable[[str], Any]] = cache(import_module)  # every call looks some up


class _Providers(Mapping[str, Provider]):
    _names: Final = ("anthropic", "openai_chat", "openai_responses", "gemini")

    def __getitem__(self, name: str) -> Provider:
        if name not in self._names:
            raise KeyError(name)
        provider: Provider = _load(f"{__name__}.{name}")
        return provider

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


PROVIDERS: Final[Mapping[str, Provider]] = _Providers()


_CHAT: Final = ("chat.completion", "chat.completion.chunk", None)
_GEMINI: Final = tuple(
    "candidates prompt_feedback promptFeedback usage_metadata usageMetadata".split()
)


def provider_for_reply(reply: Any) -> Provider:
    """Return the provider whose shape the reply has, or the first event of its stream that tells.

    Raises:
        ReplyError: No bundled provider answers like that.
    """
    for one in reply if issubclass(type(reply), list | tuple) else [reply]:
        kind, made = str(field_of(one, "type")), field_of(one, "object")
        is_reply = kind == "message" and field_of(one, "role") in (None, "assistant")
        is_reply = is_reply and field_of(one, "status") is None  # an item of Responses has one
        if kind == "message_start" or (is_reply and isinstance(field_of(one, "content"), list)):
            return PROVIDERS["anthropic"]
        if kind.startswith("response.") or made in ("response", "response.compaction"):
            return PROVIDERS["openai_responses"]
        if made in _CHAT and isinstance(field_of(one, "choices"), list):
            return PROVIDERS["openai_chat"]
        if any(field_of(one, name) is not None for name in _GEMINI):
            return PROVIDERS["gemini"]
    raise ReplyError(reply, reason=f"it has the shape of none of {', '.join(sorted(PROVIDERS))}")


def check_payload(
    name: str,
    payload: JsonObject,
    *,
    limits: ModelLimits | None = None,
    today: date | None = None,
    start: int = 0,
) -> Violations:
    """Return the provider's rules that a payload, or any other JSON, breaks.

    Args:
        name: One of `PROVIDERS`.
        limits: The model's row; without it, rules that depend on the model are left out.
        today: The day that dated rules are checked against; `None`: the newest hold.
        start: The first message that was not checked before; if it is not 0, only messages are.
    """
    rules = _load(f"{__name__}.rules_{PROVIDERS[name].NAME}")
    return Violations(rules.check(payload, limits, today, start))


__all__ = ["PROVIDERS", "Provider", "Reply", "check_payload", "provider_for_reply"]
