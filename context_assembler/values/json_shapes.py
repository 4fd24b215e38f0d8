"""Which shape a JSON value has."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

from context_assembler.values.parts import Json, JsonObject

# What JSON is parsed to is told by its type alone: asking the abstract classes takes ten times longer.
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_NO_OBJECTS: Final = _SCALARS | {list, tuple}
_NO_ARRAYS: Final = _SCALARS | {dict, bytes, bytearray}


def is_object(value: Json) -> TypeGuard[JsonObject]:
    """Whether the value is a JSON object."""
    if type(value) is dict:
        return True
    return type(value) not in _NO_OBJECTS and isinstance(value, Mapping)


def is_array(value: Json) -> TypeGuard[Sequence[Json]]:
    """Whether the value is a JSON array; text is none."""
    if type(value) is list or type(value) is tuple:
        return True
    if type(value) in _NO_ARRAYS:
        return False
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))
