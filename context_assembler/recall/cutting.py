"""A text cut where a sentence, a line or at least a word ends, with a pointer to all of it."""

import re
from collections.abc import Callable
from typing import Final

_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])\s+|(?<=[。!?।])|\n+")
_WORD_END: Final = re.compile(r"\s+")
_FIRST_GUESS_CHARS: Final = 256
_LEAST_SHARE: Final = 0.5  # of what fits: a boundary farther back is not worth it


def cut_text(text: str, *, fits: Callable[[str], bool], reference: str) -> str:
    """Return the longest beginning that fits with its pointer; empty where nothing does.

    Args:
        fits: Whether a text is short enough.
        reference: What the whole text is found by; empty for nothing.
    """
    pointer = f" […] (full text: {reference})" if reference else " […]"

    def is_short_enough(size: int) -> bool:
        return fits(text[:size].rstrip() + pointer)

    size = _largest(is_short_enough, len(text))
    if size == 0:
        return ""
    for at in _boundaries(text, size):
        if is_short_enough(at):
            return text[:at].rstrip() + pointer
    return text[:size].rstrip() + pointer


def _largest(is_short_enough: Callable[[int], bool], most: int) -> int:
    low, high = 0, min(_FIRST_GUESS_CHARS, most)
    while high < most and is_short_enough(high):  # long texts are never measured whole
        low, high = high, min(2 * high, most)
    while low < high:
        middle = (low + high + 1) // 2
        if is_short_enough(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _boundaries(text: str, size: int) -> list[int]:
    """Return where the text may end, the nearest end of a sentence first, then of a word."""
    least = int(size * _LEAST_SHARE)
    window = text[: size + 1]
    ends = [
        [match.start() for match in pattern.finditer(window) if least <= match.start() <= size]
        for pattern in (_SENTENCE_END, _WORD_END)
    ]
    return [found[-1] for found in ends if found]
