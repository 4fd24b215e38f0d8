"""The words that a text is found by, and those that a query looks for.

Both sides go through the same cuts: scripts without spaces become overlapping pairs of characters,
and identifiers in camel case are found by their parts too. What is left – case, accents, endings –
is the full-text index's own work.
"""

import re
from collections.abc import Iterable
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Final

from context_assembler.values.memories.stop_words import without_stop_words

MAX_QUERY_TERMS: Final = 256
_QUERY_CHARS: Final = 8_000  # read of each end of a query: what is asked stands at one of them
_MAX_IDENTIFIER_CHARS: Final = 80  # anything longer is no identifier but encoded bytes

# Thai, Lao, Burmese, Khmer, kana, Chinese characters, Hangul: changing this needs a rebuilt index.
_SPACELESS: Final = re.compile(
    "["
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
    "]+"
)
_SMALL: Final = f"{ascii_lowercase}{digits}"
_HUMP: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_HAS_HUMP: Final = re.compile("[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_SHAPE: Final = bytes(
    ord("A") if chr(code) in ascii_uppercase else ord("a" if chr(code) in _SMALL else " ")
    for code in range(256)
)
_HUMP_SHAPES: Final = (b"aA", b"AAa")
_WORD: Final = re.compile(r"[^\W_]+")


def index_text(text: str) -> str:
    """Return the text as it goes into a full-text index.

    It is the same in every process and version: what was indexed can only be taken out of the
    index by the very text that went in.
    """
    parts = _parts_of_identifiers(text)
    if not text.isascii():
        text = _SPACELESS.sub(_pairs, text)
    return f"{text} {' '.join(parts)}" if parts else text


def query_terms(query: str) -> list[str]:
    """Return the different words of a query in order, lower-cased, those that say nothing left out.

    Where nothing else is left, they stay. Of a long query both ends are read.
    A word that ends in `*` is the beginning of what is looked for.
    """
    if len(query) > 2 * _QUERY_CHARS:
        query = f"{query[:_QUERY_CHARS]} {query[-_QUERY_CHARS:]}"
    spaced = query if query.isascii() else _SPACELESS.sub(_query_pairs, query)
    words = [word for text in (spaced, *_parts_of_identifiers(query)) for word in _words(text)]
    distinct = list(dict.fromkeys(words))
    return (without_stop_words(distinct) or distinct)[:MAX_QUERY_TERMS]


def count_words(terms: Iterable[str]) -> float:
    """Return how many words the terms of a query say: pairs of characters overlap by half."""
    return sum(1.0 if term.isascii() or _SPACELESS.match(term) is None else 0.5 for term in terms)


def _words(text: str) -> Iterable[str]:
    for found in _WORD.finditer(text):
        word = found.group().lower()
        is_lone = len(word) == 1 and _SPACELESS.match(word) is not None
        yield f"{word}*" if is_lone else word


def _pairs(run: re.Match[str]) -> str:
    """Return each pair of neighbours, then the last character: every one begins a word."""
    text = run.group()
    pairs = [text[i : i + 2] for i in range(len(text) - 1)]
    return f" {' '.join((*pairs, text[-1]))} "


def _query_pairs(run: re.Match[str]) -> str:
    text = run.group()
    pairs = [text[i : i + 2] for i in range(len(text) - 1)] or [text]
    return f" {' '.join(pairs)} "


def _parts_of_identifiers(text: str) -> list[str]:
    """Return the parts of every identifier in camel case, in order."""
    return [
        part
        for word in _identifiers(text)
        # A digit is like a small letter in the first kind of hump, but not in the second.
        if len(word) <= _MAX_IDENTIFIER_CHARS and _HAS_HUMP.search(word) is not None
        for part in _HUMP.split(word)
    ]


def _identifiers(text: str) -> list[str]:
    """Return the identifiers that may be in camel case, in order.

    Most words are none: looking for two shapes takes a fifth of the time that a pattern takes.
    """
    shape = text.encode("ascii", "replace").translate(_SHAPE) + b" "
    end_by_start: dict[int, int] = {}
    for hump in _HUMP_SHAPES:
        at = shape.find(hump)
        while at >= 0:
            end = shape.find(b" ", at)
            end_by_start[shape.rfind(b" ", 0, at) + 1] = end
            at = shape.find(hump, end)
    return [text[start:end] for start, end in sorted(end_by_start.items())]
