"""JSON that every reader can take."""

import json
from typing import Any

import pytest
from hypothesis import given

from context_assembler.values.arguments import parse_arguments
from context_assembler.values.json_bounds import (
    MAX_INTEGER_DIGITS,
    MAX_JSON_DEPTH,
    broken_bound,
    load_bounded_json,
    shown,
)
from context_assembler.values.parts import Json
from context_assembler.values.wire import parse_json_object
from tests.event_strategies import json_values


def nested(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


BEYOND: dict[str, tuple[Any, str]] = {
    "not a number": (float("nan"), "nan is no JSON number"),
    "infinity": ([float("inf")], "inf is no JSON number"),
    "a long integer": ({"a": [10**MAX_INTEGER_DIGITS]}, "more than 4300 digits"),
    "a long negative integer": (-(10**MAX_INTEGER_DIGITS), "more than 4300 digits"),
    "deep nesting": (nested(MAX_JSON_DEPTH + 1), "deeper than 200 levels"),
    "nesting as deep as Python parses": (nested(900), "deeper than 200 levels"),
}


@pytest.mark.parametrize(("value", "reason"), BEYOND.values(), ids=BEYOND.keys())
def test_what_is_beyond_the_bounds_is_told(value: Any, reason: str) -> None:
    broken = broken_bound(value)

    assert broken is not None
    assert reason in broken


def test_the_bounds_themselves_are_inside() -> None:
    assert broken_bound(nested(MAX_JSON_DEPTH)) is None
    assert broken_bound([10**MAX_INTEGER_DIGITS - 1, True, None, "x", 1.5]) is None


@given(value=json_values)
def test_ordinary_json_is_inside_and_loads_as_it_is(value: Json) -> None:
    assert broken_bound(value) is None
    assert load_bounded_json(json.dumps(value, ensure_ascii=False)) == value


REFUSED = {
    "a constant of Python's": '{"x": NaN}',
    "minus infinity": '{"x": -Infinity}',
    "a number too large to be finite": '{"x": 1e999}',
    "an overlong integer": '{"x": ' + "9" * 5_000 + "}",
    "deep nesting": '{"x": ' + "[" * 900 + "]" * 900 + "}",
    "nesting that Python cannot parse": '{"x": ' + "[" * 100_000,
    "no object": "[1]",
    "no JSON": "{",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_arguments_that_cannot_be_kept_as_json_stay_as_their_text(text: str) -> None:
    assert parse_json_object(text) is None
    assert parse_arguments(text) == ({}, text, "are not a JSON object")


GIVEN: dict[str, tuple[Any, dict[str, Any], str | None]] = {
    "nothing": (None, {}, None),
    "an empty text": ("", {}, ""),
    "an object": ({"a": [1]}, {"a": [1]}, None),
    "the text of an object": ('{"a": [1]}', {"a": [1]}, '{"a": [1]}'),
    "an object with what is no number": ({"a": float("nan")}, {}, '{"a":NaN}'),
    "an object with an overlong integer": ({"a": [16**5_000]}, {}, '{"a":["0x1' + "0" * 5_000),
    "a deep object": ({"a": nested(300)}, {}, '{"a":[[['),
    "a list": ([1, "ä"], {}, '[1,"ä"]'),
    "a number": (3, {}, "3"),
}


@pytest.mark.parametrize(("given", "arguments", "spelled"), GIVEN.values(), ids=GIVEN.keys())
def test_arguments_of_any_kind_are_read_and_none_is_lost(
    given: Any, arguments: dict[str, Any], spelled: str | None
) -> None:
    read = parse_arguments(given)

    assert read.arguments == arguments
    assert (read.spelled or "").startswith(spelled or "")
    assert (read.problem is not None) == (spelled is not None and not arguments)


def test_an_endless_object_is_named_by_its_type() -> None:
    endless: dict[str, Any] = {}
    endless["itself"] = endless

    assert (
        parse_arguments(endless).spelled == "{'itself': {'itself': {'itself': {'itself': {...}}}}}"
    )
    assert shown(10**5_000) == "<int>"


def test_sets_are_shown_in_order() -> None:
    assert shown({"c", "a", "b"}) == "{'a', 'b', 'c'}"
    assert shown([frozenset({2, 1})]) == "[frozenset({1, 2})]"
    assert shown("x" * 100) == "'" + "x" * 59
