"""Where a history may be cut, so that between two cuts every payload only grows.

A *level* is a place to cut that follows from the beginning of the history alone: messages that
come later never move it. As long as one level fits, each step sends what the step before sent plus
what is new, whichever process it runs in and whatever was computed before.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from context_assembler.truncation.history import MeasuredHistory, Rules

_SUBSTANTIAL_SHARE: Final = 0.5  # of a step: what a rewrite frees at the least
_INDEX_BITS: Final = 23  # two boundaries and a stage stay exact in a JSON number


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Everything loose before `kept_from` is dropped, bulky results before `whole_from` are stubs.

    `level` is the number of the checkpoint, `None` for a cut between the checkpoints; `stage` says
    how far what is left had to be shortened; `drops_opening` that the opening, which the strategy
    keeps, is not.
    """

    kept_from: int
    whole_from: int
    level: int | None = None
    stage: int = 0
    drops_opening: bool = False

    @property
    def identity(self) -> int:
        """The number that the same cut, and no other, has; below 0 without the opening."""
        number = self.level
        if number is None:
            number = (self.stage << _INDEX_BITS | self.whole_from) << _INDEX_BITS | self.kept_from
        return -number if self.drops_opening else number


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """How far apart checkpoints lie, and how far ahead of the dropped zone results are shortened."""

    step_tokens: int
    ahead_tokens: int


def cuts_that_fit(
    history: MeasuredHistory,
    *,
    rules: Rules,
    grid: Grid,
    room_tokens: int,
    marker_tokens: int,
    window_from: int = 0,
) -> Iterator[Cut]:
    """Yield cuts whose tokens fit, the one to prefer first.

    First the checkpoints; where an exchange is too large for them, checkpoints that lie closer;
    then, before the last but one exchange is dropped as well, stubs for everything but the last;
    but never these where there is an opening to give up.

    Args:
        marker_tokens: What the line for left-out messages costs at most.
        window_from: Everything loose before this boundary is dropped in any case.
    """
    excess_tokens = history.total_tokens - room_tokens
    search = _Search(
        history=history,
        rules=rules,
        step_tokens=grid.step_tokens,
        marker_tokens=marker_tokens,
        window_from=window_from,
    )
    if window_from and search.freed_tokens(window_from, 0) >= excess_tokens:
        yield Cut(kept_from=window_from, whole_from=window_from)
    coarse = list(search.checkpoints(grid.step_tokens, 0)) if grid.step_tokens > 1 else []
    yield from search.levels(coarse, grid, excess_tokens=excess_tokens)
    # Closer checkpoints matter only around what has to go; they start at a coarse one before it.
    useful_from = bisect_left(history.loose, excess_tokens - grid.ahead_tokens)
    start = max((c for c in coarse if c <= useful_from), default=0) if coarse else useful_from - 1
    for finer in _finer_grids(grid):
        yield from search.closer_cuts(finer, max(start, 0), excess_tokens=excess_tokens)
    if not history.has_opening:
        yield from search.stubs_before_last(excess_tokens)


def _finer_grids(grid: Grid) -> Iterator[Grid]:
    step_tokens, ahead_tokens = grid.step_tokens, grid.ahead_tokens
    if step_tokens == 1:
        yield grid
    while step_tokens > 1 or ahead_tokens > 0:
        step_tokens, ahead_tokens = max(1, step_tokens // 2), ahead_tokens // 2
        yield Grid(step_tokens=step_tokens, ahead_tokens=ahead_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    history: MeasuredHistory
    rules: Rules
    step_tokens: int
    marker_tokens: int
    window_from: int

    def freed_tokens(self, kept_from: int, whole_from: int) -> int:
        """Return what a cut frees at the least; never less for a later `kept_from` above 0."""
        history = self.history
        freed = history.freed_by_dropping(kept_from)
        if whole_from > kept_from:
            freed += history.savings[whole_from] - history.savings[kept_from]
        return freed - (self.marker_tokens if kept_from and self.rules.marks else 0)

    def levels(
        self, checkpoints: Iterable[int], grid: Grid, *, excess_tokens: int
    ) -> Iterator[Cut]:
        """Yield the levels that free enough, lowest first; each frees substantially more."""
        least_gain_tokens = grid.step_tokens * _SUBSTANTIAL_SHARE
        freed_so_far = 0
        for level, checkpoint in enumerate(checkpoints, start=1):
            cut = self._cut_at(checkpoint, grid)
            if cut is None:
                return
            freed = self.freed_tokens(cut.kept_from, cut.whole_from)
            if freed < freed_so_far + least_gain_tokens:
                continue
            freed_so_far = freed
            if freed >= excess_tokens:
                yield cut if self.window_from else replace(cut, level=level)

    def closer_cuts(self, grid: Grid, start: int, *, excess_tokens: int) -> Iterator[Cut]:
        """Yield cuts between the checkpoints that free enough, keeping most first."""
        for checkpoint in self.checkpoints(grid.step_tokens, start):
            cut = self._cut_at(checkpoint, grid)
            if cut is None:
                return
            if self.freed_tokens(cut.kept_from, cut.whole_from) >= excess_tokens:
                yield from self._with_stubs_before(cut, excess_tokens=excess_tokens)
                yield cut

    def _with_stubs_before(self, cut: Cut, *, excess_tokens: int) -> Iterator[Cut]:
        """Yield a cut that keeps, as stubs, the newest of what the cut would drop, if that fits.

        How much follows from what lies before the cut alone, so that both last equally long: as
        much as leaves a step of the room free.
        """
        history = self.history
        room_tokens = history.loose[-1] - excess_tokens

        def stubbed_tokens(boundary: int) -> int:
            return history.loose[boundary] - history.savings[boundary]

        kept_from = bisect_left(
            range(cut.kept_from),
            stubbed_tokens(cut.kept_from) - (room_tokens - self.step_tokens),
            key=stubbed_tokens,
        )
        fuller = replace(cut, kept_from=max(kept_from, self.window_from))
        if fuller.kept_from < cut.kept_from and (
            self.freed_tokens(fuller.kept_from, fuller.whole_from) >= excess_tokens
        ):
            yield fuller

    def stubs_before_last(self, excess_tokens: int) -> Iterator[Cut]:
        """Yield cuts that shorten every bulky result before the last exchange, keeping most first."""
        last = self.history.last
        if self.rules.shortens and self.history.savings[last] >= excess_tokens:
            yield Cut(kept_from=0, whole_from=last)
        enough = bisect_left(
            range(last + 1), excess_tokens, lo=1, key=lambda b: self.freed_tokens(b, last)
        )
        for boundary in range(max(enough, self.window_from), last + 1):
            yield Cut(kept_from=boundary, whole_from=max(boundary, last))

    def checkpoints(self, step_tokens: int, start: int) -> Iterator[int]:
        """Yield boundaries a step apart, oldest first; before an exchange that dwarfs the step."""
        loose, last = self.history.loose, self.history.last
        before = start
        while True:
            behind = bisect_left(loose, loose[before] + step_tokens, lo=before + 1)
            if behind > last + 1:
                return
            in_front = behind - 1
            leap = loose[behind] - loose[in_front] > step_tokens * _SUBSTANTIAL_SHARE
            advance = loose[in_front] - loose[before] >= step_tokens * _SUBSTANTIAL_SHARE
            if leap and advance and in_front > before:
                before = in_front
            elif behind <= last:
                before = behind
            else:
                return
            yield before

    def _cut_at(self, checkpoint: int, grid: Grid) -> Cut | None:
        """Return the cut at a checkpoint; `None` where the history does not yet decide it."""
        history = self.history
        if not self.rules.shortens:
            kept_from = max(checkpoint, self.window_from)
            return Cut(kept_from=kept_from, whole_from=kept_from)
        wanted_tokens = history.loose[checkpoint]
        ahead_of = wanted_tokens + grid.ahead_tokens
        if checkpoint == history.last or ahead_of >= history.loose[-1]:
            return None
        whole_from = bisect_right(history.loose, ahead_of) - 1
        if history.savings[whole_from] >= wanted_tokens:
            enough = bisect_left(history.savings, wanted_tokens)
            return Cut(kept_from=0, whole_from=enough)
        kept_from = bisect_left(
            range(whole_from), wanted_tokens, lo=1, key=lambda b: self.freed_tokens(b, whole_from)
        )
        return Cut(kept_from=kept_from, whole_from=whole_from)
