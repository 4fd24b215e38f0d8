"""The step that decides which signed reasoning may still be sent."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from context_assembler.values.events import Provenance
from context_assembler.values.messages import Message
from context_assembler.values.native.part_signatures import bears_signature, without_signature
from context_assembler.values.parts import Opaque, Part, Text, Thinking
from context_assembler.values.readers import Reader
from context_assembler.values.report import ReportEntry

PROVIDERS_WITH_REASONING: Final = frozenset({"anthropic", "openai_responses", "gemini"})
"""Wire protocols that take reasoning back.

Source:
    https://platform.openai.com/docs/guides/reasoning (read 2026-11-27): a request of Chat
    Completions has no field for the reasoning of earlier turns.
"""

_ANTHROPIC: Final = "anthropic"
_RESPONSES: Final = "openai_responses"
_GEMINI: Final = "gemini"
_REASONS: Final = {
    "unsigned": "carry no signature, and only signed reasoning is taken back",
    "unsupported": "cannot be sent: Chat Completions takes no reasoning back",
    "protocol": "cannot be sent in Chat Completions; the payload of to_openai_responses() has them",
    "origin": "come from a reply whose model is not known",
    "provider": "were made by another provider",
    "model": "were made by another model",
    "account": "were made under another account, or over another route",
    "fingerprint": "are bound to what stood before them, and that was not recorded",
    "prefix": "are bound to what stood before them, and that has changed",
    "unfinished": "are followed by nothing that they led to, and such are refused",
    "sealed": "hold a compaction of another account, which cannot be read here; their text stays",
    "chain": "stand before reasoning that cannot be sent, and holes in a chain are refused",
}


def bind_reasoning(
    messages: Sequence[Message],
    *,
    reader: Reader,
    fingerprints: Sequence[str] | None = None,
) -> tuple[tuple[Message, ...], tuple[ReportEntry, ...]]:
    """Return the messages without the reasoning that would be refused, and what was left out.

    The signed reasoning of a message stays whole and verbatim, or is left out. Each message is judged
    by itself, except where a model's own reasoning is a chain: that may be missing from the start
    of a history, but not from the middle. A message that held nothing else goes. Messages that
    keep all their parts are returned as the same objects.

    Args:
        reader: Who the messages are sent to.
        fingerprints: Element *i* identifies what stands before message *i*, as it will be sent.
            Without them prefixes are not compared: what is left out then can be told from each
            message alone, whatever is cut later.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
        (read 2026-11-27): the signature is bound to model, account and prefix; blocks may be
        dropped from the start of the history, not from the middle; an empty text with a
        signature is a complete block.
        https://developers.openai.com/api/docs/guides/keep-prefix-unchanged (read 2026-11-27): what
        the prefix of a reasoning item is, and that one whose prefix changed is dropped silently.
    """
    target = _Target(reader=reader, fingerprints=fingerprints)
    tally = _Tally()
    fitting = [_fit_to_responses(message, target, tally) for message in messages]
    objections = [_objection(at, message, target) for at, message in enumerate(fitting)]
    last_missing = _last_missing_link(fitting, objections, reader)
    kept: list[Message] = []
    for at, message in enumerate(fitting):
        reason = objections[at] or ("chain" if at < last_missing else None)
        stripped = _strip_signatures(_strip(message, reason, tally), reason, target, tally)
        if stripped.parts or stripped is messages[at]:
            kept.append(_leave_container(stripped, target, tally))
    return tuple(kept), tally.entries()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Who the reasoning would be sent to, and behind what prefixes."""

    reader: Reader
    fingerprints: Sequence[str] | None

    def over(self, protocol: str) -> "_Target":
        return replace(self, reader=replace(self.reader, provider=protocol, other_protocols=()))

    def objects_to_prefix(self, at: int, made_by: Provenance) -> str | None:
        """Return why a prefix-bound signature at this message would be refused."""
        if not self.reader.limits.thinking.is_prefix_bound:
            return None
        if made_by.prefix_fingerprint is None:
            return "fingerprint"
        if self.fingerprints is None:
            return None
        if at >= len(self.fingerprints):
            return "fingerprint"
        return None if made_by.prefix_fingerprint == self.fingerprints[at] else "prefix"


def _last_missing_link(
    messages: Sequence[Message], objections: Sequence[str | None], reader: Reader
) -> int:
    """Return the place of the last link of the model's chain that cannot be sent; -1: none.

    Prefix-bound blocks of Anthropic's remember the block before them. What other providers signed is
    no link between them.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-27)
    """
    if reader.provider != _ANTHROPIC or not reader.limits.thinking.is_prefix_bound:
        return -1
    missing = (
        at
        for at in range(len(messages) - 1, -1, -1)
        if objections[at] is not None and any(map(_is_link, messages[at].parts))
    )
    return next(missing, -1)


def _is_link(part: Part) -> bool:
    return isinstance(part, Thinking) and part.is_signed and part.provider == _ANTHROPIC


def _objection(at: int, message: Message, target: _Target) -> str | None:
    """Return the key of the reason why the message's signed parts cannot be sent."""
    signed = [part for part in message.parts if isinstance(part, Thinking) and part.is_signed]
    if not signed and not _is_signed_by_part(message, target):
        return None
    made_by = message.made_by
    if target.reader.provider not in PROVIDERS_WITH_REASONING:
        others = (target.over(protocol) for protocol in target.reader.other_protocols)
        is_sent_there = any(_objection(at, message, other) is None for other in others)
        return "protocol" if is_sent_there else "unsupported"
    if made_by is None:
        return "origin"
    makers = {made_by.provider, *(part.provider for part in signed)}
    if makers != {target.reader.provider}:
        return "provider"
    if not target.reader.is_model(made_by.model):
        return "model"
    if made_by.account != target.reader.account:
        return "account"
    return target.objects_to_prefix(at, made_by)


def _is_signed_by_part(message: Message, target: _Target) -> bool:
    """Whether parts of the message that say something carry signatures the target would check.

    Gemini signs parts, each for itself: bound to model, key and route, not to what stands before it,
    and without a chain that could have holes.

    Source:
        https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-27)
    """
    return target.reader.provider == _GEMINI and any(map(bears_signature, message.parts))


def _leave_container(message: Message, target: _Target, tally: "_Tally") -> Message:
    """Return the message without the container of another account, which nobody here can use."""
    made_by = message.made_by
    if made_by is None or made_by.container is None or made_by.account == target.reader.account:
        return message
    tally.add("account", message, 1, what="container(s)")
    return replace(message, made_by=replace(made_by, container=None))


def _strip_signatures(
    message: Message, reason: str | None, target: _Target, tally: "_Tally"
) -> Message:
    """Return the message without the signatures on what it says, which stays itself."""
    if reason is None or not _is_signed_by_part(message, target):
        return message
    count = sum(map(bears_signature, message.parts))
    tally.add(reason, message, count, what="thought signature(s)")
    return replace(message, parts=tuple(map(without_signature, message.parts)))


def _fit_to_responses(message: Message, target: _Target, tally: "_Tally") -> Message:
    """Return the message without what OpenAI Responses refuses wherever it stands.

    That is reasoning of a reply that was cut off before it led to anything, and the compaction of
    another account. Both stay away at every later call as well, so that no prefix changes.

    Source:
        https://github.com/openai/openai-agents-python/issues/1611 (read 2026-11-27)
        https://github.com/pydantic/pydantic-ai/issues/4608 (read 2026-11-27)
    """
    if target.reader.provider != _RESPONSES or message.role != "assistant":
        return message
    made_by = message.made_by
    is_foreign = made_by is not None and made_by.account != target.reader.account
    sealed = [part for part in message.parts if _is_compaction(part)] if is_foreign else []
    tally.add("sealed", message, len(sealed))
    parts: list[Part] = [
        Text(part.text) if sealed and isinstance(part, Opaque) and part in sealed else part
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
    thoughts = [part for part in message.parts if isinstance(part, Thinking)]
    if not thoughts:
        return message
    unsigned_count = sum(not part.is_signed for part in thoughts)
    signed_count = len(thoughts) - unsigned_count if signed_reason else 0
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
