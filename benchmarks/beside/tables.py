"""What a run measured, as tables in Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.beside.peer_times import FAMILY, growth_exponent
from benchmarks.beside.plans import OURS, REFERENCE, WARM
from benchmarks.beside.replays import cost_on_curve, pooled

_CURVE: Final = "ref-ideal-hysteresis-"
_BUDGETS: Final = (0.25, 0.5, 0.9)


def all_tables(results: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield title and table of everything that was measured."""
    if "replays" in results:
        yield "What is sent, over all replays", _quality(results)
        yield "Cost at equal fill", _curve(results)
    if "times" in results:
        yield "Milliseconds per call", _times(results)
    if "first" in results:
        yield "First call of a process", _firsts(results)
    if "ours" in results:
        yield "Ours alone", _ours(results["ours"])
    if results.get("missing"):
        yield "Left out", "\n".join(f"- {n}: {why}." for n, why in results["missing"].items())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def names(results: Mapping[str, Any]) -> list[str]:
    """Return what was measured: ours first, then the peers, then the references."""

    def rank(name: str) -> tuple[bool, bool, str]:
        return not name.startswith(OURS), name.startswith(REFERENCE), name

    return sorted(results.get("peers", {}), key=rank)


def _bold(name: str) -> str:
    return f"**{name}**" if name.startswith(OURS) else name


def percent(share: float) -> str:
    """Return a share so that 100 and 0 mean all and none."""
    shown = f"{share * 100:.0f}"
    if (shown == "100" and share < 1) or (shown == "0" and share > 0):
        return f"{share * 100:.1f}"
    return shown


def _quality(results: Mapping[str, Any]) -> str:
    rows: list[list[str]] = []
    for name in names(results):
        row = pooled(results["replays"], name)
        if row is None:
            continue
        shares = (
            "over_budget",
            "utilisation",
            "openai_strict",
            "anthropic_strict",
            "cached_fraction",
        )
        kept = ("last10", "first_user", "pins")
        rows.append(
            [
                _bold(name),
                percent(row["coverage"]),
                percent(row["over_budget"]),
                f"{row['worst_ratio']:.2f}",
                *(percent(row[field]) for field in shares[1:]),
                f"{row['cost_anthropic']:.2f}",
                f"{row['cost_openai']:.2f}",
                *(percent(row[field]) for field in kept),
            ]
        )
    head = [
        *("", "% played", "% over budget", "worst × budget", "% filled", "% OpenAI-strict"),
        *("% Anthropic-strict", "% cached", "cost A", "cost O"),
        *("% last ten", "% task", "% pins"),
    ]
    return table(head, rows)


def curve_points(
    results: Mapping[str, Any], budget: float | None = None
) -> list[tuple[float, float]]:
    """Return fill and cost of the reference at each of its settings."""
    points: list[tuple[float, float]] = []
    for name in names(results):
        if name.startswith(_CURVE):
            row = pooled(_of_budget(results["replays"], budget), name)
            if row is not None:
                points.append((row["utilisation"], row["cost_anthropic"]))
    return points


def _of_budget(replays: Mapping[str, Any], budget: float | None) -> dict[str, Any]:
    return {k: v for k, v in replays.items() if budget is None or k.endswith(f"|{budget}")}


def _curve(results: Mapping[str, Any]) -> str:
    rows: list[list[str]] = []
    for name in names(results):
        if not (name.startswith((OURS, _CURVE))) or name == WARM:
            continue
        cells: list[str] = []
        for budget in (None, *_BUDGETS):
            row = pooled(_of_budget(results["replays"], budget), name)
            if row is None:
                cells += ["–", "–"]
                continue
            fill, cost = row["utilisation"], row["cost_anthropic"]
            reference = cost_on_curve(curve_points(results, budget), fill)
            beside = "" if reference is None or name.startswith(_CURVE) else f" ({reference:.2f})"
            cells += [percent(fill), f"{cost:.2f}{beside}"]
        rows.append([_bold(name), *cells])
    head = ["", "% filled", "cost A"]
    for budget in _BUDGETS:
        head += [f"% filled, {budget:.0%}", "cost A"]
    return table(head, rows)


def milliseconds(ms: float | None) -> str:
    """Return a time with as many digits as it deserves."""
    if ms is None:
        return "–"
    if ms < 10:
        return f"{ms:.2f}"
    return f"{ms:,.0f}" if ms < 10_000 else f"{ms / 1e3:,.0f} s"


def _times(results: Mapping[str, Any]) -> str:
    times = results["times"]
    lengths = sorted({int(key.split("|")[2]) for key in times})
    rows: list[list[str]] = []
    for name in names(results):
        cells = [times.get(f"{name}|{FAMILY}|{length}|0.5") for length in lengths]
        if not any(cells):
            continue
        exponent = growth_exponent(times, name)
        shown = [
            "–" if cell is None else cell["error"] or milliseconds(cell["trim_ms"])
            for cell in cells
        ]
        version = results["peers"][name].get("version", "")
        rows.append([_bold(name), version, *shown, "–" if exponent is None else f"{exponent:.2f}"])
    return table(["", "version", *(f"{length:,}" for length in lengths), "growth"], rows)


def _firsts(results: Mapping[str, Any]) -> str:
    ours = results["first"].get(OURS)
    rows = [
        [_bold(name), milliseconds(ms), f"{ms / ours:.1f}" if ms and ours else "–"]
        for name in names(results)
        if (ms := results["first"].get(name)) is not None
    ]
    return table(["", "ms", "÷ ours"], rows)


def _ours(ours: Mapping[str, Any]) -> str:
    floor = ours["floor_ms"]
    ratio = f"{ours['first_ms'] / floor:.1f}" if floor else "–"
    rows = [
        ["First call on 5,000 messages, all but imports", milliseconds(ours["first_ms"])],
        [
            "… once more, by a new assembler in the same process",
            milliseconds(ours["first_again_ms"]),
        ],
        ["The harness's `index_trim_load` on the same session", milliseconds(floor)],
        ["First call ÷ `index_trim_load`", ratio],
        [
            "50 messages, from a process's start to its first payload",
            milliseconds(ours["process_ms"]),
        ],
        ["50 messages and 10 tools, by a new assembler", milliseconds(ours["typical_cold_ms"])],
        ["… by one that has never seen the session", milliseconds(ours["unseen_ms"])],
        ["… answered from our cache", f"{ours['cached_ms'] * 1e3:.0f} µs"],
    ]
    return table(["", "ms"], rows)
