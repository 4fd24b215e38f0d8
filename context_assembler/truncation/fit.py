"""A history made to fit by a strategy's rules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeAlias

from context_assembler.ports import TokenCounter, Truncation
from context_assembler.truncation.apply import CarriedOut, marker_message
from context_assembler.truncation.carrying import Carrier
from context_assembler.truncation.checkpoints import (
    Checkpoint,
    Cut,
    Cutter,
    LeastTokens,
    Measures,
    find_checkpoints,
)
from context_assembler.truncation.fullest import Fitting, fullest
from context_assembler.truncation.history import (
    MeasuredHistory,
    Rules,
    is_user,
    measure,
    with_opening,
)
from context_assembler.truncation.overflow import relieve
from context_assembler.values.message_counts import count_each
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings

_MANY_MESSAGES: Final = 9_999_999
_SPARE_PARTS: Final = (32, 16, 8, 4)  # of the room, where a cut takes more than it should
_Found: TypeAlias = tuple[MeasuredHistory, Fitting]


class CarryOut(Protocol):
    """Carries a cut of a history out."""

    def __call__(self, history: MeasuredHistory, cut: Cut, /, *, window_from: int) -> CarriedOut:
        """Return what the cut leaves."""
        ...


def fit_history(
    messages: Sequence[Message],
    *,
    room_tokens: int,
    counter: TokenCounter,
    settings: TruncationSettings,
    rules: Rules,
) -> Truncation:
    """Drop and shorten by the rules until the history fits; one that fits is returned as it is.

    While room and settings stay the same and messages are only appended, equal levels mean that the
    result starts with the earlier result.

    Raises:
        ContextOverflowError: What may not be dropped does not fit, even shortened.
    """
    message_tokens = count_each(messages, counter)
    if not messages or sum(message_tokens) <= room_tokens:
        return Truncation(messages=tuple(messages))
    whole = measure(
        messages, message_tokens, rules=rules, stub_tokens=settings.stub_tokens, counter=counter
    )
    opening_tokens = opening_tokens_of(whole, room_tokens, settings=settings, rules=rules)
    opened = with_opening(whole, most_tokens=opening_tokens)
    carrier = Carrier(rules=rules, room_tokens=room_tokens, counter=counter, settings=settings)
    fitter = Fitter(
        rules=rules,
        room_tokens=room_tokens,
        counter=counter,
        settings=settings,
        carry=carrier,
        least_tokens=carrier.least_tokens,
    )
    checkpoint = fitter.checkpoints(whole, opened)[-1]
    done, cut = fitter.fit(whole, opened, checkpoint)
    most_tokens = sum(message_tokens) - checkpoint.freed_tokens
    return Truncation(
        messages=done.messages,
        entries=done.told(whole, rules),
        level=cut.identity,
        holds=cut.level is not None,
        spare_tokens=max(0, most_tokens - done.tokens) if cut.level is not None else 0,
    )


def opening_tokens_of(
    history: MeasuredHistory, room_tokens: int, *, settings: TruncationSettings, rules: Rules
) -> int:
    """Return what the opening may take; 0 where the strategy keeps none, or nothing opens it.

    Of what a cut leaves it is never more than half.
    """
    if history.task is None or not rules.keeps_opening:
        return 0
    share = min(settings.opening_share, (1 - settings.step_share) / 2)
    return max(0, int(share * (room_tokens - history.head_tokens)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitter:
    """Makes the beginnings of one session fit a room."""

    rules: Rules
    room_tokens: int
    counter: TokenCounter
    settings: TruncationSettings
    carry: CarryOut
    least_tokens: LeastTokens

    def checkpoints(
        self, whole: MeasuredHistory, opened: MeasuredHistory, *, spare_tokens: int = 0
    ) -> list[Checkpoint]:
        """Return the checkpoints of a history, oldest first.

        Args:
            opened: The same history with its opening as anchors; `whole` where it has none.
            spare_tokens: What they leave free of the room.
        """
        measures = self._measures(whole)
        if spare_tokens:
            room_tokens = self.room_tokens - spare_tokens
            measures = replace(measures, room_tokens=room_tokens, least_tokens=None)
        return find_checkpoints(whole, opened, measures)

    def fit(
        self, whole: MeasuredHistory, opened: MeasuredHistory, checkpoint: Checkpoint
    ) -> Fitting:
        """Return the cut to make of a history that does not fit, carried out.

        Args:
            opened: As for `checkpoints`.
            checkpoint: The last one of the history.

        Raises:
            ContextOverflowError: What may not be dropped does not fit, even shortened.
        """
        found = self._at_checkpoint(whole, opened, checkpoint)
        if not self.settings.cache_stable:
            fuller = (self._fullest(one, found) for one in (opened, whole))
            found = max(filter(None, fuller), key=lambda one: one[1][0].kept_tokens, default=None)
            if found is not None and found[1][1].shortens(whole.last):
                found = None  # no step has to be free beside the exchange in flight
        return self._relieved(whole) if found is None else found[1]

    def _measures(self, history: MeasuredHistory) -> Measures:
        """Return what cuts go by: a step is a share of the room behind the head."""
        behind_head_tokens = self.room_tokens - history.head_tokens
        return Measures(
            rules=self.rules,
            room_tokens=self.room_tokens,
            step_tokens=max(1, int(self.settings.step_share * behind_head_tokens)),
            marker_tokens=self.counter.count_message(marker_message(_MANY_MESSAGES)),
            least_tokens=None if self.rules.has_window else self.least_tokens,
        )

    def _cutter(self, history: MeasuredHistory) -> Cutter:
        count = len(history.exchanges)
        return Cutter(history=history, count=count, measures=self._measures(history))

    def _at_checkpoint(
        self, whole: MeasuredHistory, opened: MeasuredHistory, checkpoint: Checkpoint
    ) -> _Found | None:
        """Return the first cut that fits: at the window, or at a checkpoint.

        What a stub costs is counted anew, and a counter need not be additive to the token: where
        the cut of the checkpoint takes more than it should, that of one which leaves some room free
        is made.
        """
        window_from = self._window_from(whole)
        if window_from and (at_window := self._fitting(whole, Cut(kept_from=0, whole_from=0))):
            return whole, at_window
        for spare_tokens in (0, *(self.room_tokens // part for part in _SPARE_PARTS)):
            if spare_tokens:
                checkpoint = self.checkpoints(whole, opened, spare_tokens=spare_tokens)[-1]
            history, cut = opened if checkpoint.has_opening else whole, checkpoint.cut
            if cut is not None:
                cut = replace(cut, level=None) if spare_tokens else cut
                found = self._fitting(history, cut)
                if found is not None:
                    return history, found
        return None

    def _fitting(self, history: MeasuredHistory, cut: Cut) -> Fitting | None:
        """Return a cut carried out, if it fits; it drops what lies before the window as well."""
        window_from = self._window_from(history)
        if window_from > cut.kept_from:
            whole_from = max(window_from, cut.whole_from)
            cut = replace(cut, kept_from=window_from, whole_from=whole_from, level=None)
        done = self.carry(history, cut, window_from=window_from)
        cut = replace(cut, stage=done.stage)
        return (done, cut) if done.tokens <= self.room_tokens else None

    def _window_from(self, history: MeasuredHistory) -> int:
        return window_start(history, self.settings.window_turns) if self.rules.has_window else 0

    def _fullest(self, history: MeasuredHistory, found: _Found | None) -> _Found | None:
        """Return the cut of a history that keeps most; `found` is a cut that fits."""
        window_from = self._window_from(history)
        exact = self._cutter(history).exact()
        candidates = [
            None if exact is None else self._fitting(history, exact),
            found[1] if found is not None and found[0] is history else None,
        ]
        fitting = fullest(
            filter(None, candidates),
            savings=history.savings,
            carry=partial(self.carry, history, window_from=window_from),
            room_tokens=self.room_tokens,
            window_from=window_from,
        )
        return None if fitting is None else (history, fitting)

    def _relieved(self, history: MeasuredHistory) -> Fitting:
        floor = Cut(kept_from=history.last, whole_from=history.last)
        window_from = self._window_from(history)
        done = self.carry(history, floor, window_from=window_from)
        if done.tokens <= self.room_tokens:
            return done, floor
        return relieve(
            done,
            history=history,
            cut=floor,
            room_tokens=self.room_tokens,
            settings=self.settings,
            counter=self.counter,
        )


def window_start(history: MeasuredHistory, window_turns: int) -> int:
    """Return the boundary before the newest turns; 0 when there are no more than that."""
    backwards = range(history.last, -1, -1)
    openers = (number for number in backwards if is_user(history.exchanges[number]))
    newest = list(islice(openers, window_turns + 1))
    return newest[window_turns - 1] if len(newest) > window_turns else 0
