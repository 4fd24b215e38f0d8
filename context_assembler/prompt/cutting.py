"""Instructions that fit: lines left out and marked."""

import re
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import Final

from context_assembler.texts import CountText, shorten_text

# A text, compiled when something is cut.
_RULE: Final = (
    r"(?i)\b(must|never|always|do not|don't|required?|important|forbidden|only)\b|^#{1,6} "
)
_HEAD_SHARE: Final = 0.5
_TAIL_SHARE: Final = 0.25
_MAX_CHAR_BYTES: Final = 4


def cut_text(text: str, *, max_tokens: int, name: str, count_text: CountText) -> str:
    """Return the text, or its head, the rules of its middle and its tail within `max_tokens`.

    Lines stay whole, unless one alone is longer than all the room. A marker stands wherever lines
    are missing. If not even a marker fits, nothing is left.
    """
    if count_text(text) <= max_tokens:
        return text
    count, room = cache(count_text), max_tokens
    while room > 0:
        shown = _Cut(text, count, room, name[-40:]).text()
        over = count_text(shown) - max_tokens
        if over <= 0:
            return shown
        room -= max(over, room // 16)
    return ""


class _Cut:
    """Chooses the lines to keep; each costs its tokens, and each gap those of its marker."""

    def __init__(self, text: str, count: CountText, room: int, name: str) -> None:
        self._name, self._count = name, count
        self._lines: list[str] = re.findall(r"[^\n]*\n|[^\n]+", text)
        self._marker_tokens = count(self._marker(len(self._lines)))
        self._kept = [False] * len(self._lines)
        self._free = room - self._marker_tokens
        self._shorten_lines()
        forwards = range(len(self._lines))
        self._keep_run(forwards, int(room * _HEAD_SHARE))
        self._keep_run(forwards[::-1], int(room * _TAIL_SHARE))
        for at, line in enumerate(self._lines):
            if not self._kept[at] and re.search(_RULE, line):
                self._keep(at)
        self._keep_run(forwards, self._free)
        self._keep_run(forwards[::-1], self._free)

    def text(self) -> str:
        """Return the kept lines, and a marker for each gap that is longer than its marker."""
        pieces: list[str] = []
        for is_kept, places in groupby(range(len(self._kept)), key=self._kept.__getitem__):
            lines = [self._lines[at] for at in places]
            # No line is free: of many lines none need be counted.
            is_gap = not is_kept and (
                len(lines) > self._marker_tokens
                or sum(map(self._count, lines)) > self._marker_tokens
            )
            pieces += [self._marker(len(lines))] if is_gap else lines
        return "".join(pieces).removesuffix("\n")

    def _shorten_lines(self) -> None:
        """Cut within those lines that no choice could keep whole."""
        longest = self._free - self._marker_tokens
        share = 1 if len(self._lines) == 1 else 2
        for at, whole in enumerate(self._lines):
            # No byte is two tokens: a short line need not be counted.
            if len(whole) * _MAX_CHAR_BYTES > longest > 0 and self._count(whole) > longest:
                line = shorten_text(whole, max_tokens=longest // share, count_text=self._count)
                self._lines[at] = line.rstrip("\n") + "\n"

    def _keep_run(self, places: Iterable[int], allowed: int) -> None:
        """Keep lines one after the other as long as the share allows."""
        for at in places:
            if not self._kept[at]:
                allowed -= self._count(self._lines[at])
                if allowed < 0 or not self._keep(at):
                    return

    def _keep(self, at: int) -> bool:
        """Keep one line if there is room for it and for the markers that it leaves around it."""
        gap_before = at > 0 and not self._kept[at - 1]
        gap_after = at < len(self._kept) - 1 and not self._kept[at + 1]
        more_gaps = gap_before + gap_after - 1  # the gap that it lies in is marked already
        cost = self._count(self._lines[at]) + more_gaps * self._marker_tokens
        if cost > self._free:
            return False
        self._free -= cost
        self._kept[at] = True
        return True

    def _marker(self, lines: int) -> str:
        count = "1 line" if lines == 1 else f"{lines:,} lines"
        return f"[… {count} of {self._name} left out here …]\n"
