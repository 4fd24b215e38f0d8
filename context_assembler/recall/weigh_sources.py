"""The step that weighs the answers of several sources against each other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from context_assembler.recall.match_words import match_words
from context_assembler.recall.speakers import mentioned_speakers
from context_assembler.values.memories.fusion import fuse
from context_assembler.values.memories.records import MemoryHit
from context_assembler.values.recall import Signals, SourceAnswer

LEAST_FIT: Final = 0.4
"""Of a source, as a part of the one that fits best; what is below shares a word by chance."""


def weigh_sources(answers: Sequence[SourceAnswer], signals: Signals) -> dict[str, float]:
    """Return how well the best hit of each source fits, as a part of the best of all.

    How a source ranks its own says nothing of the others', so the words and the cosines of all hits
    are looked at here. A source of which they tell nothing is worth as much as the best. Where only
    one answered, there is nothing to weigh.
    """
    if sum(bool(answer.hits) for answer in answers) < 2:
        return {}
    hit_by_key = {f"{source}\0{at}": hit for source, at, hit in _hits_of(answers)}
    records = {key: hit.record for key, hit in hit_by_key.items()}
    speakers = mentioned_speakers(signals, records.values())
    words = _parts_of_best(match_words(records, signals, names=speakers))
    meanings = _parts_of_best({key: hit.similarity or 0.0 for key, hit in hit_by_key.items()})
    fits = dict.fromkeys((answer.source for answer in answers if answer.hits), 0.0)
    for key in hit_by_key:
        source, _, _ = key.rpartition("\0")
        word, meaning = words.get(key, 0.0), meanings.get(key, 0.0)
        fit = fuse(word, meaning) if words and meanings else word or meaning
        fits[source] = max(fits[source], fit)
    best = max(fits.values(), default=0.0)
    return {source: fit / best if fit else 1.0 for source, fit in fits.items()}


def _hits_of(answers: Sequence[SourceAnswer]) -> Iterator[tuple[str, int, MemoryHit]]:
    for answer in answers:
        for at, hit in enumerate(answer.hits):
            yield answer.source, at, hit


def _parts_of_best(values: Mapping[str, float]) -> dict[str, float]:
    """Return what is above zero as a part of the best."""
    best = max(values.values(), default=0.0)
    return {key: value / best for key, value in values.items() if value > 0}
