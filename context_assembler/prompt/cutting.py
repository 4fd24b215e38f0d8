"""Instructions that fit: lines left out and marked, one section that cannot read as two."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, groupby
from typing import Final

from context_assembler.texts import CountText, shorten_text

_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_RULE: Final = re.compile(
    r"\b(must|never|always|do not|don't|required?|important|forbidden|only)\b|^#{1,6} ",
    re.IGNORECASE,
)
_CODE_FENCE: Final = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<rest>.*)")
_HEAD_SHARE: Final = 0.5
_TAIL_SHARE: Final = 0.25
_HEAD_SHARE_OF_SECTION: Final = 0.7
_MAX_CHAR_BYTES: Final = 4


def seal_text(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text so that nothing in it separates sections, and what was changed for that.

    A rule that would read as the line between two sections becomes stars; inside a code block it
    gets a trailing space instead. A code block that stays open is closed. Twice is the same as once.
    """
    if not any(mark in text for mark in ("---", "```", "~~~")):
        return text, ()
    lines = text.split("\n")
    mark = ""
    changes: dict[str, None] = {}
    for at, line in enumerate(lines):
        if found := _CODE_FENCE.fullmatch(line):
            fence, rest = found["mark"], found["rest"].strip()
            if not mark:
                mark = "" if fence[0] == "`" and "`" in rest else fence
            elif fence[0] == mark[0] and len(fence) >= len(mark) and not rest:
                mark = ""
        around = (*lines[max(at - 1, 0) : at], *lines[at + 1 : at + 2])
        if line.strip() == "---" and not any(map(str.strip, around)):
            lines[at] = f"{line.rstrip()} " if mark else line.replace("---", "***")
            if lines[at] != line:
                changes["a line '---' was changed, since it separates the sections"] = None
    if mark:
        lines.append(mark)
        changes["a code block that it leaves open was closed"] = None
    return "\n".join(lines) if changes else text, tuple(changes)


def cut_lines(text: str, *, max_tokens: int, count_text: CountText) -> str:
    """Return the text, or its first and last lines around a marker that counts the missing ones.

    Lines stay whole, unless not even one has room. If nothing fits, nothing is left.
    """
    if count_text(text) <= max_tokens:
        return text
    lines = text.split("\n")

    def cut(head: int, tail: int) -> str:
        marker = f"[… {len(lines) - head - tail:,} of {len(lines):,} lines left out here …]"
        return seal_text("\n".join([*lines[:head], marker, *lines[len(lines) - tail :]]))[0]

    head_tokens = int(max_tokens * _HEAD_SHARE_OF_SECTION)
    head = _most(len(lines) - 1, lambda number: count_text(cut(number, 0)) <= head_tokens)
    rest = len(lines) - 1 - head
    tail = _most(rest, lambda number: count_text(cut(head, number)) <= max_tokens)
    if head or tail:
        whole = cut(head, tail)
    else:
        whole = seal_text(shorten_text(text, max_tokens=max_tokens, count_text=count_text))[0]
    return whole if count_text(whole) <= max_tokens else ""


def _most(upper: int, is_right: Callable[[int], bool]) -> int:
    """Return the largest number up to `upper` for which it is right, as it is for smaller ones."""
    low, high = 0, upper
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if is_right(middle) else (low, middle - 1)
    return low


def cut_text(text: str, *, max_tokens: int, name: str, count_text: CountText) -> str:
    """Return the text, or its head, the rules of its middle and its tail within `max_tokens`.

    Lines stay whole, unless one alone is longer than all the room. A marker stands wherever lines
    are missing. If not even a marker fits, nothing is left.
    """
    if count_text(text) <= max_tokens:
        return text
    lines: list[str] = _LINES.findall(text)
    costs = _Costs(count_text)
    room = max_tokens
    while room > 0:
        shown = _Cut(lines, costs, room, name[-40:]).text()
        over = count_text(shown) - max_tokens
        if over <= 0:
            return shown
        room -= max(over, room // 16)
    return ""


class _Costs(dict[str, int]):
    """The tokens of lines, each counted when it is first needed: most of a long text never is."""

    def __init__(self, count_text: CountText) -> None:
        self.count_text = count_text

    def __missing__(self, line: str) -> int:
        self[line] = tokens = self.count_text(line)
        return tokens


class _Cut:
    """Chooses the lines to keep; each costs its tokens, and each gap those of its marker."""

    def __init__(self, lines: Sequence[str], costs: _Costs, room: int, name: str) -> None:
        self._name = name
        self._lines = list(lines)
        self._costs = costs
        self._marker_tokens = costs.count_text(self._marker(len(lines)))
        self._kept = [False] * len(lines)
        self._free = room - self._marker_tokens
        self._shorten_lines()
        forwards = range(len(lines))
        self._keep_run(forwards, int(room * _HEAD_SHARE))
        self._keep_run(forwards[::-1], int(room * _TAIL_SHARE))
        for place, line in enumerate(self._lines):
            if not self._kept[place] and _RULE.search(line):
                self._keep(place)
        self._keep_run(forwards, self._free)
        self._keep_run(forwards[::-1], self._free)

    def text(self) -> str:
        """Return the kept lines, and a marker for each gap that is longer than its marker."""
        pieces: list[str] = []
        for is_kept, places in groupby(range(len(self._kept)), key=self._kept.__getitem__):
            lines = [self._lines[at] for at in places]
            if not is_kept:
                tokens = accumulate(self._costs[line] for line in lines)
                if any(spent > self._marker_tokens for spent in tokens):
                    lines = [self._marker(len(lines))]
            pieces += lines
        return "".join(pieces).removesuffix("\n")

    def _shorten_lines(self) -> None:
        """Cut within those lines that no choice could keep whole."""
        longest = self._free - self._marker_tokens
        share = 1 if len(self._lines) == 1 else 2
        for place, whole in enumerate(self._lines):
            # No byte is two tokens: a short line need not be counted.
            if len(whole) * _MAX_CHAR_BYTES > longest > 0 and self._costs[whole] > longest:
                count = self._costs.count_text
                line = shorten_text(whole, max_tokens=longest // share, count_text=count)
                self._lines[place] = line.rstrip("\n") + "\n"

    def _keep_run(self, places: Iterable[int], allowed: int) -> None:
        """Keep lines one after the other as long as the share allows."""
        for place in places:
            if not self._kept[place]:
                allowed -= self._costs[self._lines[place]]
                if allowed < 0 or not self._keep(place):
                    return

    def _keep(self, place: int) -> bool:
        """Keep one line if there is room for it and for the markers that it leaves around it."""
        kept = self._kept
        gap_before = place > 0 and not kept[place - 1]
        gap_after = place < len(kept) - 1 and not kept[place + 1]
        more_gaps = gap_before + gap_after - 1  # the gap that it lies in is marked already
        cost = self._costs[self._lines[place]] + more_gaps * self._marker_tokens
        if cost > self._free:
            return False
        self._free -= cost
        kept[place] = True
        return True

    def _marker(self, lines: int) -> str:
        count = "1 line" if lines == 1 else f"{lines:,} lines"
        return f"[… {count} of {self._name} left out here …]\n"
