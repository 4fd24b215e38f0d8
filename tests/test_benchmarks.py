"""What the benchmarks beside other libraries make of what they measured."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.beside.long_sessions import due_for_reply, marked
from benchmarks.beside.losses import losses
from benchmarks.beside.page import page_of
from benchmarks.beside.peer_times import growth_exponent
from benchmarks.beside.replays import cost_on_curve, pooled
from benchmarks.beside.tables import percent
from benchmarks.peers.context_assembler_peers import Ours, Steps, exchange

SHARES = {
    "utilisation": 0.8,
    "openai_strict": 1.0,
    "openai_hard": 1.0,
    "anthropic_strict": 1.0,
    "anthropic_hard": 1.0,
    "cached_fraction": 0.9,
    "last10": 1.0,
    "newest": 1.0,
    "first_user": 1.0,
    "pins": None,
    "coverage": 1.0,
    "worst_ratio": 0.9,
}


def replayed(turns: int, *, over: float, cost: float) -> dict[str, Any]:
    costs = {prices: {"vs_no_trim": cost} for prices in ("anthropic", "openai")}
    return {**SHARES, "turns": turns, "over_budget": over, "cost": costs}


def timed(**ms_by_cell: float) -> dict[str, Any]:
    return {
        cell.replace("__", "|").replace("_of_", "-") + "|0.5": {"trim_ms": ms, "error": None}
        for cell, ms in ms_by_cell.items()
    }


RESULTS: dict[str, Any] = {
    "machine": {
        "date": "2026-11-28",
        "plan": "quick",
        "python": "3.11",
        "system": "Linux",
        "machine": "x86_64",
        "cores": 2,
        "processor": "a processor",
    },
    "peers": {"context-assembler": {"version": "1"}, "quick-peer": {"version": "2"}},
    "missing": {"absent-peer": "absent is not installed"},
    "times": timed(
        context_of_assembler__tau__200=10.0,
        context_of_assembler__tau__1000=50.0,
    )
    | {"quick-peer|tau|1000|0.5": {"trim_ms": 1.0, "error": None}},
    "replays": {
        "context-assembler|tau|200|0.5": replayed(10, over=0, cost=0.8),
        "quick-peer|tau|200|0.5": replayed(10, over=0.4, cost=0.5),
    },
}


def test_figures_are_weighted_by_calls_and_costs_by_settings() -> None:
    rows = {
        "a|tau|200|0.25": replayed(30, over=0.2, cost=1.0),
        "a|tau|200|0.5": replayed(10, over=0.6, cost=2.0),
        "b|tau|200|0.5": replayed(10, over=0.0, cost=3.0),
    }

    both = pooled(rows, "a")

    assert both is not None
    assert both["over_budget"] == pytest.approx(0.3)
    assert both["cost_anthropic"] == pytest.approx(1.5)


def test_a_peer_without_figures_for_a_setting_has_no_mean() -> None:
    rows = {"a|tau|200|0.25": replayed(30, over=0.2, cost=1.0), "a|tau|200|0.5": {"error": "x"}}

    assert pooled(rows, "a") is None


def test_the_curve_is_read_between_its_points_and_nowhere_else() -> None:
    curve = [(0.8, 0.8), (0.6, 0.6)]

    assert cost_on_curve(curve, 0.7) == pytest.approx(0.7)
    assert cost_on_curve(curve, 0.9) is None


def test_nearly_all_and_nearly_none_are_told_apart_from_all_and_none() -> None:
    assert [percent(share) for share in (1, 0.999, 0, 0.001, 0.5)] == [
        *("100", "99.9", "0", "0.1", "50")
    ]


def test_growth_is_the_slope_of_the_logarithms() -> None:
    linear = timed(a__tau__200=2.0, a__tau__1000=10.0, a__tau__5000=50.0)

    assert growth_exponent(linear, "a") == pytest.approx(1.0)


def test_the_page_names_what_is_better_elsewhere_and_what_was_left_out() -> None:
    page = page_of(RESULTS)

    assert "absent-peer: absent is not installed." in page
    assert any("quick-peer 0.50" in line for line in losses(RESULTS))
    assert "quick-peer 1.00" in page


def test_a_repeated_session_ends_where_an_answer_is_due() -> None:
    talk = [{"role": "user", "content": "go"}, *exchange(1)]

    again = [marked(message, 1) for message in talk]

    assert due_for_reply([*talk, *again[:2]]) == [*talk, again[0]]
    assert again[2]["tool_call_id"] == again[1]["tool_calls"][0]["id"] == "step_1_r1"


def test_our_adapter_keeps_what_the_harness_pins_and_fits() -> None:
    talk: list[dict[str, Any]] = [{"role": "system", "content": "Be kind.\n"}]
    for number in range(40):
        talk += [{"role": "user", "content": f"Question {number}."}, *exchange(number)]
    peer = Ours("ours", "")
    peer.configure({"pins": [31]})

    kept = peer.trim(talk, 4_000)
    peer.close()

    assert kept[0] == talk[0]
    assert talk[31]["content"] in [message["content"] for message in kept]
    assert len(kept) < len(talk)


def count_8000(_talk: list[dict[str, Any]]) -> int:
    return 8_000


def test_our_steps_go_on_with_one_exchange_more(monkeypatch: pytest.MonkeyPatch) -> None:
    # The harness counts the session that its budget is a share of.
    monkeypatch.setitem(sys.modules, "tokens", SimpleNamespace(count=count_8000))
    peer = Steps("steps", "")
    talk: list[dict[str, Any]] = [{"role": "user", "content": "go"}]

    first = peer.export(peer.trim_native(peer.prepare(talk), 4_000))
    second = peer.export(peer.trim_native(peer.prepare(talk), 4_000))
    peer.close()

    assert len(second) == len(first) + 2
