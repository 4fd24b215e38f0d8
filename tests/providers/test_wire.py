from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.fingerprints import digest_json, roll_on
from context_assembler.values.reading import (
    as_array,
    as_number,
    as_object,
    as_text,
    count_text_chars,
    objects_in,
    walk_objects,
)
from context_assembler.values.schemas.root_objects import root_object_schema
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.wire import (
    compact_json,
    count_of,
    object_of,
    parse_json_object,
    plain_json,
    walk_schemas,
)

A_AND_B: list[dict[str, Any]] = [
    {"properties": {"a": {}}, "required": ["a"]},
    {"properties": {"a": {}, "b": {}}},
]
SCHEMAS: dict[str, tuple[Any, Any]] = {
    "nothing becomes an empty object": ({}, {"type": "object", "properties": {}}),
    "another root type is overruled": (
        {"type": "string", "properties": None},
        {"type": "object", "properties": {}},
    ),
    "a choice requires what every branch requires": (
        {"anyOf": A_AND_B},
        {"type": "object", "properties": {"a": {}, "b": {}}},
    ),
    "all branches together require what any requires": (
        {"allOf": A_AND_B, "required": ["c"]},
        {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "c"]},
    ),
    "a union of nothing vanishes": (
        {"oneOf": "x", "anyOf": [True]},
        {"type": "object", "properties": {}},
    ),
}


@given(text=st.text(st.characters(), max_size=20))
def test_clean_text_can_always_be_encoded(text: str) -> None:
    cleaned = clean_text(text)

    cleaned.encode()
    assert clean_text(cleaned) == cleaned


def test_a_surrogate_pair_becomes_its_character_and_a_lone_one_a_mark() -> None:
    assert clean_text("\ud83d\ude00 a\ud800") == "😀 a\ufffd"


@pytest.mark.parametrize(("schema", "expected"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_schema_gets_an_object_root(schema: Any, expected: Any) -> None:
    assert root_object_schema(schema) == expected


def test_schemas_are_walked_but_names_and_values_are_not() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"minimum": {"type": "string", "enum": [{"not": "a schema"}]}},
        "$defs": {"x": {"items": [{"const": {}}]}},
    }

    found = list(walk_schemas(schema))

    assert {"not": "a schema"} not in found
    assert {"const": {}} in found
    assert len(found) == 4


def test_plain_json_copies_deeply() -> None:
    source = {"a": ({"b": "\ud800"}, 1), 2: None}

    assert plain_json(source) == {"a": [{"b": "\ufffd"}, 1], "2": None}


def test_only_an_object_is_parsed_as_one() -> None:
    assert parse_json_object('{"a": 1}') == {"a": 1}
    assert parse_json_object("[1]") is None
    assert parse_json_object('{"a": ') is None
    assert parse_json_object("[" * 100_000) is None


def test_counts_are_read_leniently() -> None:
    assert [count_of(value) for value in (3, 2.9, -1, True, "7", None, float("nan"))] == [
        3,
        2,
        0,
        0,
        0,
        0,
        0,
    ]


def test_an_object_is_a_mapping_or_a_model() -> None:
    assert object_of({"a": 1}) == {"a": 1}
    assert object_of([1]) is None
    assert object_of(None) is None


def test_reading_takes_anything() -> None:
    assert (as_object(1), as_array("x"), as_text(None), as_number(True)) == ({}, [], "", None)
    assert list(objects_in([1, {"a": 1}])) == [(1, {"a": 1})]
    assert list(objects_in("ab")) == []
    assert [*walk_objects([{"a": [{"b": 1}]}, 2])] == [{"a": [{"b": 1}]}, {"b": 1}]
    assert count_text_chars({"a": ["bc", {"d": "e"}, 1]}) == 3


def test_fingerprints_depend_on_everything_before_them() -> None:
    first = roll_on("head", [("a", False), ("b", False)], head="head")

    assert len(first) == 2
    assert roll_on("head", [("a", False)], head="head") == first[:1]
    assert roll_on(first[0], [("b", False)], head="head") == first[1:]
    assert roll_on("other", [("a", False), ("b", False)], head="other")[1] != first[1]
    assert roll_on(first[0], [("b", True)], head="head") == roll_on(
        "head", [("b", False)], head="head"
    )
    assert digest_json({"a": 1, "b": 2}) != digest_json({"b": 2, "a": 1})


def test_compact_json_has_no_spaces_and_keeps_letters() -> None:
    assert compact_json({"b": ["é", 1]}) == '{"b":["é",1]}'
