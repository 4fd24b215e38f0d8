"""A clock that is set by hand."""


class ManualClock:
    """A `Clock` that stands still until it is moved."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    def __call__(self) -> float:
        """Return the seconds that the clock shows."""
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Move the clock forward.

        Raises:
            ValueError: `seconds` is negative: time does not run backwards.
        """
        if seconds < 0:
            raise ValueError(f"a clock moves forward only; got {seconds!r} seconds")
        self._seconds += seconds
