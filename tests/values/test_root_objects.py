"""A union or a reference at the root of a schema becomes one object, and nothing of it is lost."""

from typing import Any

import pytest

from context_assembler import ContextAssembler, ToolSpec
from context_assembler.values.schemas.root_objects import has_root_union, root_object_schema

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
CAT = {
    "type": "object",
    "properties": {"kind": {"const": "cat"}, "lives": NUMBER},
    "required": ["kind"],
}
DOG = {
    "type": "object",
    "properties": {"kind": {"const": "dog"}, "name": TEXT},
    "required": ["kind"],
}
DEFS = {"$defs": {"Cat": CAT, "Dog": DOG, "Pet": {"anyOf": [{"$ref": "#/$defs/Cat"}, DOG]}}}
PET = {"kind": {"anyOf": [{"const": "cat"}, {"const": "dog"}]}, "lives": NUMBER, "name": TEXT}

UNIONS: dict[str, dict[str, Any]] = {
    "branches": {"oneOf": [CAT, DOG]},
    "references": {**DEFS, "anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]},
    "a reference to a union": {**DEFS, "$ref": "#/$defs/Pet"},
    "a union in a union": {**DEFS, "anyOf": [{"$ref": "#/$defs/Pet"}, CAT]},
}


@pytest.mark.parametrize("schema", UNIONS.values(), ids=UNIONS)
def test_every_property_of_any_branch_is_offered_as_any_branch_has_it(
    schema: dict[str, Any],
) -> None:
    flat = root_object_schema(schema)

    assert (flat["type"], flat["properties"], flat["required"]) == ("object", PET, ["kind"])
    assert not {"anyOf", "oneOf", "allOf", "$ref"} & flat.keys()
    assert has_root_union(schema)
    assert not has_root_union(flat)


def test_parts_of_a_whole_are_put_together_and_all_they_require_is_required() -> None:
    schema = {
        **DEFS,
        "allOf": [{"$ref": "#/$defs/Cat"}, {"properties": {"age": NUMBER}, "required": ["age"]}],
    }

    flat = root_object_schema(schema)

    assert flat["properties"] == {"kind": {"const": "cat"}, "lives": NUMBER, "age": NUMBER}
    assert sorted(flat["required"]) == ["age", "kind"]


def test_the_root_s_own_properties_win() -> None:
    flat = root_object_schema({"properties": {"kind": TEXT}, "required": ["kind"], "anyOf": [CAT]})

    assert flat["properties"] == {"kind": TEXT, "lives": NUMBER}
    assert flat["required"] == ["kind"]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"},
        {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}, "$ref": "#/$defs/A"},
        {"$ref": "https://example.org/schema"},
        {"$ref": "#/$defs/None"},
        {"anyOf": []},
        {"anyOf": [True, TEXT]},
    ],
    ids=["itself", "a circle", "a union of itself", "elsewhere", "nowhere", "nothing", "no object"],
)
def test_what_leads_nowhere_is_an_object_without_properties(schema: dict[str, Any]) -> None:
    flat = root_object_schema(schema)

    assert (flat["type"], flat["properties"]) == ("object", {})
    assert "$ref" not in flat


def test_references_named_many_times_are_followed_once() -> None:
    levels = {
        f"L{n}": {"anyOf": [{"$ref": f"#/$defs/L{n + 1}"}, {"$ref": f"#/$defs/L{n + 1}"}]}
        for n in range(60)
    }
    schema = {"$defs": {**levels, "L60": CAT}, "$ref": "#/$defs/L0"}

    assert root_object_schema(schema)["properties"] == CAT["properties"]


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-4.1", "gpt-6.2-sol", "gemini-4-argon"])
@pytest.mark.parametrize("schema", UNIONS.values(), ids=UNIONS)
async def test_a_tool_with_a_union_at_its_root_keeps_its_parameters_everywhere(
    model: str, schema: dict[str, Any]
) -> None:
    tool = ToolSpec(name="adopt", description="Adopt a pet.", input_schema=schema)
    assembler = ContextAssembler(sessions="memory:", tools=[tool])
    await assembler.add_user("s", "A cat, please.")

    context = await assembler.assemble("s", model=model)
    [row] = [row for row in context.report.entries if row.kind == "tool"]

    sent = str(context.to_request())
    assert all(name in sent for name in ("'lives'", "'name'", "'cat'", "'dog'"))
    assert not [one for one in context.check() if one.level == "refused"]
    assert row.decision == "repaired"
    assert "one object" in row.reason
