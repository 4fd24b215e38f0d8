"""A text becomes the tokens that BERT's own tokenizer makes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.embeddings.static_model import MODEL_FOLDER, load_wordpiece
from context_assembler.embeddings.wordpiece import WordPiece

TOKENS = (MODEL_FOLDER / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
BERT = load_wordpiece()

# What tokenizers 0.23.3 makes of these with the model's own tokenizer.json.
CASES: dict[str, tuple[str, list[str]]] = {
    "words are lower-cased": ("Hello World", ["hello", "world"]),
    "long words are cut into the longest pieces": (
        "embeddings unaffable",
        ["em", "##bed", "##ding", "##s", "una", "##ffa", "##ble"],
    ),
    "every sign stands alone": (
        "don't a_b=c[0]",
        ["don", "'", "t", "a", "_", "b", "=", "c", "[", "0", "]"],
    ),
    "accents are taken off": ("Café naïve Ångström", ["cafe", "naive", "ang", "##strom"]),
    "Chinese characters stand alone": ("我们 x", ["我", "[UNK]", "x"]),
    "syllables of Hangul come apart": ("한", ["ᄒ", "##ᅡ", "##ᆫ"]),
    "blanks of any kind part words": ("a\u3000b\u2028c\td\r\ne", ["a", "b", "c", "d", "e"]),
    "control characters are passed over": ("a\x00b\x1fc\u200bd\ufffde", ["abc", "##de"]),
    "a sigma at the end is one like any other": ("ΔΣ", ["δ", "##\u03c3"]),
    "a dotted capital I is an i": ("İstanbul", ["istanbul"]),
    "marks of the model are text": ("[CLS] ##ing", ["[", "cl", "##s", "]", "#", "#", "ing"]),
    "what no piece fits is unknown": ("😀 hello", ["[UNK]", "hello"]),
    "a word of a hundred characters is read": ("x" * 100, ["xx", *["##xx"] * 49]),
    "a longer word is unknown": ("x" * 101, ["[UNK]"]),
    "an unpaired surrogate is passed over": ("he\ud800llo", ["hello"]),
    "nothing has no tokens": (" \n\t ", []),
}


@pytest.mark.parametrize(("text", "tokens"), CASES.values(), ids=CASES.keys())
def test_texts_are_read_as_bert_reads_them(text: str, tokens: list[str]) -> None:
    assert [TOKENS[number] for number in BERT.token_ids(text)] == tokens


@given(st.text())
def test_any_text_can_be_read_and_always_alike(text: str) -> None:
    ids = BERT.token_ids(text)

    assert ids == BERT.token_ids(text)
    assert all(0 <= number < BERT.size for number in ids)


@given(st.text(), st.text())
def test_words_do_not_depend_on_what_stands_around_them(one: str, other: str) -> None:
    assert BERT.token_ids(f"{one} {other}") == BERT.token_ids(one) + BERT.token_ids(other)


def test_what_is_remembered_stays_within_bounds() -> None:
    read = WordPiece(["[UNK]", *"0123456789", *(f"##{digit}" for digit in range(10))])
    numbers = range(10, 60_100)

    texts = [read.token_ids(str(number)) for number in numbers]
    again = read.token_ids("11")

    assert again == texts[1] == [2, 12]
    assert len(read._split_words) < 50_000


def test_rare_characters_are_read_however_many_there_were() -> None:
    read = WordPiece(["[UNK]", "a"])
    everything = "".join(map(chr, range(0x20, 0x7000)))
    read.token_ids(everything)

    assert read.token_ids("A") == [1]
    assert read.token_ids("\u6ff0a") == [0, 1]
    assert len(read._characters) == 20_000


def test_a_token_is_found_by_its_name() -> None:
    assert BERT.id_of("[CLS]") == 101
    with pytest.raises(KeyError):
        BERT.id_of("no such token")
