from dataclasses import replace
from datetime import date

import pytest

from context_assembler.limits.lifecycle import lifecycle_notes, lifecycle_warnings, price_at
from context_assembler.values.limits import ModelLimits, ModelStatus, Price

TODAY = date(2026, 11, 27)

PRICES = (
    Price(input=1.0),
    Price(input=2.0, above_input_tokens=100),
    Price(input=3.0, from_date=date(2026, 12, 1)),
    Price(input=4.0, from_date=date(2026, 12, 1), above_input_tokens=100),
)

CHARGED = {
    "the first price": (TODAY, 0, 1.0),
    "up to the step": (TODAY, 100, 1.0),
    "above the step": (TODAY, 101, 2.0),
    "on the day of the change": (date(2026, 12, 1), 100, 3.0),
    "above the step after the change": (date(2027, 1, 1), 5000, 4.0),
}

WARNED: dict[str, tuple[ModelStatus, date | None, str | None]] = {
    "active": ("active", None, None),
    "legacy": ("legacy", None, None),
    "retired": ("retired", date(2026, 1, 5), "m is retired since 2026-01-05."),
    "retired without a date": ("retired", None, "m is retired."),
    "retired ahead of its date": ("retired", date(2027, 1, 1), "m is retired."),
    "past its date": ("deprecated", TODAY, "m is retired since 2026-11-27."),
    "a day left": ("active", date(2026, 11, 28), "m retires on 2026-11-28, tomorrow."),
    "three days left": ("deprecated", date(2026, 11, 30), "m retires on 2026-11-30, in 3 days."),
    "60 days left": ("active", date(2027, 1, 26), "m retires on 2027-01-26, in 60 days."),
    "61 days left": ("active", date(2027, 1, 27), None),
    "deprecated": ("deprecated", None, "m is deprecated."),
    "deprecated for long": (
        "deprecated",
        date(2027, 6, 1),
        "m is deprecated and retires on 2027-06-01.",
    ),
}


def model(
    *,
    status: ModelStatus = "active",
    retires_on: date | None = None,
    prices: tuple[Price, ...] = (),
    is_assumed: bool = False,
) -> ModelLimits:
    return ModelLimits(
        id="m",
        provider="p",
        window_tokens=10,
        status=status,
        retires_on=retires_on,
        prices=prices,
        is_assumed=is_assumed,
        asked_id="x/m",
    )


@pytest.mark.parametrize(("today", "tokens", "price"), CHARGED.values(), ids=CHARGED.keys())
def test_the_price_of_day_and_size_holds(today: date, tokens: int, price: float) -> None:
    found = price_at(model(prices=PRICES), today=today, input_tokens=tokens)

    assert found is not None
    assert found.input == price


def test_no_known_price_is_none() -> None:
    assert price_at(model(), today=TODAY) is None
    assert price_at(model(prices=PRICES[2:]), today=TODAY) is None


@pytest.mark.parametrize(("status", "retires_on", "warning"), WARNED.values(), ids=WARNED.keys())
def test_the_user_hears_of_retirement(
    status: ModelStatus, retires_on: date | None, warning: str | None
) -> None:
    limits = model(status=status, retires_on=retires_on)

    assert lifecycle_warnings(limits, TODAY) == ([warning] if warning else [])


def test_the_user_hears_of_a_price_that_changes_soon_once() -> None:
    limits = model(prices=PRICES)

    assert lifecycle_notes(limits, TODAY) == ["The price of m changes on 2026-12-01."]
    assert lifecycle_notes(limits, date(2026, 12, 1)) == []
    assert lifecycle_notes(limits, date(2026, 10, 1)) == []


def test_a_price_that_changes_does_not_concern_a_request() -> None:
    limits = model(prices=PRICES, retires_on=date(2026, 11, 30))

    assert lifecycle_warnings(limits, TODAY) == ["m retires on 2026-11-30, in 3 days."]
    assert lifecycle_notes(limits, TODAY) == [
        "m retires on 2026-11-30, in 3 days.",
        "The price of m changes on 2026-12-01.",
    ]


def test_the_user_hears_that_limits_are_assumed() -> None:
    assert lifecycle_warnings(model(is_assumed=True), TODAY) == [
        "x/m is not in model_limits.yaml: assuming a window of 10 tokens and no price."
    ]


def test_an_assumed_reply_is_named_too() -> None:
    limits = replace(model(is_assumed=True), output_tokens=5)

    assert (
        "a window of 10 tokens, replies of 5 and no price" in lifecycle_warnings(limits, TODAY)[0]
    )


ON_A_HOST = {
    "its own date": (True, date(2026, 12, 1), "m on bedrock retires on 2026-12-01, in 4 days."),
    "its own date, passed": (True, TODAY, "m on bedrock is retired since 2026-11-27."),
    "the vendor's date": (
        False,
        TODAY,
        "m is retired since 2026-11-27 (the vendor's own date; bedrock may keep another).",
    ),
    "the vendor's warning": (
        False,
        None,
        "m is deprecated (the vendor's own date; bedrock may keep another).",
    ),
}


@pytest.mark.parametrize(
    ("has_host_dates", "retires_on", "warning"), ON_A_HOST.values(), ids=ON_A_HOST.keys()
)
def test_a_host_keeps_its_own_dates(
    has_host_dates: bool, retires_on: date | None, warning: str
) -> None:
    limits = replace(
        model(status="deprecated", retires_on=retires_on),
        host="bedrock",
        has_host_dates=has_host_dates,
    )

    assert lifecycle_warnings(limits, TODAY) == [warning]
