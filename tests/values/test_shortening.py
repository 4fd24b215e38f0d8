"""Text cut down to its head, a marker and its tail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.values.texts.shortening import CountText, shorten_text

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"


def count_words(text: str) -> int:
    return len(text.split())


texts = st.one_of(
    st.text(max_size=400),
    st.lists(st.sampled_from(["word", "a", "x" * 50, "\n", "\n\n", FAMILY]), max_size=200).map(
        " ".join
    ),
)


@pytest.mark.parametrize("count", [count_words, len], ids=["words", "characters"])
@given(text=texts, limit=st.integers(-3, 300))
def test_the_result_is_within_the_limit_or_the_bare_marker(
    count: CountText, text: str, limit: int
) -> None:
    short = shorten_text(text, max_tokens=limit, count_text=count)

    assert count(short) <= limit or short.startswith("[…")
    assert shorten_text(text, max_tokens=limit, count_text=count) == short
    assert (short == text) or count(text) > limit


def test_text_within_the_limit_is_the_same_object() -> None:
    text = "as it is"

    assert shorten_text(text, max_tokens=3, count_text=count_words) is text


def test_both_ends_and_the_full_size_are_there() -> None:
    text = " ".join(map(str, range(10_000)))

    short = shorten_text(text, max_tokens=100, count_text=count_words)

    assert short.startswith("0 1 2")
    assert short.endswith("9998 9999")
    assert "[… shortened: 10,000 tokens in full …]" in short
    assert count_words(short) > 80


def test_cuts_fall_between_lines_where_one_ends_nearby() -> None:
    text = "\n".join(f"line {number} of the log" for number in range(500))

    lines = shorten_text(text, max_tokens=120, count_text=count_words).split("\n")

    assert set(lines) - set(text.split("\n")) == {"[… shortened: 2,500 tokens in full …]"}


def test_the_unit_is_named_in_the_marker() -> None:
    short = shorten_text("x" * 500, max_tokens=100, count_text=len, unit="characters")

    assert "500 characters in full" in short
    assert len(short) <= 100


@pytest.mark.parametrize(
    "character",
    [FAMILY, "e\u0301", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "\r\n", "\ud83d\ude00"],
    ids=["joined emoji", "accent", "flag", "skin tone", "line break", "surrogates"],
)
@given(limit=st.integers(60, 160), offset=st.integers(0, 3))
def test_a_character_as_people_see_it_is_never_split(
    character: str, limit: int, offset: int
) -> None:
    text = "." * offset + character * 300

    short = shorten_text(text, max_tokens=limit, count_text=len)
    head, _, rest = short.partition("\n[…")
    tail = rest.partition("…]\n")[2]

    assert head.lstrip(".").replace(character, "") == ""
    assert tail.replace(character, "") == ""


def test_ends_that_hold_more_tokens_than_the_rest_are_cut_shorter() -> None:
    text = "a " * 200 + "x" * 20_000 + " b" * 200

    short = shorten_text(text, max_tokens=60, count_text=count_words)

    assert 40 <= count_words(short) <= 60


def test_sparse_ends_are_kept_longer() -> None:
    text = "x" * 400 + " a" * 5000 + " " + "y" * 400

    short = shorten_text(text, max_tokens=60, count_text=count_words)

    assert short.startswith("x" * 400)
    assert short.endswith("y" * 400)


def test_a_whole_that_counts_more_than_its_pieces_is_cut_again() -> None:
    def count(text: str) -> int:
        return int(len(text) ** 1.2)

    short = shorten_text("ab " * 900, max_tokens=300, count_text=count)

    assert "ab" in short
    assert count(short) <= 300


def test_a_count_that_jumps_is_approached_from_below() -> None:
    def count(text: str) -> int:
        return 1 + 50 * text.count("z")

    short = shorten_text("z" * 200, max_tokens=200, count_text=count)

    assert short == "zz\n[… shortened: 10,001 tokens in full …]\nz"
