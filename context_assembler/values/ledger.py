"""Who uses how many tokens of the window."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, TypeAlias

LedgerKind: TypeAlias = Literal["system", "tools", "history", "notes", "overhead"]


@dataclass(frozen=True, kw_only=True)
class LedgerRow:
    """One user of the window."""

    kind: LedgerKind
    name: str
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The one table of the window's tokens.

    Attributes:
        window_tokens: The model's window.
        reserve_tokens: Set aside for the reply.
        budget_tokens: What system, tools, history and notes may use together.
        rows: What they do use, one row per section, tool, and for history and notes.
        counter: Name of the counter behind the figures; `is_exact` tells whether it guesses.
        factor: What reported usage corrects new counts by; what was sent before keeps its own.
        anchored_tokens: What the provider charged for the last call plus the count of what came in
            since; `None` where the last prompt is not the beginning of this one.
        counted_tokens: The provider's own count of this payload (`exact=True`), or `None`.
    """

    window_tokens: int
    reserve_tokens: int
    budget_tokens: int
    rows: tuple[LedgerRow, ...] = ()
    counter: str = ""
    is_exact: bool = False
    factor: float = 1.0
    anchored_tokens: int | None = None
    counted_tokens: int | None = None

    def tokens_of(self, *kinds: LedgerKind) -> int:
        """Return the tokens of all rows of these kinds."""
        return sum(row.tokens for row in self.rows if row.kind in kinds)

    @property
    def fixed_tokens(self) -> int:
        """System prompt, tools and the request's own overhead: what no truncation can free."""
        return self.tokens_of("system", "tools", "overhead")

    @property
    def room_tokens(self) -> int:
        """What is left for history and notes; negative when the fixed part alone is too big."""
        return self.budget_tokens - self.fixed_tokens

    @property
    def used_tokens(self) -> int:
        """All rows together."""
        return sum(row.tokens for row in self.rows)

    @property
    def expected_tokens(self) -> int:
        """What the provider will charge, as near as is known; no cut is made by it."""
        known = (self.counted_tokens, self.anchored_tokens)
        return next((tokens for tokens in known if tokens is not None), self.used_tokens)

    @property
    def free_tokens(self) -> int:
        """What of the budget nobody uses."""
        return self.budget_tokens - self.used_tokens


def divide_tokens(whole: int, weights: Sequence[int]) -> list[int]:
    """Divide a whole number by weights so that the shares add up to it."""
    bounds = [0, *accumulate(weights)]
    divisor = bounds[-1] or 1
    ends = [whole * bound // divisor for bound in bounds]
    ends[-1] = whole
    return [end - start for start, end in pairwise(ends)]
