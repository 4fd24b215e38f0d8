"""What a provider would read from its prompt cache, from the prefixes that it really saw."""

import threading
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from context_assembler.testing.segments import Segment, prefix_digests
from context_assembler.values.events import Usage
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import JsonObject

_LOOK_BACK_SEGMENTS: Final = 20
_IMPLICIT_MIN_TOKENS: Final = 1024
_IMPLICIT_STEP_TOKENS: Final = 128


class PromptCache:
    """Remembers prefixes per model; nothing in it expires. Safe to share between threads."""

    def __init__(self) -> None:
        self._written: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def use_marked(
        self, segments: Sequence[Segment], *, body: JsonObject, limits: ModelLimits
    ) -> Usage:
        """Return cache reads and writes where the request marks its breakpoints.

        Written is at breakpoints only; read is the longest written prefix that ends at most 20
        blocks before a breakpoint.

        Source:
            https://platform.claude.com/docs/en/build-with-claude/prompt-caching (read 2026-11-27)
        """
        sizes = list(accumulate(segment.tokens for segment in segments))
        minimum_tokens = limits.cache.min_tokens or 0
        ends = [n for n in _breakpoints(segments, body) if sizes[n] >= minimum_tokens]
        if not ends:
            return Usage()
        keys = [(limits.id, d) for d in prefix_digests(segments, with_thinking=True)]
        with self._lock:
            hits = [n for end in ends if (n := self._newest_before(end, keys)) is not None]
            self._written.update(keys[end] for end in ends)
        read_tokens = max((sizes[n] for n in hits), default=0)
        written_tokens = max(0, sizes[ends[-1]] - read_tokens)
        return Usage(cache_read_tokens=read_tokens, cache_write_tokens=written_tokens)

    def use_implicit(self, segments: Sequence[Segment], *, limits: ModelLimits) -> Usage:
        """Return cache reads where every prefix is cached, in steps of 128 tokens from 1,024 on.

        Source:
            https://platform.openai.com/docs/guides/prompt-caching (read 2026-11-27)
        """
        keys = [(limits.id, d) for d in prefix_digests(segments, with_thinking=True)]
        sizes = list(accumulate(segment.tokens for segment in segments))
        with self._lock:
            known_tokens = [
                size for key, size in zip(keys, sizes, strict=True) if key in self._written
            ]
            self._written.update(keys)
        common_tokens = max(known_tokens, default=0)
        if common_tokens < (limits.cache.min_tokens or _IMPLICIT_MIN_TOKENS):
            return Usage()
        return Usage(cache_read_tokens=common_tokens - common_tokens % _IMPLICIT_STEP_TOKENS)

    def _newest_before(self, end: int, keys: Sequence[tuple[str, str]]) -> int | None:
        oldest = max(0, end - _LOOK_BACK_SEGMENTS + 1)
        return next((n for n in range(end, oldest - 1, -1) if keys[n] in self._written), None)


def _breakpoints(segments: Sequence[Segment], body: JsonObject) -> list[int]:
    marked = [n for n, segment in enumerate(segments) if segment.mark is not None]
    if not body.get("cache_control"):
        return marked
    cacheable = [n for n, segment in enumerate(segments) if segment.thinking is None]
    return sorted({*marked, *cacheable[-1:]})
