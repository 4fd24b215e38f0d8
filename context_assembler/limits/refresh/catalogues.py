"""What other catalogues say about models, in the fields of model_limits.yaml."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from context_assembler.values.limits import ModelLimits

Figure: TypeAlias = float | str
Figures: TypeAlias = Mapping[str, Figure]

# A catalogue with one figure for the prompt means the window or the input limit; nobody can tell.
PROMPT_FIELD: Final = "limits.prompt"
PRICE_FIELDS: Final = ("input", "output", "cache_read", "cache_write")
_DOLLARS_DIGITS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where figures come from; `is_vendor` where the model's own vendor says so itself."""

    name: str
    version: str = ""
    sha256: str = ""
    is_vendor: bool = False

    @property
    def label(self) -> str:
        """The name with its version."""
        return f"{self.name} {self.version}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What one catalogue says about one model of a vendor (spelled as `ModelLimits.provider`)."""

    vendor: str
    model: str
    figures: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Everything that one source says."""

    source: Source
    listings: tuple[Listing, ...]


def known_figures(figures: Iterable[tuple[str, float | str | None]]) -> dict[str, Figure]:
    """Return what is really said: a zero, or nothing, is how catalogues say that they do not know."""
    return {
        name: value
        for name, value in figures
        if value is not None and (value != "" if isinstance(value, str) else value > 0)
    }


def dollars(amount: float) -> float:
    """Return a price without what floating point added to it."""
    return round(amount, _DOLLARS_DIGITS)


def listing_of(row: ModelLimits, catalogue: Catalogue) -> Listing | None:
    """Return what a catalogue says about a row, found by id, API id or alias, and only exactly.

    An id that is merely like the row's is another model, or the same one on another host.
    """
    listings = {
        listing.model.lower(): listing
        for listing in catalogue.listings
        if listing.vendor == row.provider
    }
    names = (row.id, row.api_id, *row.aliases)
    return next((listings[name.lower()] for name in names if name.lower() in listings), None)
