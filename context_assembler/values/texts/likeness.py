"""How alike two texts are.

Likeness is what both have in common of their characters, in order (the longest common subsequence),
as a part of both lengths: it needs no words and no spaces, so it holds for any script. The package
rapidfuzz computes the same number faster.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

Likeness: TypeAlias = Callable[[str, str, float], float]

_BOUND_ROOM: Final = 1e-3
_CHARS: Final = 4_000  # compared of each end of a text: the rest is taken for alike if these are


def alike_pairs(
    texts: Sequence[str], pairs: Iterable[tuple[int, int]], *, least: float
) -> Iterator[tuple[int, int]]:
    """Yield those of the pairs of places whose texts are at least so alike, in order."""
    are_alike = load_comparison(texts, least=least)
    return (pair for pair in pairs if are_alike(*pair))


def load_comparison(texts: Sequence[str], *, least: float) -> Callable[[int, int], bool]:
    """Return what says of two places whether their texts are at least so alike."""
    likeness = load_likeness()
    ends = [_ends(text) for text in texts]
    sizes = [len(text) for text in texts]

    def are_alike(left: int, right: int) -> bool:
        # No text can have more in common with another than all of the shorter one.
        if 2 * min(sizes[left], sizes[right]) < least * (sizes[left] + sizes[right]):
            return False
        return likeness(ends[left], ends[right], least) >= least

    return are_alike


def load_likeness() -> Likeness:
    """Return what compares two texts: rapidfuzz where it is installed, else our own."""
    try:
        from rapidfuzz.distance import Indel  # noqa: PLC0415 - optional
    except ImportError:
        return plain_likeness
    compare: Any = Indel.normalized_similarity

    def likeness(left: str, right: str, least: float) -> float:
        # It rounds its bound: what lies right on it is asked for with some room.
        found = float(compare(left, right, score_cutoff=max(0.0, least - _BOUND_ROOM)))
        return found if found >= least else 0.0

    return likeness


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
