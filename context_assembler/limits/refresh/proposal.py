"""Which fields of the registry nobody backs any more, and what to write instead."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from math import isclose
from typing import Final, Literal

from context_assembler.limits.lifecycle import price_at
from context_assembler.limits.refresh.catalogues import (
    PRICE_FIELDS,
    PROMPT_FIELD,
    Catalogue,
    Figure,
    Source,
    listing_of,
)
from context_assembler.values.limits import ModelLimits, Price

_LARGEST_STEP: Final = 5.0
_ROUNDED_TO: Final = 100_000
_ROUNDING: Final = 0.05
_FIELDS: Final = (
    "limits.window",
    "limits.input",
    "limits.output",
    *(f"prices.{name}" for name in PRICE_FIELDS),
    "status",
    "retires_on",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one source says a field should be."""

    source: Source
    value: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A field that no source backs any more, and what the most of them say.

    Attributes:
        decision: `auto` may be taken over as it is; `review` asks a person.
        reasons: Why a person is asked.
        claims: Who says `proposed`.
        against: Who says something else again.
    """

    model: str
    field: str
    previous: Figure | None
    proposed: Figure
    decision: Literal["auto", "review"]
    reasons: tuple[str, ...]
    claims: tuple[Claim, ...]
    against: tuple[Claim, ...]


def propose_changes(
    rows: Iterable[ModelLimits], catalogues: Sequence[Catalogue], *, today: date
) -> list[Change]:
    """Return the changes that the catalogues suggest, in order of the rows.

    A field is left alone while one source backs it, and where its row locks it.
    """
    return [change for row in rows for change in _changes(row, catalogues, today)]


def unlisted_models(
    known: Iterable[ModelLimits], catalogues: Iterable[Catalogue]
) -> dict[str, list[str]]:
    """Return, by vendor, the models of the vendors' own APIs that no row answers to exactly."""
    names = {name.lower() for row in known for name in (row.id, row.api_id, *row.aliases)}
    found: dict[str, list[str]] = {}
    for catalogue in catalogues:
        for listing in catalogue.listings if catalogue.source.is_vendor else ():
            if listing.model.lower() not in names:
                found.setdefault(listing.vendor, []).append(listing.model)
    return found


def _changes(row: ModelLimits, catalogues: Iterable[Catalogue], today: date) -> Iterator[Change]:
    claims_by_field: dict[str, list[Claim]] = {}
    for catalogue in catalogues:
        listing = listing_of(row, catalogue)
        for name, value in listing.figures.items() if listing else ():
            field = _field_meant(row, name, value)
            claims_by_field.setdefault(field, []).append(
                Claim(source=catalogue.source, value=value)
            )
    ours = _figures_of(row, today)
    for field in _FIELDS:
        claims = claims_by_field.get(field, [])
        is_backed = any(_agree(field, claim.value, ours[field]) for claim in claims)
        if claims and not is_backed and field not in row.locked:
            yield _change(row.id, field, ours[field], claims)


def _field_meant(row: ModelLimits, name: str, value: Figure) -> str:
    if name != PROMPT_FIELD:
        return name
    if row.input_tokens is None or _agree("limits.window", value, row.window_tokens):
        return "limits.window"
    return "limits.input"


def _figures_of(row: ModelLimits, today: date) -> Mapping[str, Figure | None]:
    price = price_at(row, today=today) or Price()
    return {
        "limits.window": row.window_tokens,
        "limits.input": row.input_tokens,
        "limits.output": row.output_tokens,
        "prices.input": price.input,
        "prices.output": price.output,
        "prices.cache_read": price.cache_read,
        "prices.cache_write": price.cache_write,
        "status": row.status,
        "retires_on": row.retires_on.isoformat() if row.retires_on else None,
    }


def _agree(field: str, theirs: Figure, ours: Figure | None) -> bool:
    if ours is None or isinstance(ours, str) or isinstance(theirs, str):
        return theirs == ours
    if isclose(theirs, ours, rel_tol=1e-6):
        return True
    is_rounded = field == "limits.window" and theirs % _ROUNDED_TO == 0
    return is_rounded and isclose(theirs, ours, rel_tol=_ROUNDING)


def _change(model: str, field: str, previous: Figure | None, claims: Sequence[Claim]) -> Change:
    def supporters(value: Figure) -> tuple[Claim, ...]:
        return tuple(claim for claim in claims if _agree("", claim.value, value))

    values = [claim.value for claim in claims]
    proposed = max(values, key=lambda value: len(supporters(value)))
    backers = supporters(proposed)
    against = tuple(claim for claim in claims if claim not in backers)
    reasons = tuple(_reasons(field, previous, proposed, backers=backers, against=against))
    return Change(
        model=model,
        field=field,
        previous=previous,
        proposed=proposed,
        decision="review" if reasons else "auto",
        reasons=reasons,
        claims=backers,
        against=against,
    )


def _reasons(
    field: str,
    previous: Figure | None,
    proposed: Figure,
    *,
    backers: Sequence[Claim],
    against: Sequence[Claim],
) -> Iterator[str]:
    if len(backers) < 2 and not backers[0].source.is_vendor:
        yield "one source only"
    if against:
        yield "the sources disagree"
    if field in {"status", "retires_on"}:
        yield "a lifecycle is never taken over unseen"
    if previous is None:
        yield "the row leaves it open"
    elif not isinstance(previous, str) and not isinstance(proposed, str):
        if field.startswith("limits.") and proposed < previous:
            yield "a limit that shrinks"
        step = max(proposed, previous) / min(proposed, previous)
        if field.startswith("prices.") and step > _LARGEST_STEP:
            yield "a price that moves more than fivefold"
