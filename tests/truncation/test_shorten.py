"""Parts made smaller, each as a function of itself and its limit."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.truncation.shorten import (
    call_tokens,
    result_tokens,
    shorten_call,
    shorten_parts,
    shorten_result,
)
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Base64Source,
    Document,
    Image,
    JsonObject,
    Opaque,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)
from tests.part_strategies import clean_arguments, result_contents, tool_calls
from tests.truncation.conversations import WordCounter, words

COUNTER = WordCounter()
PICTURE = Image(source=UrlSource(url="https://example.com/a.png"))
PAPER = Document(source=Base64Source(media_type="application/pdf", data="JVBE"), title="spec.pdf")


def test_a_small_result_is_the_same_object() -> None:
    result = ToolResult(call_id="c1", content=(Text("ok"),))

    assert shorten_result(result, max_tokens=50, counter=COUNTER) is result


def test_a_shortened_result_stays_the_answer_to_its_call() -> None:
    result = ToolResult(
        call_id="c1", content=(Text(words(500)),), is_error=True, tool_name="read_file"
    )

    short = shorten_result(result, max_tokens=100, counter=COUNTER)

    assert (short.call_id, short.is_error, short.tool_name) == ("c1", True, "read_file")
    assert result_tokens(short, counter=COUNTER) <= 100


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (PICTURE, "[an image was left out here]"),
        (PAPER, "[the document spec.pdf was left out here]"),
        (Document(source=PAPER.source), "[the document without a title was left out here]"),
        (Document(source=PAPER.source, text="plain"), "plain"),
        (Opaque(provider="gemini", block={}, text="ran code"), "ran code"),
    ],
)
def test_media_in_a_shortened_result_become_a_line(part: ResultPart, line: str) -> None:
    result = ToolResult(call_id="c1", content=(Text("rows"), part, Text(words(90))))

    short = shorten_result(result, max_tokens=60, counter=COUNTER)

    assert short.text.startswith(f"rows\n{line}")


@given(contents=result_contents(st.text(max_size=200)), limit=st.integers(20, 200))
def test_a_result_is_shortened_within_its_limit(
    contents: tuple[ResultPart, ...], limit: int
) -> None:
    result = ToolResult(call_id="c1", content=contents)

    short = shorten_result(result, max_tokens=limit, counter=COUNTER)

    assert result_tokens(short, counter=COUNTER) <= limit


def test_a_small_call_is_the_same_object() -> None:
    call = ToolCall(
        call_id="c1", name="read", arguments={"path": "a"}, arguments_json='{"path":"a"}'
    )

    assert shorten_call(call, max_tokens=50, counter=COUNTER) is call


def test_the_longest_strings_of_a_call_go_first() -> None:
    arguments = {"path": "a.txt", "edits": [{"old": words(300), "new": "kept"}], "force": True}
    call = ToolCall(call_id="c1", name="edit", arguments=arguments)

    short = shorten_call(call, max_tokens=60, counter=COUNTER).arguments

    assert (short["path"], short["force"], short["edits"][0]["new"]) == ("a.txt", True, "kept")
    assert "characters in full" in short["edits"][0]["old"]


def test_long_lists_of_a_call_become_an_outline() -> None:
    call = ToolCall(call_id="c1", name="sum", arguments={"of": list(range(900)), "round": True})

    short = shorten_call(call, max_tokens=40, counter=COUNTER).arguments

    assert short["round"] is True
    assert "characters left out" in short["of"]


def test_at_last_all_arguments_are_left_out() -> None:
    arguments = {f"key{number}": number for number in range(200)}
    call = ToolCall(call_id="c1", name="sum", arguments=arguments)

    short = shorten_call(call, max_tokens=20, counter=COUNTER)

    assert list(short.arguments) == ["left_out"]


def test_arguments_that_never_were_an_object_are_kept_as_text() -> None:
    call = ToolCall(call_id="c1", name="write", arguments_json='{"content": "' + words(300))

    short = shorten_call(call, max_tokens=60, counter=COUNTER)

    assert short.arguments["unreadable_arguments"].startswith('{"content": "w0')
    assert short.arguments_json is None


@given(
    arguments=clean_arguments
    | tool_calls(st.just("c1"), st.text(max_size=99)).map(lambda call: call.arguments),
    limit=st.integers(12, 300),
)
def test_shortened_arguments_are_a_json_object(arguments: JsonObject, limit: int) -> None:
    call = ToolCall(call_id="c1", name="write", arguments=arguments)

    short = shorten_call(call, max_tokens=limit, counter=COUNTER)

    assert isinstance(json.loads(json.dumps(short.arguments)), dict)
    assert call_tokens(short, counter=COUNTER) <= limit


def test_parts_without_a_limit_and_signed_parts_are_left_alone() -> None:
    signed = Thinking(text=words(90), provider="anthropic", block={"signature": "s"})
    message = Message(role="assistant", parts=(signed, Text(words(90))))

    same = shorten_parts(message, limit=lambda _: None, counter=COUNTER)
    short = shorten_parts(message, limit=lambda _: 30, counter=COUNTER)

    assert same is message
    assert short.parts[0] is signed
    assert "90 tokens in full" in short.text
