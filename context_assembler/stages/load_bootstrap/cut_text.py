"""Shortens a text to a number of characters."""

import re
from typing import Final

_RULE: Final = re.compile(
    r"\b(must|never|always|do not|don't|required?|important|forbidden|only)\b|^#{1,6} ",
    re.IGNORECASE,
)
_HEAD_SHARE: Final = 0.5
_TAIL_SHARE: Final = 0.25
_MARKER_CHARS: Final = 120


def cut_text(text: str, max_chars: int, *, name: str) -> str:
    """Return the text, or its head, the rules of its middle and its tail, at most `max_chars` long.

    Whole lines are kept as far as they go; each gap is marked with what is missing. Where not even
    the marker fits, the beginning alone is left.
    """
    if len(text) <= max_chars:
        return text
    room = max_chars - 2 * _MARKER_CHARS
    if room < _MARKER_CHARS:
        return text[:max_chars]
    head = _head(text, int(room * _HEAD_SHARE))
    tail = _tail(text[len(head) :], int(room * _TAIL_SHARE))
    middle = text[len(head) : len(text) - len(tail)]
    rules = _rules(middle, room - len(head) - len(tail))
    missing = len(middle) - len(rules)
    marker = f"[… {missing:,} characters of {name[-40:]} left out here …]"
    kept = f"{rules.rstrip()}\n{marker}" if rules.strip() else marker
    return f"{head.rstrip()}\n{kept}\n{tail.lstrip()}"


def _head(text: str, chars: int) -> str:
    end = text.rfind("\n", 0, chars) + 1
    return text[: end if end > chars // 2 else chars]


def _tail(text: str, chars: int) -> str:
    start = text.find("\n", len(text) - chars) + 1
    cut = len(text) - chars
    return text[start if 0 < start <= cut + chars // 2 else cut :]


def _rules(text: str, chars: int) -> str:
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        if len(line) <= chars and _RULE.search(line):
            kept.append(line)
            chars -= len(line)
    return "".join(kept)
