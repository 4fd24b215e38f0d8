"""Which shape a JSON value has."""

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from context_assembler.values.parts import Json, JsonObject


def is_object(value: Json) -> TypeGuard[JsonObject]:
    """Whether the value is a JSON object."""
    return isinstance(value, Mapping)


def is_array(value: Json) -> TypeGuard[Sequence[Json]]:
    """Whether the value is a JSON array; text is none."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))
