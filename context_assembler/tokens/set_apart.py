"""What an estimate counts apart from prose and code: long runs, symbols, far scripts.

Weights of pairs and patterns are fitted to text as people write it. A run of one character, a frame
of box characters or a gene is far from it, and there the same weights give more tokens than bytes,
or a token for thirty letters. So each such run is taken out and counted by itself, by what the
tokenizers of a family make of it (set_apart.json): no fewer tokens than their longest pieces leave,
and no more than bytes. One character stays in its place, so that what stands beside the run is
weighed as before. Text without any is left as it is.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import digits, punctuation
from typing import Any, Final

RATES_FILE: Final = Path(__file__).parent / "set_apart.json"

# From so many on, a run is longer than what the weights were fitted to.
_LEAST_REPEATS: Final = 4
_LEAST_CELLS: Final = 3  # `,,,` is empty cells
_LEAST_RULE: Final = 8  # `====` and `----` are as usual as words
_LEAST_BLANKS: Final = 33
_LEAST_LETTERS: Final = 24  # of one case, without anything between
_LEAST_MIXED_MARKS: Final = 10

_BLANKS: Final = b" \n\t\r"
_MARKS: Final = punctuation.encode()
_CELLS: Final = b",;|"
_RULES: Final = b"-=_*#.~+/`\"'"
_ONE_BLANK: Final = tuple(bytes((blank,)) * _LEAST_BLANKS for blank in _BLANKS)
_LONG_BLANKS: Final = {blanks: re.compile(blanks + blanks[:1] + b"*") for blanks in _ONE_BLANK}
_IS_EXEMPT: Final = bytes(byte in _BLANKS + digits.encode() for byte in range(256))
# By the bytes of a character: what stands where each of so many is as the one before it.
_ALIKE: Final = {width: bytes(width * (_LEAST_CELLS - 1)) for width in (1, 2, 3, 4)}
_ZEROS: Final = re.compile(rb"\0+")
_ASCII: Final = bytes(range(128))
_CONTINUED: Final = re.compile(rb"[\x80-\xbf]*")

_ESCAPE: Final = re.compile(rb'\\+(?=["\\])')  # as in JSON that is told as a string of JSON

# First bytes of symbols and far scripts: from U+0240, U+0700, U+1000, U+A000, U+E000, U+40000 on. Two
# more are shared with what the weights know: the punctuation below U+2040, and emoji. Of others a part
# is far: Lao, and the Han that few read.
_SYMBOL_STARTS: Final = (
    *(*range(0xC9, 0xCE), *range(0xDC, 0xE0)),
    *(0xE1, 0xEA, 0xEE, *range(0xF1, 0xF5)),
)
_SHARED_STARTS: Final = ((b"\xe2", b"\xe2\x80"), (b"\xf0", b"\xf0\x9f"))
_FAR_STARTS: Final = re.compile(rb"\xe0[\xba\xbb]|\xe3[\x90-\xbf]|\xe4[\x80-\xb6]")
_NO_SYMBOL_STARTS: Final = bytes(byte for byte in range(256) if byte not in _SYMBOL_STARTS)

_UNBROKEN: Final[Mapping[str, re.Pattern[bytes]]] = {
    "lower": re.compile(rb"[a-z]{%d,}" % _LEAST_LETTERS),
    "upper": re.compile(rb"[A-Z]{%d,}" % _LEAST_LETTERS),
    "Cyrillic": re.compile(rb"(?:[\xd0\xd1][\x80-\xbf]){%d,}" % _LEAST_LETTERS),
    "marks": re.compile(rb"[%b]{%d,}" % (re.escape(_MARKS), _LEAST_MIXED_MARKS)),
}
_KIND_OF_BYTE: Final = {
    **dict.fromkeys(range(ord("a"), ord("z") + 1), b"a"),
    **dict.fromkeys(range(ord("A"), ord("Z") + 1), b"A"),
    **dict.fromkeys(_MARKS, b"p"),
    **dict.fromkeys((0xD0, 0xD1, *range(0x80, 0xC0)), b"C"),
}
_KINDS: Final = b"".join(_KIND_OF_BYTE.get(byte, b" ") for byte in range(256))
_SIGNS: Final[Mapping[str, bytes]] = {  # without it among the kinds, there is no such run
    "lower": b"a" * _LEAST_LETTERS,
    "upper": b"A" * _LEAST_LETTERS,
    "Cyrillic": b"C" * (2 * _LEAST_LETTERS),
    "marks": b"p" * _LEAST_MIXED_MARKS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """Tokens per character, as a family's tokenizer has them.

    `repeated` is of every further one in a run of the same character, `symbols` of one by itself,
    `unbroken` of letters of one case, or of marks, with nothing between, `escape` of a backslash
    that escapes a quotation mark or another backslash.
    """

    repeated: Mapping[str, float]
    symbols: Mapping[str, float]
    unbroken: Mapping[str, float]
    escape: float


def set_apart(text: str, *, family: str) -> tuple[bytes, float]:
    """Return the text in UTF-8 without what is far from prose, and the tokens of what was left out.

    They are never more than the bytes left out.
    """
    rates = _rates(family)
    raw = text.encode("utf-8", "surrogatepass")
    raw, escapes = _without_escapes(raw, rates)
    raw, repeats = _without_repeats(raw, rates)
    raw, symbols = _without_symbols(raw, rates)
    raw, unbroken = _without_unbroken(raw, rates)
    return raw, escapes + repeats + symbols + unbroken


def _without_escapes(raw: bytes, rates: _Rates) -> tuple[bytes, float]:
    if b"\\" not in raw:
        return raw, 0.0
    rest = _ESCAPE.sub(b"", raw)
    return rest, rates.escape * (len(raw) - len(rest))


def _without_repeats(raw: bytes, rates: _Rates) -> tuple[bytes, float]:
    """Leave one of each character that stands too often in a row."""
    found = list(_repeats(raw))
    if not found:
        return raw, 0.0
    tokens = 0.0
    spans: list[tuple[int, int]] = []
    for start, end, width in found:
        character = raw[start : start + width].decode("utf-8", "surrogatepass")
        tokens += ((end - start) // width - 1) * _rate_of_repeats(character, rates)
        spans.append((start + width, end))
    return _cut(raw, spans), tokens


def _cut(raw: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """Return the bytes without those of the spans, which do not overlap."""
    kept: list[bytes] = []
    at = 0
    for start, end in sorted(spans):
        kept.append(raw[at:start])
        at = end
    return b"".join((*kept, raw[at:]))


def _repeats(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield where one character stands too often in a row, and the bytes of the character."""
    for blanks in _ONE_BLANK:
        if blanks in raw:
            yield from ((*found.span(), 1) for found in _LONG_BLANKS[blanks].finditer(raw))
    yield from _repeats_of(raw, width=1)
    if raw.isascii():
        return
    beyond = raw.translate(None, _ASCII)
    for width in (2, 3, 4):
        if _ALIKE[width] in _changes(beyond, width=width):
            yield from _repeats_of(raw, width=width)


def _repeats_of(raw: bytes, *, width: int) -> Iterator[tuple[int, int, int]]:
    """Yield those of characters of so many bytes that are no blanks or digits."""
    changes = _changes(raw, width=width)
    start = changes.find(_ALIKE[width])
    while start >= 0:
        alike = _ZEROS.match(changes, start)
        end = alike.end() if alike else len(raw)
        yield from _repeat_at(raw, start, end, width)
        start = changes.find(_ALIKE[width], end)


def _changes(raw: bytes, *, width: int) -> bytes:
    """Return zero for each byte that is as the one so many before it, and is no blank or digit.

    All are compared at once: the text as one long number with itself, shifted.
    """
    number = int.from_bytes(raw, "big")
    exempt = int.from_bytes(raw.translate(_IS_EXEMPT), "big")
    return (number ^ number >> 8 * width | exempt).to_bytes(len(raw), "big")


def _repeat_at(raw: bytes, start: int, end: int, width: int) -> Iterator[tuple[int, int, int]]:
    """Yield the run of characters of so many bytes, each byte of which is as that so many before."""
    bounds = _CONTINUED.match(raw, start)
    first = max(width, bounds.end() if bounds else start)
    repeats = (end - first) // width + 1
    if (
        repeats >= _least_repeats(raw[first - width])
        and _bytes_of_character(raw[first - width]) == width
    ):
        yield first - width, first + (repeats - 1) * width, width


def _least_repeats(first_byte: int) -> int:
    if first_byte in _RULES:
        return _LEAST_RULE
    return _LEAST_CELLS if first_byte in _CELLS else _LEAST_REPEATS


def _bytes_of_character(first_byte: int) -> int:
    return 1 + (first_byte >= 0xC0) + (first_byte >= 0xE0) + (first_byte >= 0xF0)


def _rate_of_repeats(character: str, rates: _Rates) -> float:
    known = rates.repeated.get(character)
    if known is not None:
        return known
    kind = _kind_of(character)
    return rates.symbols[kind] if kind else 1.0


def _without_symbols(raw: bytes, rates: _Rates) -> tuple[bytes, float]:
    """Leave a colon for each run of symbols: a token, as most of them are at least."""
    if not _may_hold_symbols(raw):
        return raw, 0.0
    alone, symbols = _symbols()
    runs: list[str] = []

    def colon(found: re.Match[str]) -> str:
        run = found[0]
        if run in alone:
            return run
        runs.append(run)
        return ":"

    rest = symbols.sub(colon, raw.decode("utf-8", "surrogatepass"))
    if not runs:
        return raw, 0.0
    each = Counter("".join(runs))
    tokens = sum(number * rates.symbols[_kind_of(symbol)] for symbol, number in each.items())
    return rest.encode("utf-8", "surrogatepass"), max(0.0, tokens - len(runs))


def _may_hold_symbols(raw: bytes) -> bool:
    if raw.isascii():
        return False
    if any(raw.count(start) > raw.count(known) for start, known in _SHARED_STARTS):
        return True
    return bool(raw.translate(None, _NO_SYMBOL_STARTS)) or _FAR_STARTS.search(raw) is not None


def _without_unbroken(raw: bytes, rates: _Rates) -> tuple[bytes, float]:
    """Leave the first of many letters of one case, or marks, with nothing between."""
    if len(raw) < _LEAST_MIXED_MARKS:
        return raw, 0.0
    kinds = raw.translate(_KINDS)
    tokens = 0.0
    spans: list[tuple[int, int]] = []
    for name, sign in _SIGNS.items():
        if sign in kinds:
            width = 2 if name == "Cyrillic" else 1
            found = [(run.start() + width, run.end()) for run in _UNBROKEN[name].finditer(raw)]
            tokens += rates.unbroken[name] * sum(end - start for start, end in found) / width
            spans += found
    return (_cut(raw, spans) if spans else raw), tokens


@cache
def _content() -> Any:
    return json.loads(RATES_FILE.read_text("utf-8"))


@cache
def _rates(family: str) -> _Rates:
    row = _content()["rates"][family]
    return _Rates(
        repeated={c: float(rate) for rate, these in row["repeated"].items() for c in these},
        symbols=row["symbols"],
        unbroken=row["unbroken"],
        escape=row["escape"],
    )


@cache
def _symbols() -> tuple[frozenset[str], re.Pattern[str]]:
    """Return the symbols that the weights know, where one stands alone, and what finds runs of any.

    What a variation selector makes an emoji is none: those the weights know too.
    """
    kinds = _content()["symbols"]
    each = f"[{''.join(kinds.values())}]"
    return frozenset(kinds["alone"]), re.compile(rf"{each}+(?!\ufe0f)")


@cache
def _kinds() -> tuple[tuple[str, re.Pattern[str]], ...]:
    kinds = _content()["symbols"].items()
    return tuple((name, re.compile(f"[{characters}]")) for name, characters in kinds)


@cache
def _kind_of(character: str) -> str:
    """Return the kind of a symbol, the first that has it; nothing where it is none."""
    return next((name for name, pattern in _kinds() if pattern.match(character)), "")
