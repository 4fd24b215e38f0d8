"""Calls that Gemini streams piece by piece, put together again.

A call may arrive as one that will continue, followed by values for places in its arguments, and text
among these in pieces of its own.

Source:
    docstrings of `google.genai.types.FunctionCall` and `PartialArg`, google-genai 3.6
    (read 2026-11-27)
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, cast

from context_assembler.values.arguments import CallArguments, parse_arguments, spell_json
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.gemini_fields import snake_fields
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text

_Step: TypeAlias = str | int

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]]+) | \[(?P<index>\d{1,6})\] | \[(?P<mark>['"])(?P<quoted>.*?)(?P=mark)\]""",
    re.VERBOSE,
)
_MAX_STEPS: Final = 64
_MAX_ENTRIES: Final = 10_000
_VALUES: Final = ("string_value", "number_value", "bool_value")


class _NoPlaceError(ValueError):
    """A place that the arguments cannot have."""


def join_calls(parts: Iterable[Json]) -> list[tuple[int, Json]]:
    """Return the parts with their places, every call in one piece at the place where it began."""
    joined: list[tuple[int, Json]] = []
    open_at: int | None = None
    for place, part in enumerate(parts):
        call = _call_of(part)
        if call is None:
            joined.append((place, part))
            continue
        if open_at is not None and _goes_on(_call_of(joined[open_at][1]) or {}, call):
            joined[open_at] = (joined[open_at][0], _join(joined[open_at][1], part))
        else:
            joined.append((place, part))
            open_at = len(joined) - 1
        open_at = open_at if is_unfinished(call) else None
    return joined


def is_unfinished(call: JsonObject) -> bool:
    """Whether more of a call was announced than came."""
    return snake_fields(call).get("will_continue") is True


def read_arguments(call: JsonObject) -> CallArguments:
    """Return the arguments of a call, those that came in pieces at their places."""
    fields = snake_fields(call)
    pieces = as_array(fields.get("partial_args"))
    if not pieces:
        return parse_arguments(fields.get("args"))
    whole: dict[str, Json] = as_object(_copy(fields.get("args")))
    try:
        _place(pieces, whole)
    except _NoPlaceError:
        return CallArguments({}, spell_json(pieces), "came in pieces that do not fit together")
    return parse_arguments(whole)


def _call_of(part: Json) -> dict[str, Json] | None:
    call = snake_fields(part).get("function_call")
    return snake_fields(call) if is_object(call) else None


def _goes_on(before: JsonObject, call: JsonObject) -> bool:
    """Whether a call is the next piece of an open one: nothing in it says otherwise."""
    return all(not call.get(key) or call[key] == before.get(key) for key in ("id", "name"))


def _join(block: JsonObject, more: JsonObject) -> dict[str, Json]:
    before, after = _call_of(block) or {}, _call_of(more) or {}
    whole = {**before, **{key: held for key, held in after.items() if key != "partial_args"}}
    pieces = [*as_array(before.get("partial_args")), *as_array(after.get("partial_args"))]
    if pieces:
        whole["partial_args"] = pieces
    if is_object(before.get("args")) and is_object(after.get("args")):
        whole["args"] = {**before["args"], **after["args"]}
    if after.get("will_continue") is not True:
        whole.pop("will_continue", None)
    first, later = snake_fields(block), snake_fields(more)
    return {**later, **first, "function_call": whole}


def _place(pieces: Sequence[Json], whole: dict[str, Json]) -> None:
    open_paths: set[str] = set()
    for piece in pieces:
        fields = snake_fields(piece)
        path = as_text(fields.get("json_path"))
        steps = _steps_of(path)
        value = next((fields[key] for key in _VALUES if key in fields), None)
        if path in open_paths and isinstance(value, str):
            value = f"{as_text(_find(whole, steps))}{value}"
        _put(whole, steps, value)
        if fields.get("will_continue") is True:
            open_paths.add(path)
        else:
            open_paths.discard(path)


def _steps_of(path: str) -> list[_Step]:
    steps: list[_Step] = []
    at = 1
    while path[:1] == "$" and at < len(path) and len(steps) < _MAX_STEPS:
        found = _STEP.match(path, at)
        if found is None:
            break
        index = found["index"]
        steps.append(found["name"] or found["quoted"] or "" if index is None else int(index))
        at = found.end()
    if not steps or at < len(path) or isinstance(steps[0], int):
        raise _NoPlaceError(path)
    return steps


def _find(whole: Json, steps: Sequence[_Step]) -> Json:
    """Return what stands at a place that was filled before."""
    for step in steps:
        whole = whole[step]
    return whole


def _put(holder: Json, steps: Sequence[_Step], value: Json) -> None:
    """Put a value into its place, and make the objects and lists on the way to it."""
    step, further = steps[0], steps[1:]
    held = _open(holder, step)
    if not further:
        holder[step] = value
        return
    if held is None:
        begun: Json = [] if isinstance(further[0], int) else {}
        holder[step] = held = begun
    _put(held, further, value)


def _open(holder: Json, step: _Step) -> Json:
    """Return what stands at a step, for which there is room then; `None`: nothing yet."""
    if isinstance(step, str) and is_object(holder):
        return holder.get(step)
    if isinstance(step, int) and is_array(holder) and step < _MAX_ENTRIES:
        cast("list[Json]", holder).extend([None] * (step + 1 - len(holder)))
        return holder[step]
    raise _NoPlaceError(str(step))


def _copy(value: Json) -> Json:
    if is_object(value):
        return {key: _copy(held) for key, held in value.items()}
    return [_copy(held) for held in value] if is_array(value) else value
