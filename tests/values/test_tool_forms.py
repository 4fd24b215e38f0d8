"""What is made of a tool, once for each."""

from context_assembler.values.schemas.root_objects import root_object_schema
from context_assembler.values.tool_forms import form_of, root_schema_of
from context_assembler.values.tools import ToolSpec

UNION = {"anyOf": [{"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}]}


def test_a_form_is_always_the_same_tool() -> None:
    tool = ToolSpec(name="find")

    assert form_of(tool, is_deferred=True) is form_of(tool, is_deferred=True)
    assert form_of(tool, is_deferred=None) is tool


def test_the_schema_is_that_of_this_very_tool_however_many_there_are() -> None:
    tools = [
        ToolSpec(name="find", input_schema={"type": "object", "title": str(number)})
        for number in range(9_000)
    ]

    assert all(
        root_schema_of(tool) == root_object_schema(tool.input_schema)
        for _ in range(2)
        for tool in tools
    )


def test_a_schema_is_its_callers_own() -> None:
    tool = ToolSpec(name="find", input_schema=UNION)
    changed = root_schema_of(tool)

    changed["properties"]["q"]["type"] = "integer"
    changed["required"].append("r")

    assert root_schema_of(tool) == root_object_schema(UNION)
