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
from context_assembler.ports import ChangeForms, Payload, ToolSearch, Turn
from context_assembler.providers.wire import Reply
from context_assembler.report import ReportEntry, Violations


class Wire(Protocol):
    """The messages of one request in the provider's shape, grown turn by turn.

    `add` appends a turn; an assistant turn with calls is followed by the turn of their results. An
    element that was in `messages` is never changed: a merge replaces the last one. `mark` returns
    what `reset` goes back to. `prefix` returns the hash of system prompt, tools and all added turns,
    without cache marks and reasoning. `write` returns keyword arguments for the SDK, plain JSON that
    belongs to the caller; an `UnsupportedRequestError` if the API cannot express the request for this
    model, an `EmptySessionError` if no message has anything to send.
    """

    messages: list[dict[str, Any]]
    entries: list[ReportEntry]

    def add(self, turn: Turn) -> None: ...
    def mark(self) -> object: ...
    def reset(self, mark: Any) -> None: ...
    def prefix(self) -> str: ...
    def write(self, request: Request) -> Payload: ...


class Provider(Protocol):
    """What the module of a provider offers.

    Attributes:
        read_reply: Reads an SDK's object, a dict, or the list of a stream's events; a `ReplyError`
            if it is none of this provider's, or not finished.
        matches_reply: Whether a reply has this provider's shape.
        read_messages: Returns the events of a request, or of a list of its messages: type and stored
            body. Its second argument gets place and half a sentence for whatever is not kept as it
            came.
        change_forms: How a model can learn of changed tools after the history.
        tool_search: How a model searches for deferred tools; `None`: it cannot.
    """

    NAME: str
    Wire: Callable[[Request], Any]
    read_reply: Callable[..., Reply]
    matches_reply: Callable[[Any], bool]
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


def provider_for_reply(reply: Any, *, asked: str | None = None) -> Provider:
    """Return the provider whose shape the reply has.

    Args:
        asked: The provider that was asked; if the reply is its own, no other is loaded.

    Raises:
        ReplyError: No bundled provider answers like that.
    """
    for name in sorted(PROVIDERS, key=lambda name: name != asked):
        if PROVIDERS[name].matches_reply(reply):
            return PROVIDERS[name]
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


__all__ = ["PROVIDERS", "Provider", "Reply", "Wire", "check_payload", "provider_for_reply"]
