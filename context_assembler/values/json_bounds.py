"""How far JSON may go before some reader of it gives up: finite, not too deep, not too long."""

import json
import math
from reprlib import Repr
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json

MAX_JSON_DEPTH: Final = 200
"""Levels of lists and objects. orjson writes 254, and a record puts a few around a value."""

MAX_INTEGER_DIGITS: Final = 4_300
"""Digits of an integer.

Source:
    https://docs.python.org/3/library/stdtypes.html#int-max-str-digits (read 2026-11-27)
"""

_FIRST_TOO_LONG: Final = 10**MAX_INTEGER_DIGITS


def is_short_integer(value: int) -> bool:
    """Whether every Python can read the integer back from its digits."""
    return -_FIRST_TOO_LONG < value < _FIRST_TOO_LONG


def broken_bound(value: Json, *, max_depth: int = MAX_JSON_DEPTH) -> str | None:
    """Return what of the value could not be stored or sent; `None` where everything can."""
    level: list[Json] = [value]
    depth = 0
    while level:
        inside: list[Json] = []
        for held in level:
            if isinstance(held, str):  # as most values are
                continue
            if is_object(held) or is_array(held):
                if depth == max_depth:
                    return f"it is nested deeper than {max_depth} levels"
                inside.extend(held.values() if is_object(held) else held)
            elif isinstance(held, int) and not is_short_integer(held):
                return f"an integer has more than {MAX_INTEGER_DIGITS} digits"
            elif isinstance(held, float) and not math.isfinite(held):
                return f"{held} is no JSON number"
        level = inside
        depth += 1
    return None


def nests_too_deeply(value: object, *, max_depth: int = MAX_JSON_DEPTH) -> bool:
    """Whether lists and objects lie within each other deeper than that; one that holds itself does."""
    level: list[Json] = [value]
    for _ in range(max_depth + 1):
        holders = [held for held in level if is_object(held) or is_array(held)]
        if not holders:
            return False
        level = [one for held in holders for one in (held.values() if is_object(held) else held)]
    return True


def load_bounded_json(text: str | bytes, *, max_depth: int = MAX_JSON_DEPTH) -> Json:
    """Return the value that the text spells.

    Raises:
        ValueError: The text is not JSON, or goes beyond the bounds.
    """
    try:
        value: Json = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if (broken := broken_bound(value, max_depth=max_depth)) is not None:
        raise ValueError(broken)
    return value


def keep_numbers_sound(body: dict[str, Json], warnings: list[str]) -> dict[str, Json]:
    """Return a copy with words in place of NaN and infinities, which JSON has no numbers for.

    What is too deep or too long to copy is returned as it is.

    Args:
        warnings: Gets a sentence where there were any.
    """
    try:
        sound: dict[str, Json] = json.loads(json.dumps(body), parse_constant=str)
    except (ValueError, RecursionError):
        return body
    if sound != body:
        warnings.append("Numbers that JSON does not know (NaN, infinity) were kept as words.")
    return sound


def shown(value: object, *, chars: int = 60) -> str:
    """Return the beginning of what the value looks like, the same in every process.

    Sets, whose own order changes from process to process, are shown in order.
    """
    try:
        return _SHOW.repr(value)[:chars]
    except (ValueError, RecursionError):  # an integer too long to print, an endless object
        return f"<{type(value).__name__}>"


class _Show(Repr):
    """Shows as much as `repr` does, as far as anybody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = 20
        self.maxstring = self.maxother = self.maxlong = 200


_SHOW: Final = _Show()


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
