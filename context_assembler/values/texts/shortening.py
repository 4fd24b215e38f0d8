"""Text cut down to a number of tokens: its head, a marker with its full size, its tail."""

import unicodedata
from collections.abc import Callable
from typing import Final, TypeAlias

CountText: TypeAlias = Callable[[str], int]

_HEAD_SHARE: Final = 0.6
_SNAP_SHARE: Final = 0.25  # how much of a piece may be given up for a cut between two lines
_ROUNDS: Final = 12
_ENOUGH_SHARE: Final = 0.85
_LONGEST_CLUSTER_CHARS: Final = 64
_JOINERS: Final = "\u200d\u200c"
_TONES: Final = range(0x1F3FB, 0x1F400)
_REGIONAL: Final = range(0x1F1E6, 0x1F200)


def shorten_text(text: str, *, max_tokens: int, count_text: CountText, unit: str = "tokens") -> str:
    """Return the text, or its head and tail around a marker that tells the full size.

    A function of the text and the limit alone, so that the same text is always shortened alike.
    Cuts fall between lines where one ends nearby, and never inside a character as people see it.
    Where not even the marker fits, the marker alone is returned: the only result over the limit.

    Args:
        unit: What `count_text` counts, as the marker calls it.
    """
    total_tokens = count_text(text)
    if total_tokens <= max_tokens:
        return text
    marker = f"[… shortened: {total_tokens:,} {unit} in full …]"
    room_tokens = max_tokens - count_text(f"\n{marker}\n")
    while room_tokens > 1:
        joined = _ends(
            text, marker, room_tokens=room_tokens, total_tokens=total_tokens, count_text=count_text
        )
        over_tokens = count_text(joined) - max_tokens
        if over_tokens <= 0:
            return joined
        room_tokens -= max(over_tokens, room_tokens // 8)
    return marker


def _ends(
    text: str, marker: str, *, room_tokens: int, total_tokens: int, count_text: CountText
) -> str:
    """Join as much of both ends as fits the room."""
    head_tokens = max(1, int(room_tokens * _HEAD_SHARE))
    chars_per_token = len(text) / total_tokens
    head_chars = _fitting_chars(
        lambda chars: count_text(text[:chars]),
        tokens=head_tokens,
        first_guess=int(head_tokens * chars_per_token),
        most=len(text),
    )
    tail_chars = _fitting_chars(
        lambda chars: count_text(text[len(text) - chars :]),
        tokens=room_tokens - head_tokens,
        first_guess=int((room_tokens - head_tokens) * chars_per_token),
        most=len(text) - head_chars,
    )
    head = text[: _head_end(text, head_chars)]
    tail = text[_tail_start(text, len(text) - tail_chars) :]
    return "\n".join(piece for piece in (head, marker, tail) if piece)


def _fitting_chars(
    tokens_of: Callable[[int], int], *, tokens: int, first_guess: int, most: int
) -> int:
    """Return how many characters of an end hold at most so many tokens, and nearly as many."""
    best, too_many, chars = 0, most + 1, min(first_guess, most)
    for _ in range(_ROUNDS):
        if not best < chars < too_many:
            break
        counted = tokens_of(chars)
        if counted <= tokens:
            best = chars
            if counted >= tokens * _ENOUGH_SHARE:
                break
        else:
            too_many = chars
        chars = int(chars * tokens / max(counted, 1) * 0.95)
        if not best < chars < too_many:
            chars = (best + too_many) // 2
    return best


def _head_end(text: str, end: int) -> int:
    line_end = text.rfind("\n", end - int(end * _SNAP_SHARE), end)
    return _between_characters(text, line_end if line_end > 0 else end)


def _tail_start(text: str, start: int) -> int:
    line_end = text.find("\n", start, start + int((len(text) - start) * _SNAP_SHARE))
    if line_end >= 0:
        return line_end + 1
    at = start
    while at < len(text) and at - start < _LONGEST_CLUSTER_CHARS and _continues(text, at):
        at += 1
    return at


def _between_characters(text: str, at: int) -> int:
    """Move a cut back to where a character as people see it begins."""
    first = max(0, at - _LONGEST_CLUSTER_CHARS)
    while at > first and _continues(text, at):
        at -= 1
    return at


def _continues(text: str, at: int) -> bool:
    """Whether the code points on both sides of a cut inside the text belong together."""
    before, after = text[at - 1], text[at]
    if before in _JOINERS or after in _JOINERS or (before == "\r" and after == "\n"):
        return True
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True
    if ord(before) in _REGIONAL and ord(after) in _REGIONAL:
        return _flags_before(text, at) % 2 == 1
    return ord(after) in _TONES or unicodedata.category(after) in ("Mn", "Me", "Mc")


def _flags_before(text: str, at: int) -> int:
    """Count the regional indicators right before a cut; two of them make one flag."""
    count = 0
    while count < at and ord(text[at - 1 - count]) in _REGIONAL:
        count += 1
    return count
