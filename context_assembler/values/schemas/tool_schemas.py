"""JSON Schemas of tools: repaired where their meaning is plain, canonical, and checked.

Sound means: as the draft of 2020 has it, whatever draft it was written for.
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
from context_assembler.values.schemas.draft_2020 import (
    ONE_SCHEMA,
    SCHEMA_LISTS,
    SCHEMAS_BY_NAME,
    lift_required,
    spell_as_2020,
)
from context_assembler.values.schemas.listed_targets import name_listed_targets
from context_assembler.values.schemas.references import (
    References,
    UnusableSchemaError,
    without_unused_definitions,
)
from context_assembler.values.schemas.root_objects import (
    has_root_union,
    root_chain,
    root_object_schema,
)
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
_TEXTS: Final = frozenset({"description", "title", "$ref", "pattern", "format", "$id", "$schema"})
_NUMBERS: Final = frozenset(
    {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "multipleOf"}
    | {"minProperties", "maxProperties"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalSchema:
    """A schema that is sound and canonical, and what had to be repaired in it."""

    schema: JsonObject
    repairs: tuple[str, ...] = ()


@dataclass(slots=True)
class _Repairs:
    references: References
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
    repairs = _Repairs(references=References(schema))
    try:
        canonical = _schema(schema, where="", depth=0, repairs=repairs)
        if not is_clean(canonical):
            repairs.note("characters that no request can carry were replaced")
            cleaned = clean_object(canonical)
            repairs.references = References(cleaned)
            canonical = _schema(cleaned, where="", depth=0, repairs=repairs)
        plain = _with_plain_root(canonical, repairs)
    except UnusableSchemaError as error:
        raise InvalidToolError(tool, reason=f"in its schema, {error}") from None
    plain.setdefault("properties", {})
    spelled = spell_as_2020(plain, repairs.note)
    return CanonicalSchema(schema=spelled, repairs=tuple(repairs.made))


def _with_plain_root(schema: JsonObject, repairs: _Repairs) -> dict[str, Json]:
    """Return the schema with one object at its root, without a reference or a union there."""
    named = name_listed_targets(schema)
    if named is not schema:
        repairs.note("what references reach through lists has definitions of its own")
        schema = named
    _check_root_types(schema, repairs)
    reference = schema.get("$ref")
    if reference is not None:
        is_inside = References(schema).target_of(reference) is not None
        did = "is told in place" if is_inside else "leads out of the schema and was left out"
        repairs.note(f"the reference {shown(reference, chars=80)} at its root {did}")
    if has_root_union(schema):
        repairs.note("the alternatives at its root are told as one object with all properties")
    elif reference is None:
        return {**schema, "type": "object"}
    return without_unused_definitions(root_object_schema(schema))


def _check_root_types(schema: JsonObject, repairs: _Repairs) -> None:
    kinds = [one["type"] for one in root_chain(schema) if "type" in one]
    if not kinds and schema:
        repairs.note("the root had no type")
    for kind in kinds:
        if is_array(kind) and "object" in kind:
            repairs.note("the root's type was a list")
        elif kind != "object":
            raise UnusableSchemaError(f"the root's type is {kind!r}, not 'object'")


def _schema(schema: Json, *, where: str, depth: int, repairs: _Repairs) -> JsonObject:
    if not is_object(schema):
        raise UnusableSchemaError(f"{where or 'the root'} is {_kind_of(schema)}, not a schema")
    if depth > MAX_DEPTH:
        raise UnusableSchemaError(f"it is nested more than {MAX_DEPTH} levels deep")
    schema = lift_required(schema, repairs.note)
    canonical: dict[str, Json] = {}
    for key in sorted(schema, key=str):
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance] - hand-made dicts
            raise UnusableSchemaError(
                f"{where or 'the root'} has the key {key!r}, which is no text"
            )
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
    if key in SCHEMAS_BY_NAME:
        named = _schemas_by_name(value, where=where, depth=depth, repairs=repairs)
        return named if key == "properties" else dict(sorted(named.items()))
    if key in SCHEMA_LISTS or (key == "items" and is_array(value)):
        return _schemas(value, where=where, depth=depth, repairs=repairs)
    if key in ONE_SCHEMA:
        return _schema_or_flag(value, where=where, depth=depth, repairs=repairs)
    if key in _TEXTS and not isinstance(value, str):
        raise UnusableSchemaError(f"{where} is {_kind_of(value)}, not text")
    if key in _NUMBERS and (not isinstance(value, int | float) or isinstance(value, bool)):
        raise UnusableSchemaError(f"{where} is {_kind_of(value)}, not a number")
    if key == "enum" and not is_array(value):
        raise UnusableSchemaError(f"{where} is {_kind_of(value)}, not a list")
    if key == "$ref" and isinstance(value, str):
        _check_reference(value, where=where, references=repairs.references)
    return _plain(value, where=where, depth=depth)


def _type(value: Json, *, where: str, repairs: _Repairs) -> Json:
    if is_array(value):
        names = [_type(one, where=where, repairs=repairs) for one in value]
        return None if None in names or not names else list(dict.fromkeys(names))
    if not isinstance(value, str):
        raise UnusableSchemaError(f"{where} is {_kind_of(value)}, not the name of a type")
    if value in _TYPES:
        return value
    lowered = value.lower()
    if lowered in _ANY_TYPE:
        repairs.note(f"type {value!r} was left out: anything goes")
        return None
    meant = lowered if lowered in _TYPES else _OTHER_SPELLINGS.get(lowered)
    if meant is None:
        raise UnusableSchemaError(f"{where} is {value!r}, which is no type of JSON Schema")
    repairs.note(f"type {value!r} was read as {meant!r}")
    return meant


def _required(value: Json, *, where: str) -> Json:
    if not is_array(value) or not all(isinstance(name, str) for name in value):
        raise UnusableSchemaError(f"{where} is no list of names")
    return sorted(set(value))


def _schemas_by_name(value: Json, *, where: str, depth: int, repairs: _Repairs) -> dict[str, Json]:
    if not is_object(value):
        raise UnusableSchemaError(f"{where} is {_kind_of(value)}, not an object")
    if not all(isinstance(name, str) for name in value):  # pyright: ignore[reportUnnecessaryIsInstance] - hand-made dicts
        raise UnusableSchemaError(f"{where} has a name that is no text")
    return {
        name: _schema_or_flag(one, where=f"{where}.{name}", depth=depth, repairs=repairs)
        for name, one in value.items()
    }


def _schemas(value: Json, *, where: str, depth: int, repairs: _Repairs) -> Json:
    if not is_array(value):
        raise UnusableSchemaError(f"{where} is {_kind_of(value)}, not a list")
    return [
        _schema_or_flag(one, where=f"{where}[{index}]", depth=depth, repairs=repairs)
        for index, one in enumerate(value)
    ]


def _schema_or_flag(value: Json, *, where: str, depth: int, repairs: _Repairs) -> Json:
    if isinstance(value, bool):
        return value
    return _schema(value, where=where, depth=depth + 1, repairs=repairs)


def _check_reference(reference: str, *, where: str, references: References) -> None:
    if reference.startswith("#/") and references.target_of(reference) is None:
        raise UnusableSchemaError(f"{where} points to {reference!r}, which does not exist")


def _plain(value: Json, *, where: str, depth: int) -> Json:
    """Return any other JSON value, the keys of its objects sorted."""
    if depth > MAX_DEPTH:
        raise UnusableSchemaError(f"it is nested more than {MAX_DEPTH} levels deep")
    if is_object(value):
        named = {str(key): one for key, one in value.items()}
        return {key: _plain(named[key], where=where, depth=depth + 1) for key in sorted(named)}
    if is_array(value):
        return [_plain(one, where=where, depth=depth + 1) for one in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    raise UnusableSchemaError(f"{where} holds {_kind_of(value)}, which is no JSON")


def _kind_of(value: Json) -> str:
    if is_object(value):
        return "an object"
    return "a list" if is_array(value) else f"{type(value).__name__} {shown(value, chars=40)}"
