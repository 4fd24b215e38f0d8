"""Frozen values with a few fields changed."""

from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from context_assembler.values.changing import changed


@dataclass(frozen=True, kw_only=True)
class Point:
    x: int
    y: int = 0
    names: tuple[str, ...] = ()
    _length: float = field(default=0.0, init=False, compare=False)


def test_it_is_what_replacing_makes() -> None:
    point = Point(x=1, names=("a",))

    moved = changed(point, y=2)

    assert moved == replace(point, y=2)
    assert hash(moved) == hash(replace(point, y=2))
    assert (type(moved), repr(moved)) == (Point, repr(replace(point, y=2)))
    assert moved.names is point.names
    assert point == Point(x=1, names=("a",))


def test_what_is_changed_stays_frozen() -> None:
    moved = changed(Point(x=1), x=2)

    with pytest.raises(FrozenInstanceError):
        moved.x = 3  # type: ignore[misc]


def test_what_the_value_holds_beside_its_arguments_is_taken_over() -> None:
    point = Point(x=1)
    object.__setattr__(point, "_length", 1.0)

    assert vars(changed(point, y=1))["_length"] == 1.0
    assert vars(changed(point, _length=2.0))["_length"] == 2.0


def test_a_field_that_is_none_is_refused() -> None:
    with pytest.raises(AssertionError, match="'z'"):
        changed(Point(x=1), z=1)
