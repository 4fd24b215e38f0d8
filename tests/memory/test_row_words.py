"""Words ready cut are those that SQLite's index finds by."""

import pytest

from context_assembler.memory.row_words import query_stems, record_stems

CASES: dict[str, tuple[str, list[str]]] = {
    "endings, case and accents make no difference": ("Parsing the Café", ["pars", "the", "cafe"]),
    "an identifier is cut, and whole": ("parseToolCalls", ["parsetoolcal", "pars", "tool", "call"]),
    "each character begins a pair, and is a word": ("徒步x", ["徒步", "徒", "步", "x"]),
    "a word is there as often as it is said": ("yes, yes", ["ye", "ye"]),
    "signs are no words": ("¿?! …", []),
    "nothing is nothing": ("", []),
}


@pytest.mark.parametrize(("text", "stems"), CASES.values(), ids=CASES.keys())
def test_a_text_is_found_by_its_stems(text: str, stems: list[str]) -> None:
    assert record_stems([text, text]) == [stems, stems]


def test_a_query_looks_for_what_says_something_once() -> None:
    assert query_stems("Where is the parser, the PARSER?") == ["parser"]
    assert query_stems("步") == ["步"]
    assert query_stems("the") == ["the"]
    assert query_stems("¿?!") == []


def test_no_texts_are_no_words() -> None:
    assert record_stems([]) == []
