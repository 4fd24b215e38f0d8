"""Time zones by their IANA names."""

from datetime import UTC, tzinfo
from typing import Final

from context_assembler.errors import InvalidParameterError
from context_assembler.errors.base import did_you_mean

_NO_TIME_ZONES: Final = (
    "This system knows no time zone but 'UTC'; pip install tzdata brings the others."
)


def open_zone(name: str) -> tzinfo:
    """Return the time zone of that name.

    Raises:
        InvalidParameterError: There is none, or this system knows no time zones.
    """
    if name == "UTC":
        return UTC  # known even where no time zone database is installed
    from zoneinfo import ZoneInfo, available_timezones  # noqa: PLC0415 - slow to import

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError, TypeError):
        known = available_timezones()
        hint = did_you_mean(str(name), known, otherwise="Use 'UTC'.") if known else _NO_TIME_ZONES
        raise InvalidParameterError(
            "time_zone", name, rule="must be the name of an IANA time zone", remedy=hint
        ) from None
