"""Schemas of functions are spelled as the API takes them, or the tool is left out alone."""

from dataclasses import replace
from typing import Any

import pytest
from google.genai import types

from context_assembler.providers.gemini import GEMINI
from context_assembler.providers.gemini.schemas import dangling_reference, fit_schemas, spell_schema
from context_assembler.values.tools import ToolSpec
from tests.providers.drafts import GEMINI_4, READ_FILE, draft

NODE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
    "required": ["children", "name"],
}


def obj(required: Any = None, **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return made if required is None else {**made, "required": required}


SPELLED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing to change": (obj(a={"type": "string"}), obj(a={"type": "string"})),
    "a lone reference": (obj(a={"$ref": "#/$defs/A"}), obj(a={"$ref": "#/$defs/A"})),
    "words beside a reference": (
        obj(a={"$ref": "#/$defs/A", "description": "x"}),
        obj(a={"description": "x", "anyOf": [{"$ref": "#/$defs/A"}]}),
    ),
    "a choice beside a reference": (
        obj(a={"$ref": "#/$defs/A", "anyOf": [{}]}),
        obj(a={"$ref": "#/$defs/A", "anyOf": [{}]}),
    ),
    "a name like a keyword": (
        obj(default={"$ref": "#/$defs/A", "title": "x"}, **{"$ref": {"type": "string"}}),
        obj(
            default={"title": "x", "anyOf": [{"$ref": "#/$defs/A"}]}, **{"$ref": {"type": "string"}}
        ),
    ),
    "a value like a schema": (
        obj(a={"type": "object", "default": {"$ref": "x", "b": 1}}),
        obj(a={"type": "object", "default": {"$ref": "x", "b": 1}}),
    ),
    "a reference at the root": (
        {"$ref": "#/$defs/A", "$defs": {"A": obj(["b"], b={"type": "string"})}},
        {
            **obj(["b"], b={"type": "string"}),
            "$defs": {"A": obj(["b"], b={"type": "string"})},
        },
    ),
    "an encoded reference at the root": (
        {"$ref": "#/$defs/My%20Type", "$defs": {"My Type": obj(b={"type": "string"})}},
        {**obj(b={"type": "string"}), "$defs": {"My Type": obj(b={"type": "string"})}},
    ),
    "a lost reference at the root": ({"$ref": "#/$defs/A"}, obj()),
}


@pytest.mark.parametrize(("schema", "spelled"), SPELLED.values(), ids=SPELLED.keys())
def test_a_schema_is_spelled(schema: dict[str, Any], spelled: dict[str, Any]) -> None:
    assert spell_schema(schema) == spelled


REFERENCES: dict[str, tuple[str, bool]] = {
    "a definition": ("#/$defs/A", True),
    "the root": ("#", True),
    "a name with a slash": ("#/$defs/b~1c", True),
    "a percent-encoded name": ("#/$defs/my%20type", True),
    "an encoded slash": ("#/$defs/b%7E1c", True),
    "an anchor": ("#here", True),
    "an id": ("https://x/a", True),
    "a definition that is none": ("#/$defs/Z", False),
    "an address": ("https://example.com/schema", False),
    "an anchor that is none": ("#there", False),
}


@pytest.mark.parametrize(("reference", "is_inside"), REFERENCES.values(), ids=REFERENCES.keys())
def test_a_reference_must_point_to_something_inside(reference: str, is_inside: bool) -> None:
    schema = {
        **obj(a={"type": "array", "items": {"$ref": reference}}),
        "$defs": {"A": {"$anchor": "here"}, "b/c": {"$id": "https://x/a"}, "my type": {}},
    }

    assert (dangling_reference(schema) is None) == is_inside


def test_a_tool_that_points_out_of_its_schema_is_left_out_alone() -> None:
    remote = ToolSpec(name="remote", input_schema=obj(a={"$ref": "https://example.com/s"}))
    made = draft(limits=GEMINI_4, tools=(remote, READ_FILE))

    adapted, [row] = GEMINI.adapt(made)

    assert adapted.tools == (READ_FILE,)
    assert (row.kind, row.id, row.decision, row.rule) == (
        "tool",
        "remote",
        "dropped",
        "tool.schema",
    )
    assert "https://example.com/s" in row.reason
    assert GEMINI.adapt(adapted) == (adapted, ())


def test_what_leads_back_to_itself_is_not_required() -> None:
    schema = {**NODE, "$defs": {"Node": NODE}, "additionalProperties": False}
    tool = ToolSpec(name="grow", input_schema=schema)

    [fitted], [row] = fit_schemas([tool])

    assert fitted.input_schema["$defs"]["Node"]["required"] == ["name"]
    assert (row.decision, row.reason) == (
        "repaired",
        "What holds itself cannot be required: children may be left away.",
    )
    assert fit_schemas([fitted]) == ([fitted], [])


def test_what_leads_back_on_a_detour_is_not_required_either() -> None:
    defs = {
        "A": obj(["b"], b={"$ref": "#/$defs/B"}),
        "B": obj(["a"], a={"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}),
        "C": obj(["a"], a={"type": "string"}),
    }
    schema = {**obj(["x", "y"], x={"$ref": "#/$defs/A"}, y={"$ref": "#/$defs/C"}), "$defs": defs}

    [fitted], [row] = fit_schemas([ToolSpec(name="t", input_schema=schema)])

    assert fitted.input_schema["required"] == ["x", "y"]
    assert fitted.input_schema["$defs"]["C"] == defs["C"]
    assert "b, a may be left away" in row.reason


def test_what_leads_back_by_an_encoded_name_is_not_required() -> None:
    node = obj(["next", "name"], next={"$ref": "#/$defs/My%20Node"}, name={"type": "string"})
    spec = ToolSpec(name="walk", input_schema={**obj(a=node), "$defs": {"My Node": node}})

    [fitted], [row] = fit_schemas([spec])

    assert fitted.input_schema["$defs"]["My Node"]["required"] == ["name"]
    assert row.decision == "repaired"


def test_a_tool_of_the_server_has_no_schema_to_fit() -> None:
    tool = ToolSpec(name="google_search", native_specs={"gemini": {"google_search": {}}})

    assert fit_schemas([tool]) == ([tool], [])


def test_a_hundred_and_fifty_tools_are_declared() -> None:
    tools = tuple(replace(READ_FILE, name=f"t{n}") for n in range(149))
    urgent = replace(READ_FILE, name="срочно!")

    config = GEMINI.render(draft(limits=GEMINI_4, tools=(*tools, urgent)))["config"]

    declared = config["tools"][0]["function_declarations"]
    types.GenerateContentConfig.model_validate(config)
    assert len({one["name"] for one in declared}) == 150
    assert declared[-1]["name"].isascii()
