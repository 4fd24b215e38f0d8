"""Counts in Python over the bare vocabulary: tiktoken's, or none."""

import random
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from context_assembler.tokens.bpe import PATTERNS, Vocabulary, load_ranks, open_tiktoken
from context_assembler.tokens.plain_bpe import (
    _UNSURE,
    MAX_KEPT_WORDS,
    MAX_WORD_BYTES,
    open_plain,
)
from tests.tokens.far_texts import FAR_TEXTS

BY_TIKTOKEN = {encoding: open_tiktoken(encoding) for encoding in PATTERNS}
PLAIN = {encoding: open_plain(PATTERNS[encoding], load_ranks(encoding)) for encoding in PATTERNS}
every_encoding = pytest.mark.parametrize("encoding", sorted(PATTERNS))

SURE = [
    character
    for character in map(chr, range(sys.maxunicode + 1))
    if not 0xD800 <= ord(character) < 0xE000 and not _UNSURE.search(character)
]

# Every alternative of the patterns, on both sides of a character.
BORDERS = ("{}", "a{}b", "A{}B", "1{}2", " {} ", "  {}", "'{}", "\n{}\n", "-{}-", "{0}{0}", "é{}字")


@every_encoding
@pytest.mark.parametrize("border", BORDERS)
def test_every_character_that_is_sure_splits_as_tiktoken_splits_it(
    encoding: str, border: str
) -> None:
    differing = [
        hex(ord(character))
        for character in SURE
        if PLAIN[encoding](border.format(character))
        != BY_TIKTOKEN[encoding](border.format(character))
    ]

    assert not differing


def test_letters_and_blanks_of_every_large_script_of_today_are_sure() -> None:
    text = "naïve ǅ Ελληνικά Погода 今天天气很好。 こんにちは カタカナ 좋은 날씨 — “x” 👩‍💻 ├─ → ✔"
    text += "Tiếng Việt नमस्ते दुनिया สวัสดี שלום أهلا وسهلا 12 € ✔️"

    assert not _UNSURE.search(text)


def test_no_character_is_sure_that_this_python_does_not_know() -> None:
    unknown = [c for c in SURE if unicodedata.category(c) == "Cn"]

    # Emoji blocks hold room for more: whatever comes there is neither letter, mark nor blank.
    assert [hex(ord(c)) for c in unknown if not 0x1F300 <= ord(c) <= 0x1FAFF] == []


def texts() -> st.SearchStrategy[str]:
    awkward = st.sampled_from("ab AB1 \n\r\t'’sé字。<|>/-_=ß\u0301\u00a0\u3000👩\u200d\x1c")
    return st.text(st.one_of(awkward, st.sampled_from(SURE), st.characters()), max_size=200)


@every_encoding
@given(text=texts())
@example(text="'\u017f 'S 'LL don'\u017f \u212a")
@example(text="\x1c \x1d\x1e a\x1fb")
@example(text="a\ud800b")
@settings(max_examples=500, deadline=None)
def test_any_text_is_counted_as_tiktoken_counts_it_or_not_at_all(encoding: str, text: str) -> None:
    counted = PLAIN[encoding](text)

    assert counted is None or counted == BY_TIKTOKEN[encoding](text)


@every_encoding
@pytest.mark.parametrize("text", FAR_TEXTS.values(), ids=FAR_TEXTS.keys())
def test_texts_far_from_prose_are_counted_as_tiktoken_counts_them(encoding: str, text: str) -> None:
    assert PLAIN[encoding](text) in {None, BY_TIKTOKEN[encoding](text)}


@every_encoding
def test_words_that_are_no_tokens_are_merged_as_tiktoken_merges_them(encoding: str) -> None:
    dice = random.Random(5)
    words = [
        "".join(dice.choices(letters, k=dice.randrange(2, 80)))
        for letters in ("ab", "aeinrst", "AaBb", "äößé", "今天气很", "АБабвг")
        for _ in range(300)
    ]

    counted = list(map(PLAIN[encoding], words))

    assert counted == list(map(BY_TIKTOKEN[encoding], words))


@pytest.mark.parametrize(
    "text",
    ["a\x1cb", "ᚠᚢᚦ", "\u0378", "a\ud800", "x" * 1_000],
    ids=["a separator", "runes", "not assigned", "a surrogate", "a long word"],
)
def test_what_is_not_sure_is_left_to_tiktoken(text: str) -> None:
    assert PLAIN["o200k_base"](text) is None
    assert Vocabulary("o200k_base").count(text) > 0


def test_a_word_is_counted_up_to_its_longest() -> None:
    dice = random.Random(7)
    word = "".join(dice.choices("acgt", k=MAX_WORD_BYTES))

    assert PLAIN["o200k_base"](word) == BY_TIKTOKEN["o200k_base"](word)
    assert PLAIN["o200k_base"](word + "a") is None


def test_words_that_are_kept_are_bounded() -> None:
    text = " ".join(f"x{number:x}y" for number in range(2 * MAX_KEPT_WORDS))

    for part in (text[:100_000], text[-100_000:]) * 2:
        assert PLAIN["o200k_base"](part) == BY_TIKTOKEN["o200k_base"](part)


def test_tiktoken_is_built_once_much_is_counted() -> None:
    vocabulary = Vocabulary("cl100k_base", tiktoken_above_chars=1_000)
    text = "Hello, world! " * 50

    assert vocabulary.count(text) == BY_TIKTOKEN["cl100k_base"](text)
    assert vocabulary._tiktoken is None
    assert vocabulary.count(text) == BY_TIKTOKEN["cl100k_base"](text)
    assert vocabulary._tiktoken is not None


LITTLE = """
import sys
from context_assembler.tokens.bpe import count_bpe

print(count_bpe("Hello, world!", encoding="o200k_base"), "tiktoken" in sys.modules)
"""


def test_a_process_that_counts_little_never_loads_tiktoken() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LITTLE], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.split() == ["4", "False"]
