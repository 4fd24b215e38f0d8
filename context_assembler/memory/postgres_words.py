"""The words of records as values of PostgreSQL's `tsvector`, and those of queries as `tsquery`.

They are cut and stemmed here, as every bundled store has them: neither the server's language nor
its parser has a say.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from context_assembler.memory.preparing import text_leaves
from context_assembler.memory.row_words import query_stems, record_stems
from context_assembler.values.codec import load_json

CONTEXT_CHARS: Final = 2_000  # of a neighbour; changing this, or any word below, needs a new index
CONTEXT_WEIGHT: Final = 0.3  # of a word beside the record's own
WEIGHTS: Final = f"'{{{CONTEXT_WEIGHT}, 0, 0, 1}}'::real[]"
"""What a word of each label counts: D stands for what is beside the record, A for its own."""

CUT_NOTICE: Final = "It has more words than PostgreSQL's index takes: the last cannot be searched."

_MOST_STEM_CHARS: Final = 400  # a word may have 2,046 bytes
_MOST_TIMES: Final = 8  # that a word counts: from there on the rank hardly grows
_MOST_BYTES: Final = 900_000  # of the 1 MB that a tsvector may have


@dataclass(frozen=True, slots=True)
class Wording:
    """What a record is found by.

    Attributes:
        texts: The record's own.
        beside: Those of its neighbours.
    """

    texts: tuple[str, ...]
    beside: tuple[str, ...] = ()


def wording_of(
    text: str, details: bytes | None, author: str | None, beside: Iterable[str] = ()
) -> Wording:
    """Return what a record is found by: its text, its details, its author, its neighbours."""
    leaves = () if details is None else text_leaves(load_json(details))
    own = (text, *leaves, *(() if author is None else (author,)))
    return Wording(own, tuple(other[:CONTEXT_CHARS] for other in beside))


def to_tsvectors(wordings: Sequence[Wording]) -> list[tuple[str, bool]]:
    """Return the `tsvector` of each, and whether it holds all of its words."""
    texts = [text for wording in wordings for text in (*wording.texts, *wording.beside)]
    stems = iter(record_stems(texts))
    return [
        _tsvector(
            [stem for _ in wording.texts for stem in next(stems)],
            [stem for _ in wording.beside for stem in next(stems)],
        )
        for wording in wordings
    ]


def to_tsqueries(query: str) -> list[str]:
    """Return a `tsquery` for each word that a query looks for; none where it says nothing."""
    return [_quoted(stem) for stem in query_stems(query)]


def _tsvector(own: Sequence[str], beside: Sequence[str]) -> tuple[str, bool]:
    own_counts, beside_counts = Counter(own), Counter(beside)
    lexemes: list[str] = []
    free_bytes = _MOST_BYTES
    for stem in dict.fromkeys((*own_counts, *beside_counts)):
        owned = min(own_counts[stem], _MOST_TIMES)
        in_all = owned + min(beside_counts[stem], _MOST_TIMES)
        lexeme = f"{_quoted(stem)}:{_places(owned, in_all)}"
        free_bytes -= len(stem.encode()) + 2 * in_all + 8
        if free_bytes < 0:
            return " ".join(lexemes), False
        lexemes.append(lexeme)
    return " ".join(lexemes), True


@cache
def _places(owned: int, in_all: int) -> str:
    """Return places of a word: where it stands makes no difference to the rank, only how often."""
    return ",".join(f"{at}{'A' if at <= owned else ''}" for at in range(1, in_all + 1))


def _quoted(stem: str) -> str:
    inside = stem[:_MOST_STEM_CHARS].replace("\\", "\\\\").replace("'", "''")
    return f"'{inside}'"
