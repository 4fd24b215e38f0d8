"""The step that says how well each record fits: by its words, its meaning, and what stands around.

What is found in a dialogue is rarely whole in one turn: the question stands before the answer. So
a turn is lifted by what stands beside it and by the best of its session. The weights were settled
on measured evidence recall; fusing by ranks (RRF) was worse than the words alone there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import erfc, log, sqrt
from sys import float_info
from typing import Final

from context_assembler.recall.lift import lift_of
from context_assembler.recall.match_words import READ_CHARS, match_words
from context_assembler.recall.speakers import mentioned_speakers
from context_assembler.values.memories.fusion import fuse
from context_assembler.values.memories.records import MemoryHit, MemoryRecord
from context_assembler.values.memories.stop_words import without_stop_words
from context_assembler.values.memories.words import count_words
from context_assembler.values.recall import Candidate, Signals, SourceAnswer

UNSEEN_FACTOR: Final = 0.15  # of what a source found by words that the record itself does not show
NEIGHBOUR_WEIGHTS: Final[Mapping[int, float]] = {1: 0.4, 2: 0.25}
SESSION_WEIGHT: Final = 0.3

LEAST_RELEVANCE: Final = 0.02  # as a part of the best of the source
ALIKE: Final = 0.3  # a cosine from which on meaning alone is enough
ENOUGH_WORDS: Final = 3
SYNONYM: Final = 0.6
"""A likeness from which on two words say the same."""

SEEN_HITS: Final = 20
FLOOR_CHARS: Final = 200_000
"""Of a record, looked through for words of the query."""

_ROOT_OF_TWO: Final = sqrt(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """Candidates of one source, and those that are less relevant than the floor."""

    candidates: tuple[Candidate, ...]
    below_floor: tuple[Candidate, ...]


def score_answer(
    answer: SourceAnswer,
    signals: Signals,
    *,
    now: datetime,
    half_life_hours: float,
    floor: float,
) -> Weighed:
    """Return a candidate for each record of the answer, with the sides of its score.

    `relevance` is 1 for the best of the source, which `weigh_sources` tells apart from the best of
    others; `score` is not settled before `rank_candidates`.

    Args:
        floor: The part of the query's words that the best record must have, or three of them, or
            be alike in meaning; otherwise the source has nothing relevant. Of a query of stop words
            alone it must have all, or three.
    """
    records, orders = _records_of(answer)
    speakers = mentioned_speakers(signals, records.values())
    words = _words(answer, records, signals, speakers)
    meaning = _above_usual(
        {hit.record.id: hit.similarity for hit in answer.hits if hit.similarity is not None}
    )
    own = _fuse(answer.hits, words, meaning)
    around = _around(answer, own)
    lifts = {key: lift_of(record, signals, speakers) for key, record in records.items()}
    relevances = _spread(_with_surroundings(records, own, around, lifts))
    candidates = [
        _candidate(
            answer,
            record,
            order=orders[memory_id],
            scores={
                "relevance": relevances[memory_id],
                "words": words.get(memory_id, 0.0),
                "meaning": meaning.get(memory_id, 0.0),
                "around": around.get(memory_id, 0.0),
                "recency": recency_of(record, now=now, half_life_hours=half_life_hours),
                "importance": record.importance,
            },
            is_found=memory_id in own,
        )
        for memory_id, record in records.items()
    ]
    return _part(candidates, is_any_relevant=is_relevant(answer.hits, signals, floor=floor))


def _with_surroundings(
    records: Mapping[str, MemoryRecord],
    own: Mapping[str, float],
    around: Mapping[str, float],
    lifts: Mapping[str, float],
) -> dict[str, float]:
    """Return what each record is worth with what stands beside it and the best of its session."""
    best = _best_by_place(records.values(), own)
    return {
        key: (
            own.get(key, 0.0)
            + around.get(key, 0.0)
            + SESSION_WEIGHT * best.get(_place_of(record), 0.0)
        )
        * lifts[key]
        for key, record in records.items()
    }


def _part(candidates: Sequence[Candidate], *, is_any_relevant: bool) -> Weighed:
    if not is_any_relevant:
        return Weighed(candidates=(), below_floor=tuple(candidates))
    return Weighed(
        candidates=tuple(c for c in candidates if c.scores["relevance"] >= LEAST_RELEVANCE),
        below_floor=tuple(c for c in candidates if c.scores["relevance"] < LEAST_RELEVANCE),
    )


def is_relevant(hits: Sequence[MemoryHit], signals: Signals, *, floor: float) -> bool:
    """Whether the hits have more in common with the query than a word by chance."""
    if not signals.query.strip() or not hits:
        return bool(hits)
    if any((hit.similarity or 0.0) >= ALIKE for hit in hits):
        return True
    if all(hit.bm25 is None for hit in hits):
        return False
    spellings = [_spellings(term, signals) for term in signals.terms]
    # Words that say nothing are looked for where there are no others, and then tell by being many.
    part = floor if without_stop_words(signals.terms) else 1.0
    wanted = min(part * count_words(signals.terms), ENOUGH_WORDS)
    for hit in hits[:SEEN_HITS]:
        text, known = hit.record.text[:FLOOR_CHARS], f"{hit.record.metadata or ''}"[:FLOOR_CHARS]
        said = f"{text} {hit.record.author or ''} {known}".lower()
        shared = sum(any(spelling in said for spelling in given) for given in spellings)
        if shared >= wanted or hit.bm25 is None:
            return True
    return False


def _spellings(term: str, signals: Signals) -> list[str]:
    """Return how a word, and those that mean the same, begin whatever their ending."""
    close = (w for w, likeness in signals.related.get(term, {}).items() if likeness >= SYNONYM)
    return [word.rstrip("*").removesuffix("s")[: max(4, len(word) - 3)] for word in (term, *close)]


def recency_of(record: MemoryRecord, *, now: datetime, half_life_hours: float) -> float:
    """Return 1 for what was made just now or later, half of that after each half-life."""
    if record.created_at is None:
        return 0.0
    age_hours = (now - record.created_at).total_seconds() / 3600
    return float(0.5 ** (max(age_hours, 0.0) / half_life_hours))


def _records_of(answer: SourceAnswer) -> tuple[dict[str, MemoryRecord], dict[str, int]]:
    """Return every record and where it stands in the answer: hits, then what is beside them."""
    records: dict[str, MemoryRecord] = {}
    for hit in answer.hits:
        records.setdefault(hit.record.id, hit.record)
    for hit in answer.hits:
        for neighbour in answer.neighbours.get(hit.record.id, ()):
            records.setdefault(neighbour.record.id, neighbour.record)
    return records, {memory_id: at for at, memory_id in enumerate(records)}


def _spread(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values as parts of the best of them."""
    best = max(values.values(), default=0.0)
    if best <= 0:
        return dict.fromkeys(values, 1.0)
    return {memory_id: max(value, 0.0) / best for memory_id, value in values.items()}


def _above_usual(values: Mapping[str, float]) -> dict[str, float]:
    """Return how surprising it is that each value is so far above the mean, as parts of the most.

    The measure is that of the words' rarity, the logarithm of how seldom it happens by chance:
    half of any records are more alike than the mean, and that they are says next to nothing.
    """
    if not values:
        return {}
    mean = sum(values.values()) / len(values)
    deviation = sqrt(sum((value - mean) ** 2 for value in values.values()) / len(values))
    if deviation < 1e-9:
        return {memory_id: max(value, 0.0) for memory_id, value in values.items()}
    surprises = {key: _surprise((value - mean) / deviation) for key, value in values.items()}
    best = max(surprises.values())
    return {memory_id: surprise / best for memory_id, surprise in surprises.items()}


def _surprise(deviations: float) -> float:
    """Return how seldom anything is so many deviations off the mean; 0 at and below the mean."""
    return -log(max(erfc(deviations / _ROOT_OF_TWO), float_info.min)) if deviations > 0 else 0.0


def _words(
    answer: SourceAnswer,
    records: Mapping[str, MemoryRecord],
    signals: Signals,
    speakers: Collection[str],
) -> dict[str, float]:
    """Return how well the words of each record fit, as a part of the best; 0 is left out.

    Sources that do not rank by words are not judged by them.
    """
    if all(hit.bm25 is None for hit in answer.hits):
        return {}
    matched = match_words(records, signals, names=speakers)
    words = _spread(matched) if matched else {}
    ranked = _spread({hit.record.id: hit.bm25 for hit in answer.hits if hit.bm25})
    for memory_id, part in ranked.items():
        # What lies behind the characters that are read here only the source can tell.
        if len(records[memory_id].text) > READ_CHARS:
            words[memory_id] = max(words.get(memory_id, 0.0), part)
        elif memory_id not in words:
            words[memory_id] = UNSEEN_FACTOR * part
    return words


def _fuse(
    hits: Iterable[MemoryHit], words: Mapping[str, float], meaning: Mapping[str, float]
) -> dict[str, float]:
    """Return what each record is worth by itself: both sides, or the one that there is."""
    if not words and not meaning:
        return dict.fromkeys((hit.record.id for hit in hits), 1.0)
    found = dict.fromkeys((*(hit.record.id for hit in hits), *words))
    if not (words and meaning):
        only = words or meaning
        return {memory_id: only.get(memory_id, 0.0) for memory_id in found}
    return {key: fuse(words.get(key, 0.0), meaning.get(key, 0.0)) for key in found}


def _around(answer: SourceAnswer, own: Mapping[str, float]) -> dict[str, float]:
    """Return what the hits beside each record give it."""
    given: dict[str, float] = {}
    for hit in answer.hits:
        for neighbour in answer.neighbours.get(hit.record.id, ()):
            weight = NEIGHBOUR_WEIGHTS.get(abs(neighbour.distance), 0.0)
            key = neighbour.record.id
            given[key] = given.get(key, 0.0) + weight * own[hit.record.id]
    return given


def _place_of(record: MemoryRecord) -> tuple[str, str] | None:
    """Return the session or else the parent that a record belongs to."""
    if record.session_id is not None:
        return ("session", record.session_id)
    return None if record.parent_id is None else ("parent", record.parent_id)


def _best_by_place(
    records: Iterable[MemoryRecord], own: Mapping[str, float]
) -> dict[tuple[str, str] | None, float]:
    best: dict[tuple[str, str] | None, float] = {}
    for record in records:
        place = _place_of(record)
        if place is not None:
            best[place] = max(best.get(place, 0.0), own.get(record.id, 0.0))
    return best


def _candidate(
    answer: SourceAnswer,
    record: MemoryRecord,
    *,
    order: int,
    scores: Mapping[str, float],
    is_found: bool,
) -> Candidate:
    return Candidate(
        record=record,
        source=answer.source,
        order=order,
        score=0.0,
        scores=scores,
        found_in=(answer.source,),
        reason="it fits the query" if is_found else "it stands beside what fits the query",
    )
