"""How alike two texts are, and which of many are.

Likeness is what both have in common of their characters, in order (the longest common subsequence),
as a part of both lengths: it needs no words and no spaces, so it holds for any script. The package
rapidfuzz computes the same number faster, and rensa finds pairs among many; neither changes what a
likeness is.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias
from zlib import crc32

MAX_EXACT: Final = 300
"""Up to so many texts every pair is compared; above it those that share pieces."""

_CHARS: Final = 4_000  # compared of each end of a text: the rest is taken for alike if these are
_SHINGLE_CHARS: Final = 5
_PERMUTATIONS, _BANDS = 256, 64
_SEED: Final = 42
_SAMPLED: Final = 8  # one shingle of so many
_CROWD: Final = 400  # a shingle in more texts says nothing

Likeness: TypeAlias = Callable[[str, str, float], float]


def similar_pairs(texts: Sequence[str], *, least: float) -> list[tuple[int, int]]:
    """Return each pair of places whose texts are at least so alike, the first place first, in order.

    Above `MAX_EXACT` texts a pair in two hundred may be missed.
    """
    likeness = load_likeness()
    ends = [_ends(text) for text in texts]
    sizes = [len(text) for text in texts]
    found: list[tuple[int, int]] = []
    for left, right in _pairs_to_compare(texts, least=least):
        # No text can have more in common with another than all of the shorter one.
        if 2 * min(sizes[left], sizes[right]) < least * (sizes[left] + sizes[right]):
            continue
        if likeness(ends[left], ends[right], least) >= least:
            found.append((left, right))
    return sorted(found)


def load_likeness() -> Likeness:
    """Return what compares two texts: rapidfuzz where it is installed, else our own."""
    try:
        from rapidfuzz.distance import Indel  # noqa: PLC0415 - optional
    except ImportError:
        return plain_likeness
    compare: Any = Indel.normalized_similarity
    return lambda left, right, least: float(compare(left, right, score_cutoff=least - 1e-9))


def plain_likeness(left: str, right: str, least: float) -> float:
    """Return the likeness of two texts from 0 to 1; 0 where it cannot reach `least`.

    Source: Hyyrö, Bit-Parallel LCS-length Computation Revisited, 2004.
    """
    total = len(left) + len(right)
    if not total or left == right:
        return 1.0
    if 2 * min(len(left), len(right)) < least * total:
        return 0.0
    masks: dict[str, int] = {}
    for at, char in enumerate(left):
        masks[char] = masks.get(char, 0) | (1 << at)
    everything = (1 << len(left)) - 1
    open_places = everything
    for char in right:
        matched = open_places & masks.get(char, 0)
        open_places = ((open_places + matched) | (open_places - matched)) & everything
    return 2 * (len(left) - open_places.bit_count()) / total


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _CHARS else text[:_CHARS] + text[-_CHARS:]


def _pairs_to_compare(texts: Sequence[str], *, least: float) -> Iterator[tuple[int, int]]:
    if len(texts) <= MAX_EXACT:
        yield from _pairs_of_like_sizes(texts, least=least)
        return
    try:
        # It has no types of its own.
        import rensa  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        yield from sampled_pairs(texts)
        return
    package: Any = rensa
    index: Any = package.RMinHashLSH(threshold=0.5, num_perm=_PERMUTATIONS, num_bands=_BANDS)
    hashes: list[Any] = []
    for at, text in enumerate(texts):
        minhash: Any = package.RMinHash(num_perm=_PERMUTATIONS, seed=_SEED)
        minhash.update(_shingle_list(text))
        index.insert(at, minhash)
        hashes.append(minhash)
    for left, minhash in enumerate(hashes):
        yield from ((left, right) for right in sorted(index.query(minhash)) if right > left)


def _pairs_of_like_sizes(texts: Sequence[str], *, least: float) -> Iterator[tuple[int, int]]:
    by_size = sorted(range(len(texts)), key=lambda at: (len(texts[at]), at))
    for number, shorter in enumerate(by_size):
        most = len(texts[shorter]) * (2 - least) / least
        for longer in by_size[number + 1 :]:
            if len(texts[longer]) > most:
                break
            yield min(shorter, longer), max(shorter, longer)


def sampled_pairs(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the pairs that share one of a sample of their pieces, in order."""
    places: dict[str, list[int]] = {}
    samples: list[set[str]] = []
    for at, text in enumerate(texts):
        pieces = _shingles(text)
        sample = {piece for piece in pieces if crc32(piece.encode()) % _SAMPLED == 0} or pieces
        samples.append(sample)
        for piece in sample:
            places.setdefault(piece, []).append(at)
    for left, sample in enumerate(samples):
        others = {
            right
            for piece in sample
            if len(places[piece]) <= _CROWD
            for right in places[piece]
            if right > left
        }
        yield from ((left, right) for right in sorted(others))


def _shingles(text: str) -> set[str]:
    return set(_shingle_list(text))


def _shingle_list(text: str) -> list[str]:
    last = max(len(text) - _SHINGLE_CHARS, 0)
    return [text[at : at + _SHINGLE_CHARS] for at in range(last + 1)]
