"""A clock that is set by hand."""

from typing import Final

from context_assembler.errors import InvalidParameterError
from context_assembler.values.given import check_type

_MOST_SECONDS: Final = 1e15


class ManualClock:
    """A `Clock` that stands still until it is moved.

    Raises:
        InvalidParameterError: `seconds` is no number.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        _check_seconds(seconds)
        self._seconds = seconds

    def __call__(self) -> float:
        """Return the seconds that the clock shows."""
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Move the clock forward.

        Raises:
            InvalidParameterError: `seconds` is no number.
            ValueError: `seconds` is negative: time does not run backwards.
        """
        _check_seconds(seconds)
        if seconds < 0:
            raise ValueError(f"a clock moves forward only; got {seconds!r} seconds")
        self._seconds += seconds


def _check_seconds(given: object) -> None:
    check_type("seconds", given, int, float, such_as="a number of seconds since 1970")
    if isinstance(given, (int, float)) and not -_MOST_SECONDS < given < _MOST_SECONDS:
        raise InvalidParameterError(
            "seconds",
            given,
            rule="must be a time that there is",
            remedy="Pass seconds, such as 1.5.",
        )
