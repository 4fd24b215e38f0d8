"""Token estimates without a vocabulary, aware of script and kind of text.

A character costs by its kind and the kind of the one before it: sixteen kinds, of which each pair
has a weight. Beside the pairs a few short patterns are counted at C speed, in the bytes themselves
and in the letters of their classes (`a` lower case, `A` upper case, `0` digit, `p` punctuation, one
letter per script …). The weights of each tokenizer family are in weights.json.

Weights are fitted to text as people write it. A run of one character, a frame of box characters or a
gene is far from it: each such run is taken out and counted by itself (set_apart.json). One character
stays in its place, so that what is next to the run is weighed as before. Every tokenizer here falls
back on bytes, so no text has more tokens than bytes.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from os import path
from string import ascii_letters, digits, punctuation
from typing import Any, Final

PAIR_KINDS: Final = 16
PAIR_STEP: Final = 0.005  # weights of pairs are whole numbers of it, so that each fits a byte
SAMPLED_ABOVE_CHARS: Final = 65_536
_SLICES: Final = 128
_SLICE_CHARS: Final = 512
_LONGEST_CHARS: Final = 16  # of a token, in the mean of a text without long runs
_CONTINUATION_BYTES: Final = bytes(range(0x80, 0xC0))  # a character counts once: by its first byte
_DIGITS: Final = bytes([PAIR_KINDS])  # two or three, while they are joined: a kind of no character

_Weighted = tuple[tuple[bytes, float], ...]


def estimate_text(text: str, *, family: str) -> int:
    """Return about how many tokens the text has; 0 only for empty text, never more than its bytes.

    Beyond `SAMPLED_ABOVE_CHARS` evenly spaced slices stand for the whole; still, the same text has
    the same estimate always.
    """
    if not text:
        return 0
    weights = _weights(family)
    if len(text) <= SAMPLED_ABOVE_CHARS:
        return max(1, round(weights.score(text)))
    step = (len(text) - _SLICE_CHARS) / (_SLICES - 1)
    starts = (int(index * step) for index in range(_SLICES))
    slices = (text[start : start + _SLICE_CHARS] for start in starts)
    sampled = sum(max(0.0, weights.score(piece)) for piece in slices)
    whole = round(sampled * len(text) / (_SLICES * _SLICE_CHARS))
    return max(1, min(whole, len(text.encode("utf-8", "surrogatepass"))))


def pair_codes(first_bytes: bytes, kinds: bytes) -> bytes:
    """Return a byte per character: its kind in the upper four bits, that before it in the lower.

    Kind 0 is before the first. Up to three digits in a row are one character, since tokenizers read
    numbers so. All pairs are joined at once, as two shifts of one long number.
    """
    of_kind = first_bytes.translate(kinds)
    digit = kinds[ord("0") : ord("1")]
    of_kind = of_kind.replace(digit * 3, _DIGITS).replace(digit * 2, _DIGITS)
    of_kind = of_kind.replace(_DIGITS, digit)
    number = int.from_bytes(of_kind, "big")
    return (number << 4 | number >> 8).to_bytes(len(of_kind), "big")


@cache
def _read(name: str) -> Any:
    with open(path.join(path.dirname(__file__), name), encoding="utf-8") as file:
        return json.load(file)


@cache
def _weights(family: str) -> "_Weights":
    return _Weights(family)


def _pairs(weights: Mapping[str, float]) -> _Weighted:
    return tuple((pattern.encode("latin-1"), weight) for pattern, weight in weights.items())


def _weigh(where: bytes, weighted: _Weighted) -> float:
    count = where.count
    return sum([weight * count(pattern) for pattern, weight in weighted])


class _Weights:
    """The weights of one tokenizer family."""

    def __init__(self, family: str) -> None:
        content, rates = _read("weights.json"), _read("set_apart.json")["rates"][family]
        weights = content["weights"][family]
        self._classes: bytes = content["classes"].encode("latin-1")
        self._kinds = bytes(int(kind, PAIR_KINDS) for kind in content["pair_kinds"])
        self._steps = bytes(map(int, " ".join(weights.get("pairs", ())).split()))
        self._any_classes = _pairs(weights["class_patterns"])
        self._any_bytes = _pairs(weights["byte_patterns"])
        self._scripts = tuple(_scripts(content["scripts"], weights))
        self._letters, self._marks, self._starts = _pieces(self._kinds)
        # Tokens per character: of every further one in a run of the same, of a symbol by itself, of
        # letters of one case or marks with nothing between, of a backslash that escapes.
        self._repeated = {c: float(r) for r, these in rates["repeated"].items() for c in these}
        self._symbols: Mapping[str, float] = rates["symbols"]
        self._unbroken: Mapping[str, float] = rates["unbroken"]
        self._escape: float = rates["escape"]

    def score(self, text: str) -> float:
        """Return the tokens of the text: of what is counted apart, and of the rest by the weights."""
        raw = text.encode("utf-8", "surrogatepass")
        escapes = 0.0
        if b"\\" in raw:
            rest = _ESCAPE.sub(b"", raw)
            raw, escapes = rest, self._escape * (len(raw) - len(rest))
        raw, repeats = self._without_repeats(raw)
        raw, symbols = self._without_symbols(raw)
        raw, unbroken = self._without_unbroken(raw)
        return (escapes + repeats + symbols + unbroken) + self._score_rest(raw)

    def _score_rest(self, raw: bytes) -> float:
        """Return the tokens of text, in UTF-8, without long runs and symbols."""
        is_ascii = raw.isascii()
        first_bytes = raw if is_ascii else raw.translate(None, _CONTINUATION_BYTES)
        classes = first_bytes.translate(self._classes)
        score = _weigh(classes, self._any_classes) + _weigh(raw, self._any_bytes)
        # So many characters, if each token is the longest that is likely.
        least = (len(first_bytes) - first_bytes.count(b" ")) // _LONGEST_CHARS
        if self._steps:
            codes = pair_codes(first_bytes, self._kinds)
            score += PAIR_STEP * sum(codes.translate(self._steps))
            # The pieces that no tokenizer joins: words, groups of digits, marks after a word.
            begun = codes.translate(self._starts)
            pieces = begun.count(1) + 2 * begun.count(2)
            pieces += self._kinds[first_bytes[0]] in self._letters
            least = max(least, pieces + (self._kinds[first_bytes[-1]] in self._marks))
        if not is_ascii:
            for marker, patterns, prefixes in self._scripts:
                if marker in classes:
                    score += _weigh(classes, patterns) + _weigh(raw, prefixes)
        return min(max(score, least), len(raw))

    def _without_repeats(self, raw: bytes) -> tuple[bytes, float]:
        """Leave one of each character that is repeated too often."""
        tokens = 0.0
        spans: list[tuple[int, int]] = []
        for start, end, width in _repeats(raw):
            character = raw[start : start + width].decode("utf-8", "surrogatepass")
            rate = self._repeated.get(character)
            if rate is None:
                kind = _kind_of(character)
                rate = self._symbols[kind] if kind else 1.0
            tokens += ((end - start) // width - 1) * rate
            spans.append((start + width, end))
        return (_cut(raw, spans) if spans else raw), tokens

    def _without_symbols(self, raw: bytes) -> tuple[bytes, float]:
        """Leave a colon for each run of symbols: a token, as most of them are at least."""
        if not _may_hold_symbols(raw):
            return raw, 0.0
        alone, symbols = _symbols()
        runs: list[str] = []

        def colon(found: re.Match[str]) -> str:
            if found[0] in alone:
                return found[0]
            runs.append(found[0])
            return ":"

        rest = symbols.sub(colon, raw.decode("utf-8", "surrogatepass"))
        if not runs:
            return raw, 0.0
        each = Counter("".join(runs))
        tokens = sum(number * self._symbols[_kind_of(symbol)] for symbol, number in each.items())
        return rest.encode("utf-8", "surrogatepass"), max(0.0, tokens - len(runs))

    def _without_unbroken(self, raw: bytes) -> tuple[bytes, float]:
        """Leave the first of many letters of one case, or marks, with nothing between."""
        if len(raw) < _LEAST_MIXED_MARKS:
            return raw, 0.0
        kinds = raw.translate(_KINDS)
        tokens = 0.0
        spans: list[tuple[int, int]] = []
        for name, sign, pattern in _UNBROKEN:
            if sign in kinds:
                width = 2 if name == "Cyrillic" else 1
                found = [(run.start() + width, run.end()) for run in re.finditer(pattern, raw)]
                tokens += self._unbroken[name] * sum(end - start for start, end in found) / width
                spans += found
        return (_cut(raw, spans) if spans else raw), tokens


def _scripts(rows: Any, weights: Any) -> Iterator[tuple[bytes, _Weighted, _Weighted]]:
    """Yield, by the class that must occur, what counts in text that is not ASCII.

    Patterns over the classes that name it (an empty one: always), and UTF-8 prefixes.
    """
    prefixes: dict[str, list[tuple[bytes, float]]] = {}
    for row in rows:
        if weight := weights["scripts"].get(row["name"], 0.0):
            of_class = prefixes.setdefault(row["class"], [])
            of_class += [(bytes.fromhex(prefix), weight) for prefix in row["prefixes"]]
    patterns: dict[str, dict[str, float]] = {}
    for pattern, weight in weights["script_patterns"].items():
        patterns.setdefault(pattern.strip(" a")[:1], {})[pattern] = weight
    for marker in sorted({*prefixes, *patterns}):
        yield marker.encode(), _pairs(patterns.get(marker, {})), tuple(prefixes.get(marker, ()))


@cache
def _pieces(kinds: bytes) -> tuple[frozenset[int], frozenset[int], bytes]:
    """Return the kinds of Latin letters and of marks, and by the code of a pair the pieces it begins.

    A mark before a word may be one piece with it, so it is a piece of its own if a blank follows.
    """
    letters, marks, blanks, spaces, numbers = (
        frozenset(kinds[byte] for byte in found)
        for found in (ascii_letters.encode(), b"!#$%&()*+,-./:;=?@[]_{}~", b" \n", b" ", b"0")
    )
    before = marks | blanks | numbers
    starts = bytearray(PAIR_KINDS**2)
    for code in range(PAIR_KINDS**2):
        kind, earlier = divmod(code, PAIR_KINDS)
        begins = kind in letters and earlier in before
        starts[code] = begins or kind in numbers or (kind in blanks and earlier in marks)
        # These stand alone before digits; a line break may be one piece with the mark before it.
        starts[code] += kind in numbers and earlier in marks | spaces
    return letters, marks, bytes(starts)


# ---- what is far from prose ----

# From so many on, a run is longer than what the weights were fitted to.
_LEAST_REPEATS: Final = 4
_LEAST_CELLS: Final = 3  # `,,,` is empty cells
_LEAST_RULE: Final = 8  # `====` and `----` are as usual as words
_LEAST_BLANKS: Final = 33
_LEAST_LETTERS: Final = 24  # of one case, without anything between
_LEAST_MIXED_MARKS: Final = 10
_BLANKS: Final = b" \n\t\r"
_MARKS: Final = punctuation.encode()
_IS_EXEMPT: Final = bytes(byte in _BLANKS + digits.encode() for byte in range(256))
_ASCII: Final = bytes(range(128))
_ZEROS: Final = re.compile(rb"\0+")
_ESCAPE: Final = re.compile(rb'\\+(?=["\\])')  # as in JSON inside a string of JSON

# First bytes of symbols and far scripts: from U+0240, U+0700, U+1000, U+A000, U+E000, U+40000 on. Two
# more are shared with what the weights know: the punctuation below U+2040, and emoji. Of others a part
# is far: Lao, and the Han that few read.
_SYMBOL_STARTS: Final = (
    *(*range(0xC9, 0xCE), *range(0xDC, 0xE0)),
    *(0xE1, 0xEA, 0xEE, *range(0xF1, 0xF5)),
)
_NO_SYMBOL_STARTS: Final = bytes(byte for byte in range(256) if byte not in _SYMBOL_STARTS)
_FAR_STARTS: Final = rb"\xe0[\xba\xbb]|\xe3[\x90-\xbf]|\xe4[\x80-\xb6]"

# By name: what must be among the kinds of the bytes for there to be such a run, and what finds it.
_UNBROKEN: Final = (
    ("lower", b"a" * _LEAST_LETTERS, rb"[a-z]{%d,}" % _LEAST_LETTERS),
    ("upper", b"A" * _LEAST_LETTERS, rb"[A-Z]{%d,}" % _LEAST_LETTERS),
    ("Cyrillic", b"C" * 2 * _LEAST_LETTERS, rb"(?:[\xd0\xd1][\x80-\xbf]){%d,}" % _LEAST_LETTERS),
    (
        "marks",
        b"p" * _LEAST_MIXED_MARKS,
        rb"[%b]{%d,}" % (re.escape(_MARKS), _LEAST_MIXED_MARKS),
    ),
)
_KIND_OF_BYTE: Final = {
    **dict.fromkeys(range(ord("a"), ord("z") + 1), b"a"),
    **dict.fromkeys(range(ord("A"), ord("Z") + 1), b"A"),
    **dict.fromkeys(_MARKS, b"p"),
    **dict.fromkeys((0xD0, 0xD1, *range(0x80, 0xC0)), b"C"),
}
_KINDS: Final = b"".join(_KIND_OF_BYTE.get(byte, b" ") for byte in range(256))


def _cut(raw: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """Return the bytes without those of the spans, which do not overlap."""
    kept: list[bytes] = []
    at = 0
    for start, end in sorted(spans):
        kept.append(raw[at:start])
        at = end
    return b"".join((*kept, raw[at:]))


def _repeats(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the span of each character that is repeated too often, and the bytes of the character."""
    for blank in _BLANKS:
        blanks = bytes((blank,)) * _LEAST_BLANKS
        if blanks in raw:
            yield from (
                (*found.span(), 1) for found in re.finditer(blanks + blanks[:1] + b"*", raw)
            )
    yield from _repeats_of(raw, width=1)
    if not raw.isascii():
        beyond = raw.translate(None, _ASCII)
        for width in (2, 3, 4):
            if bytes(width * (_LEAST_CELLS - 1)) in _changes(beyond, width=width):
                yield from _repeats_of(raw, width=width)


def _changes(raw: bytes, *, width: int) -> bytes:
    """Return zero for each byte that is as the one so many before it, and is no blank or digit.

    All are compared at once: the text as one long number with itself, shifted.
    """
    number = int.from_bytes(raw, "big")
    exempt = int.from_bytes(raw.translate(_IS_EXEMPT), "big")
    return (number ^ number >> 8 * width | exempt).to_bytes(len(raw), "big")


def _repeats_of(raw: bytes, *, width: int) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of a character of so many bytes that is no blank or digit."""
    changes, alike = _changes(raw, width=width), bytes(width * (_LEAST_CELLS - 1))
    start = changes.find(alike)
    while start >= 0:
        zeros = _ZEROS.match(changes, start)
        end = zeros.end() if zeros else len(raw)
        first = start
        while first < len(raw) and raw[first] in _CONTINUATION_BYTES:
            first += 1
        first = max(width, first)
        lead, repeats = raw[first - width], (end - first) // width + 1
        least = _LEAST_RULE if lead in b"-=_*#.~+/`\"'" else _LEAST_REPEATS
        if repeats >= (_LEAST_CELLS if lead in b",;|" else least) and width == (
            1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
        ):
            yield first - width, first + (repeats - 1) * width, width
        start = changes.find(alike, end)


def _may_hold_symbols(raw: bytes) -> bool:
    if raw.isascii():
        return False
    shared = ((b"\xe2", b"\xe2\x80"), (b"\xf0", b"\xf0\x9f"))
    return (
        any(raw.count(start) > raw.count(known) for start, known in shared)
        or bool(raw.translate(None, _NO_SYMBOL_STARTS))
        or re.search(_FAR_STARTS, raw) is not None
    )


@cache
def _symbols() -> tuple[frozenset[str], re.Pattern[str]]:
    """Return the symbols that the weights know if one is alone, and what finds runs of any.

    What a variation selector makes an emoji is none: those the weights know too.
    """
    kinds = _read("set_apart.json")["symbols"]
    return frozenset(kinds["alone"]), re.compile(rf"[{''.join(kinds.values())}]+(?!\ufe0f)")


@cache
def _kind_of(character: str) -> str:
    """Return the kind of a symbol, the first that has it; empty if it is none."""
    kinds = _read("set_apart.json")["symbols"].items()
    return next((name for name, these in kinds if re.match(f"[{these}]", character)), "")
