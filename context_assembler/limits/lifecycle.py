"""What a model costs and how long it lives, on a given day."""

from datetime import date, timedelta
from typing import Final

from context_assembler.values.limits import ModelLimits, Price

_RETIREMENT_NOTICE: Final = timedelta(days=60)
_PRICE_NOTICE: Final = timedelta(days=30)


def price_at(limits: ModelLimits, *, today: date, input_tokens: int = 0) -> Price | None:
    """Return the price of a request of this size on this day; `None` where none is known.

    Args:
        input_tokens: The whole prompt, cached or not: above a step the whole request is dearer.
    """
    valid = [
        price
        for price in limits.prices
        if (price.from_date or date.min) <= today
        and (not price.above_input_tokens or input_tokens > price.above_input_tokens)
    ]
    return max(
        valid,
        key=lambda price: (price.from_date or date.min, price.above_input_tokens),
        default=None,
    )


def lifecycle_warnings(limits: ModelLimits, today: date) -> list[str]:
    """Return what a request for this model should be warned of today, one sentence each.

    Retired or deprecated models, a retirement within 60 days, and limits that are assumed.
    """
    warnings: list[str] = []
    if limits.is_assumed:
        warnings.append(
            f"{limits.asked_id} is not in model_limits.yaml: assuming a window of "
            f"{limits.window_tokens:,} tokens{_reply(limits)} and no price."
        )
    if retirement := _retirement(limits, today):
        warnings.append(retirement)
    return warnings


def lifecycle_notes(limits: ModelLimits, today: date) -> list[str]:
    """Return what the user of this model should know today, one sentence each.

    The warnings, and a price that changes within 30 days, which no single request is concerned by.
    """
    changes = {price.from_date for price in limits.prices if price.from_date is not None}
    return [
        *lifecycle_warnings(limits, today),
        *(
            f"The price of {limits.id} changes on {day.isoformat()}."
            for day in sorted(changes)
            if today < day <= today + _PRICE_NOTICE
        ),
    ]


def _reply(limits: ModelLimits) -> str:
    return f", replies of {limits.output_tokens:,}" if limits.output_tokens else ""


def _retirement(limits: ModelLimits, today: date) -> str | None:
    retires_on = limits.retires_on
    name = f"{limits.id} on {limits.host}" if limits.has_host_dates else limits.id
    is_foreign = limits.host is not None and not limits.has_host_dates
    aside = f" (the vendor's own date; {limits.host} may keep another)" if is_foreign else ""
    is_past = retires_on is not None and retires_on <= today
    if limits.status == "retired" or is_past:
        since = f" since {retires_on.isoformat()}" if retires_on is not None and is_past else ""
        return f"{name} is retired{since}{aside}."
    if retires_on is not None and retires_on - today <= _RETIREMENT_NOTICE:
        days = (retires_on - today).days
        when = "tomorrow" if days == 1 else f"in {days} days"
        return f"{name} retires on {retires_on.isoformat()}, {when}{aside}."
    if limits.status == "deprecated":
        when = f" and retires on {retires_on.isoformat()}" if retires_on else ""
        return f"{name} is deprecated{when}{aside}."
    return None
