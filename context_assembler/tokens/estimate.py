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
from collections.abc import Iterator, Mapping
from functools import cache
from os import path
from string import ascii_lowercase, ascii_uppercase, digits, punctuation
from typing import Any, Final

PAIR_KINDS: Final = 16
PAIR_STEP: Final = 0.005  # weights of pairs are whole numbers of it, so that each fits a byte
SAMPLED_ABOVE_CHARS: Final = 65_536
_SLICES: Final = 128
_SLICE_CHARS: Final = 512
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
    weights = weights_of(family)
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


def _pairs(weights: Mapping[str, float]) -> _Weighted:
    return tuple((pattern.encode("latin-1"), weight) for pattern, weight in weights.items())


def _weigh(where: bytes, weighted: _Weighted) -> float:
    count = where.count
    return sum([weight * count(pattern) for pattern, weight in weighted])


class Weights:
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
        self._letters, self._marks = (
            {int(kind, PAIR_KINDS) for kind in content[name]}
            for name in ("letter_kinds", "mark_kinds")
        )
        self._starts = bytes(map(int, content["piece_starts"]))
        # Tokens per character: of every further one in a run of the same, of a symbol by itself, of
        # letters of one case or marks with nothing between, of a backslash that escapes.
        self._repeated = {c: float(r) for r, these in rates["repeated"].items() for c in these}
        self._symbols: Mapping[str, float] = rates["symbols"]
        self._unbroken: Mapping[str, float] = rates["unbroken"]
        self._escape: float = rates["escape"]

    def set_apart(self, text: str) -> tuple[bytes, float]:
        """Return the text in UTF-8 without what is far from prose, and the tokens of that.

        One character of each run stays in its place, and a colon for each run of symbols, since most
        of them are a token at least.
        """
        apart = 0.0
        if "\\" in text:
            size, text = len(text), _ESCAPE.sub("", text)
            apart = self._escape * (size - len(text))
        raw = text.encode("utf-8", "surrogatepass")
        if _may_repeat(raw):
            text, tokens = self._without_repeats(text)
            raw, apart = text.encode("utf-8", "surrogatepass"), apart + tokens
        if _may_hold_symbols(raw):
            text, tokens = self._without_symbols(text)
            raw, apart = text.encode("utf-8", "surrogatepass"), apart + tokens
        if len(raw) >= _LEAST_MARKS:
            kinds = raw.translate(_KINDS)
            for name, width, sign, pattern in _UNBROKEN:
                if sign in kinds:
                    size, raw = len(raw), re.sub(pattern, rb"\1", raw)
                    apart += self._unbroken[name] * (size - len(raw)) / width
        return raw, apart

    def score(self, text: str) -> float:
        """Return the tokens of the text: of what is counted apart, and of the rest by the weights."""
        raw, apart = self.set_apart(text)
        is_ascii = raw.isascii()
        first_bytes = raw if is_ascii else raw.translate(None, _CONTINUATION_BYTES)
        classes = first_bytes.translate(self._classes)
        score = _weigh(classes, self._any_classes) + _weigh(raw, self._any_bytes)
        # Without long runs no text has tokens of more than 16 characters in the mean.
        least = (len(first_bytes) - first_bytes.count(b" ")) // 16
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
        return apart + min(max(score, least), len(raw))

    def _without_repeats(self, text: str) -> tuple[str, float]:
        counted: list[float] = []

        def first(run: re.Match[str]) -> str:
            character, size = run[0][0], len(run[0])
            least = 3 if character in ",;|" else 8 if character in "-=_*#.~+/`\"'" else 4
            if size < least:  # `,,,` is empty cells, `====` as usual as words
                return run[0]
            rate = self._symbols.get(_kind_of(character), 1.0)
            counted.append((size - 1) * self._repeated.get(character, rate))
            return character

        return _RUN.sub(first, text), sum(counted)

    def _without_symbols(self, text: str) -> tuple[str, float]:
        alone, symbols = _symbols()
        runs: list[str] = []

        def colon(found: re.Match[str]) -> str:
            if found[0] in alone:
                return found[0]
            runs.append(found[0])
            return ":"

        rest = symbols.sub(colon, text)
        each = Counter("".join(runs))
        tokens = sum(number * self._symbols[_kind_of(symbol)] for symbol, number in each.items())
        return rest, max(0.0, tokens - len(runs))


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


weights_of: Final = cache(Weights)

# ---- what is far from prose ----

_LEAST_BLANKS: Final = 33  # in a row, longer than what the weights were fitted to
_LEAST_LETTERS: Final = 24  # of one case, without anything between
_LEAST_MARKS: Final = 10
_BLANKS: Final = " \n\t\r"
_IS_EXEMPT: Final = bytes(chr(byte) in _BLANKS + digits for byte in range(256))
_ESCAPE: Final = re.compile(r'\\+(?=["\\])')  # as in JSON inside a string of JSON
_RUN: Final = re.compile(
    rf"([^{_BLANKS}0-9])\1\1+|" + "|".join(f"{blank}{{{_LEAST_BLANKS},}}" for blank in _BLANKS)
)

# First bytes of symbols and far scripts: from U+0240, U+0700, U+1000, U+A000, U+E000, U+40000 on. Two
# more are shared with what the weights know: the punctuation below U+2040, and emoji. Of others a part
# is far: Lao, and the Han that few read.
_SYMBOL_STARTS: Final = b"\xc9\xca\xcb\xcc\xcd\xdc\xdd\xde\xdf\xe1\xea\xee\xf1\xf2\xf3\xf4"
_NO_SYMBOL_STARTS: Final = bytes(byte for byte in range(256) if byte not in _SYMBOL_STARTS)
_FAR_STARTS: Final = rb"\xe0[\xba\xbb]|\xe3[\x90-\xbf]|\xe4[\x80-\xb6]"

# What must be among the kinds of the bytes for there to be such a run, and what finds it; the bytes of
# a character.
_MARK: Final = rb"[%b]" % re.escape(punctuation).encode()
_UNBROKEN: Final = tuple(
    (name, width, sign * width * least, rb"(%b)(?:%b){%d,}" % (one, one, least - 1))
    for name, width, sign, one, least in (
        ("lower", 1, b"a", b"[a-z]", _LEAST_LETTERS),
        ("upper", 1, b"A", b"[A-Z]", _LEAST_LETTERS),
        ("Cyrillic", 2, b"C", rb"[\xd0\xd1][\x80-\xbf]", _LEAST_LETTERS),
        ("marks", 1, b"p", _MARK, _LEAST_MARKS),
    )
)
_SAME_KIND: Final = (
    *((ascii_lowercase, b"a"), (ascii_uppercase, b"A"), (punctuation, b"p")),
    ("\xd0\xd1" + "".join(map(chr, _CONTINUATION_BYTES)), b"C"),
)
_KINDS: Final = b"".join(
    next((kind for these, kind in _SAME_KIND if chr(byte) in these), b" ") for byte in range(256)
)


def _may_repeat(raw: bytes) -> bool:
    """Whether a character may be repeated too often, from its bytes.

    Each byte is compared with that so many before it, all at once: the text as one long number with
    itself, shifted. Blanks and digits are exempt.
    """
    if any(blank.encode() * _LEAST_BLANKS in raw for blank in _BLANKS):
        return True
    number, exempt = int.from_bytes(raw, "big"), int.from_bytes(raw.translate(_IS_EXEMPT), "big")
    for width in (1,) if raw.isascii() else (1, 2, 3, 4):
        changes = number ^ number >> 8 * width | exempt
        if bytes(2 * width) in changes.to_bytes(len(raw), "big"):
            return True
    return False


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
