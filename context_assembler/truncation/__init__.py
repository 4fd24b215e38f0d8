"""Makes a history fit the window: strategies, checkpoints, shortening.

`Truncator` does it for a list of turns. `History` and `Plan` are what it is made of: columns that grow
by append, and cuts that are decided on them.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple, Protocol

from context_assembler import events
from context_assembler.events import JsonObject
from context_assembler.options import TruncationSettings
from context_assembler.ports import TokenFamily, Turn
from context_assembler.report import ReportEntry
from context_assembler.truncation.cut import (
    SYNTHETIC,
    TRUNCATIONS,
    Cut,
    History,
    Plan,
    Strategy,
    cut_entries,
)
from context_assembler.truncation.shorten import Lines, Shortened, shorten_part

__all__ = [
    "SYNTHETIC",
    "TRUNCATIONS",
    "CountsTurns",
    "Cut",
    "History",
    "Lines",
    "Plan",
    "Shortened",
    "Strategy",
    "Truncation",
    "Truncator",
    "cut_entries",
    "shorten_part",
]

_KINDS: Final = {
    "user": events.USER,
    "assistant": events.ASSISTANT,
    "tool": events.TOOL_RESULT,
    "system": events.SYSTEM,
    "summary": events.COMPACTION,
    "note": events.NOTE,
    "marker": SYNTHETIC,
}


def _kind(turn: Turn) -> int:
    kind, role = turn.get("kind", "said"), turn["role"]
    number = SYNTHETIC if (kind, role) == ("synthetic", "user") else _KINDS.get(kind, _KINDS[role])
    return number | (events.PINNED if turn.get("is_pinned") else 0)


class CountsTurns(TokenFamily, Protocol):
    """Counts events and texts; `tokens.family_for(limits)` is one."""

    def count_text(self, text: str) -> int: ...


class Truncation(NamedTuple):
    """Turns that fit.

    Attributes:
        turns: What to send, oldest first; turns that are not changed are the objects given.
        entries: One for each turn, or result of a tool, that was left out or shortened, in order.
        cut_id: 0: nothing was cut. The same number for the same settings and turns that were only
            appended to means that these turns begin with the earlier ones.
        tokens: Of all turns.
    """

    turns: list[Turn]
    entries: list[ReportEntry]
    cut_id: int
    tokens: int


class Truncator:
    """Makes lists of turns fit by the strategy that its settings name.

        truncator = Truncator(TruncationSettings(strategy="sliding", window_turns=5))
        fitted = truncator.truncate(turns, room_tokens=100_000, counter=family_for(limits))

    The turns are paired, as `MessageTransformer` returns them: the results of a reply's calls stand
    right after it.
    """

    def __init__(self, settings: TruncationSettings | None = None) -> None:
        """Take the settings; by default `smart`, cut at checkpoints."""
        self.settings = settings or TruncationSettings()

    def truncate(
        self, turns: Sequence[Turn], *, room_tokens: int, counter: CountsTurns
    ) -> Truncation:
        """Return what to send of a history, oldest turn first.

        Args:
            room_tokens: What the turns may use together.

        Raises:
            ContextOverflowError: What may not be dropped does not fit, even shortened.
        """
        lines = _TurnLines(turns, counter)
        history = History(stub_tokens=self.settings.stub_tokens)
        history.extend(lines.kinds, lines.tokens)
        cut = Plan(history, lines, room_tokens=room_tokens, settings=self.settings).cut()
        if cut is None:
            return Truncation(list(turns), [], 0, sum(lines.tokens))
        entries = list(cut_entries(cut, lines.tokens, lines.name).values())
        return Truncation(lines.left(cut), entries, cut.id, cut.tokens)


class _TurnLines(Lines):
    """Turns as lines: one for each, and for a turn of results one for each of these."""

    def __init__(self, turns: Sequence[Turn], counter: CountsTurns) -> None:
        self.turns, self.counter = turns, counter
        self.places: list[tuple[int, int | None]] = []  # turn, and the result in it
        for at, turn in enumerate(turns):
            is_tool = turn["role"] == "tool"
            results: Sequence[int | None] = range(len(turn["parts"])) if is_tool else (None,)
            self.places += [(at, place) for place in results]
        self.kinds = bytes(_kind(turns[at]) for at, _ in self.places)
        self.tokens = [self.count(kind, self.parts(line)) for line, kind in enumerate(self.kinds)]

    def parts(self, line: int) -> Sequence[JsonObject]:
        at, place = self.places[line]
        parts = self.turns[at]["parts"]
        return parts if place is None else parts[place : place + 1]

    def count(self, kind: int, parts: Sequence[JsonObject], line: int = -1) -> int:
        """Count a turn; it is corrected by nothing, whichever `line` it is."""
        del line
        kind = events.USER if kind & events.KIND_MASK == SYNTHETIC else kind
        body = {"parts": list(parts)}
        return self.counter.count_event(kind, body) + self.counter.count_reasoning(body)

    def count_text(self, text: str) -> int:
        return self.counter.count_text(text)

    def name(self, line: int) -> str:
        return self.turns[self.places[line][0]].get("id", "")

    def is_clock(self, line: int) -> bool:
        return self.turns[self.places[line][0]].get("note") == "clock"

    def left(self, cut: Cut) -> list[Turn]:
        """Return the turns that a cut leaves."""
        left: list[Turn] = []
        lines = [line for first, end in cut.kept for line in range(first, end)]
        for at, of_turn in groupby(lines, key=lambda line: self.places[line][0]):
            numbers = list(of_turn)
            if numbers[0] == cut.marker:
                parts = cut.marker_parts
                left.append(Turn(role="user", kind="marker", origin="assembler", parts=parts))
            turn = self.turns[at]
            if any(line in cut.shortened for line in numbers):
                short = cut.shortened
                held = (short[n].parts if n in short else self.parts(n) for n in numbers)
                changed = turn.copy()
                changed["parts"] = [part for parts in held for part in parts]
                turn = changed
            if turn["parts"]:
                left.append(turn)
        return left
