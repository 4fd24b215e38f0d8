from typing import Any

import pytest

from context_assembler.values.schemas.strict_schemas import object_to_strict


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = closed(text={"type": "string"})
    for _ in range(levels - 1):
        schema = closed(inner={"anyOf": [{"type": "array", "items": schema}]})
    return schema


def values(count: int, chars: int) -> dict[str, Any]:
    return {"type": "string", "enum": ["a" * chars] * count}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT: dict[str, Any] = {"type": "string", "pattern": "a+", "minLength": 1}
TAKEN: dict[str, Any] = {
    "an empty object": closed(),
    "objects in objects": closed(inner=closed(text=TEXT)),
    "a choice": closed(either={"anyOf": [closed(a=TEXT), {"type": "null"}]}),
    "what may be missing": closed(text={"type": ["string", "null"]}),
    "a definition": {**closed(node={"$ref": "#/$defs/node"}), "$defs": {"node": closed()}},
    "a property named like a keyword": closed(oneOf=TEXT),
    "values": closed(kind={"enum": ["a"] * 1_000, "type": "string"}),
    "a format": closed(at={"type": "string", "format": "date-time"}),
    "ten levels": nested(10),
    "many short values": closed(kind=values(1_000, 15)),
    "few long values": closed(kind=values(250, 400)),
    "a list": closed(names={"type": "array", "items": TEXT, "minItems": 1}),
}


@pytest.mark.parametrize("schema", TAKEN.values(), ids=TAKEN.keys())
def test_what_strict_mode_takes(schema: Any) -> None:
    assert object_to_strict(schema) is None


REFUSED: dict[str, tuple[Any, str]] = {
    "nothing": (None, "its root is no object"),
    "anything": ({}, "its root is no object"),
    "an open object": ({"type": "object"}, "not closed"),
    "an object that takes more": ({**closed(), "additionalProperties": True}, "not closed"),
    "an optional property": ({**closed(a=TEXT), "required": []}, "'a' is not required"),
    "an open object inside": (closed(a={"type": "object"}), "not closed"),
    "an open object that may be null": (closed(a={"type": ["object", "null"]}), "not closed"),
    "an open object in a list": (
        closed(a={"type": "array", "items": {"type": "object"}}),
        "not closed",
    ),
    "an open object in a choice": (closed(a={"anyOf": [{"type": "object"}]}), "not closed"),
    "an open object in a definition": (
        {**closed(), "$defs": {"a": {"type": "object"}}},
        "not closed",
    ),
    "a keyword": (closed(a={"allOf": [TEXT]}), "'allOf'"),
    "a condition": (closed(a={"if": TEXT}), "'if'"),
    "a tuple": (closed(a={"type": "array", "prefixItems": [TEXT]}), "'prefixItems'"),
    "a set": (closed(a={"type": "array", "items": TEXT, "uniqueItems": True}), "'uniqueItems'"),
    "anything in a property": (closed(a={}), "has no type"),
    "anything in a list": (closed(a={"type": "array", "items": {}}), "has no type"),
    "values without a type": (closed(a={"enum": ["a", 1]}), "has no type"),
    "an alternative that only requires": (closed(a={"anyOf": [{"required": ["b"]}]}), "no type"),
    "a schema that is a flag": (closed(a=True), "has no type"),
    "a described reference": (
        {**closed(a={"$ref": "#/$defs/a", "description": "A."}), "$defs": {"a": TEXT}},
        "beside a reference",
    ),
    "another format": (closed(a={"type": "string", "format": "uri"}), "format 'uri'"),
    "a lookahead": (closed(a={"type": "string", "pattern": "(?!b)a"}), "looks around"),
    "a lookbehind": (closed(a={"type": "string", "pattern": "(?<=b)a"}), "looks around"),
    "too many properties": (
        closed(**{f"p{i}": TEXT for i in range(5_001)}),
        "5,001 properties, more than 5,000",
    ),
    "too many levels": (nested(11), "more than 10 levels"),
    "many long values": (closed(a=values(251, 60)), "more than 15,000 characters"),
    "very long names": (closed(**{"a" * 120_001: TEXT}), "more than 120,000 characters"),
    "too many values": (
        closed(a={"enum": ["a"] * 1_001, "type": "string"}),
        "1,001 values, more than 1,000",
    ),
}


@pytest.mark.parametrize(("schema", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_strict_mode_refuses(schema: Any, reason: str) -> None:
    assert reason in (object_to_strict(schema) or "")
