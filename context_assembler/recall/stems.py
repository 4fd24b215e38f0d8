"""Words without their English endings, cut as SQLite's `porter` cuts them.

Source: M. F. Porter, An algorithm for suffix stripping, 1980
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

_LEAST_CHARS: Final = 3
_MOST_CHARS: Final = 64
_NEVER_DOUBLED: Final = "lsz"

_SECOND: Final[Mapping[str, str]] = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize",
    "logi": "log", "bli": "ble", "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous",
    "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al", "iveness": "ive",
    "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
}  # fmt: skip
_THIRD: Final[Mapping[str, str]] = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_FOURTH: Final[Mapping[str, str]] = dict.fromkeys(
    (
        "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion",
        "ou", "ism", "ate", "iti", "ous", "ive", "ize",
    ),
    "",
)  # fmt: skip


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return a lower-case word without its endings; words of other scripts as they are."""
    if not _LEAST_CHARS <= len(word) <= _MOST_CHARS or not (word.isascii() and word.isalpha()):
        return word
    word = _without_past(_without_plural(word))
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = f"{word[:-1]}i"
    word = _replaced(word, _SECOND, least=1)
    word = _replaced(word, _THIRD, least=1)
    word = _replaced(word, _FOURTH, least=2)
    return _without_last_letter(word)


def _shape(word: str) -> str:
    """Return `v` for each vowel and `c` for each consonant; a y is one behind a consonant."""
    shape = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if is_vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Return how many times consonants follow vowels."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"


def _without_plural(word: str) -> str:
    if any(word.endswith(ending) and word != ending for ending in ("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_past(word: str) -> str:
    if word.endswith("eed") and word != "eed":
        return word[:-1] if _measure(word[:-3]) else word
    ending = next((ending for ending in ("ed", "ing") if word.endswith(ending)), "")
    bare = word.removesuffix(ending)
    if not ending or "v" not in _shape(bare):
        return word
    if bare.endswith(("at", "bl", "iz")):
        return f"{bare}e"
    is_doubled = bare[-1] == bare[-2:-1] and bare[-1] not in "aeiou"
    if is_doubled and bare[-1] not in _NEVER_DOUBLED:
        return bare[:-1]
    return f"{bare}e" if _measure(bare) == 1 and _ends_short(bare) else bare


def _replaced(word: str, endings: Mapping[str, str], *, least: int) -> str:
    """Return the word with its longest ending replaced, where enough stands before it."""
    for size in range(min(7, len(word)), 1, -1):
        ending = word[-size:]
        if ending in endings:
            bare = word[:-size]
            is_cut = _measure(bare) >= least and (ending != "ion" or bare.endswith(("s", "t")))
            return bare + endings[ending] if is_cut else word
    return word


def _without_last_letter(word: str) -> str:
    if word.endswith("e"):
        bare = word[:-1]
        size = _measure(bare)
        if size > 1 or (size == 1 and not _ends_short(bare)):
            word = bare
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
