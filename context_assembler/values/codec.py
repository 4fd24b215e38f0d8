"""Values as JSON: the versioned form that stores keep, and a plain view for printing.

`encode_*` and `decode_*` are inverse to each other. A field that holds its default is left out. Only
what JSON can say goes in: text of any kind (unpaired surrogates and NULs too), integers of up to 4,300
digits, finite numbers, and objects with text keys; sequences come back as lists, other mappings as dicts.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from typing import Any, Final, Literal, TypeVar

import orjson

from context_assembler.errors import EventFormatError
from context_assembler.values.events import Session, SessionEvent
from context_assembler.values.field_codecs import (
    FieldError,
    decode_fields,
    encode_fields,
    kind_of,
)
from context_assembler.values.json_bounds import shown
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject

FORMAT_VERSION: Final = 1

_REPAIR: Final = "Restore the record from a backup, or delete its session."
_UPGRADE: Final = "Upgrade the package: pip install --upgrade context-assembler"
_JSON_ONLY: Final = (
    "Keep only what JSON can say: text, finite numbers, booleans, None, lists and objects."
)
# Marks bytes that `json` wrote because orjson cannot: orjson would misread some of them silently.
_WRITTEN_BY_JSON: Final = b" "

_Record = TypeVar("_Record", Session, SessionEvent)


def encode_event(event: SessionEvent, *, where: str = "The event") -> dict[str, Json]:
    """Return the event as JSON.

    Args:
        where: What to call the event in errors.

    Raises:
        EventFormatError: The event holds something that JSON cannot say.
    """
    return _encode(event, where)


def decode_event(encoded: Mapping[str, Json], *, where: str) -> SessionEvent:
    """Return the event that `encode_event` was given.

    Args:
        where: What to call the record in errors.

    Raises:
        EventFormatError: The record is of a newer version, or not an event.
    """
    return _decode(SessionEvent, encoded, where)


def encode_session(session: Session) -> dict[str, Json]:
    """Return the session's record as JSON.

    Raises:
        EventFormatError: The record holds something that JSON cannot say.
    """
    return _encode(session, f"The record of session {shown(session.id)}")


def decode_session(encoded: Mapping[str, Json], *, where: str) -> Session:
    """Return the session record that `encode_session` was given.

    Raises:
        EventFormatError: The record is of a newer version, or not a session.
    """
    return _decode(Session, encoded, where)


def dump_event(event: SessionEvent, *, where: str = "The event") -> bytes:
    """Return the event as bytes for a store.

    Raises:
        EventFormatError: The event holds something that JSON cannot say.
    """
    return dump_json(encode_event(event, where=where), where=where)


def load_event(
    dumped: bytes, *, where: str, beside: Mapping[str, Json] | None = None
) -> SessionEvent:
    """Return the event that `dump_event` was given.

    Args:
        where: What to call the bytes in errors.
        beside: Fields that the store keeps beside the bytes.

    Raises:
        EventFormatError: The bytes are damaged, of a newer version, or not an event.
    """
    loaded = _load_object(dumped, where)
    return decode_event({**loaded, **beside} if beside else loaded, where=where)


def dump_session(session: Session) -> bytes:
    """Return the session's record as bytes for a store."""
    return dump_json(encode_session(session))


def load_session(dumped: bytes, *, where: str) -> Session:
    """Return the session record that `dump_session` was given.

    Raises:
        EventFormatError: The bytes are damaged, of a newer version, or not a session.
    """
    return decode_session(_load_object(dumped, where), where=where)


def dump_json(value: Json, *, where: str = "The value") -> bytes:
    """Return JSON as bytes that `load_json` turns back into an equal value.

    Ordinary JSON is compact UTF-8. What orjson refuses – unpaired surrogates, integers over 64 bits,
    deep nesting – is written by the standard library behind one space, surrogates passed through.

    Raises:
        EventFormatError: The value is nested deeper than Python can follow, or holds an integer
            too long to be read back.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise _too_deep(where, act="stored") from None
    except ValueError as error:  # a number beyond the bounds
        raise EventFormatError(
            where=where, reason=str(error), remedy=_JSON_ONLY, act="stored"
        ) from None
    return _WRITTEN_BY_JSON + text.encode("utf-8", "surrogatepass")


def load_json(dumped: bytes) -> Json:
    """Return the value that `dump_json` was given.

    Raises:
        ValueError: The bytes are not JSON.
    """
    if dumped.startswith(_WRITTEN_BY_JSON):
        return json.loads(dumped.decode("utf-8", "surrogatepass"))
    return orjson.loads(dumped)


def to_json(value: object) -> Json:
    """Return any of this package's values as plain JSON, for people and other programs to read.

    Parts, sources and event bodies carry their `kind`; fields hidden from `repr` are left out;
    numbers that are not finite become text. There is no way back.

    Raises:
        TypeError: The value is neither JSON nor one of this package's values.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, date):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return _object_to_json(value)
    return _container_to_json(value)


def _container_to_json(value: Any) -> Json:
    if is_object(value):
        return {str(key): to_json(held) for key, held in value.items()}
    if is_array(value):
        return [to_json(held) for held in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _object_to_json(value: Any) -> dict[str, Json]:
    kind = kind_of(value)
    shown = {f.name: to_json(getattr(value, f.name)) for f in fields(value) if f.repr}
    return shown if kind is None else {"kind": kind, **shown}


def _load_object(dumped: bytes, where: str) -> JsonObject:
    try:
        loaded = load_json(dumped)
    except RecursionError:
        raise _too_deep(where) from None
    except ValueError as error:
        raise EventFormatError(where=where, reason=f"not JSON ({error})", remedy=_REPAIR) from error
    if not is_object(loaded):
        raise EventFormatError(where=where, reason="not a JSON object", remedy=_REPAIR)
    return loaded


def _encode(record: SessionEvent | Session, what: str) -> dict[str, Json]:
    try:
        return {"version": FORMAT_VERSION, **encode_fields(record)}
    except FieldError as error:
        raise EventFormatError(
            where=what, reason=str(error), remedy=_JSON_ONLY, act="stored"
        ) from None
    except RecursionError:
        raise _too_deep(what, act="stored") from None


def _decode(wanted: type[_Record], encoded: Mapping[str, Json], where: str) -> _Record:
    _check_version(encoded, where)
    try:
        return decode_fields(wanted, encoded, tag="version")
    except FieldError as error:
        raise EventFormatError(where=where, reason=str(error), remedy=_REPAIR) from None


def _check_version(encoded: Mapping[str, Json], where: str) -> None:
    version = encoded.get("version")
    if type(version) is not int or version < 1:
        reason = f"{shown(version)} is not a format version"
        raise EventFormatError(where=where, reason=reason, remedy=_REPAIR)
    if version > FORMAT_VERSION:
        reason = f"it has format version {version}, this package reads up to {FORMAT_VERSION}"
        raise EventFormatError(where=where, reason=reason, remedy=_UPGRADE)


def _too_deep(where: str, *, act: Literal["decoded", "stored"] = "decoded") -> EventFormatError:
    return EventFormatError(
        where=where,
        reason="it is nested too deeply",
        remedy="Flatten the value before storing it.",
        act=act,
    )
