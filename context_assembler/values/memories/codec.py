"""Memories as JSON and JSON Lines: versioned, and nothing in them that is not known is lost."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Any, Final

from context_assembler.errors import AssemblyError, MemoryFormatError
from context_assembler.values.codec import dump_json
from context_assembler.values.field_codecs import decode_fields, encode_fields
from context_assembler.values.json_bounds import broken_bound, load_bounded_json, shown
from context_assembler.values.json_shapes import is_object
from context_assembler.values.leaf_codecs import FieldError, to_plain_json
from context_assembler.values.memories.kinds import KINDS, MemoryKind, check_kind
from context_assembler.values.memories.metadata import Metadata
from context_assembler.values.memories.records import USUAL_IMPORTANCE, MemoryRecord
from context_assembler.values.memories.vectors import Vector
from context_assembler.values.parts import Json
from context_assembler.values.texts.cleaning import clean_text

MEMORY_FORMAT_VERSION: Final = 1

_UPGRADE: Final = "Upgrade the package: pip install --upgrade context-assembler"
_CORRECT: Final = "Correct the record, or leave it out."
_JSON_ONLY: Final = "Keep only what JSON can say, nested no deeper than a few levels."
_OWN_FIELDS: Final = frozenset({field.name for field in fields(MemoryRecord)} | {"version"}) - {
    "extras"
}
_TEXTS: Final = ("id", "namespace", "session_id", "parent_id", "author")
_TIMES: Final = ("created_at", "last_access_at")


def encode_memory(record: MemoryRecord, *, where: str = "The memory") -> dict[str, Json]:
    """Return the record as JSON; what holds its default is left out.

    Raises:
        MemoryFormatError: It holds something that JSON cannot say.
    """
    encoded: dict[str, Json] = {
        "version": MEMORY_FORMAT_VERSION,
        "kind": record.kind,
        "text": record.text,
    }
    encoded |= {name: value for name in _TEXTS if (value := getattr(record, name))}
    encoded |= {name: time.isoformat() for name in _TIMES if (time := getattr(record, name))}
    if record.importance != USUAL_IMPORTANCE:
        encoded["importance"] = record.importance
    if record.access_count:
        encoded["access_count"] = record.access_count
    if record.vector is not None:
        codes = b64encode(record.vector.codes).decode()
        encoded["vector"] = {"model": record.vector.model, "codes": codes}
    return encoded | encode_details(record, where=where)


def decode_memory(encoded: Json, *, where: str, line: int | None = None) -> MemoryRecord:
    """Return the record that `encode_memory` was given; fields that are not known go to `extras`.

    Args:
        where: What to call the source in errors.
        line: Which of its lines this is, from 1.

    Raises:
        MemoryFormatError: It is of a newer version, or no memory.
        InvalidContextTypeError: Its kind does not exist.
    """
    try:
        return _decode(encoded)
    except FieldError as error:
        reason, remedy = str(error), _CORRECT
        if isinstance(error, _NewerVersionError):
            remedy = _UPGRADE
        raise MemoryFormatError(where=where, line=line, reason=reason, remedy=remedy) from None


def encode_details(record: MemoryRecord, *, where: str = "The memory") -> dict[str, Json]:
    """Return what is known beside the plain fields: `metadata` with what is not known, and extras.

    Raises:
        MemoryFormatError: It holds something that JSON cannot say.
    """
    if record.metadata is None and not record.extras:
        return {}
    try:
        return _encode_details(record)
    except (FieldError, RecursionError) as error:
        raise MemoryFormatError(
            where=where, reason=str(error), remedy=_JSON_ONLY, act="stored"
        ) from None


def decode_details(
    kind: MemoryKind, details: Mapping[str, Json]
) -> tuple[Metadata | None, dict[str, Json]]:
    """Return metadata and extras of what `encode_details` gave.

    Raises:
        FieldError: A field of the metadata is of the wrong type.
    """
    extras = dict(details)
    encoded: Json = extras.pop("metadata", None)
    if encoded is None:
        return None, extras
    if not is_object(encoded):
        raise FieldError("metadata", "not an object")
    own = _fields_of(kind)
    known = {name: value for name, value in encoded.items() if name in own}
    unknown = {name: value for name, value in encoded.items() if name not in own}
    if unknown:
        extras["metadata"] = unknown
    return _read_metadata(kind, known), extras


def says_something(record: MemoryRecord) -> bool:
    """Whether anything is left of the text once it is cleaned."""
    return bool(clean_text(record.text).strip())


def write_memories(records: Iterable[MemoryRecord]) -> Iterator[bytes]:
    """Yield the records as JSON Lines, each with its line feed.

    Raises:
        MemoryFormatError: A record holds something that JSON cannot say.
    """
    for record in records:
        where = f"The memory {record.id!r}"
        yield dump_json(encode_memory(record, where=where), where=where).lstrip() + b"\n"


def read_memories(lines: Iterable[bytes], *, name: str = "The memories") -> Iterator[MemoryRecord]:
    """Yield the records of JSON Lines; empty lines are passed over.

    Args:
        name: What to call the source in errors.

    Raises:
        MemoryFormatError: A line is no memory, says nothing, or is of a newer version; the error
            names it.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _read_line(line, name, number)


def _read_line(line: bytes, name: str, number: int) -> MemoryRecord:
    try:
        return _saying_something(
            decode_memory(load_bounded_json(line), where=name, line=number), name, number
        )
    except MemoryFormatError:
        raise
    except AssemblyError as error:
        raise MemoryFormatError(
            where=name, line=number, reason=error.problem.rstrip("."), remedy=error.remedy
        ) from error
    except ValueError as error:
        raise MemoryFormatError(
            where=name, line=number, reason=f"not JSON ({error})", remedy=_CORRECT
        ) from None


def _saying_something(record: MemoryRecord, name: str, number: int) -> MemoryRecord:
    if not says_something(record):
        raise MemoryFormatError(
            where=name, line=number, reason="text: it says nothing", remedy=_CORRECT
        )
    return record


class _NewerVersionError(FieldError):
    """A record of a format that this version does not know."""


def _decode(encoded: Json) -> MemoryRecord:
    if not is_object(encoded):
        raise FieldError("", "not an object")
    left: dict[str, Any] = dict(encoded)
    _check_version(left.pop("version", MEMORY_FORMAT_VERSION))
    kind = check_kind(left.get("kind", "memories"))
    found: dict[str, Any] = {"kind": kind, "text": _text(left, "text")}
    found |= {name: _text(left, name) for name in _TEXTS if left.get(name) is not None}
    found |= {name: _time(left, name) for name in _TIMES if left.get(name) is not None}
    if left.get("importance") is not None:
        found["importance"] = _number(left, "importance")
    if left.get("access_count") is not None:
        found["access_count"] = _whole(left, "access_count")
    if left.get("vector") is not None:
        found["vector"] = _vector(left["vector"])
    rest = {n: v for n, v in left.items() if n == "metadata" or n not in _OWN_FIELDS}
    metadata, extras = decode_details(kind, rest)
    return MemoryRecord(**found, metadata=metadata, extras=extras)


def _check_version(version: Json) -> None:
    if type(version) is not int or version < 1:
        raise FieldError("version", f"{shown(version)} is not a format version")
    if version > MEMORY_FORMAT_VERSION:
        raise _NewerVersionError(
            "version", f"{version} is newer than {MEMORY_FORMAT_VERSION}, the newest known here"
        )


def _text(encoded: Mapping[str, Json], name: str) -> str:
    if name not in encoded:
        raise FieldError(name, "missing")
    value = encoded[name]
    if not isinstance(value, str):
        raise FieldError(name, f"{shown(value)} is not text")
    return value


def _time(encoded: Mapping[str, Json], name: str) -> datetime:
    try:
        return datetime.fromisoformat(_text(encoded, name))
    except ValueError:
        raise FieldError(name, f"{shown(encoded[name])} is not an ISO 8601 time") from None


def _number(encoded: Mapping[str, Json], name: str) -> float:
    value = encoded[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FieldError(name, f"{shown(value)} is not a number")
    return value


def _whole(encoded: Mapping[str, Json], name: str) -> int:
    value = _number(encoded, name)
    if isinstance(value, float) and not value.is_integer():
        raise FieldError(name, f"{shown(value)} is not a whole number")
    return int(value)


def _vector(encoded: Json) -> Vector:
    if not is_object(encoded):
        raise FieldError("vector", "not an object")
    try:
        codes = b64decode(_text(encoded, "codes"), validate=True)
    except ValueError:
        raise FieldError("vector.codes", "not base64") from None
    return Vector(model=_text(encoded, "model"), codes=codes)


def _encode_details(record: MemoryRecord) -> dict[str, Json]:
    details: dict[str, Json] = to_plain_json(record.extras, "extras")
    unknown: Json = details.pop("metadata", {})
    known = {} if record.metadata is None else encode_fields(record.metadata, "metadata")
    if not is_object(unknown) or not unknown.keys().isdisjoint(_fields_of(record.kind)):
        raise FieldError("extras.metadata", "may only hold fields that the kind has not")
    if clash := details.keys() & _OWN_FIELDS:
        raise FieldError(f"extras.{min(clash)}", "is a field of its own")
    if metadata := {**known, **unknown}:
        details["metadata"] = metadata
    if (broken := broken_bound(details)) is not None:
        raise FieldError("extras", broken)
    return details


@cache
def _fields_of(kind: MemoryKind) -> frozenset[str]:
    return frozenset(field.name for field in fields(KINDS[kind].metadata))


def _read_metadata(kind: MemoryKind, known: dict[str, Json]) -> Metadata | None:
    if not known:
        return None
    try:
        return decode_fields(KINDS[kind].metadata, known)
    except FieldError as error:
        raise FieldError("metadata", str(error)) from None
