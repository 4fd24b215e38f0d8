"""The result of assembling."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from context_assembler.errors import PayloadWarning, UnsupportedRequestError
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.epochs import Epoch, SentEpoch
from context_assembler.values.ledger import Ledger
from context_assembler.values.messages import CLOCK, Message
from context_assembler.values.offered_tools import callable_tools
from context_assembler.values.parts import Json
from context_assembler.values.report import Report, Violation
from context_assembler.values.summaries import is_sealed
from context_assembler.values.tools import ToolSpec

Payload: TypeAlias = dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFunctions:
    """What a context needs of one provider: how to spell a draft, how to check a payload.

    `render_checked` does both, faster than one by one where most of the payload was sent before;
    of the violations it finds all that are refused, where there is one. `None`: one by one.
    """

    render: Callable[[Draft], Payload]
    check: Callable[[Payload, Draft], list[Violation]]
    render_checked: Callable[[Draft], tuple[Payload, list[Violation]]] | None = None

    def send(self, draft: Draft) -> tuple[Payload, list[Violation]]:
        """Return the payload, and the rules that it would be refused for, perhaps with others."""
        if self.render_checked is not None:
            return self.render_checked(draft)
        payload = self.render(draft)
        return payload, self.check(payload, draft)


@dataclass(frozen=True, kw_only=True)
class ContextMetadata:
    """Facts about one assembled context.

    `cut_level` is a number for how the history is cut: 0 means not at all. While it stays
    the same from step to step, each payload is the one before plus new messages.
    `skill_allowed_tools` holds, by active skill, the tools that its author wants approved in advance:
    a wish that the application may grant; nothing is limited by it here. `incarnation` tells the
    session from an earlier or later one of the same id, where its store does, and `last_mark` its last
    event from one of the same number in another history of it.
    """

    session_id: str
    model_id: str
    agent_id: str | None
    ledger: Ledger
    truncated: bool
    truncated_by: str | None
    cut_level: int
    should_compact: bool
    compaction_reason: str | None
    active_skills: tuple[str, ...]
    assembly_ms: float
    cache_hit: bool
    last_seq: int
    incarnation: str = ""
    last_mark: str = ""
    skill_allowed_tools: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]]
    )


@dataclass(frozen=True, kw_only=True)
class AssembledContext:
    """One request, ready for any provider's SDK, with the report of how it came about.

    `checks_payloads`: whether each payload is held against its provider's rules when it is spelled
    out. `epoch` is what stands in front of the conversation, for `record` to keep; `epoch_before` what
    stood there in the session's last call. `others` are the same request by another protocol that
    the model speaks and the session has spoken; `respell` makes it one for any other provider; see
    `for_provider`. `origin` is what a context for another provider was spelled from: what a third one
    is sent is spelled from that, not from what the other one does not take.
    """

    draft: Draft
    metadata: ContextMetadata
    report: Report
    provider: str
    functions: Mapping[str, ProviderFunctions] = field(repr=False, compare=False)
    checks_payloads: bool = field(default=True, repr=False, compare=False)
    epoch: Epoch = field(default_factory=Epoch, repr=False, compare=False)
    epoch_before: SentEpoch | None = field(default=None, repr=False, compare=False)
    others: Mapping[str, "AssembledContext"] = field(
        default_factory=dict[str, "AssembledContext"], repr=False, compare=False
    )
    respell: "Respell | None" = field(default=None, repr=False, compare=False)
    origin: "AssembledContext | None" = field(default=None, repr=False, compare=False)

    @property
    def system_prompt(self) -> str:
        """The whole system prompt."""
        return self.draft.system.text

    @property
    def messages(self) -> tuple[Message, ...]:
        """The kept history and this call's notes, oldest first."""
        return tuple(self.draft.messages)

    @property
    def notes(self) -> tuple[Message, ...]:
        """The notes that this call adds; `record` makes them part of the session."""
        return tuple(note for note, _ in self.placed_notes)

    @property
    def placed_notes(self) -> tuple[tuple[Message, int], ...]:
        """The notes that this call adds, each with the sequence number of the event before it.

        Clock notes further up are not among them: they are computed anew from the events around
        them, the same at every call.
        """
        placed: list[tuple[Message, int]] = []
        place = 0
        stored = [at for at, message in enumerate(self.draft.messages) if message.seq]
        for at, message in enumerate(self.draft.messages):
            place = max(place, message.seq)
            if not message.is_fresh_note:
                continue
            if not stored or at > stored[-1]:
                placed.append((message, self.metadata.last_seq))
            elif message.note != CLOCK:
                placed.append((message, place))
        return tuple(placed)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that the model may call."""
        return callable_tools(self.draft)

    @property
    def parameters(self) -> Parameters:
        """The settled parameters."""
        return self.draft.parameters

    def to_anthropic(self) -> Payload:
        """Return keyword arguments for `anthropic.Anthropic().messages.create`."""
        return self.to_request("anthropic")

    def to_openai_chat(self) -> Payload:
        """Return keyword arguments for `openai.OpenAI().chat.completions.create`."""
        return self.to_request("openai_chat")

    def to_openai_responses(self) -> Payload:
        """Return keyword arguments for `openai.OpenAI().responses.create`."""
        return self.to_request("openai_responses")

    def to_gemini(self) -> Payload:
        """Return keyword arguments for `google.genai.Client().models.generate_content`."""
        return self.to_request("gemini")

    def to_request(self, provider: str | None = None) -> Payload:
        """Return keyword arguments for the model's own provider, or the one named.

        The payload is the caller's own: whatever is done to it changes no other one.

        Raises:
            UnsupportedRequestError: No bundled provider renders for it, or its API cannot
                express this request.
            ContextOverflowError: As for `for_provider`.

        Warns:
            PayloadWarning: The provider will refuse the payload: a fault of the assembler.
        """
        functions, draft = self._functions(provider), self._draft_for(provider)
        if not self.checks_payloads:
            return functions.render(draft)
        payload, broken = functions.send(draft)
        self._warn_of_refusal(broken, provider=provider)
        return payload

    def check(self, provider: str | None = None) -> list[Violation]:
        """Return the rules of the provider that its payload breaks; an empty list is the promise."""
        functions, draft = self._functions(provider), self._draft_for(provider)
        return functions.check(functions.render(draft), draft)

    def for_provider(self, provider: str) -> "AssembledContext":
        """Return the context that a payload for that provider is spelled from, with its own report.

        Where the model speaks that protocol beside its usual one, and replies of this session came
        over it, their reasoning is sent there, and the history is cut for it. For every other provider
        it is this request as that one takes it: a row of the report for each thing that is not
        sent there or in other words, and a ledger of what is sent. Where it holds a compaction that
        its own provider sealed, without a plain text, others are sent what that covers: for them the
        request is made anew from the session, as it was when this one was made. The way there makes no
        difference: of a context for another provider it is the one that this was spelled from that
        counts.

        Raises:
            UnsupportedRequestError: No provider of that name is bundled.
            ContextOverflowError: It is made anew, and what may not be dropped does not fit.
        """
        self._functions(provider)
        provider = provider or self.provider
        origin = self._origin
        if provider in (self.provider, origin.provider):
            return self if provider == self.provider else origin
        other = origin.others.get(provider)
        if other is None:
            if origin.respell is None:
                return origin
            other = origin.respell(origin, provider)
        metadata = replace(
            other.metadata,
            assembly_ms=origin.metadata.assembly_ms,
            cache_hit=origin.metadata.cache_hit,
        )
        return replace(other, metadata=metadata, origin=origin)

    @property
    def _origin(self) -> "AssembledContext":
        return self if self.origin is None else self.origin

    def _draft_for(self, provider: str | None) -> Draft:
        """Return what is rendered: a provider adapts by itself what was made for another."""
        if provider in (None, self.provider):
            return self.draft
        origin = self._origin
        if provider not in origin.others and is_sealed(origin.draft.messages):
            return self.for_provider(provider or "").draft
        return origin.others.get(provider or "", origin).draft

    def _warn_of_refusal(self, broken: list[Violation], *, provider: str | None) -> None:
        refused = [str(violation) for violation in broken if violation.level == "refused"]
        if refused:
            warnings.warn(
                f"{provider or self.provider} will refuse this payload of session "
                f"{self.metadata.session_id!r}: {'; '.join(refused)}. "
                "The assembler should not have made it: please report this.",
                PayloadWarning,
                stacklevel=3,
            )

    def _functions(self, provider: str | None) -> ProviderFunctions:
        name = provider or self.provider
        if not isinstance(name, str) or name not in self.functions:  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            listed = ", ".join(sorted(self.functions))
            raise UnsupportedRequestError(
                "no renderer of that name is bundled",
                provider=name,
                model=self.draft.limits.id,
                remedy=f"Render for one of: {listed}.",
            )
        return self.functions[name]


Respell: TypeAlias = Callable[[AssembledContext, str], AssembledContext]
"""Spells a context for a provider that it was not made for."""
