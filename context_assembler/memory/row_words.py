"""The words of texts as SQLite's full-text index cuts them, for engines that take them ready cut.

Every bundled store so finds a text by the same words: case, accents and endings make no difference,
scripts without spaces are found by pairs of characters or by one.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import cache
from typing import Final

from context_assembler.values.memories.words import index_text, query_terms

_TOKENIZER: Final = "porter unicode61 remove_diacritics 2"  # changing this needs a new index

_MOST_KNOWN: Final = 50_000
_KNOWN: Final[dict[str, list[str]]] = {}  # opening the index takes longer than most texts do


def record_stems(texts: Sequence[str]) -> list[list[str]]:
    """Return what each text is found by, in order, each as often as it is there."""
    return [
        [stem for whole in stems for stem in (whole, *_beginning(whole))]
        for stems in _cut([index_text(text) for text in texts])
    ]


def query_stems(query: str) -> list[str]:
    """Return what a query looks for, each once, in order; empty where it says nothing."""
    terms = [term.removesuffix("*") for term in query_terms(query)]
    [stems] = _cut([" ".join(terms)])
    return list(dict.fromkeys(stems))


def _beginning(stem: str) -> tuple[str, ...]:
    """Return the first of a pair of characters, as a query may be that one alone."""
    return (stem[0],) if len(stem) == 2 and _is_spaceless(stem[0]) else ()


@cache
def _is_spaceless(character: str) -> bool:
    return not character.isascii() and query_terms(character) == [f"{character}*"]


def _cut(texts: Sequence[str]) -> list[list[str]]:
    # No word goes beyond white space, and most pieces come again and again.
    pieces_by_text = [text.split() for text in texts]
    distinct = dict.fromkeys(piece for pieces in pieces_by_text for piece in pieces)
    stems = {piece: known for piece in distinct if (known := _KNOWN.get(piece)) is not None}
    stems |= _cut_pieces([piece for piece in distinct if piece not in stems])
    if len(_KNOWN) + len(stems) > _MOST_KNOWN:
        _KNOWN.clear()
    _KNOWN.update(stems)
    return [[stem for piece in pieces for stem in stems[piece]] for pieces in pieces_by_text]


def _cut_pieces(pieces: Iterable[str]) -> dict[str, list[str]]:
    distinct = list(pieces)
    stems: dict[str, list[str]] = {piece: [] for piece in distinct}
    if not distinct:
        return stems
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            f"CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = '{_TOKENIZER}')"
        )
        connection.execute("CREATE VIRTUAL TABLE places USING fts5vocab (words, instance)")
        connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(distinct))
        for at, stem in connection.execute("SELECT doc, term FROM places ORDER BY doc, offset"):
            stems[distinct[at]].append(stem)
    return stems
