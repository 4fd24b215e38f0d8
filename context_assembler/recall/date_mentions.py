"""Dates that a query names, whole or in part."""

import re
from datetime import datetime, timedelta
from typing import Final

from context_assembler.values.recall import DateMention

_MONTHS: Final = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_NAMES: Final = {name[:size]: at for at, name in enumerate(_MONTHS, 1) for size in (3, len(name))}
_NAME: Final = "(?P<month>" + "|".join(sorted(_NAMES, key=len, reverse=True)) + r")\b\.?"
_DAY: Final = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?\b"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)\b"
_PATTERNS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_YEAR}-(?P<month>[01]?\d)-(?P<day>[0-3]?\d)\b",
        rf"\b{_DAY}(?:\s+of)?\s+{_NAME}(?:,?\s+{_YEAR})?",
        rf"\b{_NAME}\s+{_DAY}(?:,?\s+{_YEAR})?",
        rf"\b{_NAME},?\s+(?:of\s+)?{_YEAR}",
        rf"\b(?:in|during|since|early|late|mid|last|this|of|on)[\s-]+{_NAME}",
        rf"\b(?:in|during|of|since)\s+{_YEAR}",
    )
)
_DAYS_AGO: Final = {"today": 0, "yesterday": 1, "tonight": 0}
_MAX_CHARS: Final = 4_000


def find_dates(query: str, *, now: datetime | None) -> tuple[DateMention, ...]:
    """Return the dates that the query names, each once, the most definite form of each.

    Args:
        now: What `today` and `yesterday` are counted from; without it they are not understood.
    """
    text = query[:_MAX_CHARS]
    found: list[DateMention] = []
    for pattern in _PATTERNS:
        found += [
            mention
            for match in pattern.finditer(text)
            if (mention := _mention(match.groupdict())) is not None
        ]
        text = pattern.sub(" ; ", text)
    if now is not None:
        words = set(re.findall("[a-z]+", text.lower()))
        for word in sorted(words & _DAYS_AGO.keys()):
            day = now - timedelta(days=_DAYS_AGO[word])
            found.append(DateMention(year=day.year, month=day.month, day=day.day))
    return tuple(dict.fromkeys(found))


def _mention(groups: dict[str, str | None]) -> DateMention | None:
    year, month, day = (groups.get(name) for name in ("year", "month", "day"))
    month_number = None if month is None else _NAMES.get(month.lower()) or int(month)
    day_number = None if day is None else int(day)
    if (month_number or 1) > 12 or (day_number or 1) > 31 or month_number == 0 or day_number == 0:
        return None
    return DateMention(year=None if year is None else int(year), month=month_number, day=day_number)
