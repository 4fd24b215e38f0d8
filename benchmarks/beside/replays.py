"""Agent loops played again by the harness, two peers at a time: nothing in them is a matter of time."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Final

from benchmarks.beside.harness import Harness
from benchmarks.beside.plans import Plan

LENGTH: Final = 200


def replay(
    harness: Harness, specs: Sequence[Mapping[str, Any]], plan: Plan
) -> dict[str, dict[str, Any]]:
    """Return the harness's summaries, by `name|family|length|share`."""
    run = harness.module("run")
    sessions = harness.module("sessions")
    sequence = [(family, LENGTH, list(seeds)) for family, seeds in plan.replays]
    for family, length, seeds in sequence:
        for seed in seeds:
            sessions.path(family, length, seed)  # built before two processes ask for it

    def play(spec: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        played: dict[str, dict[str, Any]] = run.replay_all(
            [spec], sequence, plan.shares, plan.replay_seconds
        )
        return played

    table: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(2) as pool:
        for played in pool.map(play, specs):
            table.update(played)
    return table


def pooled(replayed: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, float] | None:
    """Return one peer's figures over all families and budgets, weighted by calls as the harness does.

    Costs are means over the settings. Nothing where one of the settings has no figures: a mean over
    fewer is nothing to set beside others. `coverage` says how far the sessions were played.
    """
    played = {key: row for key, row in replayed.items() if key.split("|")[0] == name}
    rows = [row for row in played.values() if "turns" in row]
    if not rows or len(rows) < len(played):
        return None
    turns = sum(int(row["turns"]) for row in rows)

    def mean(field: str) -> float:
        total: float = sum(float(row[field] or 0) * row["turns"] for row in rows)
        return total / turns

    def cost(prices: str) -> float:
        return sum(float(row["cost"][prices]["vs_no_trim"]) for row in rows) / len(rows)

    fields = (
        "over_budget utilisation openai_hard openai_strict anthropic_hard anthropic_strict "
        "cached_fraction last10 newest first_user pins"
    )
    return {
        **{field: mean(field) for field in fields.split()},
        "turns": turns,
        "coverage": min(float(row["coverage"]) for row in rows),
        "worst_ratio": max(float(row["worst_ratio"]) for row in rows),
        "cost_anthropic": cost("anthropic"),
        "cost_openai": cost("openai"),
    }


def cost_on_curve(curve: Sequence[tuple[float, float]], fill: float) -> float | None:
    """Return the cost that points of (fill, cost) give at a fill in between; `None` outside them."""
    points = sorted(curve)
    for (low, cost_low), (high, cost_high) in pairwise(points):
        if low <= fill <= high:
            share = (fill - low) / (high - low) if high > low else 0.0
            return cost_low + share * (cost_high - cost_low)
    return None
