"""How well records fit a query's words."""

import sqlite3
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_assembler.embeddings.related_words import load_related_words
from context_assembler.recall.match_words import match_words, stems_of
from context_assembler.recall.read_signals import read_signals
from context_assembler.recall.stems import stem
from context_assembler.values.memories.metadata import CodeMetadata
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import Signals
from tests.recall.building import record

FILLERS = [record(f"filler {number}") for number in range(10)]


def scores(
    signals: Signals | str, *records: MemoryRecord, names: Collection[str] = ()
) -> dict[str, float]:
    asked = read_signals(signals) if isinstance(signals, str) else signals
    by_id = {one.id: one for one in (*records, *FILLERS)}
    return match_words(by_id, asked, names=names)


def close_to(query: str, related: Mapping[str, Mapping[str, float]]) -> Signals:
    return replace(read_signals(query), related=related)


def test_endings_make_no_difference_and_what_shares_nothing_is_left_out() -> None:
    found = scores("painting fences", record("she painted a fence"))

    assert found.keys() == {"she painted a fence"}


def test_a_rare_word_counts_for_more() -> None:
    many = [record(f"a walk on day {day}", id=f"walk-{day}") for day in range(9)]

    found = scores("walk zebra", record("a zebra"), *many)

    assert found["a zebra"] > found["walk-1"]


def test_of_the_same_words_the_shorter_text_fits_better() -> None:
    found = scores("zebra", record("zebra"), record("zebra and much else that nobody asked for"))

    assert found["zebra"] > found["zebra and much else that nobody asked for"]


def test_a_word_of_like_meaning_counts_for_less_than_the_word() -> None:
    signals = close_to("kids", {"kids": {"children": 0.8, "toys": 0.5}})

    found = scores(signals, record("two kids"), record("two children"), record("two toys"))

    assert found["two kids"] > found["two children"] > found["two toys"] > 0


def test_several_words_of_one_meaning_count_once() -> None:
    signals = close_to("kids", {"kids": {"children": 0.8, "toys": 0.5}})

    found = scores(signals, record("children children"), record("children toys"))

    assert found["children toys"] < found["children children"]


def test_names_of_speakers_do_not_count_unless_nothing_else_is_asked() -> None:
    said = record("Ann likes tea", id="said")

    assert "said" not in scores("Does Ann swim", said, names=("ann",))
    assert "said" in scores("Ann", said, names=("ann",))


def test_fields_and_authors_are_read_too() -> None:
    code = record("pass", id="code", kind="code", metadata=CodeMetadata(path="lib/parse_tree.py"))
    told = record("hello", id="told", author="Zoe")

    assert scores("parse_tree zoe", code, told).keys() == {"code", "told"}


def test_scripts_without_spaces_are_matched_by_their_pairs() -> None:
    found = scores("公园跑步", record("我在公园里跑步"), record("今天下雨"))

    assert found.keys() == {"我在公园里跑步"}
    assert scores("跑", record("我在公园里跑步")).keys() == {"我在公园里跑步"}


def test_accents_make_no_difference() -> None:
    assert scores("cafe", record("Un Café", id="cafe")).keys() == {"cafe"}


def test_nothing_fits_where_there_is_nothing() -> None:
    assert match_words({}, read_signals("dog")) == {}


def sqlite_stems(words: list[str]) -> list[str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5 (x, tokenize = 'porter unicode61')")
        connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab (t, instance)")
        connection.executemany("INSERT INTO t VALUES (?)", [(word,) for word in words])
        return [term for (term,) in connection.execute("SELECT term FROM v ORDER BY doc")]


def test_stems_of_a_whole_vocabulary_are_those_of_the_index() -> None:
    words = [word for word in load_related_words().words if word.isascii() and word.isalpha()]

    assert [stem(word) for word in words] == sqlite_stems(words)


@example(["ies", "sses", "ed", "ing", "eed"])  # nothing but an ending
@example(["yyed", "ummleyyeds"])  # a y twice
@given(st.lists(st.text("abceilnostuyz", min_size=1, max_size=12), min_size=1))
def test_stems_of_any_letters_are_those_of_the_index(words: list[str]) -> None:
    assert [stem(word) for word in words] == sqlite_stems(words)


@pytest.mark.parametrize("word", ["a", "x1y2ing", "größen", "a" * 65])
def test_what_is_no_english_word_stays(word: str) -> None:
    assert stem(word) == word


def test_texts_of_any_kind_have_stems() -> None:
    assert list(stems_of("Running, näher!")) == ["run", "naher"]
