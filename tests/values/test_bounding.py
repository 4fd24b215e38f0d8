"""JSON within bounds, and JSON beyond them that is met all the same."""

import json
from typing import Any

import pytest

from context_assembler.values.bounding import within_bounds
from context_assembler.values.fingerprints import digest_json
from context_assembler.values.json_bounds import MAX_JSON_DEPTH, broken_bound
from context_assembler.values.json_shapes import is_object
from context_assembler.values.native.anthropic_texts import describe_block, readable_text
from context_assembler.values.wire import object_of, plain_json

NAN = float("nan")


def nested(levels: int, innermost: Any = "x") -> Any:
    value: Any = innermost
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


BEYOND: dict[str, tuple[Any, Any, str]] = {
    "not a number": ({"a": [NAN]}, {"a": ["NaN"]}, "not finite"),
    "without end": ([float("inf"), float("-inf")], ["Infinity", "-Infinity"], "not finite"),
    "an overlong integer": ({"a": 10**4300}, {"a": hex(10**4300)}, "overlong"),
}


@pytest.mark.parametrize(("value", "kept", "word"), BEYOND.values(), ids=BEYOND.keys())
def test_what_json_cannot_say_is_kept_as_text(value: Any, kept: Any, word: str) -> None:
    found, changes = within_bounds(value)

    assert found == kept
    assert [word in change for change in changes] == [True]


def test_what_is_nested_too_deeply_is_kept_as_text() -> None:
    found, [change] = within_bounds(nested(900))

    assert broken_bound(found) is None
    assert str(MAX_JSON_DEPTH) in change


def test_what_is_within_the_bounds_stays_the_same_object() -> None:
    value = {"a": [1, 2.5, None, True, "x"]}

    assert within_bounds(value) == (value, ())
    assert within_bounds(value)[0] is value


@pytest.mark.parametrize("levels", [3, 900, 20_000])
def test_plain_json_is_copied_however_deep_it_is(levels: int) -> None:
    value = nested(levels, ("a\0b", 1))

    copied = plain_json(value)

    depth = 0
    while copied != ["ab", 1] if depth >= levels - 1 else True:
        copied = copied["a"] if is_object(copied) else copied[0]
        depth += 1
    assert depth == levels


def test_deep_json_has_a_fingerprint_of_its_own() -> None:
    prints = {digest_json(nested(levels)) for levels in (5_000, 5_001)}

    assert len(prints) == 2
    assert digest_json(nested(5_000)) == digest_json(nested(5_000))


class _Older:
    """A model of an SDK on pydantic 1."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def dict(self, *, by_alias: bool, exclude_unset: bool) -> dict[str, Any]:
        assert by_alias
        assert exclude_unset
        return self._fields


def test_models_of_older_sdks_are_read() -> None:
    assert object_of(_Older(a=1)) == {"a": 1}
    assert object_of({"dict": 1}) == {"dict": 1}
    assert object_of(object()) is None


TOLD: dict[str, tuple[dict[str, Any], str]] = {
    "a call": (
        {"type": "server_tool_use", "name": "web_search", "input": {"query": "q"}},
        '[web_search: {"query":"q"}]',
    ),
    "a call without a name": ({"type": "mcp_tool_use", "input": None}, "[tool: null]"),
    "a source's text": (
        {"type": "document", "source": {"type": "text", "data": "Page one."}},
        "Page one.",
    ),
    "a source's title and context": (
        {"type": "document", "title": "T", "context": "C", "source": {"type": "text", "data": "D"}},
        "T\nC\nD",
    ),
    "lines of an edit": ({"type": "x", "content": {"lines": ["-a", 1, "+b"]}}, "-a\n+b"),
    "nothing": ({"type": "hologram", "content": 3}, ""),
}


@pytest.mark.parametrize(("block", "text"), TOLD.values(), ids=TOLD.keys())
def test_what_is_told_of_a_block(block: dict[str, Any], text: str) -> None:
    assert describe_block(block) == text


def test_a_long_call_is_told_in_full() -> None:
    told = describe_block({"type": "server_tool_use", "name": "n", "input": {"a": "x" * 2_000}})

    assert told == f'[n: {{"a":"{"x" * 2_000}"}}]'


def test_of_what_is_nested_without_end_nothing_is_told() -> None:
    deep: Any = {"text": "x"}
    for _ in range(5_000):
        deep = {"content": [deep]}

    assert readable_text(deep) == ""
    assert json.dumps(readable_text([{"text": "a"}, 1])) == '"a"'
