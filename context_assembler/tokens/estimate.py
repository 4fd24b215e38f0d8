"""Token estimates without a vocabulary, aware of script and kind of text.

A character costs by its kind and the kind of the one before it: sixteen kinds, of which each pair
has a weight (`pair_codes`). Beside the pairs a few short patterns are counted at C speed, in the
bytes themselves and in the letters of their classes (`a` lower case, `A` upper case, `0` digit,
`p` punctuation, one letter per script …). The weights of each tokenizer family are in weights.json.
What is far from prose and code is counted apart, before (`set_apart`). Every tokenizer here falls
back on bytes, so no text has more tokens than bytes.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from string import ascii_letters
from typing import Any, Final

from context_assembler.tokens.set_apart import set_apart
from context_assembler.values.token_count import CountMethod, TokenCount

WEIGHTS_FILE: Final = Path(__file__).parent / "weights.json"

PAIR_KINDS: Final = 16
PAIR_STEP: Final = 0.005  # weights of pairs are whole numbers of it, so that each fits a byte
_DIGITS: Final = bytes([PAIR_KINDS])  # two or three, while they are joined: a kind of no character

SAMPLED_ABOVE_CHARS: Final = 65_536
SLICES: Final = 128
SLICE_CHARS: Final = 512

# From so many texts on, the share by which the truth of 99 in 100 sums differs at most; measured on
# texts that took no part in the fit (scripts/fit_estimator.py prints it).
_MARGINS: Final = ((20, 0.16), (5, 0.21), (0, 0.40))
_SPARE_TOKENS: Final = 4  # a text of a few words may be off by as many

LONGEST_CHARS: Final = 16  # of a token, in the mean of a text without long runs

CONTINUATION_BYTES: Final = bytes(range(0x80, 0xC0))  # a character counts once: by its first byte

_Weighted = tuple[tuple[bytes, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The patterns of one tokenizer family with their weights.

    `pair_steps` says, by the code of a pair, of how many `PAIR_STEP` its weight is; empty where the
    family has patterns only. `any_classes` and `any_bytes` count in every text. Of text that is not
    ASCII each of `scripts` counts where its class occurs (an empty one: always): patterns over the
    classes that name it, and UTF-8 prefixes.
    """

    name: str
    pair_kinds: bytes
    pair_steps: bytes
    classes: bytes
    any_classes: _Weighted
    any_bytes: _Weighted
    scripts: tuple[tuple[bytes, _Weighted, _Weighted], ...]


def estimate_text(text: str, *, family: str) -> int:
    """Return about how many tokens the text has; 0 only for empty text, never more than its bytes.

    Beyond `SAMPLED_ABOVE_CHARS` evenly spaced slices stand for the whole; still, the same text has
    the same estimate always.
    """
    if not text:
        return 0
    weights = _family(family)
    if len(text) <= SAMPLED_ABOVE_CHARS:
        return max(1, round(_score(text, weights)))
    step = (len(text) - SLICE_CHARS) / (SLICES - 1)
    starts = (int(index * step) for index in range(SLICES))
    sampled = sum(max(0.0, _score(text[start : start + SLICE_CHARS], weights)) for start in starts)
    whole = round(sampled * len(text) / (SLICES * SLICE_CHARS))
    return max(1, min(whole, len(text.encode("utf-8", "surrogatepass"))))


def bound_text(text: str, *, family: str) -> TokenCount:
    """Return the estimate of one text with bounds that hold for 99 of 100 texts."""
    method: CountMethod = "sampled" if len(text) > SAMPLED_ABOVE_CHARS else "fitted"
    return bound_estimate(estimate_text(text, family=family), texts=1, method=method)


def bound_estimate(tokens: int, *, texts: int, method: CountMethod = "fitted") -> TokenCount:
    """Return an estimated sum with bounds that hold for 99 of 100 such sums.

    Errors of single texts even out: give the margin to a sum once, never to its parts.

    Args:
        texts: How many texts of their own the sum is of, such as messages.
    """
    margin = next(share for least, share in _MARGINS if texts >= least)
    spare = ceil(margin * tokens) + (_SPARE_TOKENS if tokens else 0)
    return TokenCount(
        tokens=tokens, low=max(min(1, tokens), tokens - spare), high=tokens + spare, method=method
    )


def _score(text: str, family: _Family) -> float:
    """Return the tokens of the text: of what is counted apart, and of the rest by the weights."""
    rest, tokens = set_apart(text, family=family.name)
    return tokens + _score_rest(rest, family)


def _score_rest(raw: bytes, family: _Family) -> float:
    """Return the tokens of text, in UTF-8, without long runs and symbols."""
    is_ascii = raw.isascii()
    first_bytes = raw if is_ascii else raw.translate(None, CONTINUATION_BYTES)
    classes = first_bytes.translate(family.classes)
    score = _weigh(classes, family.any_classes) + _weigh(raw, family.any_bytes)
    least = _least_by_length(first_bytes)
    if family.pair_steps:
        codes = pair_codes(first_bytes, family.pair_kinds)
        score += PAIR_STEP * sum(codes.translate(family.pair_steps))
        least = max(least, _least_tokens(first_bytes, codes, family.pair_kinds))
    if is_ascii:
        return min(max(score, least), len(raw))
    for marker, patterns, prefixes in family.scripts:
        if marker in classes:
            score += _weigh(classes, patterns) + _weigh(raw, prefixes)
    return min(max(score, least), len(raw))


def _least_by_length(first_bytes: bytes) -> int:
    """Return the tokens of so many characters where each is the longest that is likely."""
    return (len(first_bytes) - first_bytes.count(b" ")) // LONGEST_CHARS


def _least_tokens(first_bytes: bytes, codes: bytes, kinds: bytes) -> int:
    """Return the pieces that no tokenizer joins: words, groups of digits, marks behind a word."""
    letters, marks, starts = _pieces(kinds)
    begun = codes.translate(starts)
    pieces = begun.count(1) + 2 * begun.count(2) + (kinds[first_bytes[0]] in letters)
    return pieces + (kinds[first_bytes[-1]] in marks)


@cache
def _pieces(kinds: bytes) -> tuple[frozenset[int], frozenset[int], bytes]:
    """Return the kinds of Latin letters and of marks, and by the code of a pair the pieces it tells of.

    A mark before a word may be one piece with it, so it is a piece of its own where a blank follows.
    """
    letters, marks, blanks, spaces, digits = (
        frozenset(kinds[byte] for byte in found)
        for found in (ascii_letters.encode(), b"!#$%&()*+,-./:;=?@[]_{}~", b" \n", b" ", b"0")
    )
    before = marks | blanks | digits
    starts = bytearray(PAIR_KINDS**2)
    for code in range(PAIR_KINDS**2):
        kind, earlier = divmod(code, PAIR_KINDS)
        begins = kind in letters and earlier in before
        starts[code] = begins or kind in digits or (kind in blanks and earlier in marks)
        # These stand alone before digits; a line break may be one piece with the mark before it.
        starts[code] += kind in digits and earlier in marks | spaces
    return letters, marks, bytes(starts)


def pair_codes(first_bytes: bytes, kinds: bytes) -> bytes:
    """Return a byte per character: its kind in the upper four bits, that before it in the lower.

    Kind 0 is before the first. Up to three digits in a row are one character, for tokenizers read
    numbers so. All pairs are joined at once, as two shifts of one long number: a tenth of what a
    look at each of them takes.
    """
    of_kind = first_bytes.translate(kinds)
    digit = kinds[ord("0") : ord("1")]
    of_kind = of_kind.replace(digit * 3, _DIGITS).replace(digit * 2, _DIGITS)
    of_kind = of_kind.replace(_DIGITS, digit)
    number = int.from_bytes(of_kind, "big")
    return (number << 4 | number >> 8).to_bytes(len(of_kind), "big")


def _weigh(where: bytes, weighted: _Weighted) -> float:
    count = where.count
    return sum(weight * count(pattern) for pattern, weight in weighted)


@cache
def _content() -> Any:
    return json.loads(WEIGHTS_FILE.read_text("utf-8"))


def families() -> tuple[str, ...]:
    """Return the tokenizer families there are weights for."""
    return tuple(_content()["weights"])


@cache
def _family(name: str) -> _Family:
    content = _content()
    weights = content["weights"][name]
    rows = " ".join(weights.get("pairs", ()))
    return _Family(
        name=name,
        pair_kinds=bytes(int(kind, PAIR_KINDS) for kind in content["pair_kinds"]),
        pair_steps=bytes(map(int, rows.split())),
        classes=content["classes"].encode("latin-1"),
        any_classes=_pair(weights["class_patterns"]),
        any_bytes=_pair(weights["byte_patterns"]),
        scripts=tuple(_scripts(content["scripts"], weights)),
    )


def _scripts(rows: Any, weights: Any) -> Iterator[tuple[bytes, _Weighted, _Weighted]]:
    """Yield, by the class that must occur, what counts in text that is not ASCII."""
    prefixes: dict[str, list[tuple[bytes, float]]] = {}
    for row in rows:
        if weight := weights["scripts"].get(row["name"], 0.0):
            of_class = prefixes.setdefault(row["class"], [])
            of_class += [(bytes.fromhex(prefix), weight) for prefix in row["prefixes"]]
    patterns: dict[str, dict[str, float]] = {}
    for pattern, weight in weights["script_patterns"].items():
        of_script = patterns.setdefault(pattern.strip(" a")[:1], {})
        of_script[pattern] = weight
    for marker in sorted({*prefixes, *patterns}):
        yield marker.encode(), _pair(patterns.get(marker, {})), tuple(prefixes.get(marker, ()))


def _pair(weights: Mapping[str, float]) -> _Weighted:
    return tuple((pattern.encode("latin-1"), weight) for pattern, weight in weights.items())
