"""Where a peer does better than ours, figure by figure; read from the results, not chosen."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.beside.peer_times import FAMILY
from benchmarks.beside.plans import OURS, REFERENCE
from benchmarks.beside.replays import pooled
from benchmarks.beside.tables import milliseconds, percent

_Figures = Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measure:
    """A figure that peers are compared by."""

    told: str
    show: Callable[[float], str]
    less_is_better: bool
    least_gap: float  # a smaller difference is none


_SHARES: Final[Mapping[str, _Measure]] = {
    "worst_ratio": _Measure(
        told="largest payload ÷ budget", show=lambda x: f"{x:.2f}", less_is_better=True, least_gap=1
    ),
    "cost_anthropic": _Measure(
        told="input cost, Anthropic's prices",
        show=lambda x: f"{x:.2f}",
        less_is_better=True,
        least_gap=0.005,
    ),
    "cached_fraction": _Measure(
        told="cached, %", show=percent, less_is_better=False, least_gap=0.005
    ),
    "utilisation": _Measure(
        told="budget filled (never over it), %", show=percent, less_is_better=False, least_gap=0.005
    ),
    "last10": _Measure(
        told="last ten messages kept, %", show=percent, less_is_better=False, least_gap=0.005
    ),
    "pins": _Measure(told="pins kept, %", show=percent, less_is_better=False, least_gap=0.005),
}
_TIME: Final = _Measure(told="", show=milliseconds, less_is_better=True, least_gap=0.0)


def losses(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for every figure in which at least one peer does better."""
    peers = [n for n in results.get("peers", {}) if not n.startswith((OURS, REFERENCE))]
    if "times" in results:
        for length in sorted({int(key.split("|")[2]) for key in results["times"]}):
            figures = {
                name: (results["times"].get(f"{name}|{FAMILY}|{length}|0.5") or {}).get("trim_ms")
                for name in (OURS, *peers)
            }
            told = f"ms for a session of {length:,} messages that it never saw"
            yield from _line(told, _TIME, figures)
    if "first" in results:
        yield from _line("ms for the first call of a process", _TIME, results["first"])
    if "replays" in results:
        rows = {name: pooled(results["replays"], name) for name in (OURS, *peers)}
        for field, measure in _SHARES.items():
            fair = {
                name: row[field]
                for name, row in rows.items()
                if row is not None and (field != "utilisation" or not row["over_budget"])
            }
            yield from _line(measure.told, measure, fair)


def _line(told: str, measure: _Measure, figures: _Figures) -> Iterator[str]:
    ours = figures.get(OURS)
    if ours is None:
        return
    sign = 1 if measure.less_is_better else -1
    better = sorted(
        (sign * value, name)
        for name, value in figures.items()
        if value is not None
        and not name.startswith((OURS, REFERENCE))
        and sign * (ours - value) > measure.least_gap
    )
    if better:
        listed = ", ".join(f"{name} {measure.show(sign * value)}" for value, name in better)
        yield f"{told}: ours {measure.show(ours)}; {listed}."
