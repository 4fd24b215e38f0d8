"""Token estimates without a vocabulary, aware of script and kind of text.

Each byte of the text is mapped to the letter of its class (`a` lower case, `A` upper case, `0`
digit, `p` punctuation, one letter per script …) with one `bytes.translate`; then short patterns
are counted at C speed and weighted. The weights of each tokenizer family are in weights.json.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, Final

from context_assembler.values.token_count import CountMethod, TokenCount

WEIGHTS_FILE: Final = Path(__file__).parent / "weights.json"

SAMPLED_ABOVE_CHARS: Final = 65_536
SLICES: Final = 128
SLICE_CHARS: Final = 512

# From so many texts on, the share by which the truth of 99 in 100 sums differs at most; measured on
# texts that took no part in the fit (scripts/fit_estimator.py prints it).
_MARGINS: Final = ((20, 0.16), (5, 0.21), (0, 0.40))
_SPARE_TOKENS: Final = 4  # a text of a few words may be off by as many

_CONTINUATION_BYTES: Final = bytes(range(0x80, 0xC0))  # a character counts once: by its first byte

_Weighted = tuple[tuple[bytes, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The patterns of one tokenizer family with their weights.

    `any_classes` and `any_bytes` count in every text, the others in text that is not ASCII:
    `script_classes` over classes, and for each (class, prefixes) of `scripts`, where the class
    occurs (an empty one: always), UTF-8 prefixes.
    """

    classes: bytes
    any_classes: _Weighted
    any_bytes: _Weighted
    script_classes: _Weighted
    scripts: tuple[tuple[bytes, _Weighted], ...]


def estimate_text(text: str, *, family: str) -> int:
    """Return about how many tokens the text has; 0 only for empty text.

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
    return max(1, round(sampled * len(text) / (SLICES * SLICE_CHARS)))


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
    raw = text.encode("utf-8", "surrogatepass")
    if text.isascii():
        return _weigh(raw.translate(family.classes), family.any_classes) + _weigh(
            raw, family.any_bytes
        )
    classes = raw.translate(family.classes, _CONTINUATION_BYTES)
    score = _weigh(classes, family.any_classes) + _weigh(raw, family.any_bytes)
    score += _weigh(classes, family.script_classes)
    for marker, prefixes in family.scripts:
        if marker in classes:
            score += _weigh(raw, prefixes)
    return score


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
    scripts: dict[bytes, list[tuple[bytes, float]]] = {}
    for script in content["scripts"]:
        weight = weights["scripts"].get(script["name"], 0.0)
        if weight:
            of_class = scripts.setdefault(script["class"].encode(), [])
            of_class += [(bytes.fromhex(prefix), weight) for prefix in script["prefixes"]]
    return _Family(
        classes=content["classes"].encode("latin-1"),
        any_classes=_pair(weights["class_patterns"]),
        any_bytes=_pair(weights["byte_patterns"]),
        script_classes=_pair(weights["script_patterns"]),
        scripts=tuple((marker, tuple(pairs)) for marker, pairs in scripts.items()),
    )


def _pair(weights: Mapping[str, float]) -> _Weighted:
    return tuple((pattern.encode("latin-1"), weight) for pattern, weight in weights.items())
