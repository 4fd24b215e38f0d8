"""Instructions cut down to a number of tokens."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.stages.load_bootstrap.cut_text import CountText, cut_text

MARKER = re.compile(r"\[… (?:1 line|[\d,]+ lines) of AGENT.md left out here …\]")


def count_words(text: str) -> int:
    """Count words, and what stands between them as nothing."""
    return len(text.split())


def count_characters(text: str) -> int:
    return len(text)


def cut(text: str, max_tokens: int) -> str:
    return cut_text(text, max_tokens=max_tokens, name="AGENT.md", count_text=count_words)


def numbered(count: int) -> list[str]:
    return [f"line {number} of many" for number in range(count)]


def test_a_text_that_fits_is_left_alone() -> None:
    assert cut("a b\n\nc", 3) == "a b\n\nc"


def test_head_rules_and_tail_stay_and_every_gap_is_marked() -> None:
    lines = numbered(300)
    lines[100] = "You must never delete a branch."
    lines[200] = "## Releases"

    short = cut("\n".join(lines), 400).split("\n")

    assert (short[0], short[-1]) == (lines[0], lines[-1])
    at = short.index("## Releases"), short.index("You must never delete a branch.")
    for place in (at[1] - 1, at[1] + 1, at[0] + 1):
        assert MARKER.fullmatch(short[place]), short[place]
    assert sum(1 for line in short if MARKER.fullmatch(line)) == 3


def test_the_markers_tell_how_many_lines_are_missing() -> None:
    lines = numbered(300)

    short = cut("\n".join(lines), 400).split("\n")

    kept = sum(line in lines for line in short)
    missing = [int(found) for line in short for found in re.findall(r"\[… (\d+) lines", line)]
    assert kept + sum(missing) == 300


def test_a_line_longer_than_the_heads_share_is_kept_whole() -> None:
    first, second = "long " * 60 + "end", "other " * 80 + "end"

    short = cut(f"{first}\n{second}", 100)

    assert short == f"{first}\n[… 1 line of AGENT.md left out here …]"


def test_a_gap_no_longer_than_its_marker_is_no_gap() -> None:
    lines = numbered(300)
    lines[150], lines[152] = "Always test.", "Never guess."

    short = cut("\n".join(lines), 400)

    assert "Always test.\nline 151 of many\nNever guess." in short


def test_a_line_longer_than_the_room_is_cut_within_and_says_so() -> None:
    short = cut("head " + "word " * 5000 + "tail", 100)

    assert short.startswith("head word")
    assert short.endswith("word tail")
    assert "5,002 tokens in full" in short
    assert 50 < count_words(short) <= 100


def test_one_such_line_among_others_leaves_room_for_them() -> None:
    short = cut("first\n" + "word " * 5000 + "\nlast", 100)

    assert short.startswith("first\nword")
    assert short.endswith("\nlast")
    assert "shortened" in short


def test_lines_that_only_just_fit_do_not_crowd_out_everything() -> None:
    line = "word " * 96

    short = cut(f"{line}\n{line}\n{line}", 100)

    assert "word word" in short


@pytest.mark.parametrize("max_tokens", [0, 1, 8])
def test_where_not_even_a_marker_fits_nothing_is_left(max_tokens: int) -> None:
    assert cut("a b c d e f\n" * 20, max_tokens) == ""


def test_a_marker_alone_is_better_than_nothing() -> None:
    assert (
        cut("a b c d e f g h i j k l m n\n" * 20, 11) == "[… 20 lines of AGENT.md left out here …]"
    )


texts = st.lists(
    st.text(st.sampled_from("ab 漢\n"), max_size=50) | st.just("must\n"), max_size=60
).map("".join)


@given(texts, st.integers(0, 900), st.sampled_from([count_words, count_characters]))
def test_a_cut_text_is_never_longer_than_allowed(
    text: str, max_tokens: int, count: CountText
) -> None:
    short = cut_text(text, max_tokens=max_tokens, name="x" * 60, count_text=count)

    assert count(short) <= max_tokens
    assert (short == text) == (count(text) <= max_tokens)


@given(texts, st.integers(0, 900))
def test_what_is_kept_stands_in_its_order(text: str, max_tokens: int) -> None:
    short = cut_text(text, max_tokens=max_tokens, name="A", count_text=count_characters)

    lines = iter(text.split("\n"))
    kept = [line for line in short.split("\n") if "…" not in line]
    assert not short or "shortened" in short or all(line in lines for line in kept)


def test_of_a_long_text_only_the_lines_near_its_ends_are_counted() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return count_words(text)

    lines = numbered(20_000)
    short = cut_text("\n".join(lines), max_tokens=400, name="AGENT.md", count_text=count)

    assert count_words(short) <= 400
    assert len(counted) < 600
