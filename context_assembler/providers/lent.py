"""Lists of a payload that cost nothing until somebody looks into them."""

from collections.abc import Callable
from typing import Any, Final

from context_assembler.events import Json


def fresh_json(value: Json) -> Json:
    """Return a copy whose dicts and lists nobody else holds; text is shared."""
    kind: object = value.__class__
    if kind is dict:
        return {k: v if v.__class__ is str else fresh_json(v) for k, v in value.items()}
    return [fresh_json(held) for held in value] if kind is list or kind is tuple else value


class LentList(list[Any]):
    """A list that copies its elements, deeply, once somebody reads or changes it.

    A payload belongs to its caller, but most of it is the same at every step of a session. So each
    payload gets a list of the rendered messages, and copies of them if it is used: whatever the
    caller changes stays in that payload.
    """

    _is_own = False

    def take(self) -> None:
        """Copy the elements, unless that has happened."""
        if not self._is_own:
            self._is_own = True
            super().__setitem__(slice(None), [fresh_json(held) for held in super().__iter__()])

    def lend(self, start: int) -> list[Any]:
        """Return the elements from one on, shared."""
        return super().__getitem__(slice(start, None))

    def __radd__(self, before: list[Any]) -> list[Any]:
        """Return a plain list of both: by itself, `+` would read past `take`."""
        return [*before, *self]


# Whatever hands out an element or puts one in; `json` and `pickle` iterate.
_USES: Final = (
    "__add__ __delitem__ __getitem__ __iadd__ __iter__ __mul__ __reversed__ __rmul__ __setitem__ "
    "append clear copy extend insert pop remove reverse sort".split()
)


def _taking(name: str) -> Callable[..., Any]:
    use: Callable[..., Any] = getattr(list, name)

    def used(self: LentList, *args: Any, **named: Any) -> Any:
        self.take()
        return use(self, *args, **named)

    return used


for _name in _USES:
    setattr(LentList, _name, _taking(_name))


def peek(value: Json, start: int = 0) -> list[Any]:
    """Return the elements of a list from one on, shared, to be read only; none of anything else."""
    held: Any = value
    if isinstance(value, LentList):
        return value.lend(start)
    return list(held[start:]) if isinstance(value, list | tuple) else []
