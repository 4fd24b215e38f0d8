"""Shortens instructions to a number of tokens: head, rules and tail stay, every gap is marked."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, groupby
from typing import Final, TypeAlias

from context_assembler.values.texts.shortening import shorten_text

CountText: TypeAlias = Callable[[str], int]

_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_RULE: Final = re.compile(
    r"\b(must|never|always|do not|don't|required?|important|forbidden|only)\b|^#{1,6} ",
    re.IGNORECASE,
)
_HEAD_SHARE: Final = 0.5
_TAIL_SHARE: Final = 0.25
_MAX_CHAR_BYTES: Final = 4


def cut_text(text: str, *, max_tokens: int, name: str, count_text: CountText) -> str:
    """Return the text, or its head, the rules of its middle and its tail within `max_tokens`.

    Lines stay whole, unless one alone is longer than all there is room for. A marker stands
    wherever lines are missing. Where not even a marker fits, nothing is left.
    """
    if count_text(text) <= max_tokens:
        return text
    lines: list[str] = _LINES.findall(text)
    costs = _Costs(count_text)
    room_tokens = max_tokens
    while room_tokens > 0:
        cut = _Cut(lines, costs, room_tokens=room_tokens, name=name[-40:], count_text=count_text)
        over_tokens = count_text(cut.text()) - max_tokens
        if over_tokens <= 0:
            return cut.text()
        room_tokens -= max(over_tokens, room_tokens // 16)
    return ""


class _Costs(dict[str, int]):
    """The tokens of lines, each counted when it is first asked for: most of a long text never is."""

    def __init__(self, count_text: CountText) -> None:
        self._count_text = count_text

    def __missing__(self, line: str) -> int:
        self[line] = tokens = self._count_text(line)
        return tokens

    def is_within(self, lines: Iterable[str], most_tokens: int) -> bool:
        """Whether the lines cost no more, together."""
        return all(spent <= most_tokens for spent in accumulate(self[line] for line in lines))


class _Cut:
    """Chooses the lines to keep; each costs its tokens, and each gap those of its marker."""

    def __init__(
        self,
        lines: Sequence[str],
        costs: _Costs,
        *,
        room_tokens: int,
        name: str,
        count_text: CountText,
    ) -> None:
        self._name = name
        self._marker_tokens = count_text(self._marker(len(lines)))
        self._lines = list(lines)
        self._costs = costs
        self._kept = [False] * len(lines)
        self._free_tokens = room_tokens - self._marker_tokens
        self._shorten_lines(count_text)
        self._fill(room_tokens)

    def _shorten_lines(self, count_text: CountText) -> None:
        """Cut within those lines that no choice could keep whole."""
        longest_tokens = self._free_tokens - self._marker_tokens
        share = 1 if len(self._lines) == 1 else 2
        for place, whole in enumerate(self._lines):
            may_be_long = len(whole) * _MAX_CHAR_BYTES > longest_tokens > 0  # no byte is two tokens
            if may_be_long and self._costs[whole] > longest_tokens:
                line = shorten_text(
                    whole, max_tokens=longest_tokens // share, count_text=count_text
                )
                self._lines[place] = line.rstrip("\n") + "\n"

    def _fill(self, room_tokens: int) -> None:
        forwards = range(len(self._lines))
        backwards = forwards[::-1]
        self._keep_run(forwards, int(room_tokens * _HEAD_SHARE))
        self._keep_run(backwards, int(room_tokens * _TAIL_SHARE))
        self._keep_rules()
        self._keep_run(forwards, self._free_tokens)
        self._keep_run(backwards, self._free_tokens)
        self._close_small_gaps()

    def _keep_run(self, places: Iterable[int], allowed_tokens: int) -> None:
        """Keep lines one after the other as long as the share allows."""
        for place in places:
            if self._kept[place]:
                continue
            allowed_tokens -= self._costs[self._lines[place]]
            if allowed_tokens < 0 or not self._keep(place):
                return

    def _keep_rules(self) -> None:
        for place, line in enumerate(self._lines):
            if not self._kept[place] and _RULE.search(line):
                self._keep(place)

    def _keep(self, place: int) -> bool:
        """Keep one line if there is room for it and for the markers that it leaves around it."""
        kept = self._kept
        gap_before = place > 0 and not kept[place - 1]
        gap_behind = place < len(kept) - 1 and not kept[place + 1]
        more_gaps = gap_before + gap_behind - 1  # the gap that the line lies in is marked already
        cost_tokens = self._costs[self._lines[place]] + more_gaps * self._marker_tokens
        if cost_tokens > self._free_tokens:
            return False
        self._free_tokens -= cost_tokens
        kept[place] = True
        return True

    def _close_small_gaps(self) -> None:
        """Keep what is no longer than the marker that would stand for it."""
        for is_kept, places in groupby(range(len(self._kept)), key=self._kept.__getitem__):
            gap = list(places)
            lines = (self._lines[at] for at in gap)
            if not is_kept and self._costs.is_within(lines, self._marker_tokens):
                for at in gap:
                    self._kept[at] = True

    def text(self) -> str:
        """Return the kept lines, and a marker for each gap."""
        pieces: list[str] = []
        for is_kept, places in groupby(range(len(self._kept)), key=self._kept.__getitem__):
            gap = list(places)
            pieces += [self._lines[at] for at in gap] if is_kept else [self._marker(len(gap))]
        return "".join(pieces).removesuffix("\n")

    def _marker(self, lines: int) -> str:
        count = "1 line" if lines == 1 else f"{lines:,} lines"
        return f"[… {count} of {self._name} left out here …]\n"
