"""`AssembledContext`, the result of assembling, and what a provider renders it from."""

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Required,
    TypeAlias,
    TypedDict,
    cast,
)

from context_assembler.errors import PayloadWarning, brief_repr
from context_assembler.events import CallRow, SessionEvent
from context_assembler.ports import Payload, PromptSection, ToolSpec, Turn
from context_assembler.report import Violations

if TYPE_CHECKING:
    from anthropic.types import MessageParam, TextBlockParam, ToolUnionParam
    from google.genai.types import ContentDict, GenerateContentConfigDict
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolUnionParam
    from openai.types.responses import ResponseInputItemParam
    from openai.types.responses import ToolParam as ResponsesTool

    from context_assembler.compaction import CompactionCheck
    from context_assembler.core import Call
    from context_assembler.models import ModelLimits
    from context_assembler.options import Parameters
    from context_assembler.report import Report

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
        nonce: What the tags of notes carry, the same in every call of a session.
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
    nonce: str = ""


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


def learned_key(provider: str, model: str, shape: str, counter: str) -> str:
    """Return what calls must share for the usage of one to correct the counts of another."""
    return f"{provider} {model} {shape} {counter}"


# ---- tokens ----


class LedgerRow(NamedTuple):
    """One user of the window."""

    kind: LedgerKind
    name: str
    tokens: int


class Ledger(NamedTuple):
    """The one table of who uses how many tokens of the window.

    Attributes:
        window_tokens: The model's window.
        reserve_tokens: Kept free for the reply.
        budget_tokens: What system prompt, tools, history and notes may use together.
        rows: One for each section, tool, and for history and notes.
        counter: Name of the counter behind the figures; `is_exact` tells whether it guesses.
        factor: What reported usage corrects the counts of this call's new messages by.
        counted_tokens: The provider's own count of this payload (`exact=True`), or `None`.
        cleared_tokens: What the provider cleared of the last call (`context_edits`), as it counted;
            it will clear as much of this one.
    """

    window_tokens: int
    reserve_tokens: int
    budget_tokens: int
    rows: tuple[LedgerRow, ...] = ()
    counter: str = ""
    is_exact: bool = False
    factor: float = 1.0
    counted_tokens: int | None = None
    cleared_tokens: int = 0

    def __repr__(self) -> str:
        return brief_repr(self)

    def tokens_of(self, *kinds: LedgerKind) -> int:
        """Return the tokens of all rows of these kinds."""
        return sum(row.tokens for row in self.rows if row.kind in kinds)

    @property
    def fixed_tokens(self) -> int:
        """System prompt, tools and the request's own overhead: what no cut can free."""
        return self.tokens_of("system", "tools", "overhead")

    @property
    def used_tokens(self) -> int:
        """All rows together."""
        return sum(row.tokens for row in self.rows)

    @property
    def expected_tokens(self) -> int:
        """What the provider will charge, as near as is known; no cut is made by it."""
        counted = self.used_tokens if self.counted_tokens is None else self.counted_tokens
        return max(counted - self.cleared_tokens, 0)

    @property
    def free_tokens(self) -> int:
        """What of the budget nobody uses."""
        return self.budget_tokens - self.used_tokens


def divide_tokens(whole: int, weights: Sequence[int]) -> list[int]:
    """Divide a whole number by weights; the shares add up to it."""
    bounds = [0, *accumulate(weights)]
    divisor = bounds[-1] or 1
    ends = [whole * bound // divisor for bound in bounds]
    ends[-1] = whole
    return [end - start for start, end in pairwise(ends)]


def input_budget(
    limits: "ModelLimits",
    *,
    max_tokens: int,
    max_context_tokens: int | None = None,
    reserve_tokens: int | None = None,
) -> int:
    """Return the tokens that system prompt, tools, history and notes may use together.

    If input and reply share the window, the reserve comes off it first; a vendor's own input limit
    holds as well. Negative if the reserve exceeds the window.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/context-windows (read 2026-08-21)
    """
    usable, is_shared = limits.window_tokens, limits.window_kind == "shared"
    if is_shared:
        usable -= max_tokens if reserve_tokens is None else reserve_tokens
    if limits.input_tokens is not None:
        usable = min(usable, limits.input_tokens) if is_shared else limits.input_tokens
    if max_context_tokens is None:
        return usable
    return min(usable, max_context_tokens - (reserve_tokens or 0))


# ---- payloads, as the SDKs' type checkers know them ----
# They name what every payload has, and what a call cannot be given besides. Which parameters are set
# depends on the options: `to_request` returns all of it as a plain dict.


class AnthropicPayload(TypedDict, total=False):
    """Keyword arguments for `messages.create` and `messages.stream`."""

    model: Required[str]
    max_tokens: Required[int]
    messages: Required["list[MessageParam]"]
    system: "list[TextBlockParam]"
    tools: "list[ToolUnionParam]"


class OpenAIChatPayload(TypedDict, total=False):
    """Keyword arguments for `chat.completions.create`."""

    model: Required[str]
    messages: Required["list[ChatCompletionMessageParam]"]
    tools: "list[ChatCompletionToolUnionParam]"


class OpenAIResponsesPayload(TypedDict, total=False):
    """Keyword arguments for `responses.create`."""

    model: Required[str]
    input: Required["list[ResponseInputItemParam]"]
    tools: "list[ResponsesTool]"


class GeminiPayload(TypedDict):
    """Keyword arguments for `models.generate_content` and `generate_content_stream`."""

    model: str
    contents: "list[ContentDict]"
    config: "GenerateContentConfigDict"


# ---- the context ----


class Truncation(NamedTuple):
    """What a cut did: messages left out, and the history's tokens before and after it."""

    removed_count: int = 0
    removed_tokens: int = 0
    original_tokens: int = 0
    final_tokens: int = 0


class ContextMetadata:
    """Facts about one assembled context; most are computed when they are read.

    Attributes:
        cut_id: A number for how the history is cut; 0: not at all. While it stays the same from
            step to step, each payload is the one before plus new messages.
        asked_model: The model as the caller wrote it; `model_id` is its row.
        incarnation: Differs from that of an earlier or later session with the same id.
        last_seq: The last event that the context was made from.
        skill_allowed_tools: By active skill, the tools that its author wants approved in advance: a
            wish that the application may grant; nothing is limited by it here.
    """

    def __init__(self, call: "Call") -> None:
        self._call = call
        self.session_id, self.model_id = call.session_id, call.model_id
        self.asked_model = call.request.limits.asked_id
        self.agent_id, self.cut_id = call.agent_id, call.cut_id
        self.last_seq, self.incarnation = call.last_seq, call.incarnation
        self.active_skills = call.active_skills
        self.skill_allowed_tools = call.skill_allowed_tools
        self.assembly_ms, self.cache_hit = 0.0, False

    def __repr__(self) -> str:
        return (
            f"ContextMetadata({self.session_id!r}, {self.model_id!r}, last_seq={self.last_seq}, "
            f"cut_id={self.cut_id})"
        )

    @cached_property
    def ledger(self) -> Ledger:
        """Who uses how many tokens of the window."""
        return self._call.ledger()

    @cached_property
    def truncation(self) -> Truncation:
        """How many messages were left out, with how many tokens."""
        return self._call.truncation()

    @property
    def truncated(self) -> bool:
        """Whether anything of the history was shortened or left out."""
        return self.cut_id != 0

    @property
    def truncated_by(self) -> str | None:
        """The strategy that did it."""
        return self._call.strategy if self.truncated else None

    @cached_property
    def _compaction(self) -> "CompactionCheck":
        return self._call.compaction()

    @property
    def should_compact(self) -> bool:
        """Whether the session should be compacted before its next call."""
        return bool(self._compaction and self._compaction.needed)

    @property
    def compaction_reason(self) -> str | None:
        """Why it should, if it should."""
        return self._compaction.reason if self._compaction else None


class AssembledContext:
    """One request, ready for any provider's SDK, with the report of how it came about.

    It never changes, and neither does what it renders, however its session grows.
    """

    def __init__(self, call: "Call", *, checks_payloads: bool = True) -> None:
        self._call, self._checks = call, checks_payloads
        self.metadata = ContextMetadata(call)

    def __repr__(self) -> str:
        return f"AssembledContext({self.metadata!r}, provider={self.provider!r})"

    def timed(self, *, assembly_ms: float, cache_hit: bool) -> "AssembledContext":
        """Return the same context as the answer to another call of `assemble`."""
        made = AssembledContext(self._call, checks_payloads=self._checks)
        made.metadata.assembly_ms, made.metadata.cache_hit = assembly_ms, cache_hit
        return made

    def counted(self, tokens: int | None, *, warning: str = "") -> "AssembledContext":
        """Return the same context with the provider's own count of its payload in the ledger."""
        made = self.timed(assembly_ms=self.metadata.assembly_ms, cache_hit=False)
        report = made.report = copy(self.report)
        report.ledger = self.metadata.ledger._replace(counted_tokens=tokens)
        made.metadata.ledger = report.ledger
        if warning:
            report.warnings = (*self.report.warnings, warning)
        return made

    @property
    def provider(self) -> str:
        """The wire protocol that `to_request` renders for."""
        return self._call.provider

    @property
    def system_prompt(self) -> str:
        """The whole system prompt."""
        return self._call.request.system

    @property
    def messages(self) -> list[Turn]:
        """The kept history and this call's notes, oldest first; the list is the caller's own."""
        return self._call.turns()

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that the model may call."""
        request = self._call.request
        return request.tool_plan.offered if request.tool_plan is not None else request.tools

    @property
    def parameters(self) -> "Parameters":
        """The settled parameters."""
        return self._call.request.parameters

    @cached_property
    def report(self) -> "Report":
        """What was kept, cut and repaired, and why."""
        return self._call.report()

    def check_compaction(self, *, is_explicit: bool = False) -> "CompactionCheck":
        """Return whether the session that this was made from should be compacted."""
        return self._call.compaction(is_explicit=is_explicit)

    def goes_on(self, last: CallRow) -> bool:
        """Whether the history is cut where a recorded call's was, behind the same summary."""
        return self._call.goes_on(last)

    def columns(self) -> tuple[bytes, list[int], list[int]]:
        """Return kinds, tokens and events (0: none) of the history's lines, without any cut."""
        return self._call.columns()

    def sent(self, provider: str | None = None) -> Sent:
        """Return what `record` keeps of the call to a provider, by default the model's own."""
        return self._call.sent(provider or self.provider)

    def to_anthropic(self) -> AnthropicPayload:
        """Return keyword arguments for `anthropic.Anthropic().messages.create`."""
        return cast("AnthropicPayload", self.to_request("anthropic"))

    def to_openai_chat(self) -> OpenAIChatPayload:
        """Return keyword arguments for `openai.OpenAI().chat.completions.create`."""
        return cast("OpenAIChatPayload", self.to_request("openai_chat"))

    def to_openai_responses(self) -> OpenAIResponsesPayload:
        """Return keyword arguments for `openai.OpenAI().responses.create`."""
        return cast("OpenAIResponsesPayload", self.to_request("openai_responses"))

    def to_gemini(self) -> GeminiPayload:
        """Return keyword arguments for `google.genai.Client().models.generate_content`."""
        return cast("GeminiPayload", self.to_request("gemini"))

    def to_request(self, provider: str | None = None) -> Payload:
        """Return keyword arguments for the model's own provider, or the one named.

        The payload is the caller's own: changing it changes no other one.

        Raises:
            UnknownOptionError: No bundled provider has that name.
            UnsupportedRequestError: Its API cannot express this request.
            ContextOverflowError: As for `for_provider`.

        Warns:
            PayloadWarning: The provider will refuse the payload: a fault of the assembler.
        """
        name = provider or self.provider
        payload = self._call.payload(name)
        if self._checks:
            broken = self._call.check(name, payload, is_whole=False)
            if broken.refused:
                warnings.warn(
                    f"{name} will refuse this payload of session {self._call.session_id!r}: "
                    f"{'; '.join(map(str, broken.refused))}. The assembler should not have made it: please report "
                    "this.",
                    PayloadWarning,
                    stacklevel=3,
                )
        return payload

    def check(self, provider: str | None = None) -> Violations:
        """Return what the provider refuses in its payload, which is nothing, and advice.

        `check().refused` is empty: that is the promise. `check().advice` names what the provider
        takes, but something is lost.
        """
        name = provider or self.provider
        return self._call.check(name, self._call.payload(name), is_whole=True)

    def for_provider(self, provider: str) -> "AssembledContext":
        """Return the context that a payload for that provider is rendered from, with its report.

        If the model speaks that protocol as well, the history is cut for it, and reasoning that
        came over it is sent. For any other provider it is the same request as that provider takes
        it.

        Raises:
            UnknownOptionError: No bundled provider has that name.
            ContextOverflowError: The request is made again, and what may not be dropped does not
                fit.
        """
        if provider == self.provider:
            return self
        made, about = self._call.other(provider), self.metadata
        return AssembledContext(made, checks_payloads=self._checks).timed(
            assembly_ms=about.assembly_ms, cache_hit=about.cache_hit
        )
