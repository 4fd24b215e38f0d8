"""Short signatures of texts, by which those that are nearly equal are found without comparing all.

A text's pieces, the runs of a few characters that it is made of, are hashed, and thrown by their
hashes into a fixed number of places; the smallest stays in each. Two signatures agree in about that
share of the places that is the texts' common share of pieces. Bands of neighbouring places that
agree make two texts worth a comparison. All of it is whole numbers: the same on every machine.
Source: Li, Owen, Zhang, One Permutation Hashing, 2012.
"""

from collections.abc import Sequence
from typing import Any, Final

PLACES: Final = 256
PLACES_PER_BAND: Final = 4
PIECE_CHARS: Final = 4
EMPTY: Final = 0xFFFF_FFFF

_ENOUGH: Final = 400  # pieces to fill four places of five; where there are fewer, all are thrown
_MOST_THROWS: Final = 64  # once more, into the places that are empty yet
_LEAST_IN_BAND: Final = 3  # filled places, so that no common piece alone makes two texts alike
_CHARS_AT_ONCE: Final = 500_000

# Odd numbers that mix well, from SplitMix64.
_GOLDEN: Final = 0x9E37_79B9_7F4A_7C15
_MIXERS: Final = (0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB)


def sign_texts(numpy: Any, texts: Sequence[str]) -> Any:
    """Return a row of `PLACES` numbers for each text; an empty text's are all `EMPTY`."""
    rows = numpy.full((len(texts), PLACES), EMPTY, dtype=numpy.uint32)
    start = 0
    while start < len(texts):
        end, chars = start, 0
        while end < len(texts) and (chars == 0 or chars + len(texts[end]) <= _CHARS_AT_ONCE):
            chars += len(texts[end]) + 1
            end += 1
        _fill_rows(numpy, texts[start:end], rows[start:end])
        start = end
    return rows


def band_keys(numpy: Any, signatures: Any, *, step: int) -> tuple[Any, Any]:
    """Return a number for each band of each signature, and which of them say enough to count.

    Args:
        step: How many places there are from one band to the next; bands may share places.
    """
    starts = numpy.arange(0, PLACES - PLACES_PER_BAND + 1, step)
    keys = numpy.zeros((len(signatures), len(starts)), dtype=numpy.uint64) + starts.astype(
        numpy.uint64
    )
    filled = numpy.zeros(keys.shape, dtype=numpy.uint8)
    for at in range(PLACES_PER_BAND):
        places = signatures[:, at : PLACES - PLACES_PER_BAND + 1 + at : step]
        keys = _mixed(numpy, keys + places)
        filled += places != EMPTY
    return keys, filled >= _LEAST_IN_BAND


def shares_in_common(numpy: Any, left: Any, right: Any) -> Any:
    """Return for each pair of signatures which share of the places filled in either agrees."""
    filled = (left != EMPTY) | (right != EMPTY)
    agreeing = (left == right) & filled
    return agreeing.sum(axis=1) / numpy.maximum(filled.sum(axis=1), 1)


def _fill_rows(numpy: Any, texts: Sequence[str], rows: Any) -> None:
    padding = "\0" * (PIECE_CHARS - 1)
    sizes = numpy.array([len(text) for text in texts], dtype=numpy.int64) + len(padding)
    joined = padding.join((*texts, "")).encode("utf-32-le", "surrogatepass")
    codes = numpy.frombuffer(joined, dtype="<u4").astype(numpy.uint64)
    starts = numpy.flatnonzero(codes[: len(codes) - len(padding)])
    owners = numpy.repeat(numpy.arange(len(texts)), sizes)[starts]
    hashes = numpy.zeros(len(codes) - len(padding), dtype=numpy.uint64)
    for at in range(PIECE_CHARS):
        hashes *= numpy.uint64(_GOLDEN)
        hashes += codes[at : len(codes) - len(padding) + at]
    hashes = hashes[starts]
    throws = numpy.clip(-(-_ENOUGH // numpy.maximum(sizes - len(padding), 1)), 1, _MOST_THROWS)
    for throw in range(int(throws.max(initial=0))):
        chosen = throws[owners] > throw
        hashes, owners = hashes[chosen], owners[chosen]
        _throw(numpy, hashes + numpy.uint64(throw * _GOLDEN % 2**64), owners, rows.reshape(-1))


def _throw(numpy: Any, hashes: Any, owners: Any, places: Any) -> None:
    """Let the smallest of what is thrown into an empty place stay there."""
    mixed = _mixed(numpy, hashes)
    wanted = owners * PLACES + (mixed >> numpy.uint64(56)).astype(numpy.int64)
    is_empty = places[wanted] == EMPTY
    numpy.minimum.at(places, wanted[is_empty], mixed[is_empty].astype(numpy.uint32))


def _mixed(numpy: Any, numbers: Any) -> Any:
    mixed = numbers ^ (numbers >> numpy.uint64(30))
    mixed *= numpy.uint64(_MIXERS[0])
    shifted = mixed >> numpy.uint64(27)
    mixed ^= shifted
    mixed *= numpy.uint64(_MIXERS[1])
    mixed ^= numpy.right_shift(mixed, numpy.uint64(31), out=shifted)
    return mixed
