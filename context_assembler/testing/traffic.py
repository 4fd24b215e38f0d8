"""What went over the wire, and the wires themselves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from context_assembler.testing.prompt_cache import PromptCache
from context_assembler.testing.script import ScriptedReply
from context_assembler.testing.segments import LeftOut, Segment
from context_assembler.values.events import Usage
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import JsonObject

MAX_BODY_BYTES: Final = 32 * 1024 * 1024  # Anthropic's, of one request


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """One request that reached the local provider, and what became of it.

    Attributes:
        provider: The wire it came over, a key of `PROVIDERS`.
        headers: By lower-case name.
        status: The HTTP status that was answered.
        refusal: The provider's message where the request was refused.
        usage: As reported; `None` where the request was refused.
        left_out: Signed reasoning that was taken and not used, such as another model's.
    """

    provider: str
    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    status: int = 200
    refusal: str | None = None
    usage: Usage | None = None
    left_out: Sequence[LeftOut] = ()


class RefusedRequestError(Exception):
    """A request that the provider answers with an error."""

    def __init__(self, *, status: int, kind: str, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedReply:
    """A scripted reply in its place: whose model it is, and what stands before it."""

    number: int
    reply: ScriptedReply
    limits: ModelLimits
    body: JsonObject
    segments: Sequence[Segment]
    usage: Usage
    left_out: Sequence[LeftOut] = ()


class UseCache(Protocol):
    """Asks a prompt cache what a request reads from it and writes to it."""

    def __call__(
        self,
        cache: PromptCache,
        segments: Sequence[Segment],
        /,
        *,
        body: JsonObject,
        limits: ModelLimits,
    ) -> Usage: ...


def _as_it_is(body: JsonObject) -> JsonObject:
    return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One provider's way of speaking.

    Attributes:
        provider: Its key in `PROVIDERS`.
        path: Where requests arrive.
        to_arguments: The keyword arguments that make an SDK send this body with these headers.
        find_objection: What the provider refuses beyond the rules that a payload shows by itself.
        use_cache: What the prompt cache saves.
        render_reply: The answer as JSON.
        stream_reply: That answer as server-sent events.
        render_error: An error as JSON.
        refuse_overlong: The error for a prompt of so many tokens.
        to_messages: The body with its history as messages of blocks, where it is spelled otherwise.
        max_body_bytes: How large a request may be.
    """

    provider: str
    path: str
    to_arguments: Callable[[JsonObject, Mapping[str, str]], JsonObject]
    find_objection: Callable[[Sequence[Segment], ModelLimits], str | None]
    use_cache: UseCache
    render_reply: Callable[[PlacedReply], JsonObject]
    stream_reply: Callable[[JsonObject, JsonObject], Iterator[str]]
    render_error: Callable[[RefusedRequestError], JsonObject]
    refuse_overlong: Callable[[int, int], RefusedRequestError]
    to_messages: Callable[[JsonObject], JsonObject] = _as_it_is
    max_body_bytes: int = MAX_BODY_BYTES
