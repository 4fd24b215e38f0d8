from typing import Any

import pytest

from context_assembler.tokens.tool_text import tool_as_typescript, tool_as_words, words_of
from context_assembler.values.tools import ToolSpec

SCHEMAS: dict[str, tuple[dict[str, Any], str]] = {
    "string": ({"type": "string"}, "string"),
    "integer": ({"type": "integer"}, "number"),
    "boolean": ({"type": "boolean"}, "boolean"),
    "enum": ({"enum": ["a", "b"]}, '"a" | "b"'),
    "array": ({"type": "array", "items": {"type": "number"}}, "number[]"),
    "array of anything": ({"type": "array"}, "any[]"),
    "union": ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
    "list of types": ({"type": ["string", "null"]}, "string | null"),
    "reference": ({"$ref": "#/$defs/Kind"}, '"x" | "y"'),
    "reference elsewhere": ({"$ref": "other.json"}, "any"),
    "reference to nothing": ({"$ref": "#/$defs/None/x"}, "any"),
    "no schema": ({}, "any"),
    "an object": (
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        "{\nn: number,\n}",
    ),
    "an open object": ({"type": "object"}, "object"),
    "an object of odd properties": ({"type": "object", "properties": 5}, "object"),
}


def tool(schema: dict[str, Any], description: str = "") -> ToolSpec:
    return ToolSpec(name="f", description=description, input_schema=schema)


@pytest.mark.parametrize(("schema", "written"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_schema_is_written_as_a_type(schema: dict[str, Any], written: str) -> None:
    root = {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "$defs": {"Kind": {"enum": ["x", "y"]}},
    }

    assert tool_as_typescript(tool(root)) == f"type f = (_: {{\nx: {written},\n}}) => any;\n\n"


def test_descriptions_and_defaults_are_comments() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"unit": {"type": "string", "description": "C or F", "default": "C"}},
    }

    assert tool_as_typescript(tool(schema, "The weather.\nOf a place.")) == (
        "// The weather.\n// Of a place.\ntype f = (_: {\n"
        '// C or F\nunit?: string, // default: "C"\n}) => any;\n\n'
    )


def test_a_tool_without_arguments_is_short() -> None:
    assert tool_as_typescript(tool({})) == "type f = () => any;\n\n"


def test_a_schema_that_contains_itself_ends() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: {"$ref": "#"} for name in "abcdefgh"},
    }

    written = tool_as_typescript(tool(schema))

    assert "a?: any" in written
    assert len(written) < 50_000


def test_a_schema_that_nests_without_end_ends() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        schema = {"type": "array", "items": schema}
    root = {"type": "object", "properties": {"x": schema}}

    assert "x?: any[]" in tool_as_typescript(tool(root))


def test_a_property_that_is_no_schema_means_anything() -> None:
    assert "x?: any" in tool_as_typescript(tool({"type": "object", "properties": {"x": True}}))


def test_titles_and_examples_are_comments_too() -> None:
    city = {"type": "string", "title": "City", "examples": ["Rome"]}

    written = tool_as_typescript(tool({"properties": {"city": city}}))

    assert '// City\n// Examples:\n// - "Rome"\ncity?: string' in written


def test_a_line_without_text_parts_a_title_from_a_description() -> None:
    city = {"type": "string", "title": "City", "description": "Where."}

    written = tool_as_typescript(tool({"properties": {"city": city}}))

    assert "// City\n//\n// Where.\ncity?: string" in written


def test_what_the_schema_says_of_itself_stands_before_its_body() -> None:
    schema: dict[str, Any] = {"title": "Place", "description": "Some place."}
    schema["properties"] = {"x": {}}

    written = tool_as_typescript(tool(schema))

    assert written.startswith("type f = (_: // Place\n//\n// Some place.\n{\nx?: any,\n}")


def test_earlier_models_read_one_mark_for_all_lines_of_a_description() -> None:
    written = [
        tool_as_typescript(tool({}, said), marks_lines=False) for said in ("A.\n\n  B.\n", "")
    ]

    assert written == ["// A.\n\n  B.\ntype f = () => any;\n\n", "type f = () => any;\n\n"]


def test_words_are_names_descriptions_choices_and_what_is_required() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "required": ["unit", "days"],
        "description": "not read",
        "properties": {
            "unit": {"enum": ["C", "F"], "description": "Of the scale."},
            "days": {"type": "array", "items": {"type": "object", "properties": {"day": {}}}},
            "when": {"anyOf": [{"type": "null"}, {"properties": {"hour": {"type": "integer"}}}]},
            "odd": "no schema",
        },
    }

    words, types = tool_as_words(tool(schema, "Tell the weather."))

    assert words[1:] == [
        *("Tell the weather.", "unit", "days"),
        *("unit", "Of the scale.", "C", "F"),
        *("days", "day", "when", "hour", "odd"),
    ]
    assert types == 4


def test_words_that_nest_without_end_end() -> None:
    schema: dict[str, Any] = {}
    schema["properties"] = {"deeper": schema}

    assert tool_as_words(tool(schema))[1] < 100


def test_the_words_of_a_value_are_its_names_and_leaves() -> None:
    assert list(words_of({"a": [1, {"b": None}], "c": "d"})) == ["a", "1", "b", "null", "c", "d"]
