"""A Hypothesis strategy for sequences that suffered: rows lost, repeated, swapped or cut away."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

_T = TypeVar("_T")
_Damage: TypeAlias = Callable[[list[_T], int, int], list[_T]]


def _drop(rows: list[_T], at: int, _other: int) -> list[_T]:
    return rows[:at] + rows[at + 1 :]


def _repeat(rows: list[_T], at: int, other: int) -> list[_T]:
    return [*rows[:other], rows[at], *rows[other:]]


def _swap(rows: list[_T], at: int, other: int) -> list[_T]:
    swapped = list(rows)
    swapped[at], swapped[other] = swapped[other], swapped[at]
    return swapped


def _cut_front(rows: list[_T], at: int, _other: int) -> list[_T]:
    return rows[at:]


def _cut_end(rows: list[_T], at: int, _other: int) -> list[_T]:
    return rows[: at + 1]


@st.composite
def damaged(draw: DrawFn, whole: SearchStrategy[list[_T]]) -> list[_T]:
    """Rows of which some were lost, repeated, swapped or cut away."""
    rows = list(draw(whole))
    damages: list[_Damage[_T]] = [_drop, _repeat, _swap, _cut_front, _cut_end]
    for _ in range(draw(st.integers(0, 4))):
        if not rows:
            break
        places = st.integers(0, len(rows) - 1)
        rows = draw(st.sampled_from(damages))(rows, draw(places), draw(places))
    return rows
