import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.cli import screen
from context_assembler.values.parts import Json

any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)


@given(any_text)
def test_json_text_reads_back_as_the_same_value_and_fits_into_utf8(text: str) -> None:
    written = screen.json_text({"text": text, text: [1, None, True]})

    assert json.loads(written.encode("utf-8")) == {"text": text, text: [1, None, True]}


@given(any_text)
def test_what_people_read_steers_no_terminal(text: str) -> None:
    shown = screen.printable(text)

    assert not set(shown) & {chr(c) for c in (*range(9), *range(11, 32), *range(127, 160), 0x202E)}
    assert shown.encode("utf-8").decode("utf-8") == shown


PRINTED = {
    "an escape sequence is spelled out": ("\x1b[31mred", "\\x1b[31mred"),
    "a lone surrogate is spelled out": ("a\ud83db", "a\\ud83db"),
    "a reordering mark is spelled out": ("\u202eabc", "\\u202eabc"),
    "line breaks, tabs and other scripts stay": ("a\n\tж 今 😀", "a\n\tж 今 😀"),
}


@pytest.mark.parametrize(("text", "shown"), PRINTED.values(), ids=PRINTED.keys())
def test_printable(text: str, shown: str) -> None:
    assert screen.printable(text) == shown


LINES = {
    "short text stays": ("two words", 20, "two words"),
    "white space is one blank": ("a\n\n  b\tc", 20, "a b c"),
    "long text ends in an ellipsis": ("one two three", 8, "one two…"),
    "an exact fit stays": ("12345", 5, "12345"),
}


@pytest.mark.parametrize(("text", "max_chars", "shown"), LINES.values(), ids=LINES.keys())
def test_one_line(text: str, max_chars: int, shown: str) -> None:
    assert screen.one_line(text, max_chars=max_chars) == shown


def test_streams_that_are_no_text_files_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)

    screen.write_utf8()
    screen.print_json({"a": "ü"})

    assert json.loads(stream.getvalue()) == {"a": "ü"}


SPELLINGS: dict[str, tuple[Json, str]] = {
    "text": ("smart", "smart"),
    "a flag": (True, "yes"),
    "a number": (12000, "12,000"),
    "a list": (["a", 1], "a, 1"),
    "an empty list": ([], "none"),
    "an object": ({"input": 5, "note": None, "rest": ""}, "input: 5"),
    "objects": ([{"a": 1}, {"a": 2}], "a: 1 | a: 2"),
    "nothing": (None, "None"),
}


@pytest.mark.parametrize(("value", "spelled"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_value_is_spelled_as_people_write_it(value: Json, spelled: str) -> None:
    assert screen.spelling(value) == spelled


def test_an_error_is_two_lines_problem_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    screen.print_error("It broke\nbadly.", "Mend it." * 30)

    lines = capsys.readouterr().err.splitlines()
    assert lines == ["Error: It broke badly.", "       " + "Mend it." * 30]


def test_an_error_without_a_remedy_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen.print_error("It broke.", "")

    assert capsys.readouterr().err == "Error: It broke.\n"
