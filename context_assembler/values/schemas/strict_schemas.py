"""JSON Schemas as OpenAI's strict mode takes them."""

from collections.abc import Iterator
from typing import Final

from context_assembler.values.json_shapes import is_array
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object
from context_assembler.values.wire import walk_schemas

_UNSUPPORTED: Final = (
    *("allOf", "oneOf", "not", "if", "then", "else"),
    *("dependentRequired", "dependentSchemas"),
)
_MAX_PROPERTIES: Final = 5_000
_MAX_ENUM_VALUES: Final = 1_000


def object_to_strict(schema: Json) -> str | None:
    """Return why strict mode refuses a schema, in half a sentence; `None` where it takes it.

    Source:
        https://developers.openai.com/api/docs/guides/structured-outputs (read 2026-11-27); recorded
        refusals of api.openai.com: "'additionalProperties' is required to be supplied and to be
        false", "'required' is required to be supplied and to be an array including every key in
        properties"
    """
    schemas = list(walk_schemas(schema))
    if not schemas or schemas[0].get("type") != "object":
        return "its root is no object"
    return next((reason for one in schemas for reason in _objections(one)), _too_much(schemas))


def _objections(schema: JsonObject) -> Iterator[str]:
    for keyword in _UNSUPPORTED:
        if keyword in schema:
            yield f"it has {keyword!r}"
    if not _is_object(schema):
        return
    if schema.get("additionalProperties") is not False:
        yield "an object in it is not closed by additionalProperties: false"
    required = as_array(schema.get("required"))
    for name in as_object(schema.get("properties")):
        if name not in required:
            yield f"its property {name!r} is not required"


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
    return None
