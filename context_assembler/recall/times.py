"""Times as people say them."""

from datetime import datetime
from typing import Final

_MONTHS: Final = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_UNITS: Final = (
    ("year", 365 * 86_400),
    ("month", 30 * 86_400),
    ("week", 7 * 86_400),
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
)
_YEAR_DAYS: Final = 365
_DAY_UNITS: Final = (("year", _YEAR_DAYS), ("month", 30), ("week", 7), ("day", 1))


def relative_time(moment: datetime | None, *, now: datetime) -> str:
    """Return how long ago something was, in the largest unit; empty without a time."""
    if moment is None:
        return ""
    seconds = (now - moment).total_seconds()
    for unit, length in _UNITS:
        count = int(abs(seconds) // length)
        if count:
            counted = f"{count} {unit}{'s' * (count != 1)}"
            return f"{counted} ago" if seconds > 0 else f"in {counted}"
    return "just now"


def date_of(moment: datetime | None) -> str:
    """Return on which day something was; empty without a time."""
    if moment is None:
        return ""
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def day_of(moment: datetime | None, *, now: datetime) -> str:
    """Return the line that stands above what was on one day, with how long ago in the last year."""
    if moment is None:
        return "Undated:"
    if abs((now - moment).days) >= _YEAR_DAYS:
        return f"{date_of(moment)}:"  # "3 years ago" would say less than the date beside it
    return f"{date_of(moment)} ({_days_ago(moment, now=now)}):"


def _days_ago(moment: datetime, *, now: datetime) -> str:
    days = (now.astimezone(moment.tzinfo).date() - moment.date()).days
    if days == 0:
        return "today"
    if days == 1:
        return "yesterday"
    unit, length = next(row for row in _DAY_UNITS if abs(days) >= row[1])
    count = abs(days) // length
    counted = f"{count} {unit}{'s' * (count != 1)}"
    return f"{counted} ago" if days > 0 else f"in {counted}"
