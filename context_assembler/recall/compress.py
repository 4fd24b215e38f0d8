"""The step that makes items shorter, the least relevant first, until all of them fit."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from context_assembler.recall.cutting import cut_text
from context_assembler.values.memories.identities import reference_of
from context_assembler.values.recall import Layout, RecalledMemory

KEPT_SHARE: Final = 1 / 3

CountText = Callable[[str], int]
Condense: TypeAlias = Callable[[str, int], Awaitable[str]]
"""Says the same as a text in at most so many tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressed:
    """Items of at most the wanted size, best first, what was shortened, and what was left out."""

    items: tuple[RecalledMemory, ...]
    shortened: tuple[RecalledMemory, ...]
    left_out: tuple[RecalledMemory, ...]
    markdown: str
    token_count: int


async def compress_items(
    items: Sequence[RecalledMemory],
    *,
    target_tokens: int,
    layout: Layout,
    count_text: CountText,
    condense: Condense | None = None,
) -> Compressed:
    """Return the items, the lowest scores cut to a third first, then left out, until all fit.

    Args:
        condense: Shortens a text; without it, and where it returns too much, it is cut.
    """
    kept = sorted(items, key=lambda shown: (-shown.score, shown.record.id))
    shortened: list[int] = []
    left_out: list[RecalledMemory] = []
    at = len(kept) - 1
    while (tokens := count_text(layout.write(kept, had_more=bool(items)))) > target_tokens and kept:
        if at >= 0:
            shorter = await _shorter(kept[at], layout, count_text, condense)
            if shorter is not None:
                kept[at] = shorter
                shortened.append(at)
            at -= 1
            continue
        left_out.append(kept.pop())
    markdown = layout.write(kept, had_more=bool(items))
    if tokens > target_tokens:
        markdown, tokens = "", 0
    return Compressed(
        items=tuple(kept),
        shortened=tuple(kept[at] for at in shortened if at < len(kept)),
        left_out=tuple(left_out),
        markdown=markdown,
        token_count=tokens,
    )


async def _shorter(
    shown: RecalledMemory, layout: Layout, count_text: CountText, condense: Condense | None
) -> RecalledMemory | None:
    """Return the item in a third of its tokens; `None` where it cannot be said so briefly."""
    most = max(int(shown.tokens * KEPT_SHARE), 1)

    def entry_tokens(text: str) -> int:
        return count_text(f"{layout.entry(shown.record, text)}\n")

    text = "" if condense is None else (await condense(shown.text, most)).strip()
    if not text or entry_tokens(text) > most:
        text = cut_text(
            shown.text, fits=lambda t: entry_tokens(t) <= most, reference=reference_of(shown.record)
        )
    if not text:
        return None
    return replace(shown, text=text, tokens=entry_tokens(text), is_truncated=True)
