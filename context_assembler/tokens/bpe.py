"""Exact token counts for OpenAI's vocabularies, offline.

A vocabulary lies in a file that is mapped, not loaded: a hash table from the bytes of a token to its
rank (`scripts/pack_ranks.py` writes it). So the first count of a process costs a millisecond, where
building `tiktoken.Encoding` costs half a second and 60 MB. Where much is counted, tiktoken takes over,
which counts alike. `tiktoken.get_encoding` is never called, since it reads the network.
"""

import re
import struct
from collections.abc import Callable, Mapping
from functools import cache
from itertools import accumulate, pairwise
from os import path
from typing import Any, Final, TypeAlias
from zlib import crc32

Count: TypeAlias = Callable[[str], int]
Rank: TypeAlias = Callable[[bytes], int]

# tiktoken's patterns; they decide where a text is split before merging begins.
# Source: tiktoken 0.14.0, tiktoken_ext/openai_public.py (MIT; see LICENSE), read 2026-11-27
PATTERNS: Final[Mapping[str, str]] = {
    "o200k_base": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
}

BULK_ABOVE_CHARS: Final = 3_000_000  # counted in this process; from here on building tiktoken pays
_LONGEST_BULK_CHARS: Final = 100_000  # tiktoken 0.14 panics on very long runs of blanks
# Merging in Python takes time by the square of a word's length. Blanks come in tokens of 128, digits
# in groups of 3: cutting longer runs of either at this length changes nothing.
_LONGEST_WORD_BYTES: Final = 1_024
_LONGEST_RUN_CHARS: Final = 128 * 3 * 2_304
_MOST_WORDS: Final = 50_000
_NO_RANK: Final = 1 << 30


class _UnassignedError(Exception):
    """A character that Python's Unicode does not know, tiktoken's may."""


class _Skeleton(dict[int, str | int]):
    """For `str.translate`: stands a character of the same class in place of any beyond ASCII.

    The patterns ask for a character's class alone, so that one ASCII pattern with two more letters
    (`ª`: a letter without case, `\u0300`: a mark) splits the text of any script. Which class an
    assigned character has is the same in every version of Unicode.
    """

    def __missing__(self, code: int) -> str | int:
        from unicodedata import category

        kind = category(chr(code))
        if kind == "Cn":
            raise _UnassignedError
        found = _STAND_INS.get(kind) or _STAND_INS.get(kind[0])
        found = found or ("\t" if chr(code).isspace() else "$")
        # U+017F matches an s if case is ignored.
        self[code] = code if code < 128 else "s" if code == 0x17F else found
        return self[code]


_STAND_INS: Final = {"Lu": "A", "Lt": "A", "Ll": "b", "L": "ª", "M": "\u0300", "N": "0"}
_SKELETON: Final = _Skeleton()


@cache
def _western() -> bytes:
    every = bytes(range(256)).decode("cp1252", "replace")
    return every.translate(_SKELETON).encode("latin-1")


_CLASSES: Final = (
    (r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", "A-Zª\u0300"),
    (r"\p{Ll}\p{Lm}\p{Lo}\p{M}", "a-zª\u0300"),
    (r"\p{L}++", "[A-Za-zª]++"),
    (r"\p{N}{", "[0-9]{"),
    (r"\p{L}\p{N}", "A-Za-z0-9ª"),
)


def _map_ranks(encoding: str) -> tuple[Any, Rank]:
    """Return the mapped file of a vocabulary, and what looks a token's rank up in it.

    The file: mask, start of the heap; a table of offsets into the heap by CRC-32 of the token and
    mask, the next place if one is taken; the heap of ranks, lengths and bytes.
    """
    import mmap

    with open(path.join(path.dirname(__file__), f"{encoding}.bin"), "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    number: Callable[[Any, int], tuple[int]] = struct.Struct("<I").unpack_from
    (mask,) = number(mapped, 0)

    def rank(token: bytes) -> int:
        slot, size = crc32(token) & mask, len(token)
        while at := number(mapped, 8 + 4 * slot)[0]:
            if mapped[at + 4] == size and mapped[at + 5 : at + 5 + size] == token:
                return number(mapped, at)[0]
            slot = (slot + 1) & mask
        return _NO_RANK

    return mapped, rank


def read_ranks(encoding: str) -> dict[bytes, int]:
    """Return a whole vocabulary: the bytes of each token and its rank, in order of rank."""
    mapped, _ = _map_ranks(encoding)
    ranks: dict[bytes, int] = {}
    _, at = struct.unpack_from("<II", mapped)
    while at < len(mapped):
        rank, size = struct.unpack_from("<IB", mapped, at)
        ranks[mapped[at + 5 : at + 5 + size]] = rank
        at += 5 + size
    return ranks


def _merge(word: bytes, rank: Rank) -> int:
    """Return how many tokens are left when the pair of lowest rank was joined until there is none.

    Source: byte_pair_merge in https://github.com/openai/tiktoken/blob/0.14.0/src/lib.rs (read
    2026-11-29): of pairs of one rank the first is joined.
    """
    parts = [word[at : at + 1] for at in range(len(word))]
    ranks = [rank(word[at : at + 2]) for at in range(len(word) - 1)]
    while ranks and (lowest := min(ranks)) != _NO_RANK:
        at = ranks.index(lowest)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        del ranks[at]
        if at:
            ranks[at - 1] = rank(parts[at - 1] + parts[at])
        if at < len(ranks):
            ranks[at] = rank(parts[at] + parts[at + 1])
    return len(parts)


class Vocabulary:
    """Counts by one vocabulary; text that looks like a special token is ordinary text.

    Args:
        bulk_above_chars: How much is counted before tiktoken takes over.
    """

    def __init__(self, encoding: str, *, bulk_above_chars: float = BULK_ABOVE_CHARS) -> None:
        self._encoding = encoding
        self._bulk_above_chars = bulk_above_chars
        self._counted_chars = 0
        self._words: dict[str, int] = {}
        self._tiktoken: Count | None = None
        _, self._rank = _map_ranks(encoding)
        pattern = PATTERNS[encoding]
        for name, characters in _CLASSES:
            pattern = pattern.replace(name, characters)
        self._find = re.compile(pattern, re.ASCII).findall

    def count(self, text: str) -> int:
        """Return what tiktoken counts, for any string.

        A run of more than 884,736 characters of one kind may be off by a token or two.
        """
        size = len(text)
        self._counted_chars += size
        if self._counted_chars > self._bulk_above_chars and size <= _LONGEST_BULK_CHARS:
            return self._by_tiktoken(text)
        words = self._find(text) if text.isascii() else self._split(text)
        if words is None:
            return self._by_tiktoken(text)
        known = self._words.get
        return sum([known(word) or self._count_word(word) for word in words])

    def _split(self, text: str) -> list[str] | None:
        """Return the words of text in any script; `None` if Python does not know a character."""
        try:  # texts in Western languages, a byte for each character: in a third of the time
            skeleton = text.encode("cp1252").translate(_western()).decode("latin-1")
        except UnicodeEncodeError:
            # As tiktoken reads it: surrogate pairs joined, lone ones replaced.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            try:
                skeleton = text.translate(_SKELETON)
            except _UnassignedError:
                return None
        sizes = map(len, self._find(skeleton))
        ends = list(accumulate(sizes))
        return [text[start:end] for start, end in pairwise((0, *ends))]

    def _count_word(self, word: str) -> int:
        raw = word.encode()
        if len(raw) > _LONGEST_WORD_BYTES:
            return self._by_tiktoken(word)
        tokens = 1 if self._rank(raw) != _NO_RANK else _merge(raw, self._rank)
        if len(self._words) >= _MOST_WORDS:
            self._words.clear()
        self._words[word] = tokens
        return tokens

    def _by_tiktoken(self, text: str) -> int:
        if self._tiktoken is None:
            import tiktoken

            name, ranks = self._encoding, read_ranks(self._encoding)
            made = tiktoken.Encoding(
                name, pat_str=PATTERNS[name], mergeable_ranks=ranks, special_tokens={}
            )
            self._tiktoken = lambda text: len(made.encode_ordinary(text))
        size = _LONGEST_RUN_CHARS
        return sum(self._tiktoken(text[at : at + size]) for at in range(0, len(text), size))


vocabulary: Final = cache(Vocabulary)  # one per process


def count_bpe(text: str, *, encoding: str) -> int:
    """Return the tokens of any text by a vocabulary: `o200k_base` or `cl100k_base`."""
    return vocabulary(encoding).count(text)
