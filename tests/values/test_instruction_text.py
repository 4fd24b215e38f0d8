"""Front matter, code and comments of instruction files."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.stages.load_bootstrap.cut_text import cut_text
from context_assembler.values.instruction_text import (
    decode_text,
    split_front_matter,
    split_markdown,
)

DEEP = "a: " + "[" * 40 + "]" * 40

FRONT: dict[str, tuple[str, Any, str, int]] = {
    "none": ("Hello\n---\n", {}, "Hello\n---\n", 0),
    "empty": ("---\n---\nHello", {}, "Hello", 0),
    "closed by dots": ("---\na: 1\n...\nHello", {"a": 1}, "Hello", 0),
    "never closed": ("---\na: 1\nHello", {}, "---\na: 1\nHello", 0),
    "a rule and prose": ("---\nHello\n---\nyou", {}, "---\nHello\n---\nyou", 0),
    "prose that YAML refuses": (
        "---\na: b: c\nIt's me\n---\nx",
        {},
        "---\na: b: c\nIt's me\n---\nx",
        0,
    ),
    "a colon too many": (
        "---\nname: 'x'\ndescription: use when: needed\n  more\n---\nHello",
        {"name": "x", "description": "use when: needed"},
        "Hello",
        1,
    ),
    "a dangerous tag": (
        "---\na: !!python/object:os.system x\n---\nHello",
        {"a": "!!python/object:os.system x"},
        "Hello",
        1,
    ),
    "nested too deeply": (f"---\n{DEEP}\n---\nx", {"a": DEEP[3:]}, "x", 1),
    "an impossible date": ("---\na: 2026-13-45\n---\nx", {"a": "2026-13-45"}, "x", 1),
    "bytes and sets": ("---\na: !!binary aGk=\n---\nx", {"a": "b'hi'"}, "x", 0),
}


@pytest.mark.parametrize(("text", "metadata", "rest", "warnings"), FRONT.values(), ids=FRONT.keys())
def test_front_matter_is_taken_off_and_nothing_else(
    text: str, metadata: Any, rest: str, warnings: int
) -> None:
    read = split_front_matter(text)

    assert read.metadata == metadata
    assert read.text == rest
    assert len(read.warnings) == warnings


def test_front_matter_without_end_in_sight_is_text() -> None:
    text = "---\n" + "a: b\n" * 20_000 + "---\nx"

    assert split_front_matter(text).text == text


PIECES = {
    "text": ("a b\n", [("text", "a b\n")]),
    "a code span": ("a `b` c", [("text", "a "), ("code", "`b`"), ("text", " c")]),
    "a span of two ticks": ("``a ` b``", [("code", "``a ` b``")]),
    "a tick alone": ("a ` b", [("text", "a ` b")]),
    "ticks that do not match": ("a ``b` c", [("text", "a ``b` c")]),
    "a fence": ("~~~py\na\n~~~\nb", [("code", "~~~py\na\n~~~\n"), ("text", "b")]),
    "a fence within a longer one": ("````\n```\n````\n", [("code", "````\n```\n````\n")]),
    "a fence that never closes": ("```\na\n", [("code", "```\na\n")]),
    "ticks on one line are no fence": ("```a``` b\n", [("code", "```a```"), ("text", " b\n")]),
    "a fence in a list": ("- ```\n  a\n  ```\n", [("code", "- ```\n  a\n  ```\n")]),
    "indented code": ("a\n\n    b\n", [("text", "a\n\n"), ("code", "    b\n")]),
    "an indented paragraph": ("a\n    b\n", [("text", "a\n    b\n")]),
    "an indented list": ("- a\n\n    b\n", [("text", "- a\n\n    b\n")]),
    "a comment": ("a<!-- b -->c", [("text", "a"), ("comment", "<!-- b -->"), ("text", "c")]),
    "a comment over a fence": (
        "<!--\n```\n-->\nx",
        [("comment", "<!--\n```\n-->"), ("text", "\nx")],
    ),
    "a comment that never closes": ("a <!-- b\nc", [("text", "a <!-- b\nc")]),
    "a comment that closes in front only": ("--> <!-- b", [("text", "--> <!-- b")]),
}


@pytest.mark.parametrize(("text", "pieces"), PIECES.values(), ids=PIECES.keys())
def test_code_and_comments_are_told_from_text(text: str, pieces: list[tuple[str, str]]) -> None:
    assert [(piece.kind, piece.text) for piece in split_markdown(text)] == pieces


markdown = st.lists(
    st.sampled_from(
        ["`", "``", "```", "~~~", "<!--", "-->", "\n", "\n\n", "    ", "- ", "a", "\u2028"]
    )
).map("".join)


@given(markdown)
def test_no_character_is_lost_between_the_pieces(text: str) -> None:
    pieces = split_markdown(text)

    assert "".join(piece.text for piece in pieces) == text
    assert all(a.kind != b.kind for a, b in pairwise(pieces))


@given(st.binary(max_size=60))
def test_any_bytes_decode(data: bytes) -> None:
    decoded = decode_text(data)

    assert "\r" not in decoded.text
    assert "\0" not in decoded.text
    decoded.text.encode()


@given(st.text(max_size=40))
def test_sound_text_decodes_to_itself(text: str) -> None:
    plain = text.replace("\0", "").replace("\r", "").replace("\ufeff", "")

    assert decode_text(plain.encode()).text == plain


@given(
    st.lists(st.text(st.sampled_from("ab \n"), max_size=50) | st.just("must\n"), max_size=60),
    st.integers(0, 900),
)
def test_a_cut_text_is_never_longer_than_allowed(parts: list[str], max_chars: int) -> None:
    text = "".join(parts)

    cut = cut_text(text, max_chars, name="x" * 60)

    assert len(cut) <= max_chars or cut == text
    assert (cut == text) == (len(text) <= max_chars)


def test_a_line_longer_than_the_room_is_cut_within() -> None:
    cut = cut_text("a" * 5000, 1000, name="a.md")

    assert cut.startswith("a" * 300)
    assert cut.endswith("a" * 150)


def test_where_not_even_a_marker_fits_the_beginning_is_left() -> None:
    assert cut_text("abc" * 100, 5, name="a.md") == "abcab"
