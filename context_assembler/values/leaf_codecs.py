"""JSON for single values – text, numbers, times, choices, free objects – and what is wrong with them."""

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from context_assembler.values.json_bounds import (
    MAX_INTEGER_DIGITS,
    is_short_integer,
    shown,
)
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject

Encode: TypeAlias = Callable[[Any, str], Any]
Decode: TypeAlias = Callable[[Any], Any]


class FieldError(ValueError):
    """A field cannot be encoded or decoded; its text begins with the field's path."""

    def __init__(self, at: str, reason: str) -> None:
        super().__init__(f"{at or 'the record'}: {reason}")
        self.at = at
        self.reason = reason

    def below(self, name: str) -> "FieldError":
        """Return the same, seen from the object that has the field under this name."""
        inner = f".{self.at}" if self.at and not self.at.startswith("[") else self.at
        return FieldError(f"{name}{inner}", self.reason)


class Codec(NamedTuple):
    encode: Encode
    decode: Decode  # knows no path: it is put together where one fails


def to_plain_json(value: Any, at: str) -> Json:
    """Return the value as dicts, lists and scalars.

    Raises:
        FieldError: It is not JSON.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        return _number(value, at)
    if is_object(value):
        return {_text_key(key, at): to_plain_json(held, at) for key, held in value.items()}
    if is_array(value):
        return [to_plain_json(held, at) for held in value]
    raise FieldError(at, f"{type(value).__name__} {shown(value)} is not JSON")


def _number(value: float, at: str) -> float:
    if isinstance(value, int):
        if not is_short_integer(value):
            raise FieldError(at, f"an integer has more than {MAX_INTEGER_DIGITS} digits")
    elif not math.isfinite(value):
        raise FieldError(at, f"float {value} is not JSON")
    return value


def _text_key(key: object, at: str) -> str:
    if isinstance(key, str):
        return key
    raise FieldError(at, f"the key {shown(key)} is not text")


def choice_codec(choices: tuple[Any, ...]) -> Codec:
    listed = ", ".join(map(repr, choices))

    def check(value: Json, at: str = "") -> Json:
        if not _is_among(value, choices):
            raise FieldError(at, f"{shown(value)} is none of {listed}")
        return value

    return Codec(check, check)


def _is_among(value: Json, choices: tuple[Any, ...]) -> bool:
    return value in choices


def scalar_codec(wanted: type) -> Codec:
    def check(value: Json, at: str = "") -> Json:
        if type(value) is str is wanted:
            return value
        if not _is_scalar(value, wanted):
            raise FieldError(at, f"{shown(value)} is not of type {wanted.__name__}")
        return _number(value, at) if isinstance(value, (int, float)) else value

    return Codec(check, check)


def _is_scalar(value: object, wanted: type) -> bool:
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def checked_object(value: Json, at: str = "") -> JsonObject:
    # Nearly every object is a dict, and asking for that is far cheaper than for any mapping.
    checked: JsonObject = value
    if type(value) is dict or is_object(value):
        return checked
    raise FieldError(at, "not an object")


def _object_copy(value: Json) -> dict[str, Json]:
    return dict(checked_object(value))


def _plain_object(value: Any, at: str) -> dict[str, Json]:
    return dict(checked_object(to_plain_json(value, at), at))


def _isoformat(value: Any, at: str) -> str:
    if not isinstance(value, datetime):
        raise FieldError(at, f"{shown(value)} is not a datetime")
    return value.isoformat()


def _datetime(value: Json) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise FieldError("", f"{shown(value)} is not an ISO 8601 time") from None


OBJECT_CODEC: Final = Codec(_plain_object, _object_copy)
TIME_CODEC: Final = Codec(_isoformat, _datetime)
