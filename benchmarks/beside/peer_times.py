"""Times of ours and of the peers from one run, taken in turns by the harness."""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.beside.harness import Harness
from benchmarks.beside.long_sessions import prepare_session
from benchmarks.beside.plans import OURS, WARM, Plan

FAMILY: Final = "tau"
Specs = Sequence[Mapping[str, Any]]


def time_calls(harness: Harness, specs: Specs, plan: Plan) -> dict[str, Any]:
    """Return the harness's table of times, by `name|family|length|share`."""
    table: dict[str, Any] = {}
    by_length = dict.fromkeys(plan.lengths, specs)
    for length, timed in by_length.items():
        _add(table, harness, timed, length, plan)
    longest = plan.lengths[-1]
    for length in plan.long_lengths:
        quick = [
            spec
            for spec in specs
            if spec["name"] in (OURS, WARM)
            or (_ms(table, spec["name"], longest) or math.inf) < plan.long_below_ms
        ]
        _add(table, harness, quick, length, plan)
        longest = length
    return table


def _add(table: dict[str, Any], harness: Harness, specs: Specs, length: int, plan: Plan) -> None:
    run = harness.module("run")
    prepare_session(harness, FAMILY, 50)
    prepare_session(harness, FAMILY, length)
    rounds = plan.rounds if length <= 5_000 else 3
    timeout = plan.timeout_seconds if length <= 5_000 else max(120.0, plan.timeout_seconds)
    table.update(run.timing(specs, FAMILY, (length,), plan.timed_shares, {length: rounds}, timeout))


def _ms(table: Mapping[str, Any], name: str, length: int) -> float | None:
    cell = table.get(f"{name}|{FAMILY}|{length}|0.5")
    return None if cell is None or cell["error"] else cell["trim_ms"]


def growth_exponent(table: Mapping[str, Any], name: str) -> float | None:
    """Return the slope of log time over log length, from 200 messages on."""
    points = [
        (math.log(int(length)), math.log(cell["trim_ms"]))
        for key, cell in table.items()
        for peer, family, length, share in [key.split("|")]
        if peer == name and family == FAMILY and share == "0.5" and int(length) >= 200
        if cell["trim_ms"] and not cell["error"]
    ]
    if len(points) < 2:
        return None
    middle = statistics.fmean(x for x, _ in points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    height = statistics.fmean(y for _, y in points)
    return sum((x - middle) * (y - height) for x, y in points) / spread


def time_first_calls(harness: Harness, specs: Specs, *, runs: int) -> dict[str, float | None]:
    """Return milliseconds of a process's first call, imports and tokenizer included."""
    measured: dict[str, float | None] = harness.module("run").cold(specs, runs)
    return measured


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
