"""Cuts carried out, those included that have to shorten what is left."""

from dataclasses import dataclass, field

from context_assembler.ports import TokenCounter
from context_assembler.truncation.apply import CarriedOut, Piece, Stubs, carry_out, whole_pieces
from context_assembler.truncation.beginnings import beginning
from context_assembler.truncation.checkpoints import Cut
from context_assembler.truncation.history import MeasuredHistory, Rules
from context_assembler.truncation.overflow import least_tokens, shorten_to
from context_assembler.values.options import TruncationSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """Carries cuts of a growing history out; what was made once for it is made no more."""

    rules: Rules
    room_tokens: int
    counter: TokenCounter
    settings: TruncationSettings
    _stubs: Stubs = field(default_factory=Stubs)
    _whole: list[Piece] = field(default_factory=list[Piece])

    def __call__(
        self, history: MeasuredHistory, cut: Cut, /, *, window_from: int = 0
    ) -> CarriedOut:
        """Return what the cut leaves."""
        if cut.left_tokens is None:
            return self._dropped(history, cut, window_from=window_from)
        # As it was where the cut was made first: all that came in since stands behind it.
        count = cut.kept_from + 1
        first = beginning(history, count)
        done = shorten_to(
            cut.left_tokens,
            self._dropped(first, cut, window_from=window_from),
            history=first,
            room_tokens=self.room_tokens,
            settings=self.settings,
            counter=self.counter,
        )
        return done.followed_by(history, count)

    def least_tokens(self, history: MeasuredHistory, cut: Cut) -> int:
        """Return what a cut of all but the last exchange leaves, shortened as far as it has to be."""
        first = beginning(history, cut.kept_from + 1)
        return least_tokens(
            self._dropped(first, cut, window_from=0),
            history=first,
            room_tokens=self.room_tokens,
            settings=self.settings,
            counter=self.counter,
        )

    def _dropped(self, history: MeasuredHistory, cut: Cut, *, window_from: int) -> CarriedOut:
        known = self._whole[-1].exchange + 1 if self._whole else 0
        self._whole.extend(whole_pieces(history, known))
        return carry_out(
            history,
            cut,
            rules=self.rules,
            stub_tokens=self.settings.stub_tokens,
            counter=self.counter,
            whole=self._whole,
            stubs=self._stubs,
            window_from=window_from,
        )
