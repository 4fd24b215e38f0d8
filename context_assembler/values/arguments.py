"""The arguments of a tool call, as models write them: an object, or text that should spell one."""

import json
from typing import NamedTuple

from context_assembler.values.json_bounds import broken_bound, load_bounded_json, shown
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, ToolCall
from context_assembler.values.wire import compact_json, parse_json_object


class CallArguments(NamedTuple):
    """What a `ToolCall` keeps: the parsed object, and the text it was spelled with.

    `problem` says why there is text and no object, in words that go on after "the arguments".
    """

    arguments: dict[str, Json]
    spelled: str | None = None
    problem: str | None = None


def parse_arguments(given: Json) -> CallArguments:
    """Return what a model gave; what cannot be stored or sent as JSON stays as its own text."""
    if given is None:
        return CallArguments({})
    if is_object(given):
        broken = broken_bound(given)
        if broken is None:
            return CallArguments(dict(given))
        return CallArguments({}, spell_json(given), f"cannot be kept as JSON: {broken}")
    spelled = given if isinstance(given, str) else spell_json(given)
    try:
        value = load_bounded_json(spelled)
    except ValueError:
        value = None
    if is_object(value):
        return CallArguments(dict(value), spelled)
    return CallArguments({}, spelled, "are not a JSON object")


def is_unread(call: ToolCall) -> bool:
    """Whether a call has a text for arguments that spells no object, as one that was cut off."""
    spelled = call.arguments_json
    return bool(spelled) and not call.arguments and parse_json_object(spelled or "") is None


def spell_json(value: Json) -> str:
    """Return the value as compact JSON; as like it as can be where JSON cannot say it."""
    try:
        return compact_json(value)
    except (ValueError, TypeError, RecursionError):
        pass
    try:
        plain = _printable(value)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), default=shown)
    except (ValueError, RecursionError):
        return shown(value)


def _printable(value: Json) -> Json:
    if is_object(value):
        return {str(key): _printable(held) for key, held in value.items()}
    if is_array(value):
        return [_printable(held) for held in value]
    is_long = isinstance(value, int) and broken_bound(value) is not None
    return hex(value) if is_long else value
