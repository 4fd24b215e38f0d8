"""Files that hold many sessions."""

from collections.abc import Sequence
from typing import Final

from context_assembler.transcripts.message_lists import MESSAGE_KEYS
from context_assembler.transcripts.parsing import Rows, as_mapping
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject

_HISTORIES: Final = (*MESSAGE_KEYS, "contents")
_WRAPPERS: Final = ("request",)
_LISTS: Final = ("simulations", "sessions")
_NAMES: Final = ("id", "session_id", "simulation_id", "task_id")


def split_sessions(parsed: Rows) -> list[tuple[str, JsonObject]]:
    """Return the sessions in a source with their names; empty if it is not a collection."""
    if parsed.has_lines:
        return _named([row.value for row in parsed.rows])
    value = parsed.rows[0].value
    if is_array(value):
        return _named(value)
    fields = as_mapping(value)
    for key in _LISTS:
        if is_array(held := fields.get(key)):
            return _named(held)
    return _named([value]) if _wrapped(value) is not None else []


def _named(values: Sequence[Json]) -> list[tuple[str, JsonObject]]:
    sessions = [(value, session) for value in values if (session := _session_of(value)) is not None]
    if not sessions or len(sessions) < len(values):
        return []
    named: dict[str, JsonObject] = {}
    for number, (value, session) in enumerate(sessions):
        named[_free_name(_name_of(value, number), named)] = session
    return list(named.items())


def _session_of(value: Json) -> JsonObject | None:
    fields = as_mapping(value)
    if any(is_array(fields.get(key)) for key in _HISTORIES):
        return fields
    return _wrapped(value)


def _wrapped(value: Json) -> JsonObject | None:
    inner = (as_mapping(value).get(key) for key in _WRAPPERS)
    return next((held for held in inner if is_object(held) and _session_of(held) is not None), None)


def _name_of(value: Json, number: int) -> str:
    fields = as_mapping(value)
    name = next((fields[key] for key in _NAMES if isinstance(fields.get(key), (str, int))), number)
    trial = fields.get("trial")
    return f"{name}" if trial is None else f"{name}-{trial}"


def _free_name(name: str, taken: dict[str, JsonObject]) -> str:
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name}-{count}"
    return free
