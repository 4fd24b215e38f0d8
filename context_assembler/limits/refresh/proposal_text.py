"""A proposal as a file of overrides, and as lines that people read."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby
from json import dumps
from typing import Final

from context_assembler.limits.lifecycle import price_at
from context_assembler.limits.refresh.catalogues import Figure, Source
from context_assembler.limits.refresh.proposal import Change
from context_assembler.values.limits import ModelLimits, Price

_HEAD: Final = """\
# Proposed by `context-assembler models refresh` on {today}, laid over model_limits.yaml.
# A field stands here as it would be taken over; a commented one wants a person's eye first.
# To use it: CONTEXT_ASSEMBLER_MODELS=<this file>, or copy what you checked.

sources:
"""
_PRICE_KEYS: Final[Mapping[str, str]] = {
    "input": "input",
    "output": "output",
    "cache_read": "cache_read",
    "cache_write": "cache_write",
    "cache_write_1h": "cache_write_1h",
    "from_date": "from",
    "above_input_tokens": "above",
}


def proposal_file(
    changes: Sequence[Change],
    rows: Mapping[str, ModelLimits],
    sources: Sequence[Source],
    *,
    today: date,
) -> str:
    """Return a file in the schema of model_limits.yaml that makes the `auto` changes.

    Those that want a review stand in it as comments, each with who says so and what was before.
    """
    lines = [_HEAD.format(today=today.isoformat())]
    for source in sources:
        digest = f", sha256 {source.sha256}" if source.sha256 else ""
        lines.append(f"  {dumps(source.name)}: {dumps(f'{source.label}{digest}')}\n")
    lines.append("\nmodels:\n")
    for model, grouped in groupby(changes, key=lambda change: change.model):
        lines += _row_lines(list(grouped), rows[model], today)
    return "".join(lines)


def _row_lines(changes: list[Change], row: ModelLimits, today: date) -> Iterator[str]:
    is_sure = any(change.decision == "auto" for change in changes)
    mark = "" if is_sure else "# "
    yield f"\n  {mark}{dumps(row.id)}:\n"
    for change in changes:
        yield f"    # {change_line(change)}\n"
    for decision in ("auto", "review"):
        chosen = [change for change in changes if change.decision == decision]
        mark = "" if decision == "auto" else "# "
        yield from (f"    {mark}{line}\n" for line in _fields(chosen, row, today))
    if is_sure:
        yield f"    meta: {{checked: {today.isoformat()}}}\n"


def _fields(changes: Sequence[Change], row: ModelLimits, today: date) -> Iterator[str]:
    figures = {change.field: change.proposed for change in changes}
    limits = {
        name.removeprefix("limits."): value
        for name, value in figures.items()
        if name.startswith("limits.")
    }
    prices = {
        name.removeprefix("prices."): value
        for name, value in figures.items()
        if name.startswith("prices.")
    }
    if limits:
        yield f"limits: {{{_pairs(limits)}}}"
    if prices:
        yield "prices: [" + ", ".join(_price_rows(row, prices, today)) + "]"
    for name in ("status", "retires_on"):
        if name in figures:
            yield f"{name}: {figures[name]}"


def _price_rows(row: ModelLimits, changed: Mapping[str, Figure], today: date) -> Iterator[str]:
    """Yield every price of the row: a list is replaced as a whole."""
    held = price_at(row, today=today)
    for price in row.prices or (Price(),):
        given = {
            key: value
            for name, key in _PRICE_KEYS.items()
            if (value := getattr(price, name)) not in (None, 0)
        }
        if held is None or price is held:
            given |= changed
        yield f"{{{_pairs(given)}}}"


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}: {_plain(value)}" for name, value in values.items())


def _plain(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def change_line(change: Change) -> str:
    """Return one change with its provenance, on one line."""
    said_by = ", ".join(claim.source.label for claim in change.claims)
    against = "; ".join(f"{_show(c.value)} says {c.source.label}" for c in change.against)
    why = f" ({', '.join(change.reasons)})" if change.reasons else ""
    otherwise = f"; but {against}" if against else ""
    return (
        f"{change.field}: {_show(change.previous)} → {_show(change.proposed)}, "
        f"say{'s' if len(change.claims) == 1 else ''} {said_by}{otherwise}; {change.decision}{why}"
    )


def change_lines(changes: Sequence[Change]) -> Iterator[str]:
    """Yield the changes as a diff of the registry's fields, model by model."""
    for model, grouped in groupby(changes, key=lambda change: change.model):
        yield f"@@ {model} @@"
        for change in grouped:
            said_by = ", ".join(claim.source.label for claim in change.claims)
            why = f": {', '.join(change.reasons)}" if change.reasons else ""
            yield f"-{change.field}: {_show(change.previous)}"
            yield f"+{change.field}: {_show(change.proposed)}    [{said_by}] {change.decision}{why}"
            for claim in change.against:
                yield f" {change.field}: {_show(claim.value)}    [{claim.source.label}] disagrees"


def _show(value: Figure | None) -> str:
    if value is None:
        return "not given"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"
