"""Texts that say the same: each thing is recalled once, by the best of those who say it.

Likeness is what two texts have in common of their characters, in order, as a part of both lengths:
it needs no words and no spaces, so it holds for any script. Of many texts only those are compared
whose signatures agree somewhere, and two of them say the same only if they have the same numbers
and deny as often.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from context_assembler.memory.kinds import CodeMetadata
from context_assembler.memory.records import MemoryRecord, load_package, normal_text
from context_assembler.memory.score import Candidate
from context_assembler.memory.words import word_lists

_MAX_EXACT: Final = 60  # up to so many texts every pair is compared
_CHARS: Final = 4_000  # compared of each end of a text
_PLACES: Final = 256
_PLACES_PER_BAND: Final = 4
_STEP: Final = 2  # places from one band to the next
_PIECE_CHARS: Final = 4
_EMPTY: Final = 0xFFFF_FFFF
_ENOUGH: Final = 400  # pieces to fill four places of five; if there are fewer, all are thrown again
_MOST_THROWS: Final = 64
_LEAST_IN_BAND: Final = 3  # filled places, so that no common piece alone makes two texts alike
_TEXTS_AT_ONCE: Final = 200
_PAIRS_AT_ONCE: Final = 1_000  # whose signatures fit a processor's cache
_MOST_STEPS: Final = 8  # among texts that share a band
_LEAST_SHARE: Final = 0.05
_MOST_KNOWN: Final = 8_192  # signatures of a kilobyte each
# Odd numbers that mix well, from SplitMix64.
_GOLDEN: Final = 0x9E37_79B9_7F4A_7C15
_MIXERS: Final = (0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB)

AreAlike: TypeAlias = Callable[[int, int], bool]


def compare(texts: Sequence[str], *, least: float) -> AreAlike:
    """Return what says of two places whether their texts are at least so alike.

    Raises:
        MissingExtraError: rapidfuzz is not installed.
    """
    indel = load_package("rapidfuzz.distance", "Comparing texts").Indel
    ends = [text if len(text) <= 2 * _CHARS else text[:_CHARS] + text[-_CHARS:] for text in texts]
    sizes, bound = [len(text) for text in texts], least - 1e-3  # it rounds its bound

    def are_alike(left: int, right: int) -> bool:
        # No text can have more in common with another than all of the shorter one.
        if 2 * min(sizes[left], sizes[right]) < least * (sizes[left] + sizes[right]):
            return False
        found: float = indel.normalized_similarity(ends[left], ends[right], score_cutoff=bound)
        return found >= least

    return are_alike


def find_twins(texts: Sequence[str], *, least: float, may_be_twins: AreAlike) -> dict[int, int]:
    """Return by the place of a text that of the first one that says nearly the same.

    A text that has a twin before it is no other one's: likeness is no chain, and a crowd that says
    one thing is compared with its first alone. Among more than 60 texts a pair in two hundred may
    be missed.

    Args:
        may_be_twins: Whether the texts of two places are one thing if they are alike.
    """
    are_alike = compare(texts, least=least)
    twins: dict[int, int] = {}
    # Texts of one form, such as lines of a log, are all alike, and differ in their numbers.
    groups: dict[_Facts, list[int]] = {}
    for place, text in enumerate(texts):
        groups.setdefault(_facts_of(text), []).append(place)
    for places in groups.values():
        group = [texts[place] for place in places]
        for left, right in sorted({*_pairs_worth_it(group, least=least)}):
            first, second = places[left], places[right]
            if (
                first not in twins
                and second not in twins
                and may_be_twins(first, second)
                and are_alike(first, second)
            ):
                twins[second] = first
    return twins


# ---- pairs that are worth comparing ----


def _pairs_worth_it(texts: Sequence[str], *, least: float) -> Iterator[tuple[int, int]]:
    if len(texts) <= _MAX_EXACT:
        for left, text in enumerate(texts):
            for right in range(left + 1, len(texts)):
                if 2 * min(len(text), len(texts[right])) >= least * (len(text) + len(texts[right])):
                    yield left, right
        return
    first_by_text: dict[str, int] = {}
    for at, text in enumerate(texts):  # equal ones: the shortest have no signature
        if (first := first_by_text.setdefault(text, at)) != at:
            yield first, at
    np = load_package("numpy", "Comparing many memories")
    signatures = _signatures_of(np, texts)
    lefts, rights = _pairs_in_bands(np, signatures)
    sizes = np.array([len(text) for text in texts])
    shorter = np.minimum(sizes[lefts], sizes[rights])
    chosen = 2 * shorter >= least * (sizes[lefts] + sizes[rights])
    lefts, rights = lefts[chosen], rights[chosen]
    # Half of the share of places that so alike texts have in common if their changes lie apart: a
    # changed character changes four pieces.
    unchanged = max(1 - _PIECE_CHARS * (1 - least), 0.0)
    bound = max(unchanged / (2 - unchanged) / 2, _LEAST_SHARE)
    for start in range(0, len(lefts), _PAIRS_AT_ONCE):
        left, right = (side[start : start + _PAIRS_AT_ONCE] for side in (lefts, rights))
        mine, others = signatures[left], signatures[right]
        filled = (mine != _EMPTY) | (others != _EMPTY)
        agreeing = ((mine == others) & filled).sum(axis=1)
        chosen = agreeing / np.maximum(filled.sum(axis=1), 1) >= bound
        yield from zip(left[chosen].tolist(), right[chosen].tolist(), strict=True)


_KNOWN: Final[dict[str, Any]] = {}


def _signatures_of(np: Any, texts: Sequence[str]) -> Any:
    """Return a row for each text; what one recall compares the next one often compares again."""
    known = {text: row for text in texts if (row := _KNOWN.get(text)) is not None}
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    known |= dict(zip(missing, _sign(np, missing), strict=True))
    if len(_KNOWN) > _MOST_KNOWN:
        _KNOWN.clear()
    _KNOWN.update(known)
    return np.stack([known[text] for text in texts])


def _sign(np: Any, texts: Sequence[str]) -> Any:
    """Return a signature of each text: the smallest hash of its pieces in each of 256 places.

    Two signatures agree in about that share of the places that is the texts' common share of
    pieces. All of it is whole numbers: the same on every machine.

    Source: Li, Owen, Zhang, One Permutation Hashing, 2012.
    """
    rows = np.full((len(texts), _PLACES), _EMPTY, dtype=np.uint32)
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        end = start + _TEXTS_AT_ONCE
        _fill(np, texts[start:end], rows[start:end].reshape(-1))
    return rows


def _fill(np: Any, texts: Sequence[str], places: Any) -> None:
    gap = _PIECE_CHARS - 1
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    joined = ("\0" * gap).join((*texts, "")).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(joined, dtype="<u4").astype(np.uint64)
    starts = np.flatnonzero(codes[: len(codes) - gap])
    owners = np.repeat(np.arange(len(texts)), sizes + gap)[starts]
    hashes = np.zeros(len(codes) - gap, dtype=np.uint64)
    for at in range(_PIECE_CHARS):
        hashes = hashes * np.uint64(_GOLDEN) + codes[at : len(codes) - gap + at]
    hashes = hashes[starts]
    throws = np.clip(-(-_ENOUGH // np.maximum(sizes, 1)), 1, _MOST_THROWS)
    for throw in range(int(throws.max(initial=0))):
        chosen = throws[owners] > throw
        hashes, owners = hashes[chosen], owners[chosen]
        mixed = _mixed(np, hashes + np.uint64(throw * _GOLDEN % 2**64))
        wanted = owners * _PLACES + (mixed >> np.uint64(56)).astype(np.int64)
        is_empty = places[wanted] == _EMPTY
        np.minimum.at(places, wanted[is_empty], mixed[is_empty].astype(np.uint32))


def _mixed(np: Any, numbers: Any) -> Any:
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(_MIXERS[0])
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_MIXERS[1])
    return mixed ^ (mixed >> np.uint64(31))


def _pairs_in_bands(np: Any, signatures: Any) -> tuple[Any, Any]:
    """Return the places of the texts that share a band: two arrays, each pair once."""
    count, found = len(signatures), [np.zeros(0, dtype=np.int64)]
    for start in range(0, _PLACES - _PLACES_PER_BAND + 1, _STEP):
        places = signatures[:, start : start + _PLACES_PER_BAND]
        keys = np.zeros(count, dtype=np.uint64)
        for at in range(_PLACES_PER_BAND):
            keys = _mixed(np, keys + places[:, at])
        says_enough = np.flatnonzero((places != _EMPTY).sum(axis=1) >= _LEAST_IN_BAND)
        order = says_enough[np.argsort(keys[says_enough], kind="stable")]
        keys, at = keys[order], np.arange(len(order))
        # Of texts that share a band each is paired with the first, and with the next few.
        for step in range(_MOST_STEPS + 1):
            left = at[: len(at) - step] if step else np.searchsorted(keys, keys)
            right = at[step:]
            is_pair = (keys[left] == keys[right]) & (left < right)
            found.append(order[left[is_pair]] * count + order[right[is_pair]])
    pairs = np.unique(np.concatenate(found))
    return pairs // count, pairs % count


# ---- whether nearly equal texts can say the same ----

_CONTRACTED: Final = re.compile(r"n['\u2019\u02bc]t\b")
_COUNTED: Final = "〇零一二三四五六七八九十百千万萬億亿兆两兩壹贰叁肆伍陆柒捌玖拾"
# With up to six letters right before and behind, such as a unit.
_NUMBER: Final = re.compile(
    rf"(?:(?<![^\s(])[-\u2212])?[^\W\d_]{{0,6}}[\d{_COUNTED}]+[^\W\d_]{{0,6}}"
)
_DIGIT: Final = re.compile(rf"[\d{_COUNTED}]")
_LETTERS: Final = re.compile(r"[^\W\d_]+")


class _Facts(NamedTuple):
    """The numbers of a text in their order, and how often it denies.

    To a number belongs what stands right at it, such as a unit: `5 km` and `5km` count as two.
    """

    numbers: tuple[str, ...]
    denials: int


@lru_cache(_MOST_KNOWN)
def _facts_of(text: str) -> _Facts:
    numbers = tuple(
        number
        if number.isascii()
        else "".join(str(int(c)) if c.isdecimal() else c for c in number.replace("\u2212", "-"))
        for number in (_NUMBER.findall(text) if _DIGIT.search(text) else ())
    )
    words, signs = _negations()
    denials = sum(word in words for word in _LETTERS.findall(text))
    denials += len(_CONTRACTED.findall(text))
    return _Facts(numbers, denials if text.isascii() else denials + len(signs.findall(text)))


@cache
def _negations() -> tuple[frozenset[str], re.Pattern[str]]:
    """Return the words that deny, and what finds the signs that do."""
    lists = word_lists()
    words, signs = (
        {word for listed in lists[name].values() for word in normal_text(listed).split()}
        for name in ("denies", "denies_within")
    )
    longest_first = sorted(signs, key=lambda sign: (-len(sign), sign))
    return frozenset(words), re.compile("|".join(map(re.escape, longest_first)))


# ---- candidates ----


def dedupe(
    candidates: Iterable[Candidate], *, near_duplicate: float
) -> tuple[list[Candidate], list[tuple[Candidate, str]]]:
    """Return the candidates without those that say what a better one says, and these with why.

    The same are: one record of a source found twice, one piece of a file in two versions, and texts
    that are nearly equal, in any script. Ids of two sources say nothing about each other: sources
    may number their records alike. The better score stays, and is said to be found wherever any of
    them was. The order of the candidates makes no difference.
    """
    ranked = sorted(candidates, key=lambda candidate: candidate.rank)
    first_by_key: dict[tuple[object, ...], int] = {}
    better: dict[int, tuple[int, str]] = {}
    for at, candidate in enumerate(ranked):
        keys = [*_keys_of(candidate)]
        same = next(((first_by_key[key], why) for key, why in keys if key in first_by_key), None)
        if same is not None:
            better[at] = same
        else:
            for key, _ in keys:
                first_by_key.setdefault(key, at)
    rest = [at for at in range(len(ranked)) if at not in better]

    def may_be_twins(left: int, right: int) -> bool:
        return _may_be_one(ranked[rest[left]].record, ranked[rest[right]].record)

    texts = [normal_text(ranked[at].record.text) for at in rest]
    twins = find_twins(texts, least=near_duplicate, may_be_twins=may_be_twins)
    for worse, best in twins.items():
        better[rest[worse]] = (rest[best], "it says nearly what a better one says")
    found_in: Mapping[int, dict[str, None]] = {
        at: dict.fromkeys(one.found_in) for at, one in enumerate(ranked) if at not in better
    }
    for worse in sorted(better):
        best = better[worse][0]
        while best in better:
            best = better[best][0]
        found_in[best].update(dict.fromkeys(ranked[worse].found_in))
    kept = [
        one if len(names) == len(one.found_in) else one._replace(found_in=tuple(names))
        for one, names in ((ranked[at], names) for at, names in found_in.items())
    ]
    return kept, [(ranked[at], why) for at, (_, why) in sorted(better.items())]


def _keys_of(candidate: Candidate) -> Iterator[tuple[tuple[object, ...], str]]:
    record = candidate.record
    if record.id:
        yield ("id", candidate.source, record.key), "it is the same record"
    code = record.metadata
    if isinstance(code, CodeMetadata) and code.path:
        place = (code.repository, code.path, code.symbol or code.start_line)
        yield ("file", *place), "it is the same place of the same file"


def _may_be_one(left: MemoryRecord, right: MemoryRecord) -> bool:
    """Whether equal texts are one thing: what two people say is not, unless it is one record."""
    is_one = bool(left.id) and left.key == right.key
    return is_one or left.author == right.author or left.author is None or right.author is None
