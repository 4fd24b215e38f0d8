"""JSON with a few things wrong: keys deleted, values replaced by others of the wrong kind."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Final

from context_assembler.values.json_shapes import is_array, is_object

REPLACEMENTS: Final[tuple[Any, ...]] = (None, True, [], {}, 7, "", ["text"])
"""What stands in for a value; a choice behind them deletes it."""


def damage(whole: Any, *, times: int, choose: Callable[[int], int]) -> Any:
    """Return a copy with so many values deleted or replaced, at any depth.

    Args:
        choose: Returns a number below the one it is given.
    """
    damaged = deepcopy(whole)
    for _ in range(times):
        places = list(_places(damaged))
        if not places:
            break
        holder, key = places[choose(len(places))]
        replaced = choose(len(REPLACEMENTS) + 1)
        if replaced == len(REPLACEMENTS):
            del holder[key]
        else:
            holder[key] = deepcopy(REPLACEMENTS[replaced])
    return damaged


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys: list[Any] = []
    if is_object(value):
        keys = list(value)
    elif is_array(value):
        keys = list(range(len(value)))
    for key in keys:
        yield value, key
        yield from _places(value[key])
