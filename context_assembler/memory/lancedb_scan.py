"""Finding words in the rows of a LanceDB table that has no index of them.

LanceDB itself searches such rows only for words in the very case of the query.
"""

import re
from collections import Counter
from collections.abc import Sequence
from math import log
from typing import Final

from context_assembler.memory.lancedb_connection import column_of
from context_assembler.values.memories.words import index_text

MOST_ROWS: Final = 10_000
"""That hold any of the words: no more are read whole and weighed."""

_WORD: Final = re.compile(r"[^\W_]+")
_FULLNESS: Final = 1.2  # BM25's usual k1 and b
_LENGTH_SHARE: Final = 0.75


def sql_of_words(terms: Sequence[str], column: str) -> str:
    """Return the condition that any of the words stands somewhere in a column of texts."""
    return f"regexp_like(lower({column_of(column)}), '{'|'.join(terms)}')"


def weigh_texts(texts: Sequence[str], terms: Sequence[str], *, rows: int) -> list[float]:
    """Return how well each text fits by BM25; 0 where it has none of the words.

    Args:
        texts: Every one that any of the words is in.
        rows: How many texts there are in all.
    """
    counts = [Counter(_WORD.findall(index_text(text).lower())) for text in texts]
    lengths = [count.total() for count in counts]
    mean = max(sum(lengths) / max(len(lengths), 1), 1.0)
    rarity = {term: _rarity(sum(term in count for count in counts), rows) for term in terms}
    return [
        sum(rarity[term] * _filled(count[term], length / mean) for term in terms if term in count)
        for count, length in zip(counts, lengths, strict=True)
    ]


def _rarity(having: int, rows: int) -> float:
    return log(1 + (max(rows, having) - having + 0.5) / (having + 0.5))


def _filled(times: int, length: float) -> float:
    fullness = _FULLNESS * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length)
    return times * (_FULLNESS + 1) / (times + fullness)
