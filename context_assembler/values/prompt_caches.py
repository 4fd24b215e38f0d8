"""What a provider's prompt cache holds of a call, by the provider's own rules."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.options import CachePolicy

LOOK_BACK_BLOCKS: Final = 20
_MARKING_PROTOCOL: Final = "anthropic"
_IMPLICIT_MIN_TOKENS: Final = 1024  # where the row names no minimum
_STEP_TOKENS: Final = {"openai": 128}
_LIFETIME: Final = re.compile(r"(\d+)(s|m|h|d)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
# Gone after 5 to 10 minutes without use, https://platform.openai.com/docs/guides/prompt-caching
_IN_MEMORY: Final = timedelta(minutes=5)

PrefixEnd: TypeAlias = Literal["head", "call", "inside"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPrefix:
    """A beginning of a call that an earlier call had as well.

    Attributes:
        end: Where it ends: behind system prompt and tools, where the earlier call ended, or inside.
        tokens: Its size.
        blocks: Content blocks of messages in it.
        used_at: When a call last began with it; `None` where nobody knows.
    """

    end: PrefixEnd
    tokens: int
    blocks: int = 0
    used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSize:
    """How large a call is.

    Attributes:
        head_tokens: System prompt, tools, and what stands around them.
        blocks: Content blocks of all messages.
        blocks_before_step: Those before the last reply of the model.
    """

    total_tokens: int
    head_tokens: int = 0
    blocks: int = 0
    blocks_before_step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSplit:
    """The tokens of a call: read from the cache, written to it, neither; together all there are.

    `long_written_tokens` are those of the written ones that are kept for the longer lifetime.
    `remarks` say why less is read than could be.
    """

    read_tokens: int = 0
    written_tokens: int = 0
    long_written_tokens: int = 0
    uncached_tokens: int = 0
    remarks: tuple[str, ...] = ()

    @property
    def total_tokens(self) -> int:
        """All tokens of the call."""
        return self.read_tokens + self.written_tokens + self.uncached_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCache:
    """The prompt cache of a model behind a wire protocol.

    Attributes:
        policy: Whether the payload asks for caching, where that has to be asked for.
        charges_writes: Whether a provider that caches by itself has a price for it.
    """

    limits: ModelLimits
    protocol: str
    policy: CachePolicy = "auto"
    charges_writes: bool = False

    def split(
        self, size: CallSize, known: Iterable[KnownPrefix], *, now: datetime | None = None
    ) -> CacheSplit:
        """Return what of a call is read, written, or neither.

        Args:
            known: What earlier calls have in common with it.
            now: Against which lifetimes are judged; without it nothing has expired.
        """
        why = self._why_not(size)
        if why:
            return CacheSplit(uncached_tokens=size.total_tokens, remarks=(why,))
        fitting = [prefix for prefix in known if self._is_found(prefix, size)]
        alive = [prefix for prefix in fitting if not self._has_expired(prefix, now)]
        read = max((self._readable(prefix) for prefix in alive), default=0)
        could = max((self._readable(prefix) for prefix in fitting), default=0)
        remarks = (self._tell_expiry(fitting, now),) if could > read else ()
        rest = size.total_tokens - read
        if not (self.is_marked or self.charges_writes):
            return CacheSplit(read_tokens=read, uncached_tokens=rest, remarks=remarks)
        writes_head = self._marks_head(size) and read < size.head_tokens
        return CacheSplit(
            read_tokens=read,
            written_tokens=rest,
            long_written_tokens=size.head_tokens - read if writes_head and self._long else 0,
            remarks=remarks,
        )

    @property
    def is_marked(self) -> bool:
        """Whether only what the payload marks is cached."""
        return self.limits.cache.mode == "explicit"

    @property
    def min_tokens(self) -> int:
        """The shortest prefix that is cached."""
        stated = self.limits.cache.min_tokens
        unknown = 0 if self.is_marked else _IMPLICIT_MIN_TOKENS
        return unknown if stated is None else stated

    def _why_not(self, size: CallSize) -> str:
        """Say why nothing of the call can be in a cache; empty where it can."""
        model = self.limits.id
        if self.limits.cache.mode == "none":
            return f"No prompt cache is known for {model}."
        if self.is_marked and self.protocol != _MARKING_PROTOCOL:
            return f"A payload of {self.protocol} marks nothing for the prompt cache of {model}."
        if self.is_marked and self.policy == "off":
            return "Nothing is marked for the prompt cache: cache='off'."
        if size.total_tokens < self.min_tokens:
            return f"{model} caches no prompt of fewer than {self.min_tokens:,} tokens."
        return ""

    def _is_found(self, prefix: KnownPrefix, size: CallSize) -> bool:
        """Whether the provider finds the prefix.

        One that caches by itself finds every common prefix. Where prefixes are marked, those are
        found that an earlier call marked, at most 20 blocks before a mark of this one.

        Source:
            https://platform.claude.com/docs/en/build-with-claude/prompt-caching (read 2026-11-27)
        """
        if not self.is_marked:
            return True
        if prefix.tokens < self.min_tokens or prefix.end == "inside":
            return False
        if prefix.end == "head":
            return self._marks_head(size)
        return any(0 <= mark - prefix.blocks < LOOK_BACK_BLOCKS for mark in _marks(size))

    def _readable(self, prefix: KnownPrefix) -> int:
        """Return the tokens of the prefix that are read.

        Source:
            https://platform.openai.com/docs/guides/prompt-caching (read 2026-11-27): from 1,024
            tokens on, in increments of 128.
        """
        if prefix.tokens < self.min_tokens:
            return 0
        step = 1 if self.is_marked else _STEP_TOKENS.get(self.limits.provider, 1)
        return prefix.tokens - prefix.tokens % step

    def _marks_head(self, size: CallSize) -> bool:
        return self.is_marked and 0 < size.head_tokens >= self.min_tokens

    @property
    def _long(self) -> bool:
        return self.is_marked and "1h" in self.limits.cache.ttls

    def _lifetime(self, prefix: KnownPrefix) -> timedelta | None:
        ttls = self.limits.cache.ttls
        if prefix.end == "head" and self._long:
            return timedelta(hours=1)
        return lifetime_of(ttls[0]) if ttls else None

    def _has_expired(self, prefix: KnownPrefix, now: datetime | None) -> bool:
        lifetime = self._lifetime(prefix)
        if now is None or prefix.used_at is None or lifetime is None:
            return False
        return now - prefix.used_at > lifetime

    def _tell_expiry(self, fitting: Sequence[KnownPrefix], now: datetime | None) -> str:
        expired = (prefix for prefix in fitting if self._has_expired(prefix, now))
        longest = max(expired, key=lambda prefix: prefix.tokens)
        lifetime = self._lifetime(longest)
        assert now is not None, "nothing expires unless there is a clock"
        assert longest.used_at is not None, "nor what was used at an unknown time"
        assert lifetime is not None, "nor what is kept for an unknown time"
        return (
            f"{longest.tokens:,} tokens were last used {_spell(now - longest.used_at)} ago, and "
            f"are kept for {_spell(lifetime)}."
        )


def spelled_alike(messages: Sequence[Message], length: int, *, protocol: str) -> int:
    """Return how many of the first messages are spelled as they were when they ended a payload.

    Claude takes a message of the system at the end of a turn only: with a message of the user behind
    it, it becomes text of the user.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-27)
    """
    if protocol != _MARKING_PROTOCOL or length >= len(messages):
        return length
    while length and messages[length].role != "assistant" and messages[length - 1].role == "system":
        length -= 1
    return length


def lifetime_of(ttl: str) -> timedelta | None:
    """Return how long a prefix is kept without being used, at the least; `None`: not known."""
    if ttl == "in_memory":
        return _IN_MEMORY
    found = _LIFETIME.fullmatch(ttl)
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None


def _marks(size: CallSize) -> Sequence[int]:
    """Return behind how many blocks a payload has marks: at its end, and inside a long step."""
    if size.blocks - size.blocks_before_step < LOOK_BACK_BLOCKS:
        return (size.blocks,)
    return (size.blocks, size.blocks_before_step + LOOK_BACK_BLOCKS - 1)


def _spell(duration: timedelta) -> str:
    minutes = round(duration.total_seconds() / 60)
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"
