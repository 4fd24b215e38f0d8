"""Calibrations kept in this process."""

from collections.abc import Sequence
from threading import Lock

from context_assembler.ports import CalibrationStore, SessionStore
from context_assembler.values.calibration import Calibration, UsageObservation, learn
from context_assembler.values.given import check_type


class InMemoryCalibrations:
    """What was learned since the process began; usable from several threads."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], Calibration] = {}
        self._lock = Lock()

    async def calibrations(self) -> Sequence[Calibration]:
        """Return all that is known, by provider, model and shape of request."""
        with self._lock:
            return [self._known[key] for key in sorted(self._known)]

    async def observe_usage(self, seen: UsageObservation) -> Calibration:
        """Learn from one call, and return what is known since."""
        check_type("seen", seen, UsageObservation, such_as="UsageObservation(…)")
        key = (seen.provider, seen.model, seen.shape)
        with self._lock:
            self._known[key] = learn(self._known.get(key), seen)
            return self._known[key]


def calibrations_of(store: SessionStore) -> CalibrationStore:
    """Return where a session store keeps calibrations: in itself, or else in this process."""
    return store if isinstance(store, CalibrationStore) else InMemoryCalibrations()
