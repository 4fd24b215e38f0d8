"""Gemini tools as tool specs."""

from collections.abc import Iterator
from typing import Final

from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.transcripts.tool_specs import native_spec
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.gemini_fields import snake_fields, snake_key
from context_assembler.values.native.gemini_parts import PROVIDER
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_array, as_object, as_text
from context_assembler.values.tools import ToolSpec

_DECLARATIONS: Final = "function_declarations"
_KNOWN_FIELDS: Final = frozenset({"name", "description", "parameters", "parameters_json_schema"})
# What JSON Schema calls otherwise; the SDK spells these with underscores.
_JSON_SCHEMA_KEYS: Final = {
    "any_of": "anyOf",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "additional_properties": "additionalProperties",
    "property_ordering": "propertyOrdering",
}


def read_tools(value: Json, log: IssueLog) -> tuple[ToolSpec, ...]:
    """Return the functions of a request and the tools that the server runs."""
    tools = [value] if is_object(value) else as_array(value)
    return tuple(spec for at, tool in enumerate(tools) for spec in _read_tool(tool, at, log))


def _read_tool(tool: Json, at: int, log: IssueLog) -> Iterator[ToolSpec]:
    spot = Spot(path="tools").index(at)
    fields = snake_fields(tool)
    if not fields:
        log.note(spot, "is no tool that can be read; left out")
    for key, held in fields.items():
        if key != _DECLARATIONS:
            yield native_spec(key, {key: held}, provider=PROVIDER)
            continue
        for number, declared in enumerate([held] if is_object(held) else as_array(held)):
            spec = _read_function(declared, spot.key(key).index(number), log)
            if spec is not None:
                yield spec


def _read_function(declared: Json, spot: Spot, log: IssueLog) -> ToolSpec | None:
    fields = snake_fields(declared)
    name = as_text(fields.get("name"))
    if not name:
        log.note(spot, "is no function that can be read; left out")
        return None
    log.count_unplaced(spot, sorted(fields.keys() - _KNOWN_FIELDS), kind=_DECLARATIONS)
    schema = fields.get("parameters_json_schema", _json_schema(fields.get("parameters")))
    return ToolSpec(
        name=name,
        description=as_text(fields.get("description")),
        input_schema=as_object(schema),
        source="transcript",
    )


def _json_schema(schema: Json) -> Json:
    """Return a schema of the OpenAPI subset as JSON Schema.

    Source:
        https://ai.google.dev/api/caching#Schema (read 2026-11-27)
    """
    if is_array(schema):
        return [_json_schema(entry) for entry in schema]
    if not is_object(schema):
        return schema
    converted: dict[str, Json] = {}
    for key, held in schema.items():
        spelled = _JSON_SCHEMA_KEYS.get(snake_key(key), key)
        match spelled:
            case "type" if isinstance(held, str):
                converted["type"] = held.lower()
            case "properties" if is_object(held):
                converted["properties"] = {name: _json_schema(one) for name, one in held.items()}
            case "items" | "anyOf":
                converted[spelled] = _json_schema(held)
            case "nullable":
                pass
            case _:
                converted[spelled] = held
    if schema.get("nullable") is True and isinstance(converted.get("type"), str):
        converted["type"] = [converted["type"], "null"]
    return converted
