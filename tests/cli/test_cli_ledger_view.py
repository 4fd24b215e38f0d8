from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from context_assembler.cli.ledger_view import (
    ledger_bar,
    ledger_legend,
    ledger_summary,
    ledger_table,
)
from context_assembler.values.ledger import Ledger, LedgerKind, LedgerRow

rows = st.builds(
    LedgerRow,
    kind=st.sampled_from(get_args(LedgerKind)),
    name=st.just("x"),
    tokens=st.integers(0, 50_000),
)


def shown(renderable: RenderableType) -> str:
    console = Console(width=100, no_color=True)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def ledger(*used: LedgerRow, budget_tokens: int = 1_000) -> Ledger:
    return Ledger(
        window_tokens=8_000,
        reserve_tokens=500,
        budget_tokens=budget_tokens,
        rows=used,
        counter="words",
        is_exact=True,
    )


def row(kind: LedgerKind, tokens: int, name: str = "x") -> LedgerRow:
    return LedgerRow(kind=kind, name=name, tokens=tokens)


@given(st.lists(rows, max_size=12), st.integers(1, 200_000), st.integers(7, 120))
def test_the_bar_has_its_width_and_a_cell_for_whoever_uses_tokens(
    used: list[LedgerRow], budget_tokens: int, cells: int
) -> None:
    drawn = ledger(*used, budget_tokens=budget_tokens)

    bar = ledger_bar(drawn, cells=cells).plain

    kinds = {entry.kind for entry in used if entry.tokens}
    is_exactly_full = drawn.free_tokens == 0
    assert len(bar) == cells
    assert len(set(bar)) == len(kinds) + (not is_exactly_full)


BARS = {
    "an empty window is free": ((), 1_000, "·" * 10),
    "parts have their share": (
        (row("system", 200), row("history", 500)),
        1_000,
        "██▒▒▒▒▒···",
    ),
    "a sliver has a cell of its own": ((row("overhead", 1),), 1_000, "=·········"),
    "what is too much is marked": ((row("system", 2_000),), 1_000, "███████!!!"),
    "a window of nothing is an empty bar": ((), 0, ""),
}


@pytest.mark.parametrize(("used", "budget_tokens", "bar"), BARS.values(), ids=BARS.keys())
def test_bar(used: tuple[LedgerRow, ...], budget_tokens: int, bar: str) -> None:
    assert ledger_bar(ledger(*used, budget_tokens=budget_tokens), cells=10).plain == bar


def test_the_legend_explains_every_cell_of_the_bar() -> None:
    drawn = ledger(row("system", 100), row("notes", 50), row("tools", 250))

    legend = shown(ledger_legend(drawn)).rstrip()

    assert legend == "█ system prompt 100   ▓ tools 250   # notes 50   · free 600"


def test_the_summary_says_how_the_window_is_divided() -> None:
    assert ledger_summary(ledger(row("system", 100))) == (
        "100 of 1,000 tokens used; the reply has 500, the window 8,000 (counted by words)."
    )


def test_a_long_kind_shows_its_largest_rows_and_the_sum_of_the_rest() -> None:
    tools = [row("tools", tokens, f"tool_{tokens}") for tokens in range(1, 21)]

    table = shown(ledger_table(ledger(*tools)))

    assert "tool_20" in table
    assert "tool_13" not in table
    assert "13 more" in table
    assert "91" in table  # 1 + 2 + … + 13


def test_the_table_of_a_budget_of_nothing_has_no_shares() -> None:
    assert "–" in shown(ledger_table(ledger(row("system", 10), budget_tokens=0)))
