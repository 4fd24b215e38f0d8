"""JSON made fit for stores and requests: what goes beyond the bounds becomes its text."""

import json
import math
from typing import Final

from context_assembler.values.arguments import spell_json
from context_assembler.values.json_bounds import MAX_JSON_DEPTH, broken_bound, is_short_integer
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json

_NOT_FINITE: Final = "A number that is not finite is kept as text."
_TOO_LONG: Final = "An overlong integer is kept as text."
_TOO_DEEP: Final = f"What is nested deeper than {MAX_JSON_DEPTH} levels is kept as text."


def within_bounds(value: Json) -> tuple[Json, tuple[str, ...]]:
    """Return the value as it can be stored and sent, and a sentence for each kind of change.

    A value within the bounds is returned as the same object.
    """
    if broken_bound(value) is None:
        return value, ()
    changes: dict[str, None] = {}
    return _bounded(value, 0, changes), tuple(changes)


def _bounded(value: Json, depth: int, changes: dict[str, None]) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        changes[_NOT_FINITE] = None
        return json.dumps(value)
    if isinstance(value, int) and not is_short_integer(value):
        changes[_TOO_LONG] = None
        return hex(value)
    if not is_object(value) and not is_array(value):
        return value
    if depth == MAX_JSON_DEPTH:
        changes[_TOO_DEEP] = None
        return spell_json(value)
    if is_object(value):
        return {key: _bounded(held, depth + 1, changes) for key, held in value.items()}
    return [_bounded(held, depth + 1, changes) for held in value]
