"""WordPiece: a text as the tokens of BERT's uncased vocabulary."""

import unicodedata
from collections.abc import Sequence
from typing import Final

# What `tokenizers` takes for a Chinese character, its gap at U+2B820 included: the vectors of this
# vocabulary were made with it.
# Source: tokenizers 0.23.3, src/normalizers/bert.rs (read 2026-11-28)
_IDEOGRAPHS: Final = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
_ASCII_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_CONTROLS: Final = frozenset({"Cc", "Cf", "Co", "Cs"})
_UNREADABLE: Final = "\ufffd"
_MAX_KEPT_CHARACTERS: Final = 20_000
_MAX_KEPT_WORDS: Final = 50_000
_MAX_WORD_CHARS: Final = 100  # longer words are one unknown token, as in BERT


class WordPiece:
    """Reads texts by one vocabulary; remembers the words that it has split, within bounds.

    Safe between threads. What looks like a mark of the model, such as `[SEP]`, is ordinary text.

    Args:
        tokens: The vocabulary in order of the ids; `##` stands before what continues a word.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self._ids = {token: number for number, token in enumerate(tokens)}
        self._unknown = [self._ids["[UNK]"]]
        self._longest_chars = max(map(len, tokens))
        self._split_words: dict[str, list[int]] = {}
        self._characters = _Characters()

    @property
    def size(self) -> int:
        """The number of tokens in the vocabulary."""
        return len(self._ids)

    def id_of(self, token: str) -> int:
        """Return the id of a token of the vocabulary.

        Raises:
            KeyError: There is none.
        """
        return self._ids[token]

    def token_ids(self, text: str) -> list[int]:
        """Return the tokens of any text, without the marks that go around it."""
        ids: list[int] = []
        whole_words, split_words = self._ids, self._split_words
        for word in text.translate(self._characters).split():
            whole = whole_words.get(word)
            if whole is not None:
                ids.append(whole)
            else:
                ids += split_words.get(word) or self._split(word)
        return ids

    def _split(self, word: str) -> list[int]:
        if len(word) > _MAX_WORD_CHARS:
            return self._unknown
        if len(self._split_words) >= _MAX_KEPT_WORDS:
            self._split_words.clear()
        pieces = self._split_words[word] = self._longest_pieces(word)
        return pieces

    def _longest_pieces(self, word: str) -> list[int]:
        pieces: list[int] = []
        start, before = 0, ""
        while start < len(word):
            end = min(len(word), start + self._longest_chars)
            while (piece := self._ids.get(before + word[start:end])) is None:
                end -= 1
                if end == start:
                    return self._unknown
            pieces.append(piece)
            start, before = end, "##"
        return pieces


class _Characters(dict[int, str]):
    """By code point, what a character becomes: lower-cased, without accents, signs set apart.

    Filled as characters are met, up to a bound; `str.translate` looks them up.
    """

    def __missing__(self, code: int) -> str:
        spelling = _spell(chr(code))
        if len(self) < _MAX_KEPT_CHARACTERS:
            self[code] = spelling
        return spelling


def _spell(character: str) -> str:
    if character == _UNREADABLE or _is_control(character):
        return ""
    if character.isspace():
        return " "
    bare = unicodedata.normalize("NFD", character)
    lowered = "".join(c.lower() for c in bare if unicodedata.category(c) != "Mn")
    spelling = "".join(f" {c} " if _is_punctuation(c) else c for c in lowered)
    return f" {spelling} " if _is_ideograph(character) else spelling


def _is_control(character: str) -> bool:
    # Not "Cn": what Unicode has not assigned yet counts as letters.
    return character not in "\t\n\r" and unicodedata.category(character) in _CONTROLS


def _is_punctuation(character: str) -> bool:
    return character in _ASCII_PUNCTUATION or unicodedata.category(character).startswith("P")


def _is_ideograph(character: str) -> bool:
    code = ord(character)
    return any(first <= code <= last for first, last in _IDEOGRAPHS)
