"""Examples that suit their schema, and such as do not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from context_assembler.values.schemas.schema_examples import objections_to_example

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "lines": {"type": ["integer", "null"]},
        "share": {"type": "number"},
        "is_new": {"type": "boolean"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "at": {"type": "object", "required": ["x"]},
        "version": {"const": 2},
    },
    "required": ["path"],
    "additionalProperties": False,
}
SUITS: list[Any] = [
    {"path": "a"},
    {"path": "a", "lines": 3, "share": 0.5, "is_new": True, "tags": ["a"], "at": {"x": 1}},
    {"path": "a", "lines": None, "version": 2, "share": 1},
    {"path": "a", "lines": 3.0},
]
OBJECTIONS: dict[str, tuple[Any, str]] = {
    "no object": ([], "the example is no object"),
    "a key is missing": ({}, "the example has no path"),
    "a key is unknown": ({"path": "a", "way": 1}, "the example has the unknown way"),
    "a number for text": ({"path": 5}, ".path is no string"),
    "text for one of two": ({"path": "a", "lines": "x"}, ".lines is no integer or null"),
    "half a line": ({"path": "a", "lines": 1.5}, ".lines is no integer or null"),
    "a flag for a number": ({"path": "a", "share": True}, ".share is no number"),
    "a number for a flag": ({"path": "a", "is_new": 1}, ".is_new is no boolean"),
    "another value": ({"path": "a", "tags": ["a", "c"]}, ".tags[1] is none of the values in enum"),
    "another constant": ({"path": "a", "version": 3}, ".version is not the value in const"),
    "a key is missing inside": ({"path": "a", "at": {}}, ".at has no x"),
}


@pytest.mark.parametrize("example", SUITS)
def test_what_suits(example: Any) -> None:
    assert list(objections_to_example(example, SCHEMA)) == []


@pytest.mark.parametrize(("example", "objection"), OBJECTIONS.values(), ids=OBJECTIONS.keys())
def test_what_does_not_suit(example: Any, objection: str) -> None:
    assert list(objections_to_example(example, SCHEMA)) == [objection]


def test_an_unknown_type_and_patterns_of_names_are_given_the_benefit_of_the_doubt() -> None:
    schema: dict[str, Any] = {
        "additionalProperties": False,
        "patternProperties": {"^x": {}},
        "type": "made-up",
    }

    assert list(objections_to_example({"x1": 1}, schema)) == []


def test_an_example_of_any_depth_is_read() -> None:
    example: Any = 1
    schema: Any = {"type": "string"}
    for _ in range(5_000):
        example, schema = [example], {"type": "array", "items": schema}

    assert list(objections_to_example(example, schema)) == []


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=2) | st.sampled_from(["a", 2]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from([*SCHEMA["properties"], "x"]), inner, max_size=4)
    ),
    max_leaves=6,
)


@given(example=values)
def test_no_example_is_refused_that_suits_its_schema(example: Any) -> None:
    found = list(objections_to_example(example, SCHEMA))

    errors: list[Any] = list(Draft202012Validator(SCHEMA).iter_errors(example))  # pyright: ignore[reportUnknownMemberType] - the stubs say nothing of it
    assert (errors == []) == (found == [])
