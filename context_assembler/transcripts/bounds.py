"""Cuts what no store could keep out of a transcript's JSON, and says where it stood."""

import json
import math
from typing import Final

from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.values.json_bounds import (
    MAX_INTEGER_DIGITS,
    MAX_JSON_DEPTH,
    broken_bound,
    is_short_integer,
    shown,
)
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json

_NAMED_LEVELS: Final = 8  # as far as a path helps; deeper places are named by the one around them
TOO_LONG: Final = f"an integer of more than {MAX_INTEGER_DIGITS:,} digits is kept as text"


def keep_in_bounds(value: Json, log: IssueLog, spot: Spot) -> Json:
    """Return the value with everything beyond the bounds replaced, and each place reported.

    A number that is not finite becomes null; an overlong integer, and what is nested too deeply,
    become text.
    """
    return value if broken_bound(value) is None else _rebuild(value, log, spot, 0)


def find_key_without_text(value: Json) -> str | None:
    """Return how a key looks that no JSON object has; `None` where all are texts."""
    waiting: list[Json] = [value]
    seen: set[int] = set()
    while waiting:
        held = waiting.pop()
        if id(held) in seen:
            continue
        if is_object(held):
            for key in held:
                if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance] - hand-made dicts
                    return shown(key)
            waiting.extend(held.values())
        elif is_array(held):
            waiting.extend(held)
        else:
            continue
        seen.add(id(held))
    return None


def _rebuild(value: Json, log: IssueLog, spot: Spot, depth: int) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        log.note(spot, f"{value} is not JSON; read as null")
        return None
    if isinstance(value, int) and not is_short_integer(value):
        log.note(spot, TOO_LONG)
        return hex(value)
    if not is_object(value) and not is_array(value):
        return value
    if depth >= MAX_JSON_DEPTH:
        log.note(spot, f"what is nested deeper than {MAX_JSON_DEPTH} levels is kept as text")
        return _as_text(value)
    is_named = depth < _NAMED_LEVELS
    if is_object(value):
        return {
            key: _rebuild(held, log, spot.key(str(key)) if is_named else spot, depth + 1)
            for key, held in value.items()
        }
    return [
        _rebuild(held, log, spot.index(number) if is_named else spot, depth + 1)
        for number, held in enumerate(value)
    ]


def _as_text(value: Json) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=shown)
    except (ValueError, RecursionError):
        return shown(value)
