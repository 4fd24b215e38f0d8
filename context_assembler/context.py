"""`AssembledContext`, the result of assembling, and what a provider renders it from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from context_assembler.events import CallRow, SessionEvent
from context_assembler.ports import PromptSection, ToolSpec

if TYPE_CHECKING:
    from context_assembler.models import ModelLimits
    from context_assembler.options import Parameters

LedgerKind: TypeAlias = Literal["system", "tools", "history", "notes", "overhead"]


@dataclass(slots=True, kw_only=True)
class Request:
    """Everything of one request but its messages: what a provider renders from.

    Attributes:
        system: The whole system prompt.
        sections: What it is made of, in the order sent.
        tools: Sorted by name; those declared in front of the history.
        tool_plan: How tools that came or went since the epoch began are told; `None`: unchanged.
        cache: Prompt-cache policy.
        account: The caller's tag for its API account.
        newest_at: When the newest event happened, as a POSIX time; `None`: nobody knows.
    """

    limits: "ModelLimits"
    parameters: "Parameters"
    system: str = ""
    sections: Sequence[PromptSection] = ()
    tools: tuple[ToolSpec, ...] = ()
    tool_plan: Any = None
    session_id: str = ""
    cache: Literal["auto", "off"] = "auto"
    account: str | None = None
    newest_at: float | None = None


class Sent(NamedTuple):
    """What `record` keeps of a call; `AssembledContext.sent(provider)` returns it.

    Attributes:
        row: The row of the call, without what the reply adds (`reply_seq`, `usage`, `created_at`).
            Its `account` is the route that signed parts are bound to.
        texts: By hash, the system prompt and the tool list that the row names.
        notes: The notes that this call added, as events with `answers_seq`, not stored yet.
        request: What the payload was rendered from, for the provider that answered.
        counted_as: `[counter, shape, tokens]`: which family counted (name and formula), `text` or
            `tools`, and its uncorrected count of the whole prompt; empty if reported usage says
            nothing about it (media, opaque or signed parts, native tools, deferred tools).
    """

    row: CallRow
    texts: Mapping[str, str]
    notes: tuple[SessionEvent, ...]
    request: Request
    counted_as: tuple[str, str, int] | tuple[()] = ()
