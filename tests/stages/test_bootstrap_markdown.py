"""Code and comments told from the rest of an instruction file."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.stages.load_bootstrap.markdown import split_markdown

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
