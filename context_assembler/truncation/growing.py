"""A history made to fit at many places, each time as if it ended there, at the cost of what is new."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from context_assembler.ports import TokenCounter
from context_assembler.truncation.apply import CarriedOut
from context_assembler.truncation.beginnings import beginning
from context_assembler.truncation.carrying import Carrier
from context_assembler.truncation.checkpoints import Checkpoint, Cut
from context_assembler.truncation.fit import Fitter, opening_tokens_of
from context_assembler.truncation.history import MeasuredHistory, Rules, measure, with_opening
from context_assembler.values.message_counts import count_each
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings

_MOST_KEPT_CUTS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownCut:
    """What is left of a history at one place; `level` as in `Truncation`."""

    messages: tuple[Message, ...]
    message_tokens: tuple[int, ...]
    level: int = 0
    dropped: int = 0
    shortened: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Carried:
    """A cut carried out while the history had so many exchanges."""

    done: CarriedOut
    exchanges: int


class GrowingHistory:
    """A repaired history that grows exchange by exchange, made to fit at each of its lengths.

    It is measured once: what is known of a boundary follows from what lies before it. While a cut
    holds, what a length adds is put behind what the length before it left.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        *,
        room_tokens: int,
        counter: TokenCounter,
        settings: TruncationSettings,
        rules: Rules,
    ) -> None:
        self._tokens = count_each(messages, counter)
        self._messages = messages
        self._counter = counter
        self._settings = settings
        self._rules = rules
        self._room_tokens = room_tokens
        self._whole = self._measured(len(messages))
        self._opening_tokens = opening_tokens_of(
            self._whole, room_tokens, settings=settings, rules=rules
        )
        self._opened = with_opening(self._whole, most_tokens=self._opening_tokens)
        exchanges = self._whole.exchanges
        self._summaries = [n for n, one in enumerate(exchanges) if one[0].kind == "summary"]
        self._carried: dict[tuple[Cut, int, int, bool], _Carried] = {}
        self._carrier = Carrier(
            rules=rules, room_tokens=room_tokens, counter=counter, settings=settings
        )
        self._fitter = Fitter(
            rules=rules,
            room_tokens=room_tokens,
            counter=counter,
            settings=settings,
            carry=self._carry,
            least_tokens=self._carrier.least_tokens,
        )
        self._checkpoints = self._fitter.checkpoints(self._whole, self._opened)

    def fit(self, length: int) -> GrownCut:
        """Return what is left of the first so many messages: what `Truncator` leaves of them.

        Args:
            length: Where an exchange ends.

        Raises:
            ContextOverflowError: What may not be dropped does not fit, even shortened.
        """
        number = bisect_left(self._whole.starts, length)
        if self._whole.ends[number] <= self._room_tokens:
            return GrownCut(
                messages=tuple(self._whole.messages[:length]),
                message_tokens=tuple(self._tokens[:length]),
            )
        whole, opened, checkpoint = self._until(number)
        return _grown(whole, *self._fitter.fit(whole, opened, checkpoint))

    def _measured(self, length: int) -> MeasuredHistory:
        return measure(
            self._messages[:length],
            self._tokens[:length],
            rules=self._rules,
            stub_tokens=self._settings.stub_tokens,
            counter=self._counter,
        )

    def _until(self, number: int) -> tuple[MeasuredHistory, MeasuredHistory, Checkpoint]:
        """Return the history as it was measured, had it so many exchanges, and its checkpoint."""
        if self._summaries and self._summaries[-1] >= number:  # the latest is not there yet
            length = self._whole.starts[number]
            whole = self._measured(length)
            opened = with_opening(whole, most_tokens=self._opening_tokens)
            return whole, opened, self._fitter.checkpoints(whole, opened)[-1]
        whole = opened = beginning(self._whole, number)
        if self._opened.has_opening:
            opened = beginning(self._opened, number)
        place = bisect_right(self._checkpoints, number, key=lambda one: one.exchanges)
        return whole, opened, self._checkpoints[place - 1]

    def _carry(self, history: MeasuredHistory, cut: Cut, /, *, window_from: int) -> CarriedOut:
        """Carry a cut out; one that was carried out before gets what came in since."""
        length = len(history.exchanges)
        # The latest summary is an anchor; with it others are none any more.
        summaries = bisect_left(self._summaries, length)
        key = (replace(cut, level=None), window_from, summaries, history.has_opening)
        before = self._carried.pop(key, None)
        if before is None or before.exchanges > length or cut.whole_from > before.exchanges:
            done = self._carrier(history, cut, window_from=window_from)
        else:
            done = before.done.followed_by(history, before.exchanges)
        self._carried[key] = _Carried(done=done, exchanges=length)
        while len(self._carried) > _MOST_KEPT_CUTS:
            self._carried.pop(next(iter(self._carried)))
        return done


def _grown(history: MeasuredHistory, done: CarriedOut, cut: Cut) -> GrownCut:
    return GrownCut(
        messages=done.messages,
        message_tokens=tuple(piece.tokens for piece in done.pieces),
        level=cut.identity,
        dropped=sum(len(history.exchanges[number]) for number in done.dropped),
        shortened=len(done.entries),
    )
