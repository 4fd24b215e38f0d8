"""How well records fit a query's words: by what they share, how rare it is, and how close in meaning.

A source ranks by words so that the right records are among the many that it returns; here they are
weighed against each other, whatever the source.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from math import log
from typing import Final

from context_assembler.recall.stems import stem
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.memories.words import index_text
from context_assembler.values.recall import Signals

READ_CHARS: Final = 2_000
"""Of a record; of longer ones the source's own opinion counts, too."""

_FAR_CHARS: Final = 200_000  # looked through for the query's words
_BESIDE_CHARS: Final = 100  # read before and behind each
_FAR_TERMS: Final = 32

_SATURATION: Final = 1.2  # how slowly a word that is repeated adds less (BM25's k1)
_LENGTH_SHARE: Final = 0.4  # how much a longer text has to say more (BM25's b)
_WORD: Final = re.compile(r"[^\W_]+")
_KEPT_TEXTS: Final = 8_192


@dataclass(frozen=True, slots=True)
class _Bag:
    """The stems of a text with how often each is there, and how many words it has."""

    counts: Mapping[str, int]
    size: int


def match_words(
    records: Mapping[str, MemoryRecord], signals: Signals, *, names: Collection[str] = ()
) -> dict[str, float]:
    """Return by id how well each record fits the words; those that share none are left out.

    A word counts for more the fewer of the records have it, and a word of like meaning for less
    than the word itself.

    Args:
        names: Words that do not count: they are names of those who say the records.
    """
    bags = {memory_id: _bag_of(record, signals.terms) for memory_id, record in records.items()}
    wanted = _wanted(signals, names, bags.values())
    usual_size = sum(bag.size for bag in bags.values()) / len(bags) if bags else 1.0
    uses = _uses_of(wanted)
    shared = {memory_id: bag.counts.keys() & uses.keys() for memory_id, bag in bags.items()}
    rarity = _rarity(shared.values(), among=len(bags))
    scores: dict[str, float] = {}
    for memory_id, found in shared.items():
        if found:
            bag = bags[memory_id]
            length = 1 - _LENGTH_SHARE + _LENGTH_SHARE * bag.size / usual_size
            best = [0.0] * len(wanted)
            for form in found:
                worth = rarity[form] * _saturated(bag.counts[form], length)
                for at, likeness in uses[form]:
                    if likeness * worth > best[at]:  # noqa: PLR1730 – max() takes twice as long
                        best[at] = likeness * worth
            scores[memory_id] = sum(best)
    return scores


def stems_of(text: str) -> Iterable[str]:
    """Return the stem of every word of a text, in order; accents make no difference."""
    if not text.isascii():
        bare = unicodedata.normalize("NFD", text)
        text = "".join(c for c in bare if unicodedata.category(c) != "Mn")
    return (stem(word) for word in _WORD.findall(text.lower()))


def _wanted(
    signals: Signals, names: Collection[str], bags: Collection[_Bag]
) -> list[dict[str, float]]:
    """Return for each word of the query the stems that say it, and how well."""
    terms = [term for term in signals.terms if term not in names] or signals.terms
    own = [dict.fromkeys(_forms_of(term, bags), 1.0) for term in terms]
    taken = {form for forms in own for form in forms}
    for term, forms in zip(terms, own, strict=True):
        for word, likeness in signals.related.get(term, {}).items():
            for form in stems_of(word):
                if form not in taken:
                    forms[form] = max(forms.get(form, 0.0), likeness * likeness)
    return own


def _uses_of(wanted: Sequence[Mapping[str, float]]) -> dict[str, list[tuple[int, float]]]:
    """Return by stem which words of the query it says, and how well."""
    uses: dict[str, list[tuple[int, float]]] = {}
    for at, forms in enumerate(wanted):
        for form, likeness in forms.items():
            uses.setdefault(form, []).append((at, likeness))
    return uses


def _forms_of(term: str, bags: Collection[_Bag]) -> Iterable[str]:
    if not term.endswith("*"):
        return stems_of(term)
    begun = tuple(stems_of(term))
    return {form for bag in bags for form in bag.counts if form.startswith(begun)}


def _said(record: MemoryRecord) -> str:
    pieces = [record.text[:READ_CHARS], record.author or ""]
    if record.metadata is not None:
        for field in fields(record.metadata):
            value: str | tuple[object, ...] | None = getattr(record.metadata, field.name)
            told = value if isinstance(value, tuple) else (value,)
            pieces += [piece[:READ_CHARS] for piece in told if isinstance(piece, str)]
    return " ".join(pieces)


def _bag_of(record: MemoryRecord, terms: Sequence[str]) -> _Bag:
    bag = _bag(_said(record))
    if len(record.text) <= READ_CHARS:
        return bag
    far = Counter(stems_of(index_text(_said_far_behind(record.text, terms))))
    return _Bag(far + Counter(bag.counts), far.total() + bag.size)


def _said_far_behind(text: str, terms: Sequence[str]) -> str:
    """Return what stands around each of the words where a long text has it behind its beginning."""
    far = text[READ_CHARS:_FAR_CHARS]
    lowered = far.lower()
    places = {lowered.find(stem(term.rstrip("*"))) for term in terms[:_FAR_TERMS]} - {-1}
    read, pieces = 0, list[str]()
    for place in sorted(places):
        pieces.append(far[max(place - _BESIDE_CHARS, read) : place + _BESIDE_CHARS])
        read = place + _BESIDE_CHARS
    return " ".join(pieces)


@lru_cache(maxsize=_KEPT_TEXTS)
def _bag(text: str) -> _Bag:
    counts = Counter(stems_of(index_text(text)))
    return _Bag(counts, counts.total())


def _rarity(found: Collection[Collection[str]], *, among: int) -> dict[str, float]:
    """Return what each stem tells: much where few of the texts have it."""
    counts = Counter(form for forms in found for form in forms)
    return {form: log(1 + (among - count + 0.5) / (count + 0.5)) for form, count in counts.items()}


def _saturated(count: int, length: float) -> float:
    return count * (_SATURATION + 1) / (count + _SATURATION * length)
