"""Frozen dataclasses as JSON objects, field by field, as their type hints say."""

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
from context_assembler.values.json_bounds import shown
from context_assembler.values.json_shapes import is_array
from context_assembler.values.leaf_codecs import (
    OBJECT_CODEC,
    TIME_CODEC,
    Codec,
    FieldError,
    checked_object,
    choice_codec,
    scalar_codec,
)
from context_assembler.values.parts import (
    PART_KINDS,
    Base64Source,
    FileIdSource,
    Json,
    UrlSource,
)

__all__ = ["FieldError", "decode_fields", "encode_fields", "kind_of"]

_SOURCE_KINDS: Final[Mapping[str, type]] = {
    "base64": Base64Source,
    "url": UrlSource,
    "file_id": FileIdSource,
}

_KIND_BY_CLASS: Final[Mapping[type, str]] = {
    **{kind_class: tag for tag, kind_class in {**PART_KINDS, **_SOURCE_KINDS}.items()},
    **EVENT_TYPES,
}

_TEXT_HINTS: Final = (str, str | None)

_Value = TypeVar("_Value")


class _FieldCodec(NamedTuple):
    name: str
    default: Any
    codec: Codec


_Read: TypeAlias = Callable[[Json, str | None], Any]


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


def decode_fields(wanted: type[_Value], encoded: Json, *, tag: str | None = None) -> _Value:
    """Return the value that `encode_fields` was given.

    Args:
        tag: The name of an entry that is no field.

    Raises:
        FieldError: A field is missing, unknown, or of the wrong type.
    """
    value: _Value = _reader(_any(wanted))(encoded, tag)
    return value


def kind_of(value: Any) -> str | None:
    """Return the tag of a part, a source or an event's body; `None` for any other value."""
    return _KIND_BY_CLASS.get(_any(type(value)))


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


@cache
def _reader(owner: Any) -> _Read:
    """Return what reads objects of a class; it may be given the name of an entry that is no field."""
    codecs = _field_codecs(owner)
    decoder_of = {name: codec.decode for name, _, codec in codecs}.get
    required = [name for name, default, _ in codecs if default is MISSING]
    hints = get_type_hints(owner)
    texts = frozenset(name for name, _, _ in codecs if hints[name] in _TEXT_HINTS)

    def read(encoded: Json, tag: str | None) -> Any:
        found: dict[str, Any] = {}
        unknown: list[str] = []
        for name, held in checked_object(encoded).items():
            if type(held) is str and name in texts:  # most fields are, and need no call to be read
                found[name] = held
            elif (decode := decoder_of(name)) is not None:
                try:
                    found[name] = decode(held)
                except FieldError as error:
                    raise error.below(name) from None
            elif name != tag:
                unknown.append(name)
        for name in required:
            if name not in found:
                raise FieldError(name, "missing")
        if unknown:
            raise FieldError(min(unknown), "unknown field")
        return owner(**found)

    return read


def _codec_for(hint: Any) -> Codec:
    """Return the codec of a type hint; the hints are those of our own values, a closed set."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return _union_codec(arguments)
    if origin is Literal:
        return choice_codec(arguments)
    if origin is tuple:
        return _sequence_codec(_codec_for(arguments[0]))
    if origin is Mapping:
        return OBJECT_CODEC
    if hint is datetime:
        return TIME_CODEC
    if is_dataclass(hint):
        return _object_codec(hint)
    return scalar_codec(hint)


def _union_codec(members: tuple[Any, ...]) -> Codec:
    wanted = tuple(member for member in members if member is not NoneType)
    inner = _codec_for(wanted[0]) if len(wanted) == 1 else _tagged_codec(wanted)
    return _optional_codec(inner) if NoneType in members else inner


def _optional_codec(inner: Codec) -> Codec:
    def encode(value: Any, at: str) -> Json:
        return None if value is None else inner.encode(value, at)

    def decode(value: Json) -> Any:
        return None if value is None else inner.decode(value)

    return Codec(encode, decode)


def _object_codec(wanted: Any) -> Codec:
    def encode(value: Any, at: str) -> Json:
        if not isinstance(value, wanted):
            raise FieldError(at, f"{shown(value)} is not of type {wanted.__name__}")
        return encode_fields(value, at)

    def decode(value: Json) -> Any:
        return _reader(wanted)(value, None)

    return Codec(encode, decode)


def _tagged_codec(members: tuple[type, ...]) -> Codec:
    class_by_kind: dict[str, Any] = {_KIND_BY_CLASS[member]: member for member in members}

    def encode(value: Any, at: str) -> Json:
        kind = kind_of(value)
        if kind not in class_by_kind:
            known = ", ".join(sorted(class_by_kind))
            raise FieldError(at, f"{shown(value)} is of no known kind; known are {known}")
        return {"kind": kind, **encode_fields(value, at)}

    def decode(value: Json) -> Any:
        kind = checked_object(value).get("kind")
        if not isinstance(kind, str) or kind not in class_by_kind:
            known = ", ".join(sorted(class_by_kind))
            raise FieldError("kind", f"unknown kind {shown(kind)}, known are {known}")
        return _reader(class_by_kind[kind])(value, "kind")

    return Codec(encode, decode)


def _sequence_codec(inner: Codec) -> Codec:
    def encode(value: Any, at: str) -> Json:
        if not is_array(value):
            raise FieldError(at, f"{shown(value)} is no sequence")
        return [inner.encode(entry, f"{at}[{i}]") for i, entry in enumerate(value)]

    def decode(value: Json) -> Any:
        if not is_array(value):
            raise FieldError("", "not a list")
        decoded: list[Any] = []
        for entry in value:
            try:
                decoded.append(inner.decode(entry))
            except FieldError as error:
                raise error.below(f"[{len(decoded)}]") from None
        return tuple(decoded)

    return Codec(encode, decode)
