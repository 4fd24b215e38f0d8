"""Frozen dataclasses as JSON objects, field by field, as their type hints say."""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from context_assembler.values.events import EVENT_TYPES
from context_assembler.values.json_bounds import (
    MAX_INTEGER_DIGITS,
    is_short_integer,
    shown,
)
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import (
    PART_KINDS,
    Base64Source,
    FileIdSource,
    Json,
    UrlSource,
)

_SOURCE_KINDS: Final[Mapping[str, type]] = {
    "base64": Base64Source,
    "url": UrlSource,
    "file_id": FileIdSource,
}

_KIND_BY_CLASS: Final[Mapping[type, str]] = {
    **{kind_class: tag for tag, kind_class in {**PART_KINDS, **_SOURCE_KINDS}.items()},
    **EVENT_TYPES,
}

_Value = TypeVar("_Value")
_Convert: TypeAlias = Callable[[Any, str], Any]


class FieldError(ValueError):
    """A field cannot be encoded or decoded; its text begins with the field's path."""

    def __init__(self, at: str, reason: str) -> None:
        super().__init__(f"{at or 'the record'}: {reason}")


class _Codec(NamedTuple):
    encode: _Convert
    decode: _Convert


class _FieldCodec(NamedTuple):
    name: str
    default: Any
    codec: _Codec


def encode_fields(value: Any, at: str = "") -> dict[str, Json]:
    """Return the fields that differ from their defaults.

    Raises:
        FieldError: A field holds something that JSON cannot say.
    """
    encoded: dict[str, Json] = {}
    for name, default, codec in _field_codecs(_any(type(value))):
        held = getattr(value, name)
        if default is MISSING or held != default:
            encoded[name] = codec.encode(held, _join(at, name))
    return encoded


def decode_fields(wanted: type[_Value], encoded: Json, at: str = "") -> _Value:
    """Return the value that `encode_fields` was given.

    Raises:
        FieldError: A field is missing, unknown, or of the wrong type.
    """
    left = _object(encoded, at)
    found: dict[str, Any] = {}
    for name, default, codec in _field_codecs(_any(wanted)):
        if name in left:
            found[name] = codec.decode(left.pop(name), _join(at, name))
        elif default is MISSING:
            raise FieldError(_join(at, name), "missing")
    if left:
        raise FieldError(_join(at, min(left)), "unknown field")
    return wanted(**found)


def kind_of(value: Any) -> str | None:
    """Return the tag of a part, a source or an event's body; `None` for any other value."""
    return _KIND_BY_CLASS.get(_any(type(value)))


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


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _any(kind: Any) -> Any:
    return kind  # a class is hashable, whatever its instances are


@cache
def _field_codecs(owner: Any) -> tuple[_FieldCodec, ...]:
    hints = get_type_hints(owner)
    return tuple(
        _FieldCodec(
            field.name,
            field.default if field.default_factory is MISSING else field.default_factory(),
            _codec_for(hints[field.name]),
        )
        for field in fields(owner)
    )


def _codec_for(hint: Any) -> _Codec:
    """Return the codec of a type hint; the hints are those of our own values, a closed set."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return _union_codec(arguments)
    if origin is Literal:
        return _choice_codec(arguments)
    if origin is tuple:
        return _sequence_codec(_codec_for(arguments[0]))
    if origin is Mapping:
        return _Codec(_plain_object, _object)
    if hint is datetime:
        return _Codec(_isoformat, _datetime)
    if is_dataclass(hint):
        return _object_codec(hint)
    return _scalar_codec(hint)


def _union_codec(members: tuple[Any, ...]) -> _Codec:
    wanted = tuple(member for member in members if member is not NoneType)
    inner = _codec_for(wanted[0]) if len(wanted) == 1 else _tagged_codec(wanted)
    return _optional_codec(inner) if NoneType in members else inner


def _optional_codec(inner: _Codec) -> _Codec:
    def encode(value: Any, at: str) -> Json:
        return None if value is None else inner.encode(value, at)

    def decode(value: Json, at: str) -> Any:
        return None if value is None else inner.decode(value, at)

    return _Codec(encode, decode)


def _object_codec(wanted: Any) -> _Codec:
    def encode(value: Any, at: str) -> Json:
        if not isinstance(value, wanted):
            raise FieldError(at, f"{shown(value)} is not of type {wanted.__name__}")
        return encode_fields(value, at)

    def decode(value: Json, at: str) -> Any:
        return decode_fields(wanted, value, at)

    return _Codec(encode, decode)


def _tagged_codec(members: tuple[type, ...]) -> _Codec:
    class_by_kind: dict[str, Any] = {_KIND_BY_CLASS[member]: member for member in members}

    def encode(value: Any, at: str) -> Json:
        kind = kind_of(value)
        if kind not in class_by_kind:
            known = ", ".join(sorted(class_by_kind))
            raise FieldError(at, f"{shown(value)} is of no known kind; known are {known}")
        return {"kind": kind, **encode_fields(value, at)}

    def decode(value: Json, at: str) -> Any:
        fields_left = _object(value, at)
        kind = fields_left.pop("kind", None)
        if not isinstance(kind, str) or kind not in class_by_kind:
            known = ", ".join(sorted(class_by_kind))
            raise FieldError(_join(at, "kind"), f"unknown kind {shown(kind)}, known are {known}")
        return decode_fields(class_by_kind[kind], fields_left, at)

    return _Codec(encode, decode)


def _sequence_codec(inner: _Codec) -> _Codec:
    def encode(value: Any, at: str) -> Json:
        if not is_array(value):
            raise FieldError(at, f"{shown(value)} is no sequence")
        return [inner.encode(entry, f"{at}[{i}]") for i, entry in enumerate(value)]

    def decode(value: Json, at: str) -> Any:
        if not is_array(value):
            raise FieldError(at, "not a list")
        return tuple(inner.decode(entry, f"{at}[{i}]") for i, entry in enumerate(value))

    return _Codec(encode, decode)


def _choice_codec(choices: tuple[Any, ...]) -> _Codec:
    listed = ", ".join(map(repr, choices))

    def check(value: Json, at: str) -> Json:
        if not _is_among(value, choices):
            raise FieldError(at, f"{shown(value)} is none of {listed}")
        return value

    return _Codec(check, check)


def _is_among(value: Json, choices: tuple[Any, ...]) -> bool:
    return value in choices


def _scalar_codec(wanted: type) -> _Codec:
    def check(value: Json, at: str) -> Json:
        if not _is_scalar(value, wanted):
            raise FieldError(at, f"{shown(value)} is not of type {wanted.__name__}")
        return _number(value, at) if isinstance(value, (int, float)) else value

    return _Codec(check, check)


def _is_scalar(value: object, wanted: type) -> bool:
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def _object(value: Json, at: str) -> dict[str, Json]:
    if not is_object(value):
        raise FieldError(at, "not an object")
    return dict(value)


def _plain_object(value: Any, at: str) -> dict[str, Json]:
    return _object(to_plain_json(value, at), at)


def _isoformat(value: Any, at: str) -> str:
    if not isinstance(value, datetime):
        raise FieldError(at, f"{shown(value)} is not a datetime")
    return value.isoformat()


def _datetime(value: Json, at: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise FieldError(at, f"{shown(value)} is not an ISO 8601 time") from None
