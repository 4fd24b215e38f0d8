"""The step that decides which signed reasoning may still be sent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from context_assembler.values.events import Provenance
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import Part, Thinking
from context_assembler.values.report import ReportEntry

ResolveModel: TypeAlias = Callable[[str], str]

PROVIDERS_WITH_REASONING: Final = frozenset({"anthropic", "openai_responses", "gemini"})
"""Wire protocols that take reasoning back.

Source:
    https://platform.openai.com/docs/guides/reasoning (read 2026-11-27): a request of Chat
    Completions has no field for the reasoning of earlier turns.
"""

_REASONS: Final = {
    "unsigned": "carry no signature, and only signed reasoning is taken back",
    "unsupported": "cannot be sent: this provider takes no reasoning back",
    "origin": "come from a reply whose model is not known",
    "provider": "were made by another provider",
    "model": "were made by another model",
    "account": "were made under another account",
    "fingerprint": "are bound to what stood before them, and that was not recorded",
    "prefix": "are bound to what stood before them, and that has changed",
    "chain": "stand before reasoning that cannot be sent, and holes in the chain are refused",
}


def bind_reasoning(
    messages: Sequence[Message],
    *,
    provider: str,
    limits: ModelLimits,
    account: str | None = None,
    fingerprints: Sequence[str] | None = None,
    resolve_model: ResolveModel = str,
) -> tuple[tuple[Message, ...], tuple[ReportEntry, ...]]:
    """Return the messages without the reasoning that would be refused, and what was left out.

    Signed reasoning stays whole and verbatim from some message on and is left out before it: it may
    be missing from the start of a history, but not from the middle. A message that held
    nothing else goes. Messages that keep all their parts are returned as the same objects.

    Args:
        provider: The wire protocol to be rendered for.
        account: The caller's tag for the account or route in use.
        fingerprints: Element *i* identifies what stands before message *i*, as it will be sent.
            Without them prefixes are not compared: what is left out then can be told from each
            message alone, whatever is cut later.
        resolve_model: Turns a recorded model id into the registry's, so that a dated snapshot
            counts as its model; `LookupError` means that nobody knows it.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
        (read 2026-11-27): the signature is bound to model, account and prefix; blocks may be
        dropped from the start of the history, not from the middle; an empty text with a
        signature is a complete block.
    """
    target = _Target(
        provider=provider,
        limits=limits,
        account=account,
        fingerprints=fingerprints,
        resolve_model=resolve_model,
    )
    objections = [_objection(at, message, target) for at, message in enumerate(messages)]
    refused = (at for at in range(len(messages) - 1, -1, -1) if objections[at] is not None)
    last_refused = next(refused, -1)
    tally = _Tally()
    kept: list[Message] = []
    for at, message in enumerate(messages):
        reason = (objections[at] or "chain") if at <= last_refused else None
        stripped = _strip(message, reason, tally)
        if stripped.parts or stripped is message:
            kept.append(stripped)
    return tuple(kept), tally.entries()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Who the reasoning would be sent to."""

    provider: str
    limits: ModelLimits
    account: str | None
    fingerprints: Sequence[str] | None
    resolve_model: ResolveModel

    def reads_model(self, model: str) -> bool:
        """Whether the model that signed is the model asked for."""
        limits = self.limits
        if model in {limits.id, limits.api_id, limits.asked_id, *limits.aliases} - {""}:
            return True
        try:
            return self.resolve_model(model) == limits.id
        except LookupError:
            return False

    def objects_to_prefix(self, at: int, made_by: Provenance) -> str | None:
        """Return why a prefix-bound signature at this message would be refused."""
        if not self.limits.thinking.is_prefix_bound:
            return None
        if made_by.prefix_fingerprint is None:
            return "fingerprint"
        if self.fingerprints is None:
            return None
        if at >= len(self.fingerprints):
            return "fingerprint"
        return None if made_by.prefix_fingerprint == self.fingerprints[at] else "prefix"


def _objection(at: int, message: Message, target: _Target) -> str | None:
    """Return the key of the reason why the message's signed parts cannot be sent."""
    signed = [part for part in message.parts if _is_signed(part)]
    if not signed:
        return None
    if target.provider not in PROVIDERS_WITH_REASONING:
        return "unsupported"
    made_by = message.made_by
    if made_by is None:
        return "origin"
    makers = {made_by.provider, *(part.provider for part in signed if isinstance(part, Thinking))}
    if makers != {target.provider}:
        return "provider"
    if not target.reads_model(made_by.model):
        return "model"
    if made_by.account != target.account:
        return "account"
    return target.objects_to_prefix(at, made_by)


def _is_signed(part: Part) -> bool:
    return isinstance(part, Thinking) and part.is_signed


class _Tally:
    """How many parts were left out for each reason, and the newest message of each."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._newest_ids: dict[str, str] = {}
        self._emptied: list[ReportEntry] = []

    def add(self, reason: str, message: Message, part_count: int) -> None:
        if part_count:
            self._counts[reason] = self._counts.get(reason, 0) + part_count
            self._newest_ids[reason] = message.id

    def add_emptied(self, message: Message) -> None:
        entry = ReportEntry(
            kind="message",
            id=message.id,
            decision="dropped",
            rule="reasoning.empty",
            reason="Nothing was left of the message without its reasoning.",
        )
        self._emptied.append(entry)

    def entries(self) -> tuple[ReportEntry, ...]:
        """Return one entry per reason, then one per message that went."""
        aggregated = [
            ReportEntry(
                kind="message",
                id=self._newest_ids[reason],
                decision="cleared",
                rule=f"reasoning.{reason}",
                reason=f"{count} thinking part(s), the last one here, {_REASONS[reason]}.",
            )
            for reason, count in self._counts.items()
        ]
        return (*aggregated, *self._emptied)


def _strip(message: Message, signed_reason: str | None, tally: _Tally) -> Message:
    """Return the message without unsigned thinking, and without signed for the reason given."""
    signed_count = sum(map(_is_signed, message.parts)) if signed_reason else 0
    unsigned_count = sum(isinstance(p, Thinking) and not p.is_signed for p in message.parts)
    if not signed_count and not unsigned_count:
        return message
    tally.add("unsigned", message, unsigned_count)
    tally.add(signed_reason or "", message, signed_count)
    parts = tuple(
        part
        for part in message.parts
        if not isinstance(part, Thinking) or (part.is_signed and not signed_count)
    )
    if not parts:
        tally.add_emptied(message)
    return replace(message, parts=parts)
