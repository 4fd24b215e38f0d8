"""Words close in meaning, from the bundled table."""

import hashlib
from pathlib import Path

import pytest

from context_assembler.embeddings.related_words import (
    RELATED_FILE,
    SHA256,
    RelatedWords,
    load_related_words,
)
from context_assembler.embeddings.static_model import MODEL_FOLDER
from context_assembler.errors import EmbeddingError


def test_words_of_like_meaning_are_found_the_closest_first() -> None:
    found = load_related_words().of(["kids", "purchase"])

    assert next(iter(found["kids"])) == "children"
    assert {"buying", "bought"} <= found["purchase"].keys()
    assert list(found["kids"].values()) == sorted(found["kids"].values(), reverse=True)
    assert all(0.4 < likeness <= 1 for likeness in found["kids"].values())


def test_words_that_differ_in_endings_only_are_not_among_them() -> None:
    assert "kid" not in load_related_words().of(["kids"])["kids"]


def test_unknown_words_and_stop_words_have_none() -> None:
    assert load_related_words().of(["the", "qwertyuiop", "公园", ""]) == {}


def test_the_table_is_read_once_and_is_the_one_that_was_made() -> None:
    assert load_related_words() is load_related_words()
    assert hashlib.sha256((MODEL_FOLDER / RELATED_FILE).read_bytes()).hexdigest() == SHA256


@pytest.mark.parametrize("content", [b"", b"\0", b"\0\0\0", b"\0\2abc"])
def test_a_cut_table_is_told_and_how_to_mend_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "vocabulary.txt").write_text("[UNK]\na\n", encoding="utf-8")
    (tmp_path / RELATED_FILE).write_bytes(content)

    with pytest.raises(EmbeddingError, match="not those of 2 words") as caught:
        RelatedWords(tmp_path)

    assert "Install the package again" in caught.value.remedy
