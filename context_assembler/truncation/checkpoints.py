"""Where a history is cut, so that between two cuts every payload only grows.

A *checkpoint* is a place in the history where what is sent has to be cut, and that cut. Both follow
from what stands before it: messages that come later never move it. Until the next one each step sends
what the step before sent plus what is new, whichever process it runs in and whatever was computed
before.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from context_assembler.ports.truncation import CHECKPOINT_LEVELS
from context_assembler.truncation.history import MeasuredHistory, Rules

_SUBSTANTIAL_SHARE: Final = 0.75  # of a step: what a cut frees at the least
_LEAST_SHARE: Final = 0.5  # of what a cut could free, where the last exchange leaves no step
_MOST_OF_FREE_SHARE: Final = 0.9  # what a cut frees where the last exchange leaves no step
_INDEX_BITS: Final = CHECKPOINT_LEVELS.bit_length() // 2  # two boundaries, or one and a limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Everything loose before `kept_from` is dropped, bulky results before `whole_from` are stubs.

    `level` is the number of the checkpoint, `None` for a cut that is made at none; `stage` says how
    far what is left had to be shortened; `drops_opening` that the opening, which the strategy keeps,
    is not. Where nothing more could be dropped, `left_tokens` is what the rest is shortened to; what
    comes in later stands behind it whole.
    """

    kept_from: int
    whole_from: int
    level: int | None = None
    stage: tuple[int, int] | None = None
    drops_opening: bool = False
    left_tokens: int | None = None

    def shortens(self, number: int) -> bool:
        """Whether this exchange is the one that nothing but shortening it makes fit."""
        return self.left_tokens is not None and self.kept_from == number

    @property
    def identity(self) -> int:
        """The number that the same cut, and no other, has; below 0 without the opening.

        It does not go by the checkpoint alone: what belongs to the exchange there may still come.
        """
        if self.stage is not None:  # all but one exchange and the anchors are dropped
            group, limit_tokens = self.stage
            return _packed(group + 1, limit_tokens, self.kept_from)
        number = _packed(self.level is None, self.whole_from, self.kept_from)
        return -number if self.drops_opening else number


def _packed(kind: int, place: int, kept_from: int) -> int:
    return kind * CHECKPOINT_LEVELS + (place << _INDEX_BITS) + kept_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A cut, and how many exchanges there are when it is made first.

    Attributes:
        cut: `None` where no cut is enough.
        has_opening: Whether it is a cut of the history with its opening.
        freed_tokens: What it frees at the least; the next checkpoint is where more has to go.
    """

    exchanges: int
    cut: Cut | None
    has_opening: bool
    freed_tokens: int


class LeastTokens(Protocol):
    """Tells how little can be left of a history's last exchange, and of what stays beside it."""

    def __call__(self, history: MeasuredHistory, cut: Cut, /) -> int:
        """Return the tokens; the cut drops all that may go, and its `kept_from` is that exchange."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What cuts go by.

    Attributes:
        step_tokens: What a cut frees beyond what has to go.
        marker_tokens: What the line for left-out messages costs at most.
        least_tokens: `None`: a cut that shortens more than old results holds for one call.
    """

    rules: Rules
    room_tokens: int
    step_tokens: int
    marker_tokens: int
    least_tokens: LeastTokens | None = None


def find_checkpoints(
    whole: MeasuredHistory, opened: MeasuredHistory, measures: Measures
) -> list[Checkpoint]:
    """Return the checkpoints of a history, oldest first.

    Args:
        opened: The same history with its opening as anchors; `whole` where it has none. Once a cut
            could free no step beside the opening, that is given up for good.
    """
    found: list[Checkpoint] = []
    history, freed_tokens = opened, 0
    while (
        count := bisect_right(whole.ends, measures.room_tokens + freed_tokens, lo=_after(found))
    ) < len(whole.ends):
        cutter = Cutter(history=history, count=count, measures=measures)
        if history.has_opening and not cutter.leaves_a_step:
            history = whole
            cutter = replace(cutter, history=whole)
        cut = cutter.stepped(len(found) + 1) or cutter.shortening()
        if cut is not None:
            freed_tokens = cutter.freed_tokens(cut)
            cut = replace(cut, level=len(found) + 1, drops_opening=history is not opened)
        found.append(
            Checkpoint(
                exchanges=count,
                cut=cut,
                has_opening=history.has_opening,
                freed_tokens=freed_tokens,
            )
        )
    return found


def _after(found: Sequence[Checkpoint]) -> int:
    return found[-1].exchanges + 1 if found else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutter:
    """Cuts a history that ends behind its first `count` exchanges, and never the last of these."""

    history: MeasuredHistory
    count: int
    measures: Measures

    @property
    def excess_tokens(self) -> int:
        """What has to go."""
        return self.history.ends[self.count] - self.measures.room_tokens

    @property
    def leaves_a_step(self) -> bool:
        """Whether a step can be free beside what has to stay.

        Where nothing may go yet the opening is not complete: what comes next may belong to it.
        """
        is_complete = self.history.loose[self.count] > 0
        return is_complete and self._free_tokens >= self.measures.step_tokens

    @property
    def _free_tokens(self) -> int:
        """What can be free beside the anchors, the user's last message and the last exchange."""
        last = self.count - 1
        return self._freed_tokens(last, last) - self.excess_tokens

    def stepped(self, number: int) -> Cut | None:
        """Return the cut that frees about a step, or most of what can be free.

        It frees whole steps, counted from the start, so that there is at most one cut for each step
        that has to go; after a cut that could not, it frees the more. `None` where nothing but
        shortening the last exchange helps.

        Args:
            number: Of this cut, from 1.
        """
        excess_tokens, step_tokens = self.excess_tokens, self.measures.step_tokens
        most_tokens = max(0, int(self._free_tokens * _MOST_OF_FREE_SHARE))
        owed_tokens = max(number, -(-excess_tokens // step_tokens)) * step_tokens - excess_tokens
        gain_tokens, share = max(step_tokens, min(owed_tokens, most_tokens)), _SUBSTANTIAL_SHARE
        owed_tokens = min(owed_tokens, gain_tokens)
        if not self.leaves_a_step:
            gain_tokens, share, owed_tokens = most_tokens, _LEAST_SHARE, 0
        while gain_tokens:
            cut = self.freeing(excess_tokens + gain_tokens)
            if cut is not None:
                least_tokens = max(owed_tokens, int(min(gain_tokens, step_tokens) * share))
                return self._smaller(cut, least_tokens=excess_tokens + least_tokens)
            gain_tokens //= 2
            owed_tokens = 0
        return self.exact()

    def shortening(self) -> Cut | None:
        """Return the cut that shortens the last exchange as well, and leaves what it can of a step.

        Half of what could be left of the exchange is, at the least. `None`: it holds for one call.
        """
        measures, last = self.measures, self.count - 1
        cut = Cut(kept_from=last, whole_from=last)
        if measures.least_tokens is None:
            return None
        free_tokens = measures.room_tokens - measures.least_tokens(self.history, cut)
        gain_tokens = min(measures.step_tokens, free_tokens // 2)
        if gain_tokens <= 0:
            return None
        return replace(cut, left_tokens=measures.room_tokens - gain_tokens)

    def exact(self) -> Cut | None:
        """Return the cut that frees what has to go, and leaves stubs of a step at the most."""
        loose, last = self.history.loose, self.count - 1
        ahead_tokens = self.measures.step_tokens
        while ahead_tokens:
            ahead = bisect_right(loose, self.excess_tokens + ahead_tokens, hi=self.count + 1) - 1
            cut = self._freeing(self.excess_tokens, whole_from=ahead) if ahead < last else None
            if cut is not None:
                return cut
            ahead_tokens //= 2
        return self._freeing(self.excess_tokens, whole_from=last)

    def freeing(self, wanted_tokens: int) -> Cut | None:
        """Return the cut that frees so much; half of what it leaves stays whole, or the last exchange."""
        loose, last = self.history.loose, self.count - 1
        left_tokens = loose[self.count] - wanted_tokens
        whole_tokens = max(left_tokens // 2, loose[self.count] - loose[last])
        whole_from = bisect_left(loose, loose[self.count] - whole_tokens, hi=last)
        return self._freeing(wanted_tokens, whole_from=whole_from)

    def _freeing(self, wanted_tokens: int, *, whole_from: int) -> Cut | None:
        """Return the cut that keeps most: stubs before a boundary first, then the oldest go."""
        if not self.measures.rules.shortens:
            kept_from = self._kept_from(wanted_tokens, whole_from=0)
            return None if kept_from is None else Cut(kept_from=kept_from, whole_from=kept_from)
        savings = self.history.savings
        if savings[whole_from] >= wanted_tokens:
            return Cut(kept_from=0, whole_from=bisect_left(savings, wanted_tokens))
        kept_from = self._kept_from(wanted_tokens, whole_from=whole_from)
        if kept_from is None:
            return None
        return Cut(kept_from=kept_from, whole_from=max(kept_from, whole_from))

    def freed_tokens(self, cut: Cut) -> int:
        """Return what a cut frees at the least."""
        if cut.left_tokens is not None:
            return self.history.ends[self.count] - cut.left_tokens
        return self._freed_tokens(cut.kept_from, cut.whole_from)

    def _kept_from(self, wanted_tokens: int, *, whole_from: int) -> int | None:
        last = self.count - 1
        if last == 0 or self._freed_tokens(last, whole_from) < wanted_tokens:
            return None
        boundaries = range(last + 1)
        return bisect_left(
            boundaries, wanted_tokens, lo=1, key=lambda b: self._freed_tokens(b, whole_from)
        )

    def _freed_tokens(self, kept_from: int, whole_from: int) -> int:
        """Return what a cut frees at the least; never less for a later `kept_from` above 0."""
        history, measures = self.history, self.measures
        freed = history.freed_by_dropping(kept_from)
        if whole_from > kept_from:
            freed += history.savings[whole_from] - history.savings[kept_from]
        return freed - (measures.marker_tokens if kept_from and measures.rules.marks else 0)

    def _smaller(self, cut: Cut, *, least_tokens: int) -> Cut:
        """Return the cut that spares one exchange more, if only as stubs, where that frees enough."""
        if not cut.kept_from:
            smaller = Cut(kept_from=0, whole_from=cut.whole_from - 1)
        else:
            kept_from = cut.kept_from - 1 if self.history.loose[cut.kept_from - 1] else 0
            shortens = self.measures.rules.shortens
            smaller = Cut(kept_from=kept_from, whole_from=cut.whole_from if shortens else kept_from)
        return smaller if self.freed_tokens(smaller) >= least_tokens else cut
