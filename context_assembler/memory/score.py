"""How well each record fits a query: by its words, its meaning, and what stands around it.

What is found in a dialogue is rarely complete in one turn: the question stands before the answer.
So a turn is lifted by what stands next to it and by the best of its session. The weights were
settled on measured evidence recall; fusing by ranks (RRF) was worse than the words alone.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from math import erfc, inf, log, sqrt
from sys import float_info
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from context_assembler.memory.kinds import KINDS, EventMetadata, MemoryKind, check_kind, is_texts
from context_assembler.memory.records import MemoryHit, MemoryRecord, WordCounts, refuse
from context_assembler.memory.words import (
    Signals,
    count_words,
    find_dates,
    index_text,
    phrases,
    pieces_of,
    stems,
    stems_of,
    without_stop_words,
)
from context_assembler.texts import CountText

Clean: TypeAlias = Callable[[str], str]  # what is done to a text before it is shown
SourceState: TypeAlias = Literal["ok", "empty", "below_floor", "timed_out", "failed", "skipped"]
States: TypeAlias = Mapping[str, SourceState]
RecallStrategy: TypeAlias = Literal["balanced", "recent", "important"]

WORDS_WEIGHT: Final = 0.6
READ_CHARS: Final = 2_000  # of a record; of longer ones the source's own opinion counts, too
_FAR_CHARS: Final = 200_000  # looked through for the query's words
_BESIDE_CHARS: Final = 100  # read before and behind each
_SATURATION: Final = 1.2  # how slowly a word that is repeated adds less (BM25's k1)
_LENGTH_SHARE: Final = 0.5  # how much a longer text has to say more (BM25's b)
_UNSEEN_FACTOR: Final = 0.15  # of what a source found by words that the record itself does not show
_NEIGHBOUR_WEIGHTS: Final = {1: 0.2, 2: 0.1}
_SESSION_WEIGHT: Final = 0.15  # of the best of a session
_COVERED_WEIGHT: Final = 0.3  # of the words that a session covers
_BESIDE_PART: Final = 0.5
_CONTEXT_PART: Final = 0.3  # of a word that stands not in the query, but in what was said around it
_BESIDE_WEIGHTS: Final = {1: 0.5, 2: 0.3}
_SPEAKER_FACTOR: Final = 1.76
_SHORT_CHARS: Final = 4
_LEAST_RECORDS: Final = 1_000  # that a source has for all we know, if it does not say
_LEAST_RELEVANCE: Final = 0.02  # as a part of the best of the source
_ALIKE: Final = 0.3  # a cosine from which on meaning alone is enough
_ENOUGH_WORDS: Final = 3
_SYNONYM: Final = 0.6  # a likeness from which on two words say the same
_SEEN_HITS: Final = 20
_MAX_QUERY_RECENCY: Final = 0.1  # more loses what was asked for to what is new


# ---- values ----
UNASKED: Final = "nobody asked for it"  # how the reason of such a candidate begins


class SourceAnswer(NamedTuple):
    """What one source said of one kind.

    Attributes:
        source: The kind, with the source's name before it if there are several.
        hits: Best first; in the order of the source if nothing was asked for.
        neighbours: By the key of a hit, what stands around it, and how many places away.
        reason: Why there is no answer, or not all of it.
        counts: How many of the source's records have the words of the query, if it says so.
    """

    source: str
    kind: MemoryKind
    state: SourceState
    hits: tuple[MemoryHit, ...] = ()
    neighbours: Mapping[str, Sequence[tuple[MemoryRecord, int]]] = {}
    reason: str | None = None
    counts: WordCounts | None = None


class Candidate(NamedTuple):
    """A record that may be shown.

    Attributes:
        score: From 0 to 1, comparable across sources.
        scores: What the score is made of, by name.
        found_in: Every source that had it or a duplicate, the best first.
        reason: How it came in.
        is_beginning: Whether its source keeps more of the text than the record has here.
    """

    record: MemoryRecord
    source: str
    order: int
    score: float
    scores: Mapping[str, float]
    found_in: tuple[str, ...]
    reason: str = "it fits the query"
    is_beginning: bool = False

    @property
    def rank(self) -> tuple[float, float, str, str, int, str]:
        """Sorts the best first, of equals the newest, and never leaves two in doubt."""
        made = self.record.created_at
        age = inf if made is None else -made.timestamp()
        return (-self.score, age, self.record.kind, self.source, self.order, self.record.id)


class Recall(NamedTuple):
    """What holds for one recall from its query to its context."""

    signals: Signals
    settings: "RecallSettings"
    now: datetime
    limit: int | None  # the most records to show, besides what the budget takes
    count_text: CountText
    clean: Clean
    namespaces: Sequence[str] | None = None
    max_tokens: int = 10_000  # of the largest budget that is known


class RecallWeights(NamedTuple):
    """How much each side of a candidate counts; only their proportion matters."""

    relevance: float
    recency: float
    importance: float


STRATEGY_WEIGHTS: Final[Mapping[RecallStrategy, RecallWeights]] = {
    "balanced": RecallWeights(relevance=0.88, recency=0.02, importance=0.1),
    "recent": RecallWeights(relevance=0.85, recency=0.1, importance=0.05),
    "important": RecallWeights(relevance=0.6, recency=0.05, importance=0.35),
}
DEFAULT_SHARES: Final[Mapping[MemoryKind, float]] = {n: spec.share for n, spec in KINDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """What holds for one recall.

    Attributes:
        strategy: What counts besides relevance; without a query, what is shown at all. A function
            gives each candidate its own score.
        weights: Instead of the strategy's. With a query, recency counts for a tenth at most.
        shares: What each kind gets of the budget: a weight, or a percentage such as `"40%"`.
        largest_share: The most that one item may take of its kind's share; longer ones are cut.
        whole_tokens: Items of at most so many tokens are not cut: half a message is worth little.
        half_life_hours: How long after it was made, or last touched, a memory is half as recent; with
            `balanced` and no query, worth half.
        floor: The part of the query's words that the best of a source must have, or three of them;
            otherwise nothing of that source is relevant. 0 is no floor.
        depth: How many relations are walked from an entity that was found.
        order: Where the best stands: some models read the end more closely.
        times: How times are written: relative to now, or as a date, which stays true in a text that
            is kept.
        seconds_per_source: How long one source may take, from its turn on.
        seconds_in_all: How long all of them together may take.
        cache_seconds: How long the same question gets the same context, as long as nothing is written
            to the stores; 0 for never. Of sources that do not say so nothing is kept.
    """

    strategy: RecallStrategy | Callable[[Candidate], float] = "balanced"
    weights: RecallWeights | None = None
    shares: Mapping[MemoryKind, float | str] = field(default_factory=lambda: {**DEFAULT_SHARES})
    largest_share: float = 0.25
    whole_tokens: int = 320
    half_life_hours: float = 24.0
    floor: float = 0.15
    depth: int = 1
    order: Literal["best_first", "best_last"] = "best_first"
    times: Literal["relative", "dates"] = "relative"
    seconds_per_source: float = 2.0
    seconds_in_all: float = 5.0
    cache_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not callable(self.strategy) and self.strategy not in STRATEGY_WEIGHTS:
            rule = f"must be one of {', '.join(STRATEGY_WEIGHTS)}, or a function"
            refuse("strategy", self.strategy, rule, "Use one of these.")
        for name, share in self.shares.items():
            share_of(check_kind(name), share)


def share_of(kind: MemoryKind, share: float | str) -> tuple[float, float]:
    """Return a share as its weight and its fixed part of the whole; one of them is 0.

    Raises:
        InvalidParameterError: It is neither a weight nor a percentage.
    """
    given, is_part = str(share), str(share).endswith("%")
    number = float(given.rstrip("%")) if re.fullmatch(r"\d+(\.\d+)?%?", given) else -1.0
    if number < 0 or is_part != isinstance(share, str):
        rule = "must be a weight of 0 or more, or a percentage"
        refuse(f"shares[{kind!r}]", share, rule, "Pass a share such as 2 or '40%'.")
    return (0.0, number / 100) if is_part else (number, 0.0)


RECALL_PRESETS: Final[Mapping[str, RecallSettings]] = {
    "general": RecallSettings(),
    "coding": RecallSettings(
        shares={**DEFAULT_SHARES, "code": 4, "commits": 3, "changed_functions": 2}
    ),
    "companion": RecallSettings(shares={**dict.fromkeys(KINDS, 1.0), "memories": 3, "events": 3}),
    "research": RecallSettings(
        shares={**DEFAULT_SHARES, "chunks": 4, "entities": 2, "relations": 2}, depth=2
    ),
    "operations": RecallSettings(
        strategy="recent", shares={**DEFAULT_SHARES, "events": 3, "patterns": 2}, half_life_hours=6
    ),
    "planning": RecallSettings(
        strategy="important",
        shares={**DEFAULT_SHARES, "experiences": 4, "values": 3, "patterns": 2},
    ),
}
"""Settings for kinds of agents; `dataclasses.replace` changes one of theirs."""


# ---- words ----


def _said(record: MemoryRecord, roots: Iterable[str]) -> str:
    """Return what is read of a record; of a long text, behind its beginning, around those words."""
    pieces = [record.text[:READ_CHARS], record.author or ""]
    if len(record.text) > READ_CHARS:
        pieces.append(_far_behind(record.text, roots))
    metadata: Any = record.metadata
    for one in fields(metadata) if metadata is not None else ():
        value = getattr(metadata, one.name)
        told: tuple[Any, ...] = value if is_texts(value) else (value,)
        pieces += [piece[:READ_CHARS] for piece in told if isinstance(piece, str)]
    return index_text(" ".join(pieces))


def _far_behind(text: str, roots: Iterable[str]) -> str:
    """Return what stands around each of the words in a long text behind its beginning."""
    far = text[READ_CHARS:_FAR_CHARS]
    lowered = far.lower()
    read, pieces = 0, list[str]()
    for place in sorted({lowered.find(root) for root in roots} - {-1}):
        pieces.append(far[max(place - _BESIDE_CHARS, read) : place + _BESIDE_CHARS])
        read = place + _BESIDE_CHARS
    return " ".join(pieces)


Matches: TypeAlias = list[dict[int, float]]
"""Of each record, by the place of a word of the query, what its best form of that word is worth."""


def match_words(
    records: Sequence[MemoryRecord],
    signals: Signals,
    names: Collection[str],
    told: Sequence[WordCounts],
    untold: Collection[int],
) -> tuple[Matches, list[float]]:
    """Return how well each record fits the words, and what each word is worth.

    A word counts for more the fewer of all records have it, and a word of like meaning for less
    than the word itself. Whatever the sources' own ranks, here all are weighed by one measure.

    Args:
        names: Words that do not count: they are names of those who say the records.
        told: What sources say of how many of their records have each word.
        untold: The places of records whose source says nothing of it: these stand for the rest.
    """
    known_terms = (*signals.terms, *signals.context_terms)
    cut = stems([term.removesuffix("*") for term in known_terms])
    stems_by_term = dict(zip(known_terms, cut, strict=True))
    roots = ["".join(stems_by_term[term][:1]) for term in signals.terms[:32]]
    words = [pieces_of(_said(record, roots)) for record in records]
    every = set[str]().union(*words)
    terms = [term for term in signals.terms if term not in names] or [*signals.terms]
    parts = [1.0] * len(terms) + [_CONTEXT_PART] * len(signals.context_terms)
    terms += signals.context_terms
    uses = _uses_of(terms, stems_by_term, signals, every)
    # Cutting takes long: only an ending is cut off, and short words may lose all but one letter.
    begun, is_silent = {form[:2] for form in uses}, uses.keys().isdisjoint
    likely = [p for p in every if p[:2] in begun or len(p) <= _SHORT_CHARS or not p.isascii()]
    cut_by_piece = stems_of(likely)
    telling = {piece for piece in likely if not is_silent(cut_by_piece[piece])}
    shared = list[dict[str, int]]()  # of each record, how often it has each form
    for pieces in words:
        bag = dict[str, int]()
        shared.append(bag)
        for piece in filter(telling.__contains__, pieces):
            for form in filter(uses.__contains__, cut_by_piece[piece]):
                bag[form] = bag.get(form, 0) + 1
    known = sum(one.records for one in told) + (max(len(untold), _LEAST_RECORDS) if untold else 0)
    counts = [sum(one.by_word.get(term, 0) for one in told) for term in terms]
    for place in untold:
        for at in {at for form in shared[place] for at, likeness in uses[form] if likeness == 1}:
            counts[at] += 1
    rarity = [part * _rarity(count, known) for part, count in zip(parts, counts, strict=True)]
    seen = Counter(form for forms in shared for form in forms)
    worths = {
        form: [
            (
                at,
                like * (rarity[at] if like == 1 else min(rarity[at], _rarity(count, len(records)))),
            )
            for at, like in uses[form]
        ]
        for form, count in seen.items()
    }
    sizes = [*map(len, words)]
    usual_size = sum(sizes) / max(len(sizes), 1) or 1.0
    matches: Matches = []
    for size, bag in zip(sizes, shared, strict=True):
        best = dict[int, float]()
        length = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * size / usual_size)
        for form, number in bag.items():
            times = number * (_SATURATION + 1) / (number + length)
            for at, worth in worths[form]:
                if worth * times > best.get(at, 0.0):
                    best[at] = worth * times
        matches.append(best)
    return matches, rarity


def _rarity(count: int, records: int) -> float:
    """Return what a word is worth that so many of the records have."""
    return log(1 + (max(records - count, 0) + 0.5) / (count + 0.5))


def _uses_of(
    terms: Sequence[str],
    stems_by_term: Mapping[str, Sequence[str]],
    signals: Signals,
    pieces: Collection[str],
) -> dict[str, list[tuple[int, float]]]:
    """Return by stem which words of the query it says, and how well."""
    wanted: list[dict[str, float]] = []
    for term in terms:
        forms: Iterable[str] = stems_by_term[term]
        if term.endswith("*"):
            begun = tuple(forms)
            cut = stems_of([piece for piece in pieces if not piece.isascii()])
            there = (stem for piece in pieces if not piece.isascii() for stem in cut[piece])
            forms = {stem for stem in there if stem.startswith(begun)}
        wanted.append(dict.fromkeys(forms, 1.0))
    taken = {form for forms in wanted for form in forms}
    near = [(at, w, n) for at, t in enumerate(terms) for w, n in signals.related.get(t, {}).items()]
    for (at, _, likeness), found in zip(near, stems([word for _, word, _ in near]), strict=True):
        for form in found:
            if form not in taken:
                wanted[at][form] = max(wanted[at].get(form, 0.0), likeness * likeness)
    uses: dict[str, list[tuple[int, float]]] = {}
    for at, forms in enumerate(wanted):
        for form, likeness in forms.items():
            uses.setdefault(form, []).append((at, likeness))
    return uses


# ---- who says it, and when ----

_SPEAKER: Final = re.compile(r"([^\W\d_][\w.'’-]{0,30}(?: [\w.'’-]{1,30}){0,2}):\s")


def _speaker_words(record: MemoryRecord) -> set[str]:
    """Return the words of the name of who says the record: its author, or how its text begins."""
    match = None if record.author else _SPEAKER.match(record.text)
    name = record.author or (match[1] if match else "")
    return _name_words(name) if name else set()


def _name_words(name: str) -> set[str]:
    return {word for word in re.findall(r"[^\W_]+", name.lower()) if len(word) > 1}


def mentioned_names(signals: Signals) -> set[str]:
    """Return the words of the names that a query mentions, lower-case."""
    return {word for name in signals.entities for word in _name_words(name)}


def mentioned_speakers(signals: Signals, records: Iterable[MemoryRecord]) -> frozenset[str]:
    """Return the words of the query that are names of those who say the records, lower-case."""
    asked = mentioned_names(signals)
    return frozenset(asked & set().union(*map(_speaker_words, records))) if asked else frozenset()


def without_names(text: str, names: Collection[str]) -> str:
    """Return the text without those words."""
    listed = "|".join(map(re.escape, sorted(names)))
    pattern = rf"\b(?:{listed})(?:['’]s)?\b"
    return re.sub(pattern, " ", text, flags=re.IGNORECASE) if names else text


def _lift_of(record: MemoryRecord, signals: Signals, speakers: Collection[str]) -> float:
    """Return the factor of a record's worth: 1 if nothing besides its words speaks for it."""
    is_said_by = speakers and not _speaker_words(record).isdisjoint(speakers)
    factor = _SPEAKER_FACTOR if is_said_by else 1.0
    if signals.dates:
        named = [*find_dates(record.text[:READ_CHARS], now=None)]
        made = record.created_at
        moments = [(made.year, made.month, made.day)] if made else []
        if any(date.matches(*one) for date in signals.dates for one in (*moments, *named)):
            factor *= 1.3
    if signals.wants_time and phrases("tells_time").search(record.text[:READ_CHARS]):
        factor *= 1.15
    event = record.metadata
    if isinstance(event, EventMetadata) and (
        (event.is_error is True and "error" in signals.event_types)
        or event.event_type in signals.event_types
    ):
        factor *= 1.2
    return factor


# ---- the score of a record ----


def fuse(words: float, meaning: float) -> float:
    """Return what a record is worth that fits by words and by meaning, each from 0 to 1."""
    return WORDS_WEIGHT * words + (1 - WORDS_WEIGHT) * meaning


class _Seen:
    """The records of all answers, each once, and what stands next to what."""

    def __init__(self, answers: Sequence[SourceAnswer]) -> None:
        self.records, self.owners = list[MemoryRecord](), list[int]()
        self.hits, self.links = dict[int, MemoryHit](), list[tuple[int, int, int]]()
        self.places = list[object]()  # the session, or else the parent, or the record alone
        for owner, answer in enumerate(answers):
            known: dict[str, int] = {}
            for hit in answer.hits:
                self.hits.setdefault(self._place(known, hit.record, owner), hit)
            for key, around in answer.neighbours.items():
                at = known[key]
                for record, distance in around:
                    self.links.append((at, self._place(known, record, owner), abs(distance)))

    def _place(self, known: dict[str, int], record: MemoryRecord, owner: int) -> int:
        key = record.key
        if key not in known:
            at = known[key] = len(self.records)
            place = record.parent_id if record.session_id is None else record.session_id
            self.places.append(at if place is None else (record.session_id is None, place))
            self.records.append(record)
            self.owners.append(owner)
        return known[key]


def rank_answers(
    answers: Iterable[SourceAnswer], recall: Recall
) -> tuple[list[Candidate], list[Candidate], dict[str, SourceState]]:
    """Return the candidates, best first, those below the floor, and each source's state.

    All records are weighed by one measure, of whatever source and kind they are: a word counts by
    how rare it is among all that the sources keep.
    """
    answers, signals = [*answers], recall.signals
    seen, half_life = _Seen(answers), recall.settings.half_life_hours
    speakers = mentioned_speakers(signals, seen.records)
    words, covered = _word_scores(answers, seen, signals, speakers)
    meaning = _surprises(
        {at: h.similarity for at, h in seen.hits.items() if h.similarity is not None}
    )
    fused = {seen.owners[at] for at in meaning} & {seen.owners[at] for at in words}
    own: dict[int, float] = {}
    for at in {**seen.hits, **words}:
        word, near = words.get(at, 0.0), meaning.get(at, 0.0)
        own[at] = fuse(word, near) if seen.owners[at] in fused else word or near
    around: dict[int, float] = {}
    for start, end, distance in seen.links:
        lift = _NEIGHBOUR_WEIGHTS.get(distance, 0.0) * own[start]
        around[end] = around.get(end, 0.0) + lift
    best: dict[object, float] = {}
    for at, worth in own.items():
        if worth > best.get(place := seen.places[at], 0.0):
            best[place] = worth
    sessions = {
        place: _SESSION_WEIGHT * best.get(place, 0.0) + _COVERED_WEIGHT * covered.get(place, 0.0)
        for place in {*seen.places}
    }
    worths = {
        at: own.get(at, 0.0) + around.get(at, 0.0) + sessions[place]
        for at, place in enumerate(seen.places)
    }
    if speakers or signals.dates or signals.wants_time or signals.event_types:
        for at, record in enumerate(seen.records):
            worths[at] *= _lift_of(record, signals, speakers)
    relevances = _spread(worths)
    floor = recall.settings.floor
    fits = [_is_relevant(answer.hits, signals, floor=floor) for answer in answers]
    kept, below = list[Candidate](), list[Candidate]()
    for at, record in enumerate(seen.records):
        scores = {
            "relevance": relevances[at],
            "words": words.get(at, 0.0),
            "meaning": meaning.get(at, 0.0),
            "around": around.get(at, 0.0),
            "recency": _recency_of(record, recall.now, half_life),
            "importance": record.importance,
        }
        reason = "it fits the query" if at in own else "it stands next to what fits the query"
        name = answers[seen.owners[at]].source
        candidate = Candidate(record, name, at, 0.0, scores, (name,), reason)
        is_kept = fits[seen.owners[at]] and relevances[at] >= _LEAST_RELEVANCE
        (kept if is_kept else below).append(candidate)
    shown = {candidate.source for candidate in kept}
    states: dict[str, SourceState] = {
        a.source: "below_floor" if a.state == "ok" and a.source not in shown else a.state
        for a in answers
    }
    return rank_candidates(kept, recall), below, states


def _word_scores(
    answers: Sequence[SourceAnswer], seen: _Seen, signals: Signals, speakers: Collection[str]
) -> tuple[dict[int, float], dict[object, float]]:
    """Return how well the words of each record fit, and of each session how many it covers.

    The first is a part of the best, where 0 is left out, the second of all words. Half of it is what
    stands next to a record as well. Sources that do not rank by words are not judged by them.
    """
    hits = seen.hits.values()
    if not signals.terms and all(hit.bm25 is None is hit.similarity for hit in hits):
        return dict.fromkeys(seen.hits, 1.0), {}  # listed, not searched
    told = {id(answer.counts): answer.counts for answer in answers if answer.counts}
    untold = [at for at, owner in enumerate(seen.owners) if not answers[owner].counts]
    matches, rarity = match_words(seen.records, signals, speakers, [*told.values()], untold)
    near = [dict(match) for match in matches]
    for start, end, distance in seen.links:
        weight = _BESIDE_WEIGHTS.get(distance, 0.0)
        for at, other in ((start, end), (end, start)):
            mine = near[at]
            for term, worth in matches[other].items():
                if weight * worth > mine.get(term, 0.0):
                    mine[term] = weight * worth
    worths = {
        at: (1 - _BESIDE_PART) * sum(match.values()) + _BESIDE_PART * sum(near[at].values())
        for at, match in enumerate(matches)
        if near[at]
    }
    words = _spread(worths)
    covered: dict[object, set[int]] = {}
    for at, match in enumerate(matches):
        covered.setdefault(seen.places[at], set()).update(match)
    total = sum(rarity) or 1.0
    parts = {place: sum(rarity[at] for at in terms) / total for place, terms in covered.items()}
    for owner, answer in enumerate(answers):
        if not answer.hits:
            continue
        own = [at for at, one in enumerate(seen.owners) if one == owner]
        most = max((words.get(at, 0.0) for at in own), default=0.0) or 1.0
        if all(hit.bm25 is None for hit in answer.hits):
            is_told = any(hit.similarity is not None for hit in answer.hits)
            for at in own:
                words.pop(at, None)
                if not is_told and at in seen.hits:
                    words[at] = most
            continue
        ranked = {at: hit.bm25 for at in own if (hit := seen.hits.get(at)) and hit.bm25}
        for at, part in _spread(ranked).items():
            # What lies behind the characters that are read here only the source can know.
            if len(seen.records[at].text) > READ_CHARS:
                words[at] = max(words.get(at, 0.0), part * most)
            elif at not in words:
                words[at] = _UNSEEN_FACTOR * part * most
    return words, parts


def _spread(values: Mapping[int, float]) -> dict[int, float]:
    """Return the values as parts of the best of them."""
    best = max(values.values(), default=0.0)
    if best <= 0:
        return dict.fromkeys(values, 1.0)
    return {key: max(value, 0.0) / best for key, value in values.items()}


def _surprises(values: Mapping[int, float]) -> dict[int, float]:
    """Return how surprising it is that each value is so far above the mean, as parts of the most.

    The measure is that of the words' rarity, the logarithm of how seldom it happens by chance:
    half of any records are more alike than the mean, and that they are says next to nothing.
    """
    if not values:
        return {}
    mean = sum(values.values()) / len(values)
    deviation = sqrt(sum((value - mean) ** 2 for value in values.values()) / len(values))
    if deviation < 1e-9:
        return {key: max(value, 0.0) for key, value in values.items()}
    found = {
        key: -log(max(erfc((value - mean) / deviation / sqrt(2)), float_info.min))
        if value > mean
        else 0.0
        for key, value in values.items()
    }
    best = max(found.values())
    return {key: surprise / best for key, surprise in found.items()}


def _recency_of(record: MemoryRecord, now: datetime, half_life_hours: float) -> float:
    """Return 1 for what was made or used just now or later, half of that after each half-life."""
    if (used := record.last_used_at) is None:
        return 0.0
    age_hours = (now - used).total_seconds() / 3600
    return float(0.5 ** (max(age_hours, 0.0) / half_life_hours))


def _is_relevant(hits: Sequence[MemoryHit], signals: Signals, *, floor: float) -> bool:
    """Whether the hits have more in common with the query than a word by chance."""
    if not signals.query.strip() or not hits:
        return bool(hits)
    if any((hit.similarity or 0.0) >= _ALIKE for hit in hits):
        return True
    if all(hit.bm25 is None for hit in hits):
        return False
    roots: list[list[str]] = []
    for term in signals.terms:
        near = (w for w, n in signals.related.get(term, {}).items() if n >= _SYNONYM)
        roots.append([w.rstrip("*").removesuffix("s")[: max(4, len(w) - 3)] for w in (term, *near)])
    # Words that say nothing are searched for if there are no others, and then count by being many.
    part = floor if without_stop_words(signals.terms) else 1.0
    wanted = min(part * count_words(signals.terms), _ENOUGH_WORDS)
    for hit in hits[:_SEEN_HITS]:
        text, known = hit.record.text[:_FAR_CHARS], f"{hit.record.metadata or ''}"[:_FAR_CHARS]
        said = f"{text} {hit.record.author or ''} {known}".lower()
        shared = sum(any(root in said for root in given) for given in roots)
        if shared >= wanted or hit.bm25 is None:
            return True
    return False


def rank_candidates(candidates: Iterable[Candidate], recall: Recall) -> list[Candidate]:
    """Return the candidates with their scores, the best first: relevance, recency and importance."""
    score = _scoring(recall)
    scored = [candidate._replace(score=score(candidate)) for candidate in candidates]
    return sorted(scored, key=lambda candidate: candidate.rank)


def _scoring(recall: Recall) -> Callable[[Candidate], float]:
    strategy, weights = recall.settings.strategy, recall.settings.weights
    if callable(strategy):
        return strategy
    if recall.signals.query.strip():
        given = weights or STRATEGY_WEIGHTS[strategy]
        recency = min(given.recency / sum(given), _MAX_QUERY_RECENCY)
        rest = given.relevance + given.importance
        relevance = given.relevance / rest if rest else 1.0
        importance = given.importance / rest if rest else 0.0
        weights = RecallWeights(relevance * (1 - recency), recency, importance * (1 - recency))
    # Rounded, so that the last bit of a sum does not decide.
    if weights is not None:
        total, (relevance, recency, importance) = sum(weights), weights

        def weighed(candidate: Candidate) -> float:
            given = candidate.scores
            found = relevance * given["relevance"] + recency * given["recency"]
            return round((found + importance * given["importance"]) / total, 9)

        return weighed

    def without_query(candidate: Candidate) -> float:
        recency, importance = candidate.scores["recency"], candidate.scores["importance"]
        if strategy == "recent":
            return round(recency + importance / 1_000_000, 9)
        if strategy == "important":
            return round(importance + recency / 1_000_000, 9)
        used = candidate.record.last_used_at  # `None`: behind all that is dated
        hours = 1e6 if used is None else max((recall.now - used).total_seconds() / 3600, 0.0)
        return round(importance / (1 + hours / recall.settings.half_life_hours), 9)

    return without_query
