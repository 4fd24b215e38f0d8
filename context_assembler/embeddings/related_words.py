"""Which words are close in meaning, from a table that travels with the package."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from context_assembler.embeddings.static_model import MODEL_FOLDER, VOCABULARY_FILE
from context_assembler.errors import EmbeddingError

RELATED_FILE: Final = "related_words.bin"
LIKENESS_UNIT: Final = 1 / 255

# `scripts/relate_words.py` prints it.
SHA256: Final = "e27a4f9c10ff73cbe0a04d67ad5b28e308446e3fc1605bde580546a4550b6ee4"

_PAIR_BYTES: Final = 3


class RelatedWords:
    """English words and those close to them in meaning; the table stays as the file's bytes.

    The standard library is enough for it. What it was made from says `scripts/relate_words.py`.

    Args:
        folder: Where the vocabulary and the table lie.

    Raises:
        EmbeddingError: The table is not of this vocabulary.
    """

    def __init__(self, folder: Path = MODEL_FOLDER) -> None:
        text = (folder / VOCABULARY_FILE).read_text(encoding="utf-8")
        self.words = text.removesuffix("\n").split("\n")
        self._content = (folder / RELATED_FILE).read_bytes()
        self._starts = _starts(self._content, len(self.words))
        self._ids = {word: at for at, word in enumerate(self.words)}

    def of(self, words: Iterable[str]) -> dict[str, Mapping[str, float]]:
        """Return for each lower-case word that has any those close to it, the closest first.

        How close they are is a cosine, from 0 to 1.
        """
        found = {word: self._close_to(self._ids[word]) for word in words if word in self._ids}
        return {word: close for word, close in found.items() if close}

    def _close_to(self, row: int) -> Mapping[str, float]:
        start = self._starts[row]
        pairs = self._content[start + 1 : start + 1 + _PAIR_BYTES * self._content[start]]
        return {
            self.words[pairs[at] + 256 * pairs[at + 1]]: pairs[at + 2] * LIKENESS_UNIT
            for at in range(0, len(pairs), _PAIR_BYTES)
        }


@cache
def load_related_words() -> RelatedWords:
    """Return the bundled table, which every user of it shares."""
    return RelatedWords()


def _starts(content: bytes, rows: int) -> list[int]:
    starts: list[int] = []
    at = 0
    while at < len(content) and len(starts) < rows:
        starts.append(at)
        at += 1 + _PAIR_BYTES * content[at]
    if len(starts) != rows or at != len(content):
        raise EmbeddingError(
            RELATED_FILE,
            reason=f"it has {len(content):,} bytes, not those of {rows:,} words",
            remedy="Install the package again: its files are incomplete.",
        )
    return starts
