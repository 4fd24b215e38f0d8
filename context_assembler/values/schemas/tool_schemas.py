"""JSON Schemas of tools: repaired where their meaning is plain, canonical, and checked.

Canonical means: keys sorted wherever they stand, `required` sorted. Only the order of `properties` is
the author's, since models write arguments in that order (a `reason` placed first is thought of first).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from context_assembler.errors import InvalidToolError
from context_assembler.values.json_bounds import shown
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.schemas.root_objects import has_root_union, root_object_schema
from context_assembler.values.texts.cleaning import clean_object, is_clean

MAX_DEPTH: Final = 64

_TYPES: Final = frozenset(
    {"object", "array", "string", "number", "integer", "boolean", "null"},
)
_OTHER_SPELLINGS: Final[Mapping[str, str]] = {
    "dict": "object",
    "map": "object",
    "list": "array",
    "tuple": "array",
    "str": "string",
    "float": "number",
    "double": "number",
    "int": "integer",
    "long": "integer",
    "bool": "boolean",
    "none": "null",
}
_ANY_TYPE: Final = frozenset({"any", "type_unspecified"})
_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_ONE: Final = frozenset(
    {"items", "additionalProperties", "additionalItems", "contains", "not", "if", "then", "else"}
    | {"propertyNames", "unevaluatedProperties", "unevaluatedItems"}
)
_TEXTS: Final = frozenset({"description", "title", "$ref", "pattern", "format", "$id", "$schema"})
_NUMBERS: Final = frozenset(
    {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "multipleOf"}
    | {"minProperties", "maxProperties"}
)


class _UnusableError(ValueError):
    """Where and why a schema is beyond repair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalSchema:
    """A schema that is sound and canonical, and what had to be repaired in it."""

    schema: JsonObject
    repairs: tuple[str, ...] = ()


@dataclass(slots=True)
class _Repairs:
    root: JsonObject
    made: list[str] = field(default_factory=list[str])

    def note(self, text: str) -> None:
        if text not in self.made:
            self.made.append(text)


def canonical_schema(schema: Json, *, tool: str) -> CanonicalSchema:
    """Return the schema of a tool's arguments, sound and canonical; `None` means no arguments.

    Raises:
        InvalidToolError: It describes no object, is no JSON, or breaks the grammar of JSON Schema.
    """
    if schema is None:
        schema = {}
    repairs = _Repairs(root=schema)
    try:
        canonical = dict(_schema(schema, where="", depth=0, repairs=repairs))
        if not is_clean(canonical):
            repairs.note("characters that no request can carry were replaced")
            repairs.root = clean_object(canonical)
            canonical = dict(_schema(repairs.root, where="", depth=0, repairs=repairs))
        canonical["type"] = _root_type(canonical, repairs)
        if has_root_union(canonical):
            canonical = root_object_schema(canonical)
            repairs.note("the alternatives at its root are told as one object with all properties")
    except _UnusableError as error:
        raise InvalidToolError(tool, reason=f"in its schema, {error}") from None
    canonical.setdefault("properties", {})
    ordered = {key: canonical[key] for key in sorted(canonical)}
    return CanonicalSchema(schema=ordered, repairs=tuple(repairs.made))


def _root_type(schema: JsonObject, repairs: _Repairs) -> str:
    kind = schema.get("type")
    if kind is None and schema:
        repairs.note("the root had no type")
    elif is_array(kind) and "object" in kind:
        repairs.note("the root's type was a list")
    elif kind is not None and kind != "object":
        raise _UnusableError(f"the root's type is {kind!r}, not 'object'")
    return "object"


def _schema(schema: Json, *, where: str, depth: int, repairs: _Repairs) -> JsonObject:
    if not is_object(schema):
        raise _UnusableError(f"{where or 'the root'} is {_kind_of(schema)}, not a schema")
    if depth > MAX_DEPTH:
        raise _UnusableError(f"it is nested more than {MAX_DEPTH} levels deep")
    canonical: dict[str, Json] = {}
    for key in sorted(schema, key=str):
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance] - hand-made dicts
            raise _UnusableError(f"{where or 'the root'} has the key {key!r}, which is no text")
        place = f"{where}.{key}" if where else key
        value = _keyword(key, schema[key], where=place, depth=depth, repairs=repairs)
        if value is not None or key in {"default", "const"}:
            canonical[key] = value
    return canonical


def _keyword(key: str, value: Json, *, where: str, depth: int, repairs: _Repairs) -> Json:
    if value is None and key not in {"default", "const"}:
        return None
    if key == "type":
        return _type(value, where=where, repairs=repairs)
    if key == "required":
        return _required(value, where=where)
    if key in _BY_NAME:
        named = _schemas_by_name(value, where=where, depth=depth, repairs=repairs)
        return named if key == "properties" else dict(sorted(named.items()))
    if key in _LISTS or (key == "items" and is_array(value)):
        return _schemas(value, where=where, depth=depth, repairs=repairs)
    if key in _ONE:
        return _schema_or_flag(value, where=where, depth=depth, repairs=repairs)
    if key in _TEXTS and not isinstance(value, str):
        raise _UnusableError(f"{where} is {_kind_of(value)}, not text")
    if key in _NUMBERS and (not isinstance(value, int | float) or isinstance(value, bool)):
        raise _UnusableError(f"{where} is {_kind_of(value)}, not a number")
    if key == "enum" and not is_array(value):
        raise _UnusableError(f"{where} is {_kind_of(value)}, not a list")
    if key == "$ref" and isinstance(value, str):
        _check_reference(value, where=where, root=repairs.root)
    return _plain(value, where=where, depth=depth)


def _type(value: Json, *, where: str, repairs: _Repairs) -> Json:
    if is_array(value):
        names = [_type(one, where=where, repairs=repairs) for one in value]
        return None if None in names or not names else names
    if not isinstance(value, str):
        raise _UnusableError(f"{where} is {_kind_of(value)}, not the name of a type")
    if value in _TYPES:
        return value
    lowered = value.lower()
    if lowered in _ANY_TYPE:
        repairs.note(f"type {value!r} was left out: anything goes")
        return None
    meant = lowered if lowered in _TYPES else _OTHER_SPELLINGS.get(lowered)
    if meant is None:
        raise _UnusableError(f"{where} is {value!r}, which is no type of JSON Schema")
    repairs.note(f"type {value!r} was read as {meant!r}")
    return meant


def _required(value: Json, *, where: str) -> Json:
    if not is_array(value) or not all(isinstance(name, str) for name in value):
        raise _UnusableError(f"{where} is no list of names")
    return sorted(set(value))


def _schemas_by_name(value: Json, *, where: str, depth: int, repairs: _Repairs) -> dict[str, Json]:
    if not is_object(value):
        raise _UnusableError(f"{where} is {_kind_of(value)}, not an object")
    if not all(isinstance(name, str) for name in value):  # pyright: ignore[reportUnnecessaryIsInstance] - hand-made dicts
        raise _UnusableError(f"{where} has a name that is no text")
    return {
        name: _schema_or_flag(one, where=f"{where}.{name}", depth=depth, repairs=repairs)
        for name, one in value.items()
    }


def _schemas(value: Json, *, where: str, depth: int, repairs: _Repairs) -> Json:
    if not is_array(value):
        raise _UnusableError(f"{where} is {_kind_of(value)}, not a list")
    return [
        _schema_or_flag(one, where=f"{where}[{index}]", depth=depth, repairs=repairs)
        for index, one in enumerate(value)
    ]


def _schema_or_flag(value: Json, *, where: str, depth: int, repairs: _Repairs) -> Json:
    if isinstance(value, bool):
        return value
    return _schema(value, where=where, depth=depth + 1, repairs=repairs)


def _check_reference(reference: str, *, where: str, root: JsonObject) -> None:
    if not reference.startswith("#/"):
        return
    found: Json = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not is_object(found) or name not in found:
            raise _UnusableError(f"{where} points to {reference!r}, which does not exist")
        found = found[name]


def _plain(value: Json, *, where: str, depth: int) -> Json:
    """Return any other JSON value, the keys of its objects sorted."""
    if depth > MAX_DEPTH:
        raise _UnusableError(f"it is nested more than {MAX_DEPTH} levels deep")
    if is_object(value):
        named = {str(key): one for key, one in value.items()}
        return {key: _plain(named[key], where=where, depth=depth + 1) for key in sorted(named)}
    if is_array(value):
        return [_plain(one, where=where, depth=depth + 1) for one in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    raise _UnusableError(f"{where} holds {_kind_of(value)}, which is no JSON")


def _kind_of(value: Json) -> str:
    if is_object(value):
        return "an object"
    return "a list" if is_array(value) else f"{type(value).__name__} {shown(value, chars=40)}"
