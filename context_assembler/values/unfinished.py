"""Calls that a reply was cut off in."""

from collections.abc import Sequence
from typing import Final

from context_assembler.values.json_shapes import is_array
from context_assembler.values.parts import JsonObject, Part, ToolCall

UNFINISHED_CALLS: Final = "unfinished_calls"
"""Where the metadata of a reply's event name the calls that it was cut off in."""


def last_call_of(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the id of the call that a reply ends with: where it was cut off, it was in there."""
    last = parts[-1] if parts else None
    return (last.call_id,) if isinstance(last, ToolCall) else ()


def say_unfinished(call_id: str) -> str:
    """Say that a reply was cut off in a call."""
    return f"The reply was cut off inside the call {call_id!r}."


def split_calls(
    parts: Sequence[Part], metadata: JsonObject
) -> tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]]:
    """Return the calls of an event that are whole, and those that its reply was cut off in."""
    named = metadata.get(UNFINISHED_CALLS)
    ids = named if is_array(named) else ()
    calls = [part for part in parts if isinstance(part, ToolCall)]
    whole = tuple(call for call in calls if call.call_id not in ids)
    return whole, tuple(call for call in calls if call.call_id in ids)
