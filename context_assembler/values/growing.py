"""Sequences that grow from step to step, of which a longer one shares what a shorter one holds."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import is_
from typing import TypeVar, cast, overload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Growing(Sequence[T_co]):
    """Items that stay as they are, and equal any sequence of the same ones, as a tuple's do.

    The next one takes as long as there are items to add, however many there are before them:

        longer = shorter.followed_by(new)

    Args:
        ending: Stands behind the items, and behind those that are added.
    """

    __slots__ = ("_count", "_ending", "_items")

    def __init__(self, items: Iterable[T_co] = (), *, ending: Iterable[T_co] = ()) -> None:
        self._items: list[T_co] = list(items)
        self._count = len(self._items)
        self._ending: tuple[T_co, ...] = tuple(ending)

    def followed_by(self, items: Iterable[T_co]) -> "Growing[T_co]":
        """Return these with more items behind them, before the ending."""
        more = list(items)
        if not more:
            return self
        shared, start, end = self._items, self._count, self._count + len(more)
        if len(shared) == start:
            shared.extend(more)  # at one go: of several threads one comes first
        if len(shared) < end or not all(map(is_, shared[start:end], more)):
            shared = [*shared[:start], *more]  # another one has grown from here
        return self._view(shared, end, self._ending)

    @property
    def has_ending(self) -> bool:
        """Whether anything stands behind what is added."""
        return bool(self._ending)

    def first(self, count: int) -> "Growing[T_co]":
        """Return so many items of the beginning, without the ending."""
        return self._view(self._items, min(count, self._count), ())

    def begins_with(self, beginning: Sequence[object]) -> bool:
        """Whether these are the very same objects as far as the beginning goes."""
        if len(beginning) > len(self):
            return False
        return self._shares(beginning) or all(map(is_, beginning, self))

    def _shares(self, beginning: Sequence[object]) -> bool:
        """Whether it is a shorter view of the same items."""
        return (
            isinstance(beginning, Growing)
            and beginning._items is self._items  # noqa: SLF001
            and len(beginning) <= self._count
            and not beginning._ending  # noqa: SLF001
        )

    def _view(self, items: list[T_co], count: int, ending: tuple[T_co, ...]) -> "Growing[T_co]":
        view: Growing[T_co] = object.__new__(type(self))
        view._items, view._count, view._ending = items, count, ending
        return view

    def __len__(self) -> int:
        return self._count + len(self._ending)

    @overload
    def __getitem__(self, place: int) -> T_co: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[T_co, ...]: ...

    def __getitem__(self, place: int | slice) -> T_co | tuple[T_co, ...]:
        length = self._count + len(self._ending)
        if isinstance(place, slice):
            start, stop, step = place.indices(length)
            if stop <= self._count and step > 0:
                return tuple(self._items[start:stop:step])
            return tuple(self)[place]
        at = place + length if place < 0 else place
        if not 0 <= at < length:
            raise IndexError(place)
        return self._items[at] if at < self._count else self._ending[at - self._count]

    def __iter__(self) -> Iterator[T_co]:
        return chain(islice(self._items, self._count), self._ending)

    def __reversed__(self) -> Iterator[T_co]:
        backwards = map(self._items.__getitem__, range(self._count - 1, -1, -1))
        return chain(reversed(self._ending), backwards)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Growing):
            other = tuple(cast("Growing[object]", other))
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[type["Growing[T_co]"], tuple[tuple[T_co, ...]]]:
        return Growing, (tuple(self),)


def begins_alike(items: Sequence[object], beginning: Sequence[object]) -> bool:
    """Whether these are the very same objects as far as the beginning goes."""
    if isinstance(items, Growing):
        return items.begins_with(beginning)
    return len(beginning) <= len(items) and all(map(is_, beginning, items))


def first_of(items: Sequence[T], count: int) -> Sequence[T]:
    """Return so many items of the beginning; of what grows they are shared."""
    return items.first(count) if isinstance(items, Growing) else tuple(items[:count])


def begin(items: Sequence[T]) -> Growing[T]:
    """Return the items as the beginning of longer sequences."""
    return items if isinstance(items, Growing) else Growing(items)
