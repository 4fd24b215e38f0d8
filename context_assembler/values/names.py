"""Names and ids in the spelling that a provider takes."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from context_assembler.values.messages import Message
from context_assembler.values.parts import ToolCall, ToolResult

_FILLER = re.compile(r"[^a-zA-Z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRule:
    """Which names a provider takes, and how the others are re-spelled.

    Attributes:
        pattern: What a whole name must match.
        max_chars: Longest name made here.
        digest_chars: How much of a name's SHA-256 closes a re-spelled one.
        keeps_prefix: Whether the readable start of the name stays in front of the digest.
        opening: Put in front of a re-spelled name that does not begin with a letter.
    """

    pattern: re.Pattern[str]
    max_chars: int
    digest_chars: int = 10
    keeps_prefix: bool = True
    opening: str = ""

    def allows(self, name: str) -> bool:
        """Whether the provider takes the name as it is."""
        return self.pattern.fullmatch(name) is not None

    def respell(self, name: str, *, attempt: int = 0) -> str:
        """Return a name that the provider takes; a function of the two arguments alone."""
        seed = f"{name}\0{attempt}" if attempt else name
        digest = sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()
        if not self.keeps_prefix:
            return digest[: self.max_chars]
        suffix = f"_{digest[: self.digest_chars]}"
        readable = _FILLER.sub("_", name) or "x"
        if not readable[0].isalpha():
            readable = self.opening + readable
        return readable[: self.max_chars - len(suffix)] + suffix


def respell_names(names: Iterable[str], *, rule: NameRule) -> dict[str, str]:
    """Return every name with its spelling for the provider: one to one, so that it reads back.

    Names that are allowed stay. The same names give the same spellings, whatever their order.
    """
    asked = sorted(set(names))
    spelled = {name: name for name in asked if rule.allows(name)}
    used = set(spelled)
    for name in asked:
        attempt = 0
        while name not in spelled:
            candidate = rule.respell(name, attempt=attempt)
            attempt += 1
            if candidate not in used:
                spelled[name] = candidate
                used.add(candidate)
    return spelled


class _CallIds:
    """Gives each call an id of its own, and each result the id of the call it answers."""

    def __init__(self, rule: NameRule, taken: Collection[str]) -> None:
        self._rule = rule
        self._taken = taken
        self._used: set[str] = set()
        self._attempts: dict[str, int] = {}
        self._pending: dict[str, list[str]] = {}
        self._latest: dict[str, str] = {}

    def of_call(self, call_id: str) -> str:
        attempt = self._attempts.get(call_id, 0)
        spelled = call_id if attempt == 0 and self._rule.allows(call_id) else None
        while spelled is None or spelled in self._used or spelled in self._taken:
            spelled = self._rule.respell(call_id, attempt=attempt)
            attempt += 1
        self._attempts[call_id] = max(attempt, 1)
        self._used.add(spelled)
        self._pending.setdefault(call_id, []).append(spelled)
        self._latest[call_id] = spelled
        return spelled

    def of_result(self, call_id: str) -> str:
        waiting = self._pending.get(call_id)
        if waiting:
            return waiting.pop(0)
        if call_id in self._latest:
            return self._latest[call_id]
        return call_id if self._rule.allows(call_id) else self._rule.respell(call_id)

    def forget_pending(self) -> None:
        self._pending.clear()


def spell_call_ids(
    messages: Sequence[Message], *, rule: NameRule, taken: Collection[str] = ()
) -> list[tuple[str, ...]]:
    """Return for each message the ids of its calls and results, in the order of its parts.

    An id that the provider takes and that stands for one call only is kept; a repeated one gets a
    spelling per occurrence, and results follow their calls. What a message gets depends on the
    messages before it alone, so that a longer history never re-spells an earlier id.

    Args:
        taken: What calls of earlier messages were sent with, which none of these refers to.
    """
    ids = _CallIds(rule, taken)
    spelled: list[tuple[str, ...]] = []
    for message in messages:
        if message.tool_calls:
            ids.forget_pending()
        found: list[str] = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                found.append(ids.of_call(part.call_id))
            elif isinstance(part, ToolResult):
                found.append(ids.of_result(part.call_id))
        spelled.append(tuple(found))
    return spelled


def with_call_ids(
    message: Message, own_ids: Sequence[str]
) -> Iterator[tuple[ToolCall | ToolResult, str]]:
    """Return the calls and results of a message with their ids as they go over the wire.

    Args:
        own_ids: Those of this message, as `spell_call_ids` gives them.
    """
    parts = [part for part in message.parts if isinstance(part, ToolCall | ToolResult)]
    return zip(parts, own_ids, strict=True)
