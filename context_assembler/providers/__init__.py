"""Wire protocols: how each provider wants a request written, and how it answers.

    >>> PROVIDERS["anthropic"].payload(request, wire)

A provider's module is loaded when it is first looked up: a request needs one of them.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from importlib import import_module
from typing import Any, Final, Protocol

from context_assembler.context import Request
from context_assembler.errors import ReplyError
from context_assembler.events import JsonObject
from context_assembler.models import ModelLimits
from context_assembler.ports import ChangeForms, Payload, ToolSearch, Turn
from context_assembler.providers.wire import Reply
from context_assembler.report import ReportEntry, Violation


class Wire(Protocol):
    """The messages of one request in the provider's shape, grown turn by turn.

    An element that was in `messages` is never changed: a merge replaces the last one.
    """

    messages: list[dict[str, Any]]
    entries: list[ReportEntry]

    def __init__(self, request: Request) -> None: ...

    def add(self, turn: Turn) -> None:
        """Append a turn; an assistant turn with calls is followed by the turn of their results."""
        ...

    def mark(self) -> object:
        """Return what `reset` goes back to."""
        ...

    def reset(self, mark: object) -> None:
        """Forget the turns that were added after the mark."""
        ...

    def prefix(self) -> str:
        """Return the hash of system prompt, tools and all added turns.

        Cache marks and reasoning are not part of it.
        """
        ...


class Provider(Protocol):
    """What the module of a provider offers."""

    NAME: str
    Wire: type[Wire]

    def payload(self, request: Request, wire: Wire) -> Payload:
        """Return keyword arguments for the SDK; whoever gets them may change them."""
        ...

    def read_reply(self, reply: Any, request: Request | None = None) -> Reply:
        """Read an SDK's object, a dict, or the list of a stream's events.

        Raises:
            ReplyError: The reply is none of this provider's, or not finished.
        """
        ...

    def matches_reply(self, reply: Any) -> bool:
        """Whether the reply has this provider's shape."""
        ...

    def change_forms(self, limits: ModelLimits) -> ChangeForms:
        """Return how the model can learn of changed tools after the history."""
        ...

    def tool_search(self, limits: ModelLimits) -> ToolSearch | None:
        """Return how the model searches for deferred tools; `None`: it cannot."""
        ...


class _Providers(Mapping[str, Provider]):
    _names: Final = ("anthropic", "openai_chat", "openai_responses", "gemini")

    def __getitem__(self, name: str) -> Provider:
        if name not in self._names:
            raise KeyError(name)
        module: Any = import_module(f"context_assembler.providers.{name}")
        provider: Provider = module
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
) -> list[Violation]:
    """Return the provider's rules that a payload, or any other JSON, breaks.

    Args:
        limits: The model's row; without it, rules that depend on the model are left out.
        today: The day that dated rules are checked against; `None`: the newest hold.
        start: The first message or item that was not checked before.
    """
    if name not in PROVIDERS:
        raise KeyError(name)
    rules: Any = import_module(f"context_assembler.providers.rules_{name}")
    found: list[Violation] = rules.check(payload, limits=limits, today=today, start=start)
    return found


__all__ = [
    "PROVIDERS",
    "Provider",
    "Reply",
    "Wire",
    "check_payload",
    "provider_for_reply",
]
