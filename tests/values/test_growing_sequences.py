"""Growing sequences: tuples in all but what it takes to make the next one."""

import copy
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.growing import Growing, begin

ITEMS = st.lists(st.integers(0, 9), max_size=6)
PLACES = st.one_of(st.none(), st.integers(-9, 9))
SLICES = st.builds(slice, PLACES, PLACES, st.sampled_from([None, 1, 2, -1]))


@given(ITEMS, st.lists(ITEMS, max_size=5), ITEMS, SLICES)
def test_they_are_what_a_tuple_would_be(
    items: list[int], steps: list[list[int]], ending: list[int], part: slice
) -> None:
    growing, expected = Growing(items, ending=ending), tuple(items)
    seen: list[tuple[Sequence[int], tuple[int, ...]]] = [(growing, (*expected, *ending))]
    for more in steps:
        growing, expected = growing.followed_by(more), (*expected, *more)
        seen.append((growing, (*expected, *ending)))

    for found, wanted in seen:
        assert (len(found), tuple(found), repr(found)) == (len(wanted), wanted, repr(wanted))
        assert found == wanted
        assert wanted == found
        assert hash(found) == hash(wanted)
        assert tuple(reversed(found)) == wanted[::-1]
        assert found[part] == wanted[part]
        assert [found[at] for at in range(-len(wanted), len(wanted))] == [*wanted, *wanted]
        assert copy.deepcopy(found) == pickle.loads(pickle.dumps(found)) == wanted
        assert found not in ((*wanted, 0), [*wanted])


@given(ITEMS, ITEMS, ITEMS)
def test_two_that_grow_from_one_do_not_see_each_other(
    items: list[int], some: list[int], others: list[int]
) -> None:
    start = Growing(items)
    one, other = start.followed_by(some), start.followed_by(others)

    assert (tuple(start), tuple(one), tuple(other)) == (
        tuple(items),
        (*items, *some),
        (*items, *others),
    )


def test_what_begins_alike_is_not_taken_for_the_same() -> None:
    start = Growing([0])
    short, other, longer = (start.followed_by(more) for more in ([1], [1, 3], [1, 2, 3]))
    again = start.followed_by([1, 2, 3])

    assert [tuple(one) for one in (short, other, longer)] == [(0, 1), (0, 1, 3), (0, 1, 2, 3)]
    assert again == longer
    assert short.followed_by([2]) == (0, 1, 2)


def test_threads_that_grow_from_one_do_not_see_each_other() -> None:
    start = Growing(range(100))
    more = [[n] * 3 for n in range(200)]
    with ThreadPoolExecutor(8) as threads:
        grown = list(threads.map(start.followed_by, more))

    assert [list(one[100:]) for one in grown] == more


@given(ITEMS, ITEMS, ITEMS, st.integers(0, 12))
def test_a_beginning_is_known_by_its_objects(
    items: list[int], more: list[int], ending: list[int], count: int
) -> None:
    objects = [object() for _ in (*items, *more)]
    start = Growing(objects[: len(items)])
    grown = Growing(objects[: len(items)], ending=ending).followed_by(objects[len(items) :])
    shared = start.followed_by(objects[len(items) :])

    for longer in (grown, shared):
        assert longer.begins_with(start)
        assert longer.begins_with(shared.first(count))
        assert longer.begins_with(tuple(objects[:count]))
        assert not longer.begins_with([*longer, object()])
    assert bool(objects) is not shared.begins_with([object() for _ in objects])


def test_what_was_begun_is_not_begun_again() -> None:
    growing = Growing([1, 2])
    assert begin(growing) is growing
    assert begin((1, 2)) == growing


@pytest.mark.parametrize("place", [3, -4])
def test_there_is_nothing_beyond_the_end(place: int) -> None:
    with pytest.raises(IndexError):
        partial(Growing([1, 2], ending=[3]).__getitem__, place)()
