"""Texts that say the same: each thing is recalled once, by the best of those who say it.

Two texts say the same only if no word differs that says something. Case, width, white space,
punctuation, endings and words such as "the" make no difference; a name, a number and a "not" do.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, Final

from context_assembler.memory.kinds import KINDS, CodeMetadata
from context_assembler.memory.records import MemoryRecord, same_width
from context_assembler.memory.score import Candidate
from context_assembler.memory.words import SPACELESS, stems, vocabulary, word_lists
from context_assembler.texts import is_western

_MOST_KNOWN: Final = 8_192
_DENIED: Final = re.compile(r"n['\u2019\u02bc]t\b")
_BETWEEN: Final = re.compile(
    r"[\s`\"\u201c\u201d\u201e\u00ab\u00bb()\[\]{}\u3001\u3002]+|[,;](?!\d)"
)
_BULLET: Final = re.compile(r"(?m)^[ \t]*(?:[-*+>#\u2022\u2013\u2014]+|\d+\.)[ \t]+")
_EDGES: Final = ".,:;!?\u2026'\u2018\u2019*"
_ENDS: Final = (".", "!", "?", ":", "\u2026")
# Marks of vowels, the long line, and the forms of one letter, which not everybody writes.
_ARABIC_MARKS: Final = re.compile("[\u0640\u064b-\u0652\u0670]")
_ARABIC: Final = str.maketrans(
    "\u0622\u0623\u0625\u0671\u0649\u0629", "\u0627\u0627\u0627\u0627\u064a\u0647"
)
_ARTICLE: Final = re.compile("^\u0627\u0644(?=\\w{3})")
_LAST_PARTICLES: Final = re.compile("(?:です|だよ|だね|だ|よ|ね)+(?=[\\s。.!?]|$)")


@lru_cache(_MOST_KNOWN)
def content_of(text: str) -> tuple[str, ...]:
    """Return the words of a text that say something, in order, each in one form."""
    text = _BULLET.sub("", _DENIED.sub(" not", same_width(text)))
    if not is_western(text):
        text = _LAST_PARTICLES.sub("", _ARABIC_MARKS.sub("", text).translate(_ARABIC))
        text = SPACELESS.sub(lambda run: f" {' '.join(run[0])} ", text)
    pieces = [piece for piece in _BETWEEN.split(text) if piece]
    silent, english = _silent()
    found, inflected, begins = list[str](), dict[int, str](), True
    for piece in pieces:
        word = piece.rstrip(_EDGES).lstrip("'*\u2018\u2019\u00bf\u00a1")
        word = word.removesuffix("'s").removesuffix("\u2019s")
        starts, begins = begins, piece.endswith(_ENDS)
        small = word.casefold()
        is_capital = word[:1].isupper()
        # An identifier, a number, a sign and a short name in capitals is itself and nothing else.
        if word.isalpha() and (word in (small, word.title()) or (word.isupper() and len(word) > 2)):
            if small in silent and (starts or not word.isupper()):
                continue
            word = _ARTICLE.sub("", small)
            # A name has no ending: "Roberts" is not "Robert". What begins a sentence may be one.
            if word.isascii() and (not is_capital or (starts and word in english)):
                inflected[len(found)] = word
        elif starts and small in silent:
            continue
        if word:
            found.append(word)
    for at, stem in zip(inflected, stems([" ".join(inflected.values())])[0], strict=True):
        found[at] = stem
    return tuple(found)


@cache
def _silent() -> tuple[frozenset[str], frozenset[str]]:
    """Return the words that may differ in texts that say the same, and English words."""
    listed = " ".join(word_lists()["same"].values())
    return frozenset(listed.split()), frozenset(vocabulary())


class Taken:
    """What is taken so far, to find what says the same."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[object, ...], int] = {}
        self._by_content: dict[tuple[str, ...], list[int]] = {}
        self._records: dict[int, MemoryRecord] = {}

    def add(self, rank: int, candidate: Candidate) -> None:
        """Take a candidate."""
        record = self._records[rank] = candidate.record
        for key, _ in _keys_of(candidate):
            self._by_key[key] = rank
        self._by_content.setdefault(content_of(record.text), []).append(rank)

    def discard(self, rank: int) -> None:
        """Let a candidate go."""
        record = self._records.pop(rank)
        self._by_key = {key: at for key, at in self._by_key.items() if at != rank}
        self._by_content[content_of(record.text)].remove(rank)

    def twin_of(self, candidate: Candidate) -> tuple[int, str] | None:
        """Return the rank of what says the same, and why; of one record found twice the first.

        The same are: one record of a source, one piece of a file in two versions, and texts that
        differ in no word that says something. Ids of two sources say nothing about each other:
        sources may number their records alike.
        """
        for key, why in _keys_of(candidate):
            if (rank := self._by_key.get(key)) is not None:
                return rank, why
        for rank in self._by_content.get(content_of(candidate.record.text), ()):
            if _may_be_one(self._records[rank], candidate.record):
                return rank, "it says what a better one says"
        return None


def _keys_of(candidate: Candidate) -> Iterator[tuple[tuple[object, ...], str]]:
    record = candidate.record
    if record.id:
        source = candidate.source.rpartition("/")[0]
        yield ("id", source, record.id, record.namespace), "it is the same record"
    code = record.metadata
    if isinstance(code, CodeMetadata) and code.path:
        place = (code.repository, code.path, code.symbol or code.start_line)
        yield ("file", *place), "it is the same place of the same file"


def _may_be_one(left: MemoryRecord, right: MemoryRecord) -> bool:
    """Whether equal texts are one thing: not if two people say it, or what it is about differs."""
    if left.author != right.author and None not in (left.author, right.author):
        return False
    if left.kind != right.kind:
        return True
    told = ((_told(left, name), _told(right, name)) for name in KINDS[left.kind].identity)
    return all(one == other or one is None or other is None for one, other in told)


def _told(record: MemoryRecord, name: str) -> Any:
    return getattr(record.metadata, name, None)
