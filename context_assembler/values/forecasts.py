"""What a call will find in the prompt cache, and what its input will cost."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from context_assembler.values.prices import InputPrice
from context_assembler.values.prompt_caches import CacheSplit

BrokenPiece: TypeAlias = Literal["model", "section", "tool", "message"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixBreak:
    """Where a call stops to be what the call before it was, and why.

    `shared_tokens` stand before that place, as far as is known.
    """

    piece: BrokenPiece
    id: str
    reason: str
    shared_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheForecast:
    """What the provider will read, write and charge of one call's input.

    Attributes:
        after: The reply whose call this one is held against, by its event's id; empty: there is
            none.
        broken: Where this call is not what that one was; `None`: it begins with all of it.
    """

    split: CacheSplit
    price: InputPrice
    after: str = ""
    broken: PrefixBreak | None = None

    @property
    def read_share(self) -> float:
        """The share of the input that is read from the cache."""
        total = self.split.total_tokens
        return self.split.read_tokens / total if total else 0.0


class Outlook(Protocol):
    """Works out a forecast when it is asked for, since that takes as long as rendering."""

    @property
    def held_messages(self) -> int:
        """How many messages it keeps in memory: all of the history, of which some may be cut."""
        ...

    def at(self, now: datetime) -> "Outlook":
        """Return the same for a call that is made at this time."""
        ...

    def forecast(self) -> CacheForecast:
        """Return what the provider will read, write and charge."""
        ...
