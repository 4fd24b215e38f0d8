"""Whether a value suits a JSON Schema, as far as it can be told without doubt."""

from collections.abc import Iterator
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_array, as_object, as_text

_MAX_DEPTH: Final = 64


def objections_to_example(example: Json, schema: Json) -> Iterator[str]:
    """Yield where and why an example does not suit its schema.

    Types, required and closed properties, lists and fixed values are looked at; a schema that says
    more, by a reference or a union, is given the benefit of the doubt there.
    """
    waiting: list[tuple[str, Json, Json]] = [("", example, schema)]
    while waiting:
        where, value, wanted = waiting.pop()
        fields = as_object(wanted)
        reason = _objection(value, fields)
        if reason is not None:
            yield f"{where or 'the example'} {reason}"
            continue
        if where.count(".") + where.count("[") < _MAX_DEPTH:
            waiting.extend(_inside(where, value, fields))


def _inside(where: str, value: Json, schema: dict[str, Json]) -> Iterator[tuple[str, Json, Json]]:
    if is_object(value):
        properties = as_object(schema.get("properties"))
        for name in value.keys() & properties.keys():
            yield f"{where}.{name}", value[name], properties[name]
    elif is_array(value) and is_object(schema.get("items")):
        for index, entry in enumerate(value):
            yield f"{where}[{index}]", entry, schema["items"]


def _objection(value: Json, schema: dict[str, Json]) -> str | None:
    kinds = _kinds(schema.get("type"))
    if kinds and not any(_is_a(kind, value) for kind in kinds):
        return f"is no {' or '.join(kinds)}"
    if "enum" in schema and value not in as_array(schema["enum"]):
        return "is none of the values in enum"
    if "const" in schema and value != schema["const"]:
        return "is not the value in const"
    return _objection_to_keys(value, schema) if is_object(value) else None


def _objection_to_keys(value: Json, schema: dict[str, Json]) -> str | None:
    given = set(as_object(value))
    missing = set(map(as_text, as_array(schema.get("required")))) - given - {""}
    if missing:
        return f"has no {', '.join(sorted(missing))}"
    is_closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    unknown = given - as_object(schema.get("properties")).keys() if is_closed else set[str]()
    return f"has the unknown {', '.join(sorted(unknown))}" if unknown else None


def _kinds(kind: Json) -> list[str]:
    named = [kind] if isinstance(kind, str) else as_array(kind)
    return [as_text(name) for name in named]


def _is_a(kind: str, value: Json) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "object":
            return is_object(value)
        case "array":
            return is_array(value)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "number":
            return is_number
        case "integer":
            return is_number and (isinstance(value, int) or value.is_integer())
        case _:
            return True
