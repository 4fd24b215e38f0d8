"""Schemas of tools: repaired, canonical, checked."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from context_assembler.errors import InvalidToolError
from context_assembler.values.schemas.tool_schemas import canonical_schema
from context_assembler.values.wire import walk_schemas


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return {"type": "object", "properties": {"a": schema}}


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def check_draft(schema: Any) -> None:
    """Hold a schema against the draft of 2020, patterns included, as APIs do."""
    formats = Draft202012Validator.FORMAT_CHECKER
    Draft202012Validator.check_schema(schema, format_checker=FormatChecker(formats=["regex"]))
    assert "regex" in formats.checkers
    for one in walk_schemas(schema):
        assert "items" in one or "array" not in str(one.get("type"))


LONE = "\ud800"  # half of a surrogate pair
EMPTY: dict[str, Any] = {"properties": {}, "type": "object"}

REPAIRED: dict[str, tuple[Any, Any, int]] = {
    "nothing": (None, EMPTY, 0),
    "an empty object": ({}, EMPTY, 0),
    "a sound one": ({"type": "object", "properties": {}}, EMPTY, 0),
    "no type at the root": ({"properties": {}}, EMPTY, 1),
    "nullable root": ({"type": ["object", "null"]}, EMPTY, 1),
    "a Python type": (
        {"type": "dict", "properties": {"a": {"type": "float"}, "b": {"type": "float"}}},
        None,
        2,
    ),
    "a type in capitals": ({"type": "OBJECT"}, EMPTY, 1),
    "any type": (
        {"type": "object", "properties": {"a": {"type": "any"}}},
        {"type": "object", "properties": {"a": {}}},
        1,
    ),
    "one of any types": (
        {"type": "object", "properties": {"a": {"type": ["string", "any"]}}},
        {"type": "object", "properties": {"a": {}}},
        1,
    ),
    "an empty list of types": (
        {"type": "object", "properties": {"a": {"type": []}}},
        {"type": "object", "properties": {"a": {}}},
        0,
    ),
    "keywords without a value": (
        {"type": "object", "description": None, "required": None, "items": None, "$defs": None},
        EMPTY,
        0,
    ),
    "a default of null": (
        {"type": "object", "properties": {"a": {"default": None}}},
        {"type": "object", "properties": {"a": {"default": None}}},
        0,
    ),
    "a default that is an object, and numbers": (
        {"type": "object", "default": {"b": [1.5, None, True], "a": "é"}, "minProperties": 1},
        {**EMPTY, "default": {"b": [1.5, None, True], "a": "é"}, "minProperties": 1},
        0,
    ),
    "a property named like a keyword": (
        {"type": "object", "properties": {"type": {"type": "string"}, "required": True}},
        {"type": "object", "properties": {"type": {"type": "string"}, "required": True}},
        0,
    ),
    "a lone surrogate": (
        {"type": "object", "description": "a\ud800é"},
        {**EMPTY, "description": "a\ufffdé"},
        1,
    ),
    "a pair of surrogates, and a NUL": (
        {"type": "object", "description": "a\ud83d\ude00\0"},
        {**EMPTY, "description": "a😀"},
        1,
    ),
    "names that cleaning makes alike": (
        {"type": "object", "properties": {LONE: {}, "\ufffd": {}}, "required": [LONE]},
        {"type": "object", "properties": {"\ufffd": {}, "\ufffd_2": {}}, "required": ["\ufffd"]},
        1,
    ),
    "a reference that has to be cleaned": (
        {"type": "object", "$defs": {"\ud800": {}}, "$ref": "#/$defs/\ud800"},
        EMPTY,
        2,
    ),
    "items by position, the old way": (
        {"type": "object", "properties": {"a": {"items": [{"type": "int"}]}}},
        {"type": "object", "properties": {"a": {"prefixItems": [{"type": "integer"}]}}},
        2,
    ),
    "items by position, and of what follows": (
        {"type": "object", "properties": {"a": {"items": [{}], "additionalItems": False}}},
        {"type": "object", "properties": {"a": {"items": False, "prefixItems": [{}]}}},
        1,
    ),
    "an exclusive bound that is a flag": (
        {"type": "object", "properties": {"a": {"minimum": 0, "exclusiveMinimum": True}}},
        {"type": "object", "properties": {"a": {"exclusiveMinimum": 0}}},
        1,
    ),
    "a bound that a flag includes": (
        {"type": "object", "properties": {"a": {"maximum": 9, "exclusiveMaximum": False}}},
        {"type": "object", "properties": {"a": {"maximum": 9}}},
        1,
    ),
    "an array of anything": (
        {
            "type": "object",
            "properties": {"a": {"type": "array"}, "b": {"type": ["null", "array"]}},
        },
        {
            "type": "object",
            "properties": {
                "a": {"items": {}, "type": "array"},
                "b": {"items": {}, "type": ["null", "array"]},
            },
        },
        0,
    ),
    "a pattern of another language": (
        {"type": "object", "properties": {"a": {"description": "A name.", "pattern": r"^\p{L}+$"}}},
        {
            "type": "object",
            "properties": {"a": {"description": "A name.\nIt matches the pattern ^\\p{L}+$"}},
        },
        1,
    ),
    "names by a pattern of another language": (
        {"type": "object", "patternProperties": {r"\p{L}": {}, "^x": {}}},
        {**EMPTY, "patternProperties": {"^x": {}}},
        1,
    ),
    "properties that say that they are required": (
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "required": True},
                "b": {"required": False},
                "c": {"properties": {"d": {"required": True}}},
            },
            "required": ["c"],
        },
        {
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "b": {},
                "c": {"properties": {"d": {}}, "required": ["d"]},
            },
            "required": ["a", "c"],
        },
        1,
    ),
    "no alternatives": (
        {"type": "object", "properties": {"a": {"anyOf": [], "type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "string"}}},
        1,
    ),
    "an id that is an anchor": (
        {"type": "object", "$defs": {"a": {"$id": "#a"}}, "properties": {"b": {"$ref": "#a"}}},
        {"type": "object", "$defs": {"a": {"$anchor": "a"}}, "properties": {"b": {"$ref": "#a"}}},
        1,
    ),
}


@pytest.mark.parametrize(("schema", "canonical", "repairs"), REPAIRED.values(), ids=REPAIRED.keys())
def test_what_is_plainly_meant_is_repaired(schema: Any, canonical: Any, repairs: int) -> None:
    found = canonical_schema(schema, tool="t")

    assert len(found.repairs) == repairs
    assert canonical is None or found.schema == canonical
    check_draft(found.schema)


UNUSABLE: dict[str, tuple[Any, str]] = {
    "a list": ([], "the root is a list"),
    "another type at the root": ({"type": "string"}, "root's type is 'string'"),
    "an unknown type": (
        {"type": "object", "properties": {"a": {"type": "blob"}}},
        "properties.a.type",
    ),
    "a type that is a number": ({"type": 3}, "not the name of a type"),
    "required that is no list": ({"type": "object", "required": True}, "required is no list"),
    "properties that are a list": ({"type": "object", "properties": ["a"]}, "properties is a list"),
    "a property that is text": (
        {"type": "object", "properties": {"a": "b"}},
        "properties.a is str",
    ),
    "a property that is null": (
        {"type": "object", "properties": {"a": None}},
        "properties.a is None",
    ),
    "alternatives that are an object": ({"type": "object", "anyOf": {}}, "anyOf is an object"),
    "a description that is a list": ({"type": "object", "description": ["a"]}, "not text"),
    "a minimum that is text": ({"type": "object", "minProperties": "1"}, "not a number"),
    "an enum that is text": ({"type": "object", "enum": "a"}, "enum is str"),
    "a reference to nowhere": ({"type": "object", "$ref": "#/$defs/A"}, "does not exist"),
    "a key that is no text": ({"type": "object", 1: 2}, "the key 1"),
    "a property's name that is no text": ({"type": "object", "properties": {1: {}}}, "no text"),
    "infinity": ({"type": "object", "default": float("inf")}, "no JSON"),
    "an object of Python": ({"type": "object", "default": object()}, "no JSON"),
    "endless nesting": (nested(80), "more than 64 levels"),
    "endless nesting of a value": ({"type": "object", "default": deep(80)}, "more than 64 levels"),
}


@pytest.mark.parametrize(("schema", "says"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_what_no_repair_makes_usable_is_refused_with_its_place(schema: Any, says: str) -> None:
    with pytest.raises(InvalidToolError, match=says) as caught:
        canonical_schema(schema, tool="search")

    assert caught.value.name == "search"


def test_keywords_are_sorted_and_properties_keep_their_order() -> None:
    first = {
        "type": "object",
        "required": ["z", "a"],
        "properties": {"z": {"type": "string"}, "a": {}},
    }
    second = {
        "properties": {"z": {"type": "string"}, "a": {}},
        "required": ["a", "z"],
        "type": "object",
    }

    canonical = canonical_schema(first, tool="t").schema

    assert json.dumps(canonical) == json.dumps(canonical_schema(second, tool="t").schema)
    assert list(canonical) == ["properties", "required", "type"]
    assert list(canonical["properties"]) == ["z", "a"]


def test_references_within_the_schema_are_followed() -> None:
    schema: Any = {
        "type": "object",
        "$defs": {"a/b": {}},
        "properties": {"x": {"$ref": "#/$defs/a~1b"}},
    }

    assert canonical_schema(schema, tool="t").repairs == ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "anyOf", "required", "enum", "$ref", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_value_is_a_sound_schema_afterwards_or_refused(value: Any) -> None:
    try:
        canonical = canonical_schema(value, tool="t")
    except InvalidToolError:
        return

    text = json.dumps(canonical.schema, allow_nan=False)
    again = canonical_schema(json.loads(text), tool="t")
    assert json.dumps(again.schema) == text
    assert again.repairs == ()


KEYWORDS = sorted(
    {*Draft202012Validator.VALIDATORS, "definitions", "dependencies", "additionalItems", "nullable"}
    | {"$anchor", "$dynamicAnchor", "$recursiveAnchor", "$recursiveRef", "$id", "$vocabulary"}
    | {"$comment", "title", "description", "default", "examples", "deprecated", "readOnly"}
    | {"writeOnly", "contentEncoding", "contentMediaType", "minContains", "maxContains", "else"}
)


@given(
    st.dictionaries(
        st.sampled_from(KEYWORDS), json_values | st.sampled_from(["[", "#a", True]), max_size=3
    )
)
def test_whatever_its_keywords_hold_a_schema_passes_the_draft_or_is_refused(
    keywords: dict[str, Any],
) -> None:
    schema: Any = {"type": "object", "properties": {"a": keywords}}
    try:
        canonical = canonical_schema(schema, tool="t").schema
    except InvalidToolError:
        return

    check_draft(canonical)
    assert canonical_schema(canonical, tool="t").repairs == ()
