"""The step that decides which signed reasoning may still be sent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from context_assembler.values.events import Provenance
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import Opaque, Part, Text, Thinking, ToolCall
from context_assembler.values.report import ReportEntry

ResolveModel: TypeAlias = Callable[[str], str]

PROVIDERS_WITH_REASONING: Final = frozenset({"anthropic", "openai_responses", "gemini"})
"""Wire protocols that take reasoning back.

Source:
    https://platform.openai.com/docs/guides/reasoning (read 2026-11-27): a request of Chat
    Completions has no field for the reasoning of earlier turns.
"""

_RESPONSES: Final = "openai_responses"
_GEMINI: Final = "gemini"
_REASONS: Final = {
    "unsigned": "carry no signature, and only signed reasoning is taken back",
    "unsupported": "cannot be sent: this provider takes no reasoning back",
    "origin": "come from a reply whose model is not known",
    "provider": "were made by another provider",
    "model": "were made by another model",
    "account": "were made under another account",
    "fingerprint": "are bound to what stood before them, and that was not recorded",
    "prefix": "are bound to what stood before them, and that has changed",
    "unfinished": "are followed by nothing that they led to, and such are refused",
    "sealed": "hold a compaction of another account, which cannot be read here; their text stays",
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
        https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (read 2026-11-27): what
        the prefix of a reasoning item is, and that one whose prefix changed is dropped silently.
    """
    target = _Target(
        provider=provider,
        limits=limits,
        account=account,
        fingerprints=fingerprints,
        resolve_model=resolve_model,
    )
    tally = _Tally()
    fitting = [_fit_to_responses(message, target, tally) for message in messages]
    objections = [_objection(at, message, target) for at, message in enumerate(fitting)]
    refused = (at for at in range(len(fitting) - 1, -1, -1) if objections[at] is not None)
    last_refused = -1 if provider == _GEMINI else next(refused, -1)
    kept: list[Message] = []
    for at, message in enumerate(fitting):
        reason = (objections[at] or "chain") if at <= last_refused else objections[at]
        stripped = _strip_signatures(_strip(message, reason, tally), reason, target, tally)
        if stripped.parts or stripped is messages[at]:
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
    if not signed and not _is_signed_by_part(message, target):
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


def _is_signed_by_part(message: Message, target: _Target) -> bool:
    """Whether texts or calls of the message carry signatures that the target would check.

    Gemini signs parts, each for itself: bound to model and account, not to what stands before it,
    and without a chain that could have holes.

    Source:
        https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-27)
    """
    return target.provider == _GEMINI and any(map(_bears_signature, message.parts))


def _bears_signature(part: Part) -> bool:
    return isinstance(part, Text | ToolCall) and part.signature is not None


def _strip_signatures(
    message: Message, reason: str | None, target: _Target, tally: "_Tally"
) -> Message:
    """Return the message without the signatures on its texts and calls, which stay themselves."""
    if reason is None or not _is_signed_by_part(message, target):
        return message
    count = sum(map(_bears_signature, message.parts))
    tally.add(reason, message, count, what="thought signature(s)")
    parts: list[Part] = [
        replace(part, signature=None) if isinstance(part, Text | ToolCall) else part
        for part in message.parts
    ]
    return replace(message, parts=tuple(parts))


def _fit_to_responses(message: Message, target: _Target, tally: "_Tally") -> Message:
    """Return the message without what OpenAI Responses refuses wherever it stands.

    That is reasoning of a reply that was cut off before it led to anything, and the compaction of
    another account. Both stay away at every later call as well, so that no prefix changes.

    Source:
        https://github.com/openai/openai-agents-python/issues/1611 (read 2026-11-27)
        https://github.com/pydantic/pydantic-ai/issues/4608 (read 2026-11-27)
    """
    if target.provider != _RESPONSES or message.role != "assistant":
        return message
    made_by = message.made_by
    is_foreign = made_by is not None and made_by.account != target.account
    sealed = [part for part in message.parts if is_foreign and _is_compaction(part)]
    tally.add("sealed", message, len(sealed))
    parts: list[Part] = [
        Text(part.text) if isinstance(part, Opaque) and part in sealed else part
        for part in message.parts
    ]
    finished = len(parts)
    while finished and _is_own_reasoning(parts[finished - 1]):
        finished -= 1
    tally.add("unfinished", message, len(parts) - finished)
    if parts and not finished:
        tally.add_emptied(message)
    is_same = finished == len(parts) and not sealed
    return message if is_same else replace(message, parts=tuple(parts[:finished]))


def _is_own_reasoning(part: Part) -> bool:
    return isinstance(part, Thinking) and part.is_signed and part.provider == _RESPONSES


def _is_compaction(part: Part) -> bool:
    if not isinstance(part, Opaque) or part.provider != _RESPONSES:
        return False
    return part.block.get("type") == "compaction"


def _is_signed(part: Part) -> bool:
    return isinstance(part, Thinking) and part.is_signed


class _Tally:
    """How many parts were left out for each reason, and the newest message of each."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._newest_ids: dict[tuple[str, str], str] = {}
        self._emptied: list[ReportEntry] = []

    def add(
        self, reason: str, message: Message, part_count: int, *, what: str = "thinking part(s)"
    ) -> None:
        if part_count:
            key = (what, reason)
            self._counts[key] = self._counts.get(key, 0) + part_count
            self._newest_ids[key] = message.id

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
                id=self._newest_ids[what, reason],
                decision="cleared",
                rule=f"reasoning.{reason}",
                reason=f"{count} {what}, the last one here, {_REASONS[reason]}.",
            )
            for (what, reason), count in self._counts.items()
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
