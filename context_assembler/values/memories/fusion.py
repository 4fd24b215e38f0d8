"""How words and meanings are weighed against each other, wherever both have a say."""

from typing import Final

WORDS_WEIGHT: Final = 0.6


def fuse(words: float, meaning: float) -> float:
    """Return what a record is worth that fits by its words and by its meaning, each from 0 to 1."""
    return WORDS_WEIGHT * words + (1 - WORDS_WEIGHT) * meaning
