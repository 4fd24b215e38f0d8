"""Parts made smaller, each as a function of itself and its limit."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.events import JsonObject
from context_assembler.truncation import shorten_part
from tests.truncation.talk import COUNTER, Columns, call, result, text, words


class Alone(Columns):
    """Lines of which only parts are counted."""

    def parts(self, line: int) -> list[JsonObject]:
        raise AssertionError(line)


def short(part: JsonObject, limit: int) -> JsonObject:
    return shorten_part(Alone(), part, 0, limit)


def size(part: JsonObject) -> int:
    return COUNTER.count_event(0, {"parts": [part]})


SMALL = {
    "a result": result("c1", text("ok")),
    "a call": {**call("c1", path="a"), "arguments_json": '{"path": "a"}'},
    "a text": {"type": "text", "text": "ok", "extras": {"anthropic": {}}},
    "reasoning": {"type": "thinking", "text": words(90), "block": {"signature": "s"}},
}


@pytest.mark.parametrize("part", SMALL.values(), ids=SMALL.keys())
def test_what_fits_or_cannot_shrink_is_the_same_object(part: JsonObject) -> None:
    assert short(part, 50) is part


def test_a_shortened_result_stays_the_answer_to_its_call() -> None:
    whole = {**result("c1", text(words(500))), "is_error": True, "tool_name": "read_file"}

    stub = short(whole, 100)

    assert {**stub, "content": ()} == {**whole, "content": ()}
    assert "500 tokens in full" in stub["content"][0]["text"]
    assert size(stub) <= 100


SOURCE = {"type": "url", "url": "https://example.com/a"}
MEDIA = {
    "an image": ({"type": "image", "source": SOURCE}, "[an image was left out here]"),
    "a document": (
        {"type": "document", "source": SOURCE, "title": "spec.pdf"},
        "[the document spec.pdf was left out here]",
    ),
    "a document without a title": (
        {"type": "document", "source": SOURCE},
        "[the document without a title was left out here]",
    ),
    "a document with its text": ({"type": "document", "source": SOURCE, "text": "plain"}, "plain"),
    "a provider's block": ({"type": "opaque", "provider": "x", "block": {}, "text": "ran"}, "ran"),
}


@pytest.mark.parametrize(("part", "line"), MEDIA.values(), ids=MEDIA.keys())
def test_media_in_a_shortened_result_become_a_line(part: JsonObject, line: str) -> None:
    stub = short(result("c1", text("rows"), part, text(words(90))), 60)

    assert stub["content"][0]["text"].startswith(f"rows\n{line}")


@given(said=st.lists(st.text(max_size=200), max_size=4), limit=st.integers(20, 200))
@settings(max_examples=50)
def test_a_result_is_shortened_within_its_limit(said: list[str], limit: int) -> None:
    assert size(short(result("c1", *map(text, said)), limit)) <= limit


def test_the_longest_strings_of_a_call_go_first() -> None:
    edits = [{"old": words(300), "new": "kept"}]
    whole = {**call("c1", path="a.txt", edits=edits, force=True), "signature": "s"}

    shortened = short(whole, 60)

    arguments = shortened["arguments"]
    assert (arguments["path"], arguments["force"]) == ("a.txt", True)
    assert arguments["edits"][0]["new"] == "kept"
    assert "characters in full" in arguments["edits"][0]["old"]
    assert "signature" not in shortened


def test_long_lists_of_a_call_become_an_outline() -> None:
    arguments = short(call("c1", of=list(range(900)), round=True), 40)["arguments"]

    assert arguments["round"] is True
    assert "characters left out" in arguments["of"]


def test_at_last_all_arguments_are_left_out() -> None:
    whole = call("c1", **{f"key{number}": number for number in range(200)})

    assert list(short(whole, 20)["arguments"]) == ["left_out"]


def test_arguments_that_never_were_an_object_are_kept_as_text() -> None:
    written = '{"content": "' + words(300)
    whole = {**call("c1", INVALID_JSON=written), "arguments_json": written}

    shortened = short(whole, 60)

    assert shortened["arguments"]["INVALID_JSON"].startswith('{"content": "w0')
    assert "arguments_json" not in shortened


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@given(
    arguments=st.dictionaries(st.text(max_size=9), values, max_size=6), limit=st.integers(15, 300)
)
@settings(max_examples=50)
def test_shortened_arguments_are_a_json_object(arguments: dict[str, Any], limit: int) -> None:
    shortened = short({**call("c1"), "arguments": arguments}, limit)

    assert isinstance(json.loads(json.dumps(shortened["arguments"])), dict)
    assert size(shortened) <= limit


@given(said=st.text(max_size=400), limit=st.integers(1, 60))
@settings(max_examples=50)
def test_the_same_text_is_always_shortened_alike(said: str, limit: int) -> None:
    once, twice = short(text(said), limit), short(text(said), limit)

    assert once == twice
    assert once["text"] == said or "tokens in full" in once["text"]
