"""JSON Schemas as OpenAI's strict mode takes them."""

import re
from collections.abc import Iterator
from typing import Final

from context_assembler.values.json_shapes import is_array
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text
from context_assembler.values.wire import walk_schemas

_UNSUPPORTED: Final = (
    *("allOf", "oneOf", "not", "if", "then", "else"),
    *("dependentRequired", "dependentSchemas", "prefixItems", "uniqueItems"),
    *("contains", "minContains", "maxContains", "unevaluatedItems", "unevaluatedProperties"),
    *("patternProperties", "propertyNames", "minProperties", "maxProperties"),
)
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")
_MAX_PROPERTIES: Final = 5_000
_MAX_ENUM_VALUES: Final = 1_000
_MAX_NAME_CHARS: Final = 120_000  # of properties, definitions, and all values of enums, together
_LARGE_ENUM_VALUES: Final = 250
_MAX_LARGE_ENUM_CHARS: Final = 15_000
_MAX_LEVELS: Final = 10


def object_to_strict(schema: Json) -> str | None:
    """Return why strict mode refuses a schema, in half a sentence; `None` where it takes it.

    Source:
        https://developers.openai.com/api/docs/guides/structured-outputs (read 2026-11-27); recorded
        refusals of api.openai.com: "'additionalProperties' is required to be supplied and to be
        false", "'required' is required to be supplied and to be an array including every key in
        properties"; recorded requests that it took, with defaults
        https://github.com/1jehuang/jcode/issues/711, /pull/551: what has no type, formats
        https://github.com/vercel/ai/pull/21037: lookaround
        `_ensure_strict_json_schema` in the openai package 3.57: what stands beside a reference
        (read 2026-11-29)
    """
    schemas = list(walk_schemas(schema))
    if not schemas or schemas[0].get("type") != "object":
        return "its root is no object"
    return next((reason for one in schemas for reason in _objections(one)), _too_much(schemas))


def _objections(schema: JsonObject) -> Iterator[str]:
    for keyword in _UNSUPPORTED:
        if keyword in schema:
            yield f"it has {keyword!r}"
    if "$ref" in schema and schema.keys() - {"$ref", "$defs", "definitions"}:
        yield "something stands beside a reference in it"
    if not schema.keys() & {"type", "anyOf", "$ref"} or _holds_flags(schema):
        yield "something in it has no type"
    if "format" in schema and schema["format"] not in _FORMATS:
        yield f"it has the format {schema['format']!r}"
    if _LOOKAROUND.search(as_text(schema.get("pattern"))):
        yield "a pattern in it looks around"
    if not _is_object(schema):
        return
    if schema.get("additionalProperties") is not False:
        yield "an object in it is not closed by additionalProperties: false"
    required = as_array(schema.get("required"))
    for name in as_object(schema.get("properties")):
        if name not in required:
            yield f"its property {name!r} is not required"


def _holds_flags(schema: JsonObject) -> bool:
    """Whether `true` or `false` stands for the schema of something in it."""
    inner = [schema.get("items"), *as_object(schema.get("properties")).values()]
    return any(isinstance(one, bool) for one in (*inner, *as_array(schema.get("anyOf"))))


def _is_object(schema: JsonObject) -> bool:
    kind = schema.get("type")
    return kind == "object" or (is_array(kind) and "object" in kind)


def _too_much(schemas: list[JsonObject]) -> str | None:
    properties = sum(len(as_object(schema.get("properties"))) for schema in schemas)
    if properties > _MAX_PROPERTIES:
        return f"it has {properties:,} properties, more than {_MAX_PROPERTIES:,}"
    values = sum(len(as_array(schema.get("enum"))) for schema in schemas)
    if values > _MAX_ENUM_VALUES:
        return f"it lists {values:,} values, more than {_MAX_ENUM_VALUES:,}"
    if sum(map(_name_chars, schemas)) > _MAX_NAME_CHARS:
        return f"its names and values have more than {_MAX_NAME_CHARS:,} characters"
    if any(map(_is_bulky, schemas)):
        return f"values of one property have more than {_MAX_LARGE_ENUM_CHARS:,} characters"
    if _levels(schemas[0]) > _MAX_LEVELS:
        return f"its objects are nested more than {_MAX_LEVELS} levels deep"
    return None


def _name_chars(schema: JsonObject) -> int:
    names = [name for key in ("properties", "$defs") for name in as_object(schema.get(key))]
    values = [*as_array(schema.get("enum")), schema.get("const")]
    return sum(len(one) for one in (*names, *values) if isinstance(one, str))


def _is_bulky(schema: JsonObject) -> bool:
    values = as_array(schema.get("enum"))
    chars = sum(len(one) for one in values if isinstance(one, str))
    return len(values) > _LARGE_ENUM_VALUES and chars > _MAX_LARGE_ENUM_CHARS


def _levels(schema: JsonObject) -> int:
    """Return how many objects lie in each other, the root among them."""
    deepest = 0
    waiting: list[tuple[Json, int]] = [(schema, 0)]
    while waiting:
        current, level = waiting.pop()
        if is_array(current):
            waiting += [(one, level) for one in current]
        fields = as_object(current)
        level += _is_object(fields)
        deepest = max(deepest, level)
        waiting += [(one, level) for one in as_object(fields.get("properties")).values()]
        waiting += [(fields[key], level) for key in ("items", "anyOf") if key in fields]
    return deepest
