"""Exact counts in Python over a vocabulary as it lies there, with nothing to build first.

`tiktoken.Encoding` takes twice as long to build as the vocabulary takes to read. A text is counted
here in three to four times what tiktoken takes, so that a process that counts little is done sooner,
and never keeps the vocabulary twice.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

CountFew: TypeAlias = Callable[[str], int | None]

MAX_WORD_BYTES: Final = 256  # merging takes time by the square of this
MAX_KEPT_WORDS: Final = 20_000

_NO_RANK: Final = 1 << 30

# What is neither ASCII nor of these blocks is left to tiktoken: which characters are letters, marks
# or blanks depends on the version of Unicode that `regex` and tiktoken were made with, and these are
# the same for any of them. So is ASCII, but for four separators that Python alone takes for blanks.
# Source: https://www.unicode.org/Public/17.0.0/ucd/UnicodeData.txt and
# https://docs.rs/regex/latest/regex/#perl-character-classes-unicode-friendly (read 2026-11-29);
# `tests/tokens/test_plain_bpe.py` compares every one of them.
_UNSURE: Final = re.compile(
    "[^\x00-\x1b\x20-\u024f\u1e00-\u1eff"  # Latin
    "\u0300-\u036f\u0391-\u03a1\u03a3-\u03ff\u0400-\u04ff"  # marks, Greek, Cyrillic
    "\u05d0-\u05ea\u0621-\u063a\u0641-\u0652\u0660-\u0669"  # Hebrew, Arabic
    "\u0904-\u0939\u093c-\u094d\u0964-\u096f\u0e01-\u0e3a\u0e3f-\u0e5b"  # Devanagari, Thai
    "\u200b-\u2027\u202f-\u205e\u20a0-\u20bf\u2190-\u23ff\u2500-\u27bf"  # punctuation, symbols
    "\u3000-\u303f\u3041-\u3096\u30a0-\u30ff\u4e00-\u9fa5\uac00-\ud7a3\uff01-\uff5e"  # CJK
    "\ufe0e\ufe0f\U0001f300-\U0001faff]"  # emoji
)


def open_plain(pattern: str, ranks: Mapping[bytes, int]) -> CountFew:
    """Return what counts a text by this vocabulary, or tells `None` where tiktoken has to.

    That is a text with characters that the two may split differently, or with a word of more than
    `MAX_WORD_BYTES` bytes.

    Args:
        pattern: Where a text is split into words before merging begins.
        ranks: The bytes of each token and its rank.
    """
    import regex  # noqa: PLC0415 - slow to import; tiktoken needs it as well

    find_words: Callable[[str], list[str]] = regex.compile(pattern).findall
    tokens_by_word: dict[str, int] = {}

    def count_word(word: str) -> int | None:
        raw = word.encode()
        if raw in ranks:
            tokens = 1
        elif len(raw) > MAX_WORD_BYTES:
            return None
        else:
            tokens = _merge(raw, ranks)
        if len(tokens_by_word) >= MAX_KEPT_WORDS:
            tokens_by_word.clear()
        tokens_by_word[word] = tokens
        return tokens

    def count(text: str) -> int | None:
        if _UNSURE.search(text):
            return None
        total = 0
        for word in find_words(text):
            tokens = tokens_by_word.get(word) or count_word(word)
            if tokens is None:
                return None
            total += tokens
        return total

    return count


def _merge(word: bytes, ranks: Mapping[bytes, int]) -> int:
    """Return how many tokens are left when the pair of lowest rank was joined until there is none.

    Source: byte_pair_merge in https://github.com/openai/tiktoken/blob/0.14.0/src/lib.rs (read
    2026-11-29): of pairs of one rank the first is joined.
    """
    parts = [word[at : at + 1] for at in range(len(word))]
    pair_ranks = [ranks.get(word[at : at + 2], _NO_RANK) for at in range(len(word) - 1)]
    while pair_ranks and (lowest := min(pair_ranks)) != _NO_RANK:
        at = pair_ranks.index(lowest)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        del pair_ranks[at]
        if at:
            pair_ranks[at - 1] = ranks.get(parts[at - 1] + parts[at], _NO_RANK)
        if at < len(pair_ranks):
            pair_ranks[at] = ranks.get(parts[at] + parts[at + 1], _NO_RANK)
    return len(parts)
