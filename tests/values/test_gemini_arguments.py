"""Calls that were streamed piece by piece are whole again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.native.gemini_arguments import (
    is_unfinished,
    join_calls,
    read_arguments,
)


def piece(path: str, **fields: Any) -> dict[str, Any]:
    return {"jsonPath": path, **fields}


def call(*pieces: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"functionCall": {**fields, **({"partialArgs": list(pieces)} if pieces else {})}}


PLACED: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "text": ([piece("$.a", stringValue="x")], {"a": "x"}),
    "a number, a flag, nothing": (
        [piece("$.n", numberValue=1.5), piece("$.f", boolValue=False), piece("$.z", nullValue="N")],
        {"n": 1.5, "f": False, "z": None},
    ),
    "text in pieces": (
        [
            piece("$.a", stringValue="x", willContinue=True),
            piece("$.a", stringValue="y", willContinue=True),
            piece("$.a", stringValue="z"),
        ],
        {"a": "xyz"},
    ),
    "text that replaces text": (
        [piece("$.a", stringValue="x"), piece("$.a", stringValue="y")],
        {"a": "y"},
    ),
    "places inside": (
        [piece("$.a.b[1].c", stringValue="x"), piece("$.a.b[0]", numberValue=1)],
        {"a": {"b": [1, {"c": "x"}]}},
    ),
    "names in quotes": (
        [piece("$['a.b']['c']", numberValue=1), piece('$["d"]', numberValue=2)],
        {"a.b": {"c": 1}, "d": 2},
    ),
}


@pytest.mark.parametrize(("pieces", "whole"), PLACED.values(), ids=PLACED.keys())
def test_pieces_are_put_into_their_places(
    pieces: list[dict[str, Any]], whole: dict[str, Any]
) -> None:
    read = read_arguments(call(*pieces, name="f")["functionCall"])

    assert (read.arguments, read.spelled) == (whole, None)


UNPLACED = {
    "no path": "",
    "a path to everything": "$",
    "no root": "a.b",
    "a list at the root": "$[0]",
    "a wildcard": "$.a[*]",
    "a place beyond all bounds": "$.a[999999]",
    "too many steps": "$" + ".a" * 65,
}


@pytest.mark.parametrize("path", UNPLACED.values(), ids=UNPLACED.keys())
def test_what_has_no_place_is_kept_as_text(path: str) -> None:
    read = read_arguments({"name": "f", "partial_args": [piece(path, stringValue="x")]})

    assert read.arguments == {}
    assert read.spelled is not None
    assert '"x"' in read.spelled


def test_a_name_inside_a_list_has_no_place() -> None:
    pieces = [piece("$.a[0]", numberValue=1), piece("$.a.b", numberValue=1)]

    assert read_arguments({"partialArgs": pieces}).problem is not None


def test_pieces_stand_beside_arguments_that_came_whole() -> None:
    given_args = {"list": [1], "kept": {"x": 1}}
    pieces = [piece("$.list[1]", numberValue=2)]

    read = read_arguments({"args": given_args, "partial_args": pieces})

    assert read.arguments == {"list": [1, 2], "kept": {"x": 1}}
    assert given_args == {"list": [1], "kept": {"x": 1}}


def test_a_call_is_joined_where_it_began() -> None:
    parts: list[Any] = [
        {"text": "a"},
        call(name="f", id="1", args={"a": 1}, willContinue=True),
        call(piece("$.b", numberValue=2), args={"c": 3}, willContinue=True),
        "junk",
        {"functionCall": {}, "thoughtSignature": "s"},
        call(name="g"),
    ]

    joined = join_calls(parts)

    whole = {
        "id": "1",
        "name": "f",
        "args": {"a": 1, "c": 3},
        "partial_args": [piece("$.b", numberValue=2)],
    }
    assert joined == [
        (0, {"text": "a"}),
        (1, {"thought_signature": "s", "function_call": whole}),
        (3, "junk"),
        (5, call(name="g")),
    ]


def test_another_call_does_not_go_on_with_an_open_one() -> None:
    parts = [call(name="f", willContinue=True), call(name="g", willContinue=True), call(name="g")]

    joined = [part["functionCall"]["name"] for _, part in join_calls(parts[:2])]

    assert joined == ["f", "g"]
    assert len(join_calls(parts)) == 2


def test_a_call_of_which_more_was_announced_is_unfinished() -> None:
    assert is_unfinished({"willContinue": True})
    assert not is_unfinished({"will_continue": False})


@given(
    pieces=st.lists(
        st.fixed_dictionaries(
            {"json_path": st.text(alphabet="$.ab[]01'\"*", max_size=8)},
            optional={
                "string_value": st.text(max_size=2),
                "number_value": st.integers(),
                "will_continue": st.booleans(),
            },
        )
        | st.integers(),
        max_size=5,
    )
)
def test_any_pieces_are_read(pieces: list[Any]) -> None:
    read = read_arguments({"partial_args": pieces})

    assert read.spelled is None or read.arguments == {}
