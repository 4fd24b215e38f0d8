"""Which of many texts are nearly equal.

Only texts that are worth it are compared: those whose signatures have a band in common, or without
numpy those that share one of a sample of their pieces. Neither changes what a likeness is.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final
from zlib import crc32

from context_assembler.recall.same_facts import Facts
from context_assembler.values.texts.likeness import alike_pairs, load_comparison
from context_assembler.values.texts.text_signatures import band_keys, shares_in_common, sign_texts

MAX_EXACT: Final = 60
"""Up to so many texts every pair is compared; above it those that look alike."""

_STEP: Final = 2  # places from one band to the next
_MOST_IN_BAND: Final = 64  # of more texts that share a band, each is paired with so many
_PAIRS_AT_ONCE: Final = 1_000  # whose signatures fit a processor's cache
_LEAST_SHARE: Final = 0.05
_NO_KEY: Final = 0xFFFF_FFFF_FFFF_FFFF

_MOST_KNOWN: Final = 8_192  # signatures of a kilobyte each
_KNOWN: Final[dict[str, Any]] = {}

_SHINGLE_CHARS: Final = 5
_SAMPLED: Final = 8  # one shingle of so many
_CROWD: Final = 400  # a shingle in more texts says nothing


def similar_pairs(texts: Sequence[str], *, least: float) -> list[tuple[int, int]]:
    """Return each pair of places whose texts are at least so alike, the first place first, in order.

    Above `MAX_EXACT` texts a pair in two hundred may be missed. Of a crowd of texts that are all
    alike each is paired with the first, and with some of the others.
    """
    return sorted(set(alike_pairs(texts, _pairs_worth_it(texts, least=least), least=least)))


def find_twins(
    texts: Sequence[str], *, least: float, may_be_twins: Callable[[int, int], bool]
) -> dict[int, int]:
    """Return by the place of a text that of the first one that says nearly the same.

    Pairs are those of `similar_pairs`, without those with other numbers, or of which one denies what
    the other says. A text that has a twin before it is no other one's: likeness is no chain, and a
    crowd that says one thing is compared with its first alone.

    Args:
        may_be_twins: Whether the texts of two places are one thing if they are alike.
    """
    are_alike = load_comparison(texts, least=least)
    facts = Facts(texts)
    twin_by_place: dict[int, int] = {}
    # Texts of one form, such as lines of a log, are all alike, and differ in their numbers.
    for places in facts.groups():
        for left, right in _pairs_among(texts, places, least=least):
            is_open = left not in twin_by_place and right not in twin_by_place
            is_open = is_open and facts.may_agree(left, right) and may_be_twins(left, right)
            if is_open and are_alike(left, right):
                twin_by_place[right] = left
    return twin_by_place


def _pairs_among(
    texts: Sequence[str], places: Sequence[int], *, least: float
) -> list[tuple[int, int]]:
    if len(places) < 2:
        return []
    pairs = set(_pairs_worth_it([texts[place] for place in places], least=least))
    return [(places[left], places[right]) for left, right in sorted(pairs)]


def _pairs_worth_it(texts: Sequence[str], *, least: float) -> Iterator[tuple[int, int]]:
    if len(texts) <= MAX_EXACT:
        return _pairs_of_like_sizes(texts, least=least)
    return chain(_pairs_of_equals(texts), _pairs_that_look_alike(texts, least=least))


def _pairs_of_equals(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield each text that is there already with the first one; the shortest say nothing else."""
    first_by_text: dict[str, int] = {}
    for at, text in enumerate(texts):
        first = first_by_text.setdefault(text, at)
        if first != at:
            yield first, at


def _pairs_that_look_alike(texts: Sequence[str], *, least: float) -> Iterator[tuple[int, int]]:
    try:
        import numpy  # noqa: ICN001, PLC0415 - optional
    except ImportError:
        return sampled_pairs(texts)
    return signed_pairs(numpy, texts, least=least)


def signed_pairs(numpy: Any, texts: Sequence[str], *, least: float) -> Iterator[tuple[int, int]]:
    """Yield the pairs whose signatures have a band in common and are not too different."""
    signatures = _signatures_of(numpy, texts)
    lefts, rights = _of_like_sizes(numpy, texts, *_pairs_in_bands(numpy, signatures), least=least)
    bound = _least_share(least)
    for start in range(0, len(lefts), _PAIRS_AT_ONCE):
        left, right = (side[start : start + _PAIRS_AT_ONCE] for side in (lefts, rights))
        shares = shares_in_common(numpy, signatures[left], signatures[right])
        chosen = shares >= bound
        yield from zip(left[chosen].tolist(), right[chosen].tolist(), strict=True)


def _signatures_of(numpy: Any, texts: Sequence[str]) -> Any:
    """Return a row for each text; what one recall compares the next one often compares again."""
    if len(texts) > _MOST_KNOWN:
        return sign_texts(numpy, texts)
    row_by_text = {text: row for text in texts if (row := _KNOWN.get(text)) is not None}
    unknown = [text for text in dict.fromkeys(texts) if text not in row_by_text]
    found = dict(zip(unknown, sign_texts(numpy, unknown), strict=True))
    _KNOWN.update(found)
    for oldest in list(islice(_KNOWN, max(len(_KNOWN) - _MOST_KNOWN, 0))):
        _KNOWN.pop(oldest, None)  # another thread may have let go of it
    row_by_text |= found
    return numpy.stack([row_by_text[text] for text in texts])


def _least_share(least: float) -> float:
    """Return half of the share of places that so alike texts have in common if changes lie apart.

    A changed character changes four pieces.
    """
    unchanged = max(1 - 4 * (1 - least), 0.0)
    return max(unchanged / (2 - unchanged) / 2, _LEAST_SHARE)


def _of_like_sizes(
    numpy: Any, texts: Sequence[str], lefts: Any, rights: Any, *, least: float
) -> tuple[Any, Any]:
    """Return those of the pairs in which the longer text may say all of the shorter one."""
    sizes = numpy.array([len(text) for text in texts], dtype=numpy.int64)
    left_sizes, right_sizes = sizes[lefts], sizes[rights]
    shorter = numpy.minimum(left_sizes, right_sizes)
    chosen = 2 * shorter >= least * (left_sizes + right_sizes)
    return lefts[chosen], rights[chosen]


def _pairs_in_bands(numpy: Any, signatures: Any) -> tuple[Any, Any]:
    """Return the places of the texts that share a band: two arrays, each pair once."""
    count = len(signatures)
    keys, says_enough = band_keys(numpy, signatures, step=_STEP)
    place_bits = numpy.uint64(count.bit_length())
    place_mask = (numpy.uint64(1) << place_bits) - numpy.uint64(1)
    # A place in the low bits of its key: sorting numbers is much faster than finding their order.
    # What says too little stands at the end of its band, and what follows is another one's.
    marked = numpy.full((keys.shape[1], count + 1), _NO_KEY, dtype=numpy.uint64)
    rows = (keys & ~place_mask) | numpy.arange(count, dtype=numpy.uint64)[:, None]
    numpy.copyto(marked[:, :count], rows.T, where=says_enough.T)
    marked.sort(axis=1)
    ordered = marked.reshape(-1)
    ends = numpy.uint64(_NO_KEY) >> place_bits
    places = (ordered & place_mask).astype(numpy.int64)
    found = [
        places[left] * count + places[right]
        for left, right in _equal_neighbours(numpy, ordered >> place_bits, ends=ends)
    ]
    pairs = numpy.sort(numpy.concatenate([numpy.zeros(0, dtype=numpy.int64), *found]))
    pairs = pairs[numpy.diff(pairs, prepend=-1) != 0]  # each once
    return pairs // count, pairs % count


def _equal_neighbours(numpy: Any, keys: Any, *, ends: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the positions of equal keys in sorted rows: next to each other, then further apart.

    Args:
        ends: What stands at the end of each row, and is no key.
    """
    left = numpy.flatnonzero((keys[1:] == keys[:-1]) & (keys[1:] != ends))
    for distance in range(1, _MOST_IN_BAND + 1):
        if not len(left):
            return
        yield left, left + distance
        left = left[left + distance + 1 < len(keys)]
        left = left[keys[left] == keys[left + distance + 1]]
    right = numpy.unique(left + _MOST_IN_BAND + 1)  # each of a crowd with its first
    firsts = numpy.flatnonzero(numpy.concatenate([[True], keys[1:] != keys[:-1]]))
    yield firsts[numpy.searchsorted(firsts, right, side="right") - 1], right


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
