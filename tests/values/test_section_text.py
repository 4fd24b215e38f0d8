"""Text of one section: sealed, cut between lines, or on one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.prompt import SECTION_SEPARATOR
from context_assembler.values.texts.section_text import cut_lines, one_line, seal_text

SEALED = {
    "plain text": ("a\n\nb", "a\n\nb"),
    "a rule": ("a\n\n---\n\nb", "a\n\n***\n\nb"),
    "a rule with space around it": ("a\n\n  --- \n\nb", "a\n\n  *** \n\nb"),
    "rules at both ends": ("---\n\na\n\n---", "***\n\na\n\n***"),
    "a heading that is underlined": ("a\n---\n\nb", "a\n---\n\nb"),
    "a table": ("a | b\n--- | ---\n\nb", "a | b\n--- | ---\n\nb"),
    "a rule in a code block": ("```\n\n---\n\n```", "```\n\n--- \n\n```"),
    "an open code block": ("a\n```py\nb", "a\n```py\nb\n```"),
    "an open code block of more marks": ("~~~~\n~~~\n```", "~~~~\n~~~\n```\n~~~~"),
    "a block in a list": ("- a\n    ```\n    b\n    ```", "- a\n    ```\n    b\n    ```"),
    "code in a line": ("```a``` and ```b", "```a``` and ```b"),
    "a mark with words behind it": ("```\n``` no\n```", "```\n``` no\n```"),
}


@pytest.mark.parametrize(("text", "sealed"), SEALED.values(), ids=SEALED.keys())
def test_text_ends_where_it_ends(text: str, sealed: str) -> None:
    found = seal_text(text)

    assert found.text == sealed
    assert bool(found.changes) == (text != sealed)


pieces = st.lists(
    st.sampled_from(["a", "", "---", "```", "~~~", "```` x", " --- ", "\r"]), max_size=12
)


@given(pieces)
def test_sealed_text_never_holds_a_separator_and_stays_as_it_is(lines: list[str]) -> None:
    text = seal_text("\n".join(lines)).text

    assert SECTION_SEPARATOR not in f"\n\n{text}\n\n"
    assert seal_text(text) == (text, ())


def words(text: str) -> int:
    return len(text.split())


MARKER = "[… 75 of 100 lines left out here …]"
LINES = "\n".join(f"line {number}" for number in range(100))


def test_lines_stay_whole_and_a_marker_counts_the_missing_ones() -> None:
    text = cut_lines(LINES, max_tokens=60, count_text=words)

    kept = text.split("\n")
    head, tail = kept[: kept.index(MARKER)], kept[kept.index(MARKER) + 1 :]
    assert [*head, *[""] * 75, *tail] == [
        line if at < len(head) or at >= 100 - len(tail) else ""
        for at, line in enumerate(LINES.split("\n"))
    ]
    assert 50 < words(text) <= 60


def test_text_that_fits_is_whole() -> None:
    assert cut_lines(LINES, max_tokens=200, count_text=words) is LINES


def test_a_line_for_which_there_is_no_room_is_cut_within() -> None:
    text = cut_lines("word " * 1000, max_tokens=100, count_text=words)

    assert "1,000 tokens in full" in text
    assert words(text) <= 100


@pytest.mark.parametrize("text", [LINES, "word " * 100])
def test_where_not_even_a_marker_fits_nothing_is_left(text: str) -> None:
    assert cut_lines(text, max_tokens=3, count_text=words) == ""


def test_a_code_block_that_is_cut_is_closed() -> None:
    text = cut_lines("```py\n" + LINES + "\n```\nend", max_tokens=40, count_text=words)

    assert text.count("```") % 2 == 0
    assert seal_text(text) == (text, ())


@given(st.lists(st.text(max_size=30), max_size=30), st.integers(0, 200))
def test_a_cut_text_is_never_too_long(lines: list[str], max_tokens: int) -> None:
    assert len(cut_lines("\n".join(lines), max_tokens=max_tokens, count_text=len)) <= max_tokens


ONE_LINE = {
    "line breaks": ("a\r\nb\u2028c\x0bd", "a b c d"),
    "control characters": ("a\x1b[31mb\x00\x7f", "a[31mb"),
    "hidden text": ("a\u202eb\U000e0041\u200bc\ufeff", "abc"),
    "emoji and joiners": ("👩\u200d🚀 a\u200cb", "👩\u200d🚀 a\u200cb"),
    "surrogates": ("a\ud800b", "a\ufffdb"),
    "space": ("  a   b ", "a b"),
}


@pytest.mark.parametrize(("text", "line"), ONE_LINE.values(), ids=ONE_LINE.keys())
def test_text_goes_on_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


@given(st.text())
def test_one_line_is_one_line_and_stays_so(text: str) -> None:
    line = one_line(text)

    assert len(line.splitlines()) <= 1
    assert one_line(line) == line
